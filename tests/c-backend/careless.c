/*
 * The backend of scale.c with a fault that the environment variable CARELESS selects, so that each check of the
 * conformance suite is shown to fail. Without the variable it has no fault.
 *
 * It also has models that keep their factor in a file beside them: "scale-by FILE", where the file is 15
 * bytes long.
 */
#define _GNU_SOURCE
#define tare_backend_v1 scale_backend_v1
#include "scale.c"
#undef tare_backend_v1

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

static int careless(const char *way) {
    const char *asked = getenv("CARELESS");
    return asked != NULL && strcmp(asked, way) == 0;
}

/* Leaks memory, after touching it so that it counts. */
static void lose(void) {
    volatile char *lost = malloc(200000);
    for (size_t at = 0; lost != NULL && at < 200000; at += 1000) lost[at] = 1;
}

/* As above, in memory outside the allocator. */
static void lose_mapped(void) {
    char *lost = mmap(NULL, 200000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lost != MAP_FAILED) memset(lost, 1, 200000);
}

static void in_pieces(int count) {
    for (int at = 0; at < count; at++) {
        volatile char *lost = malloc(200);
        if (lost != NULL) *lost = 1;
    }
}

/* As above, in small pieces and in a thread that ends. */
static void *lose_pieces(void *unused) {
    in_pieces(1000);
    return unused;
}

/*
 * Leaks nothing, but makes glibc keep much free memory: freeing a large block raises its threshold, and small pieces
 * of a thread, a quarter of a mebibyte more each time, are freed to the thread's heap.
 */
static void *churn(void *unused) {
    enum { PIECE = 4096, MORE = 64 };
    static size_t count;
    static void *pieces[1 << 16];
    count = count + MORE < 1 << 16 ? count + MORE : count;
    for (size_t at = 0; at < count; at++)
        if ((pieces[at] = malloc(PIECE)) != NULL) memset(pieces[at], 1, PIECE);
    for (size_t at = count; at-- > 0;) free(pieces[at]);
    return unused;
}

static void in_a_thread(void *(*work)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) == 0) pthread_join(thread, NULL);
}

/* ---- Models -------------------------------------------------------------------------------- */

/* Reads the factor from another file in the model's folder. */
static tare_error *load_apart(tare_load_args *args, const char *path, const char *name) {
    char apart[4096 + 256];
    const char *slash = strrchr(path, '/');
    snprintf(apart, sizeof apart, "%.*s%s", slash == NULL ? 0 : (int)(slash - path + 1), path, name);
    FILE *file = fopen(apart, "r");
    if (file == NULL && !careless("guess-data"))
        return fail(TARE_ERROR_NOT_FOUND, "%s: %s", apart, strerror(errno));
    char text[16] = "3.000000000000\n";
    size_t size = file == NULL ? 15 : fread(text, 1, 15, file);
    if (file != NULL) fclose(file);
    if (size != 15 && !careless("half-data"))
        return fail(TARE_ERROR_INVALID_MODEL, "%s: %zu bytes of 15 are there", apart, size);
    tare_model *model = malloc(sizeof *model);
    if (model == NULL) return &no_memory;
    model->factor = strtof(text, NULL);
    args->model = model;
    args->info = &model_info;
    return NULL;
}

