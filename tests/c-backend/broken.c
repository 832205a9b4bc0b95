/*
 * Backends that break the ABI's rules, each in one way: built with -DBROKEN="way". The host must answer each with an
 * error that names the fault. Otherwise, this is a backend with one device and a model that takes [batch] float32 and
 * returns zeros.
 */
#include "plugin_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tests of plugin-testkit build this once and set the way here. */
TARE_EXPORT const char *broken_way = BROKEN;
/* The host's functions of the latest call of the entry point. */
TARE_EXPORT const tare_host_api *broken_host = NULL;

/* Whether this is the thread that opened the backend. */
static _Thread_local int is_opener;

static int way(const char *name) { return strcmp(broken_way, name) == 0; }
static int way_begins(const char *name) { return strncmp(broken_way, name, strlen(name)) == 0; }

static const tare_string not_utf8 = {"caf\xe9", 4};
static const tare_string nowhere = {NULL, 4};
static const tare_string endless = {"short", (size_t)1 << 40};

static void destroy_error(tare_error *error) { free(error); }

static tare_error *new_error(void) {
    tare_error *error = calloc(1, sizeof *error);
    if (error == NULL) abort();
    error->struct_size = sizeof *error;
    error->code = TARE_ERROR_DEVICE;
    error->message = TARE_STRING("a broken backend fails as it should");
    error->destroy = destroy_error;
    if (way("error-message-not-utf8")) error->message = not_utf8;
    if (way("error-message-long") || way("error-message-long-not-utf8")) {
        /* Two bytes per character, so that a cut can split one. */
        static char text[(3 << 20) + 1];
        for (size_t at = 0; at + 1 < sizeof text; at += 2) memcpy(text + at, "\xc3\xa9", 2);
        if (way("error-message-long-not-utf8")) memset(text, 0xff, sizeof text);
        error->message = (tare_string){text, sizeof text - 1};
        error->details = error->message;
    }
    if (way("error-message-null")) error->message = nowhere;
    if (way("error-code-unknown")) error->code = 4711;
    if (way("error-without-destroy")) error->destroy = NULL;
    if (way("error-small")) error->struct_size = 8;
    return error;
}

static tare_error *describe(tare_describe_args *args) {
    static tare_description description;
    description = (tare_description){
        .struct_size = sizeof description,
        .id = TARE_STRING("broken"),
        .version = TARE_STRING("0.1.0"),
        .engine = TARE_STRING("none"),
    };
    if (way("describe-crash")) abort();
    if (way("describe-hang")) for (;;) { }
    if (way("describe-print")) puts("garbage on standard output"), fflush(stdout);
    if (way_begins("error-")) return new_error();
    if (way("description-small")) description.struct_size = offsetof(tare_description, modes) - 8;
    if (way("description-huge")) description.struct_size = (size_t)1 << 40;
    if (way("id-not-utf8")) description.id = not_utf8;
    if (way("id-null")) description.id = nowhere;
    if (way("id-empty")) description.id.length = 0;
    if (way("id-endless")) description.id = endless;
    if (way("extensions-absurd")) {
        description.extensions = &not_utf8;
        description.extension_count = (size_t)1 << 40;
    }
    args->description = way("description-null")         ? NULL
                        : way("description-misaligned") ? (void *)((char *)&description + 1)
                                                        : &description;
    return NULL;
}

static tare_error *devices(tare_devices_args *args) {
    static tare_device device;
    static const tare_device *list[2] = {&device, &device};
    static tare_string precision = {"fp32", 4};
    device = (tare_device){
        .struct_size = sizeof device,
        .id = TARE_STRING("broken:0"),
        .kind = TARE_STRING("none"),
        .name = TARE_STRING("Broken"),
        .precisions = &precision,
        .precision_count = 1,
    };
    args->devices = list;
    args->device_count = 1;
    if (way("devices-absurd")) args->device_count = (size_t)-1;
    if (way("devices-null")) args->devices = NULL;
    if (way("devices-twice")) args->device_count = 2;
    if (way("devices-many")) args->device_count = 1025;
    if (way("device-id-formula")) device.id = TARE_STRING("=HYPERLINK(\"x\")");
    if (way("device-id-escape")) device.id = TARE_STRING("gpu\x1b[2J");
    if (way("device-id-hyphen")) device.id = TARE_STRING("-0");
    if (way("device-id-usual")) device.id = TARE_STRING("GPU-5eed/0000:3b:00.0_1");
    if (way("device-null")) {
        static const tare_device *hole[1] = {NULL};
        args->devices = hole;
    }
    if (way("device-small")) device.struct_size = 24;
    if (way("device-name-not-utf8")) device.name = not_utf8;
    if (way("device-name-long")) {
        static char name[20000];
        memset(name, 'n', sizeof name);
        device.name = (tare_string){name, sizeof name};
    }
    if (way("device-without-precision")) device.precision_count = 0;
    if (way("device-precisions-null")) device.precisions = NULL;
    if (way("device-attributes-absurd")) device.attribute_count = 1 << 20;
    return NULL;
}

static char a_model, a_session;

