/*
 * The backend of scale.c with the extensions that Tare defines, to test that they are found and used.
 * Their figures are fixed, so that a test can expect them.
 */
#define tare_backend_v1 scale_backend_v1
#include "scale.c"
#undef tare_backend_v1

static tare_error *read_energy(tare_device_energy_args *args) {
    CHECK_SIZE(tare_device_energy_args, args, microjoules);
    if (!is(args->device, DEVICE))
        return fail(TARE_ERROR_NOT_FOUND, "there is no device `%.*s`", TEXT(args->device));
    args->microjoules = 12345678;
    return NULL;
}

static tare_error *read_memory(tare_device_memory_args *args) {
    CHECK_SIZE(tare_device_memory_args, args, peak_bytes);
    if (!is(args->device, DEVICE))
        return fail(TARE_ERROR_NOT_FOUND, "there is no device `%.*s`", TEXT(args->device));
    args->used_bytes = 1024;
    args->peak_bytes = 4096;
    return NULL;
}

static tare_error *run_in_stages(tare_stage_times_args *args) {
    CHECK_SIZE(tare_stage_times_args, args, copy_out_ns);
    args->copy_in_ns = 1;
    args->compute_ns = 2;
    args->copy_out_ns = 3;
    return run(args->run);
}

static const void *get_tare_extension(tare_backend *backend, tare_string name) {
    static const tare_device_energy energy = {sizeof energy, read_energy};
    static const tare_device_memory memory = {sizeof memory, read_memory};
    static const tare_stage_times stages = {sizeof stages, run_in_stages};
    if (is(name, TARE_DEVICE_ENERGY)) return &energy;
    if (is(name, TARE_DEVICE_MEMORY)) return &memory;
    if (is(name, TARE_STAGE_TIMES)) return &stages;
    return get_extension(backend, name);
}

const tare_backend_api *tare_backend_v1(const tare_host_api *host) {
    static tare_backend_api api;
    api = *scale_backend_v1(host);
    api.get_extension = get_tare_extension;
    return &api;
}
