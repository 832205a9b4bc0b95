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

static tare_error *run_timed(tare_device_timer_args *args) {
    CHECK_SIZE(tare_device_timer_args, args, device_ns);
    args->device_ns = 4;
    return run(args->run);
}

static tare_error *profile(tare_profile_args *args) {
    static const tare_operator scale = {
        sizeof scale, {"scale", 5}, {"Mul", 3}, {"ScaleProvider", 13}, 1, 5};
    static const tare_operator copy = {
        sizeof copy, {"copy", 4}, {NULL, 0}, {"OtherProvider", 13}, 6, 7};
    static const tare_operator *const operators[] = {&scale, &copy};
    CHECK_SIZE(tare_profile_args, args, operator_count);
    args->operators = operators;
    args->operator_count = 2;
    return NULL;
}

static const void *get_tare_extension(tare_backend *backend, tare_string name) {
    static const tare_device_energy energy = {sizeof energy, read_energy};
    static const tare_device_memory memory = {sizeof memory, read_memory};
    static const tare_stage_times stages = {sizeof stages, run_in_stages};
    static const tare_device_timer timer = {sizeof timer, run_timed};
    static const tare_profile profiler = {sizeof profiler, profile};
    if (is(name, TARE_DEVICE_TIMER)) return &timer;
    if (is(name, TARE_PROFILE)) return &profiler;
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
