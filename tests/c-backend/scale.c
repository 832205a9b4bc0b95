/*
 * A complete backend in C: it multiplies by a factor.
 *
 * A model is a text file with one line, "scale FACTOR". It has the input "x" and the output "y",
 * both float32 of shape [batch, 4]. Nothing but plugin_api.h and the C library is needed:
 *
 *     cc -std=c11 -shared -fPIC -I plugin-api/native/include scale.c -o libbackend_scale.so
 */
#include "plugin_api.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 4
#define DEVICE "scale:0"

/* ---- Errors: one block that holds the struct and its text ---------------------------------- */

static void error_destroy(tare_error *error) { free(error); }

/* The error if even an error cannot be allocated. */
static void error_keep(tare_error *error) { (void)error; }
static tare_error no_memory = {
    .struct_size = sizeof(tare_error),
    .code = TARE_ERROR_OUT_OF_MEMORY,
    .message = {"out of memory", 13},
    .destroy = error_keep,
};

static tare_error *fail(int32_t code, const char *format, ...) {
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, values);
    va_end(values);
    tare_error *error = length < 0 ? NULL : malloc(sizeof *error + (size_t)length + 1);
    if (error != NULL) {
        char *text = (char *)(error + 1);
        vsnprintf(text, (size_t)length + 1, format, again);
        *error = (tare_error){
            .struct_size = sizeof *error,
            .code = code,
            .message = {text, (size_t)length},
            .destroy = error_destroy,
        };
    }
    va_end(again);
    return error != NULL ? error : &no_memory;
}

