/*
 * A small host in C, to test backends that are older or newer than it is. Each struct that it passes is followed by
 * bytes that the backend must not touch, which is checked after every call. The backend must scale by the factor of
 * its model.
 */
#include "plugin_api.h"

#include <stdio.h>
#include <string.h>

/* Bytes that must not be touched. */
typedef struct guard {
    unsigned char bytes[64];
} guard;

static guard untouched(void) {
    guard guard;
    memset(&guard, 0xa5, sizeof guard);
    return guard;
}

static int is_touched(const guard *found) {
    const guard expected = untouched();
    return memcmp(found, &expected, sizeof expected) != 0;
}

static char message[4096];

/* Declares `name` with the arguments, in this host's size, and the guard behind them. */
#define ARGUMENTS(type, name, ...)                                                                 \
    struct {                                                                                       \
        type args;                                                                                 \
        guard behind;                                                                              \
    } name = {.args = {.struct_size = sizeof(type), __VA_ARGS__}, .behind = untouched()}

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        snprintf(message, sizeof message, __VA_ARGS__);                                            \
        return message;                                                                            \
    } while (0)

#define CALL(function, name)                                                                       \
    do {                                                                                           \
        tare_error *error = api->function(&name.args);                                             \
        if (is_touched(&name.behind)) FAIL(#function " wrote beyond its arguments");               \
        if (name.args.struct_size != sizeof name.args) FAIL(#function " wrote the size");          \
        if (error != NULL) {                                                                       \
            snprintf(message, sizeof message, #function ": %.*s", (int)error->message.length,      \
                     error->message.data);                                                         \
            error->destroy(error);                                                                 \
            return message;                                                                        \
        }                                                                                          \
    } while (0)

static void refuse(void *context, tare_string reason) {
    (void)context;
    snprintf(message, sizeof message, "refused: %.*s", (int)reason.length, reason.data);
}

/* Makes all calls of a backend. Returns NULL if they behave correctly, else a description of the fault. */
TARE_EXPORT const char *check_backend(const tare_backend_api *(*entry)(const tare_host_api *),
                                      const char *path) {
    struct {
        tare_host_api api;
        guard behind;
    } host = {.api = {.struct_size = sizeof host.api,
                      .abi_major = TARE_ABI_MAJOR,
                      .abi_minor = TARE_ABI_MINOR,
                      .name = TARE_STRING("host.c"),
                      .version = TARE_STRING("0.0.0"),
                      .refuse = refuse},
              .behind = untouched()};
    const tare_backend_api *api = entry(&host.api);
    if (api == NULL) return message;
    if (!TARE_HAS(tare_backend_api, api, get_extension)) FAIL("the table is too small");

    ARGUMENTS(tare_describe_args, describe, .backend = api->backend);
    CALL(describe, describe);
    if (describe.args.description->id.length == 0) FAIL("the backend has no id");
    ARGUMENTS(tare_devices_args, devices, .backend = api->backend);
    CALL(devices, devices);
    if (devices.args.device_count != 1) FAIL("there is not one device");
    ARGUMENTS(tare_load_args, load, .backend = api->backend, .path = {path, strlen(path)},
              .device = devices.args.devices[0]->id);
    CALL(load, load);
    if (load.args.info->input_count != 1) FAIL("there is not one input");

    const int64_t sizes[] = {1, 4};
    const tare_shape shape = {sizes, 2};
    ARGUMENTS(tare_prepare_args, prepare, .model = load.args.model,
              .precision = TARE_STRING("fp32"), .shapes = &shape, .shape_count = 1);
    CALL(prepare, prepare);
    if (prepare.args.info->used_count == 0) FAIL("the session does not say what it uses");

    float values[] = {1.0f, -2.0f, 0.5f, 0.0f};
    struct {
        tare_view view;
        guard behind;
    } view = {.view = {.struct_size = sizeof view.view,
                       .data = values,
                       .dtype = {TARE_DTYPE_FLOAT, 32, 1},
                       .rank = 2,
                       .shape = sizes},
              .behind = untouched()};
    ARGUMENTS(tare_tensor_create_args, create, .model = load.args.model, .view = &view.view);
    CALL(tensor_create, create);
    tare_tensor *output = NULL;
    ARGUMENTS(tare_run_args, run, .session = prepare.args.session, .inputs = &create.args.tensor,
              .input_count = 1, .outputs = &output, .output_count = 1);
    CALL(run, run);
    ARGUMENTS(tare_synchronise_args, synchronise, .session = prepare.args.session);
    CALL(synchronise, synchronise);
    if (output == NULL) FAIL("there is no output");
    ARGUMENTS(tare_tensor_describe_args, described, .tensor = output);
    CALL(tensor_describe, described);
    if (described.args.rank != 2 || described.args.shape[1] != 4) FAIL("the output has another shape");
    ARGUMENTS(tare_tensor_read_args, read, .tensor = output, .view = &view.view);
    CALL(tensor_read, read);
    if (values[0] != 3.0f || values[1] != -6.0f || values[2] != 1.5f || values[3] != 0.0f)
        FAIL("the output is %g %g %g %g", values[0], values[1], values[2], values[3]);

    tare_tensor *tensors[] = {output, create.args.tensor};
    for (size_t at = 0; at < 2; at++) {
        ARGUMENTS(tare_tensor_destroy_args, end, .tensor = tensors[at]);
        CALL(tensor_destroy, end);
    }
    ARGUMENTS(tare_release_args, release, .session = prepare.args.session);
    CALL(release, release);
    ARGUMENTS(tare_unload_args, unload, .model = load.args.model);
    CALL(unload, unload);
    ARGUMENTS(tare_destroy_args, destroy, .backend = api->backend);
    CALL(destroy, destroy);
    if (is_touched(&view.behind)) FAIL("a view was written beyond its end");
    if (is_touched(&host.behind)) FAIL("the host's table was written beyond its end");
    return NULL;
}
