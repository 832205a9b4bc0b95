/*
 * The backend of scale.c with the extensions that Tare defines, to test that they are found and used. Their figures
 * are constants that a test can expect.
 */
#define tare_backend_v1 scale_backend_v1
#include "scale.c"
#undef tare_backend_v1
#include <math.h>
#include <stdatomic.h>

/* Number of requests to cancel. */
static atomic_int cancelled;

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
    args->used_bytes = 1024 + (uint64_t)cancelled;
    args->peak_bytes = 4096;
    return NULL;
}

static tare_error *read_state(tare_device_state_args *args) {
    CHECK_SIZE(tare_device_state_args, args, slowed_by);
    if (!is(args->device, DEVICE))
        return fail(TARE_ERROR_NOT_FOUND, "there is no device `%.*s`", TEXT(args->device));
    args->utilisation = 0.5;
    args->memory_utilisation = args->memory_clock_hertz = args->power_watts = NAN;
    args->clock_hertz = 1e9;
    args->temperature_celsius = 40.0;
    args->slowed_known = 1;
    args->slowed_by = TARE_SLOWED_BY_HEAT;
    return NULL;
}

static tare_error *read_allocator(tare_allocator_args *args) {
    CHECK_SIZE(tare_allocator_args, args, reserved_bytes);
    args->name.data = "Scale";
    args->name.length = 5;
    args->used_bytes = 100;
    args->peak_bytes = 200;
    args->reserved_bytes = 0;
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

static tare_error *cancel(tare_cancel_args *args) {
    CHECK_SIZE(tare_cancel_args, args, backend);
    cancelled++;
    return NULL;
}

static tare_error *phases(tare_phases_args *args) {
    static const tare_string names[] = {{"look", 4}, {"scale", 5}};
    CHECK_SIZE(tare_phases_args, args, phase_count);
    args->phases = names;
    args->phase_count = 2;
    return NULL;
}

static tare_error *run_phase(tare_marked_run_args *args) {
    CHECK_SIZE(tare_marked_run_args, args, mark);
    if (args->phase > 1)
        return fail(TARE_ERROR_INVALID_ARGUMENT, "there is no phase %u", args->phase);
    args->mark(args->context);
    return args->phase == 1 ? run(args->run) : NULL;
}

static const void *get_tare_extension(tare_backend *backend, tare_string name) {
    static const tare_device_energy energy = {sizeof energy, read_energy};
    static const tare_device_memory memory = {sizeof memory, read_memory};
    static const tare_device_state state = {sizeof state, read_state};
    static const tare_allocator allocator = {sizeof allocator, read_allocator};
    static const tare_stage_times stages = {sizeof stages, run_in_stages};
    static const tare_device_timer timer = {sizeof timer, run_timed};
    static const tare_profile profiler = {sizeof profiler, profile};
    static const tare_cancel canceller = {sizeof canceller, cancel};
    static const tare_marks marks = {sizeof marks, phases, run_phase};
    static const tare_training training = {sizeof training, run};
    if (is(name, TARE_CANCEL)) return &canceller;
    if (is(name, TARE_MARKS)) return &marks;
    if (is(name, TARE_TRAINING)) return &training;
    if (is(name, TARE_DEVICE_STATE)) return &state;
    if (is(name, TARE_ALLOCATOR)) return &allocator;
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