/* Each call begins with this: an argument struct must hold all fields of ABI 1.0. */
#define CHECK_SIZE(type, args, last)                                                               \
    do {                                                                                           \
        if (!TARE_HAS(type, args, last))                                                           \
            return fail(TARE_ERROR_VERSION, #type " has only %zu bytes", (args)->struct_size);     \
    } while (0)

/* ---- Strings ------------------------------------------------------------------------------- */

static int is(tare_string string, const char *text) {
    return string.length == strlen(text) &&
           (string.length == 0 || memcmp(string.data, text, string.length) == 0);
}

/* For printf's "%.*s". */
#define TEXT(string) (int)(string).length, (string).data

/* ---- Handles ------------------------------------------------------------------------------- */

struct tare_model {
    float factor;
};

struct tare_session {
    float factor;
    int64_t batch;
};

struct tare_tensor {
    int64_t shape[2];
    float values[]; /* shape[0] * shape[1] of them. */
};

static tare_tensor *new_tensor(int64_t rows, int64_t columns) {
    if (rows < 0 || columns < 0 || (columns > 0 && rows > (int64_t)(1 << 28) / columns)) return NULL;
    size_t count = (size_t)(rows * columns);
    tare_tensor *tensor = malloc(sizeof *tensor + count * sizeof(float));
    if (tensor != NULL) {
        tensor->shape[0] = rows;
        tensor->shape[1] = columns;
    }
    return tensor;
}

/* ---- The backend --------------------------------------------------------------------------- */

static tare_error *describe(tare_describe_args *args) {
    static const tare_string extensions[] = {{"example/factor/1", 16}};
    static const tare_description description = {
        .struct_size = sizeof description,
        .id = {"scale", 5},
        .version = {"0.1.0", 5},
        .engine = {"a loop", 6},
        .extensions = extensions,
        .extension_count = 1,
    };
    CHECK_SIZE(tare_describe_args, args, description);
    args->description = &description;
    return NULL;
}

static tare_error *devices(tare_devices_args *args) {
    static const tare_string precisions[] = {{"fp32", 4}};
    static const tare_device device = {
        .struct_size = sizeof device,
        .id = {DEVICE, sizeof DEVICE - 1},
        .kind = {"cpu", 3},
        .name = {"One thread of the processor", 27},
        .precisions = precisions,
        .precision_count = 1,
    };
    static const tare_device *const list[] = {&device};
    CHECK_SIZE(tare_devices_args, args, device_count);
    args->devices = list;
    args->device_count = 1;
    return NULL;
}

/* ---- Models -------------------------------------------------------------------------------- */

static const tare_dimension dimensions[] = {{TARE_DYNAMIC, {"batch", 5}}, {WIDTH, {NULL, 0}}};
static const tare_tensor_info x = {.struct_size = sizeof x,
                                   .name = {"x", 1},
                                   .dtype = {TARE_DTYPE_FLOAT, 32, 1},
                                   .rank = 2,
                                   .dimensions = dimensions};
static const tare_tensor_info y = {.struct_size = sizeof y,
                                   .name = {"y", 1},
                                   .dtype = {TARE_DTYPE_FLOAT, 32, 1},
                                   .rank = 2,
                                   .dimensions = dimensions};
static const tare_tensor_info *const inputs[] = {&x};
static const tare_tensor_info *const outputs[] = {&y};
static const tare_model_info model_info = {sizeof model_info, inputs, 1, outputs, 1};

static tare_error *load(tare_load_args *args) {
    CHECK_SIZE(tare_load_args, args, info);
    if (!is(args->device, DEVICE))
        return fail(TARE_ERROR_NOT_FOUND, "there is no device `%.*s`; there is `" DEVICE "`",
                    TEXT(args->device));
    if (args->option_count > 0)
        return fail(TARE_ERROR_INVALID_ARGUMENT, "there is no option `%.*s`: this backend has none",
                    TEXT(args->options[0].key));

    /* The path has no terminating zero, and fopen wants one. */
    char *path = malloc(args->path.length + 1);
    if (path == NULL) return &no_memory;
    memcpy(path, args->path.data, args->path.length);
    path[args->path.length] = '\0';
    FILE *file = fopen(path, "r");
    free(path);
    if (file == NULL)
        return fail(errno == ENOENT ? TARE_ERROR_NOT_FOUND : TARE_ERROR_INVALID_MODEL, "%.*s: %s",
                    TEXT(args->path), strerror(errno));
    float factor;
    int read = fscanf(file, "scale %f", &factor);
    fclose(file);
    if (read != 1)
        return fail(TARE_ERROR_INVALID_MODEL, "%.*s: does not begin with `scale FACTOR`",
                    TEXT(args->path));

    tare_model *model = malloc(sizeof *model);
    if (model == NULL) return &no_memory;
    model->factor = factor;
    args->model = model;
    args->info = &model_info;
    return NULL;
}

static tare_error *unload(tare_unload_args *args) {
    CHECK_SIZE(tare_unload_args, args, model);
    free(args->model);
    return NULL;
}

/* ---- Tensors ------------------------------------------------------------------------------- */

static int is_float32(tare_dtype dtype) {
    return dtype.code == TARE_DTYPE_FLOAT && dtype.bits == 32 && dtype.lanes == 1;
}

static tare_error *tensor_create(tare_tensor_create_args *args) {
    CHECK_SIZE(tare_tensor_create_args, args, tensor);
    const tare_view *view = args->view;
    CHECK_SIZE(tare_view, view, byte_offset);
    if (!is_float32(view->dtype) || view->rank != 2)
        return fail(TARE_ERROR_UNSUPPORTED, "tensors are float32 with 2 axes, not %u bits with %u",
                    view->dtype.bits, view->rank);
    tare_tensor *tensor = new_tensor(view->shape[0], view->shape[1]);
    if (tensor == NULL) return &no_memory;
    /* Elements lie wherever the strides say, and need not be aligned. */
    const int64_t compact[] = {view->shape[1], 1};
    const int64_t *strides = view->strides != NULL ? view->strides : compact;
    const char *first = (const char *)view->data + view->byte_offset;
    for (int64_t row = 0; row < view->shape[0]; row++)
        for (int64_t column = 0; column < view->shape[1]; column++)
            memcpy(&tensor->values[row * view->shape[1] + column],
                   first + (row * strides[0] + column * strides[1]) * (int64_t)sizeof(float),
                   sizeof(float));
    args->tensor = tensor;
    return NULL;
}

static tare_error *tensor_describe(tare_tensor_describe_args *args) {
    CHECK_SIZE(tare_tensor_describe_args, args, shape);
    args->dtype = (tare_dtype){TARE_DTYPE_FLOAT, 32, 1};
    args->rank = 2;
    args->shape = args->tensor->shape;
    return NULL;
}

static tare_error *tensor_read(tare_tensor_read_args *args) {
    CHECK_SIZE(tare_tensor_read_args, args, view);
    const tare_tensor *tensor = args->tensor;
    const tare_view *view = args->view;
    CHECK_SIZE(tare_view, view, byte_offset);
    if (!is_float32(view->dtype) || view->rank != 2 || view->shape[0] != tensor->shape[0] ||
        view->shape[1] != tensor->shape[1])
        return fail(TARE_ERROR_INVALID_ARGUMENT, "the view has another type or shape");
    const int64_t compact[] = {view->shape[1], 1};
    const int64_t *strides = view->strides != NULL ? view->strides : compact;
    char *first = (char *)view->data + view->byte_offset;
    for (int64_t row = 0; row < view->shape[0]; row++)
        for (int64_t column = 0; column < view->shape[1]; column++)
            memcpy(first + (row * strides[0] + column * strides[1]) * (int64_t)sizeof(float),
                   &tensor->values[row * view->shape[1] + column], sizeof(float));
    return NULL;
}

static tare_error *tensor_destroy(tare_tensor_destroy_args *args) {
    CHECK_SIZE(tare_tensor_destroy_args, args, tensor);
    free(args->tensor);
    return NULL;
}

/* ---- Sessions ------------------------------------------------------------------------------ */

static tare_error *prepare(tare_prepare_args *args) {
    static const tare_attribute used[] = {{{"precision", 9}, {"fp32", 4}},
                                          {{"threads", 7}, {"1", 1}}};
    static const tare_session_info info = {sizeof info, used, 2};
    CHECK_SIZE(tare_prepare_args, args, info);
    if (!is(args->precision, "fp32"))
        return fail(TARE_ERROR_UNSUPPORTED, "%.*s is not offered; fp32 is", TEXT(args->precision));
    if (args->shape_count != 1 || args->shapes[0].rank != 2 || args->shapes[0].sizes[0] < 0 ||
        args->shapes[0].sizes[1] != WIDTH)
        return fail(TARE_ERROR_INVALID_ARGUMENT, "the input `x` has the shape [batch, %d]", WIDTH);
    tare_session *session = malloc(sizeof *session);
    if (session == NULL) return &no_memory;
    session->factor = args->model->factor;
    session->batch = args->shapes[0].sizes[0];
    args->session = session;
    args->info = &info;
    return NULL;
}

static tare_error *run(tare_run_args *args) {
    CHECK_SIZE(tare_run_args, args, output_count);
    const tare_session *session = args->session;
    if ((args->flags & ~TARE_RUN_ENQUEUE) != 0)
        return fail(TARE_ERROR_UNSUPPORTED, "unknown flags %llx", (unsigned long long)args->flags);
    if (args->input_count != 1 || args->output_count != 1)
        return fail(TARE_ERROR_INVALID_ARGUMENT, "there are 1 input and 1 output, not %zu and %zu",
                    args->input_count, args->output_count);
    const tare_tensor *input = args->inputs[0];
    if (input->shape[0] != session->batch || input->shape[1] != WIDTH)
        return fail(TARE_ERROR_INVALID_ARGUMENT, "the input `x` is not of the prepared shape");
    /* The output of an earlier run is written again. */
    if (args->outputs[0] == NULL) args->outputs[0] = new_tensor(session->batch, WIDTH);
    if (args->outputs[0] == NULL) return &no_memory;
    float *result = args->outputs[0]->values;
    for (int64_t at = 0; at < session->batch * WIDTH; at++)
        result[at] = session->factor * input->values[at];
    return NULL;
}

/* Nothing is ever queued: run works to the end, with TARE_RUN_ENQUEUE or without. */
static tare_error *synchronise(tare_synchronise_args *args) {
    CHECK_SIZE(tare_synchronise_args, args, session);
    return NULL;
}

static tare_error *release(tare_release_args *args) {
    CHECK_SIZE(tare_release_args, args, session);
    free(args->session);
    return NULL;
}

/* ---- An extension: any agreement between a backend and its users ----------------------------- */

typedef struct example_factor {
    size_t struct_size;
    float (*factor)(const tare_model *model);
} example_factor;

static float factor_of(const tare_model *model) { return model->factor; }

static const void *get_extension(tare_backend *backend, tare_string name) {
    static const example_factor factor = {sizeof factor, factor_of};
    (void)backend;
    return is(name, "example/factor/1") ? &factor : NULL;
}

/* ---- The table ----------------------------------------------------------------------------- */

static tare_error *destroy(tare_destroy_args *args) {
    CHECK_SIZE(tare_destroy_args, args, backend);
    return NULL;
}

const tare_backend_api *tare_backend_v1(const tare_host_api *host) {
    /* This backend keeps nothing between calls, so its handle can be NULL and its table constant. One
     * that needs a newer host compares host->abi_minor here, calls host->refuse and returns NULL. */
    static const tare_backend_api api = {
        .struct_size = sizeof api,
        .abi_major = TARE_ABI_MAJOR,
        .abi_minor = TARE_ABI_MINOR,
        .backend = NULL,
        .describe = describe,
        .devices = devices,
        .load = load,
        .prepare = prepare,
        .run = run,
        .synchronise = synchronise,
        .release = release,
        .unload = unload,
        .destroy = destroy,
        .tensor_create = tensor_create,
        .tensor_describe = tensor_describe,
        .tensor_read = tensor_read,
        .tensor_destroy = tensor_destroy,
        .get_extension = get_extension,
    };
    (void)host;
    return &api;
}