static tare_error *careless_load(tare_load_args *args) {
    CHECK_SIZE(tare_load_args, args, info);
    char path[4096], name[256] = "";
    snprintf(path, sizeof path, "%.*s", TEXT(args->path));
    FILE *file = fopen(path, "r");
    int apart = file != NULL && fscanf(file, "scale-by %255s", name) == 1;
    if (file != NULL) fclose(file);
    if (apart) return load_apart(args, path, name);
    if (careless("leak")) lose();
    if (careless("leak-mapped")) lose_mapped();
    if (careless("leak-in-thread")) in_a_thread(lose_pieces);
    if (careless("churn")) {
        /* Without `volatile` the compiler removes both calls. */
        void *volatile large = malloc(31 << 20);
        free(large);
        in_a_thread(churn);
    }
    tare_error *error = load(args);
    if (error != NULL && careless("leak-error")) in_pieces(10);
    if (error != NULL && error->code == TARE_ERROR_INVALID_MODEL) {
        if (careless("crash-on-damage")) abort();
        if (careless("hang-on-damage"))
            for (;;) nanosleep(&(struct timespec){1, 0}, NULL);
        if (careless("silent-on-damage")) error->message.length = 0;
        if (careless("internal-on-damage")) error->code = TARE_ERROR_INTERNAL;
    }
    return error;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

static const tare_dtype int64 = {TARE_DTYPE_INT, 64, 1};
/* The latest tensor of 64-bit integers, whose elements are not read. */
static tare_tensor *of_int64;

static tare_error *careless_tensor_create(tare_tensor_create_args *args) {
    CHECK_SIZE(tare_tensor_create_args, args, tensor);
    const tare_view *view = args->view;
    if (careless("any-type") && view->rank == 2 && view->dtype.code == int64.code &&
        view->dtype.bits == int64.bits) {
        args->tensor = of_int64 = new_tensor(view->shape[0], view->shape[1]);
        return of_int64 == NULL ? &no_memory : NULL;
    }
    of_int64 = NULL;
    tare_error *error = tensor_create(args);
    if (error == &no_memory && careless("die-without-memory")) abort();
    if (error == &no_memory && careless("blame-itself"))
        return fail(TARE_ERROR_INTERNAL, "there is no memory");
    return error;
}

static tare_error *careless_tensor_describe(tare_tensor_describe_args *args) {
    tare_error *error = tensor_describe(args);
    if (error == NULL && args->tensor == of_int64 && of_int64 != NULL) args->dtype = int64;
    return error;
}

/* ---- Sessions ------------------------------------------------------------------------------ */

/* Work that is done only when it is waited for, and how long the device is busy. */
static struct {
    const float *input;
    float *result;
    int64_t count;
    float factor;
} late;
static int64_t busy_ns;

static void finish(void) {
    for (int64_t at = 0; at < late.count; at++) late.result[at] = late.factor * late.input[at];
    late.count = 0;
    nanosleep(&(struct timespec){busy_ns / 1000000000, busy_ns % 1000000000}, NULL);
    busy_ns = 0;
}

/* A destroyed tensor is not written any more. */
static tare_error *careless_tensor_destroy(tare_tensor_destroy_args *args) {
    late.count = 0;
    if (args->tensor == of_int64) of_int64 = NULL;
    return tensor_destroy(args);
}

static int64_t latest_batch;

static tare_error *careless_prepare(tare_prepare_args *args) {
    tare_error *error = prepare(args);
    if (error == NULL) latest_batch = args->session->batch;
    return error;
}

static tare_error *careless_run(tare_run_args *args) {
    CHECK_SIZE(tare_run_args, args, output_count);
    tare_session *session = args->session;
    finish();
    if (careless("leak-run")) {
        /* A fast machine makes many runs, and must not run out of memory. */
        static int runs;
        in_pieces(runs++ < 250 ? 1250 : 40);
    }
    if (careless("one-batch")) session->batch = latest_batch;
    if (careless("late") && args->outputs[0] != NULL) {
        late.input = args->inputs[0]->values;
        late.result = args->outputs[0]->values;
        late.count = session->batch * WIDTH;
        late.factor = session->factor;
        return NULL;
    }
    tare_error *error = run(args);
    if (error != NULL) return error;
    if (careless("queue")) busy_ns = session->batch * 200;
    if (careless("one-for-none") && session->batch == 0) {
        free(args->outputs[0]);
        args->outputs[0] = new_tensor(1, WIDTH);
        if (args->outputs[0] == NULL) return &no_memory;
        memset(args->outputs[0]->values, 0, WIDTH * sizeof(float));
    }
    if (careless("forget-rows") && session->batch > 1000) args->outputs[0]->values[4001] = 0;
    return NULL;
}

static tare_error *careless_synchronise(tare_synchronise_args *args) {
    CHECK_SIZE(tare_synchronise_args, args, session);
    finish();
    return NULL;
}

static tare_error *careless_destroy(tare_destroy_args *args) {
    CHECK_SIZE(tare_destroy_args, args, backend);
    if (careless("leak-backend")) lose();
    return NULL;
}

static tare_error *careless_devices(tare_devices_args *args) {
    if (careless("find-nothing")) return fail(TARE_ERROR_NOT_FOUND, "there is no scale");
    tare_error *error = devices(args);
    if (error == NULL && careless("list-nothing")) args->device_count = 0;
    return error;
}

static void crash(void) { abort(); }

const tare_backend_api *tare_backend_v1(const tare_host_api *host) {
    static tare_backend_api api;
    api = *scale_backend_v1(host);
    api.devices = careless_devices;
    api.load = careless_load;
    api.tensor_create = careless_tensor_create;
    api.tensor_describe = careless_tensor_describe;
    api.tensor_destroy = careless_tensor_destroy;
    api.prepare = careless_prepare;
    api.run = careless_run;
    api.synchronise = careless_synchronise;
    api.destroy = careless_destroy;
    if (careless("crash-at-exit")) atexit(crash);
    return &api;
}