static tare_error *load(tare_load_args *args) {
    static const tare_dimension dimensions[] = {{TARE_DYNAMIC, {"batch", 5}}};
    static const tare_dimension negative[] = {{-5, {NULL, 0}}};
    static tare_tensor_info tensor;
    static const tare_tensor_info *tensors[] = {&tensor};
    static tare_model_info info;
    tensor = (tare_tensor_info){
        .struct_size = sizeof tensor,
        .name = TARE_STRING("x"),
        .dtype = {TARE_DTYPE_FLOAT, 32, 1},
        .rank = 1,
        .dimensions = dimensions,
    };
    info = (tare_model_info){sizeof info, tensors, 1, tensors, 1};
    if (way("rank-absurd")) tensor.rank = 1000000;
    if (way("axes-null")) tensor.dimensions = NULL;
    if (way("axis-negative")) tensor.dimensions = negative;
    if (way("dtype-impossible")) tensor.dtype.code = 99;
    if (way("inputs-absurd")) info.input_count = (size_t)1 << 60;
    if (way("no-outputs")) info.output_count = 0;
    args->info = way("info-null") ? NULL : &info;
    if (!way("model-null")) args->model = (tare_model *)(void *)&a_model;
    return NULL;
}

static tare_error *prepare(tare_prepare_args *args) {
    static const tare_attribute used[] = {{{"precision", 9}, {"fp32", 4}}};
    static tare_session_info info;
    info = (tare_session_info){sizeof info, used, 1};
    if (way("used-absurd")) info.used_count = (size_t)1 << 60;
    args->info = way("session-info-null") ? NULL : &info;
    if (!way("session-null")) args->session = (tare_session *)(void *)&a_session;
    return NULL;
}

static const int64_t shape[] = {2};
static float a_tensor;

#ifdef BROKEN_THROWS
/* In C++: throws. */
void broken_throw(void);
#else
static void broken_throw(void) {}
#endif

static tare_error *run(tare_run_args *args) {
    if (way("run-throw")) broken_throw();
    /* Two that throw at the same time would end each other before the text is written. */
    static int has_thrown;
    if (way("run-throw-on-threads") && !is_opener && !__atomic_exchange_n(&has_thrown, 1, __ATOMIC_SEQ_CST)) {
        broken_throw();
    }
    if (way("run-write-on-threads") && !is_opener) *(float *)(void *)args->inputs[0] = 1;
    if (!way("output-null")) args->outputs[0] = (tare_tensor *)(void *)&a_tensor;
    return NULL;
}

static tare_error *tensor_create(tare_tensor_create_args *args) {
    if (!way("tensor-null")) args->tensor = (tare_tensor *)(void *)&a_tensor;
    if (way("run-write-on-threads")) args->tensor = calloc(1, sizeof a_tensor);
    return NULL;
}

static tare_error *tensor_describe(tare_tensor_describe_args *args) {
    static const int64_t negative[] = {-1};
    static const int64_t other[] = {3};
    args->dtype = (tare_dtype){TARE_DTYPE_FLOAT, 32, 1};
    args->rank = 1;
    args->shape = shape;
    if (way("tensor-shape-null")) args->shape = NULL;
    if (way("tensor-shape-negative")) args->shape = negative;
    if (way("tensor-shape-other")) args->shape = other;
    if (way("tensor-rank-absurd")) args->rank = 1u << 31;
    if (way("tensor-typeless")) args->dtype.bits = 0;
    return NULL;
}

static tare_error *tensor_read(tare_tensor_read_args *args) {
    float *elements = args->view->data;
    elements[0] = elements[1] = *(float *)(void *)args->tensor;
    return NULL;
}

static tare_error *tensor_destroy(tare_tensor_destroy_args *args) {
    (void)args;
    return NULL;
}
static tare_error *synchronise(tare_synchronise_args *args) {
    (void)args;
    return NULL;
}
/* An object that was never created must not be destroyed. */
static tare_error *release(tare_release_args *args) {
    if (args->session == NULL) abort();
    return NULL;
}
static tare_error *unload(tare_unload_args *args) {
    if (args->model == NULL) abort();
    return NULL;
}
static tare_error *destroy(tare_destroy_args *args) {
    (void)args;
    return NULL;
}
static const void *get_extension(tare_backend *backend, tare_string name) {
    static const tare_threads threads = {sizeof threads};
    (void)backend;
    if (name.length == strlen(TARE_EXTENSION_THREADS) &&
        !memcmp(name.data, TARE_EXTENSION_THREADS, name.length)) {
        return &threads;
    }
    return NULL;
}

const tare_backend_api *tare_backend_v1(const tare_host_api *host) {
    static tare_backend_api api;
    api = (tare_backend_api){
        sizeof api,  TARE_ABI_MAJOR, TARE_ABI_MINOR, NULL,           describe,        devices,
        load,        prepare,        run,            synchronise,    release,         unload,
        destroy,     tensor_create,  tensor_describe, tensor_read,   tensor_destroy,  get_extension,
    };
    /* A plugin may keep the host's table, and call it from a separate thread after its own table was refused. */
    broken_host = host;
    is_opener = 1;
    if (way("entry-crash")) abort();
    if (way("refuse")) {
        host->refuse(host->context, TARE_STRING("it needs ABI 1.7; update the host"));
        return NULL;
    }
    if (way("refuse-not-utf8")) {
        host->refuse(host->context, not_utf8);
        return NULL;
    }
    if (way("refuse-silently")) return NULL;
    if (way("major")) api.abi_major = 2;
    if (way("major-old")) api.abi_major = 0;
    if (way("table-small")) api.struct_size = 64;
    if (way("table-huge")) api.struct_size = (size_t)1 << 40;
    if (way("function-null")) api.run = NULL;
    if (way("table-misaligned")) return (const tare_backend_api *)(void *)((char *)&api + 1);
    return &api;
}
