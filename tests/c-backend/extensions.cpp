// The backend of scale.cpp with the extensions that Tare defines, to test that they are found and used. Their figures
// are constants that a test can expect.
#include "plugin_api.hpp"

#include <atomic>

#define ScaleBackend PlainBackend
#define ScaleSession PlainSession
#undef TARE_EXPORT_BACKEND
#define TARE_EXPORT_BACKEND(type) static_assert(true, "another one is exported")
#include "scale.cpp"
#undef ScaleBackend
#undef ScaleSession

namespace {

// Number of requests to cancel.
std::atomic<uint64_t> cancelled{0};

class StagedSession : public PlainSession {
public:
    using PlainSession::PlainSession;
    tare::StageTimes run_in_stages(const tare::Inputs &inputs, const tare::Outputs &outputs) {
        run(inputs, outputs);
        return {1, 2, 3};
    }
    uint64_t run_timed(const tare::Inputs &inputs, const tare::Outputs &outputs) {
        run(inputs, outputs);
        return 4;
    }
    std::vector<std::string> phases() { return {"look", "scale"}; }
    void run_phase(uint32_t phase, const tare::Inputs &inputs, const tare::Outputs &outputs,
                   const tare::Mark &mark) {
        mark.now();
        if (phase == 1) run(inputs, outputs);
    }
    void evaluate(const tare::Inputs &inputs, const tare::Outputs &outputs) {
        run(inputs, outputs);
    }
    tare::AllocatorUse allocator_use() { return {"Scale", 100, 200, 0}; }
    std::vector<tare::Operator> profile(const tare::Inputs &) {
        return {{"scale", "Mul", "ScaleProvider", 1, 5}, {"copy", "", "OtherProvider", 6, 7}};
    }
};

class StagedModel : public ScaleModel {
public:
    explicit StagedModel(float factor) : ScaleModel(factor), factor_(factor) {}
    std::unique_ptr<tare::Session> prepare(const tare::PrepareRequest &request) override {
        return std::make_unique<StagedSession>(factor_, request.shapes[0][0]);
    }

private:
    float factor_;
};

class TellingBackend : public PlainBackend {
public:
    using PlainBackend::PlainBackend;

    std::unique_ptr<tare::Model> load(const tare::LoadRequest &request) override {
        PlainBackend::load(request);
        return std::make_unique<StagedModel>(3.0F);
    }

    uint64_t device_microjoules(const std::string &device) {
        check(device);
        return 12345678;
    }

    tare::DeviceMemory device_memory(const std::string &device) {
        check(device);
        return {1024 + cancelled, 4096};
    }

    static void cancel() { ++cancelled; }

    static void device_state(const std::string &device, tare_device_state_args &state) {
        check(device);
        state.utilisation = 0.5;
        state.clock_hertz = 1e9;
        state.temperature_celsius = 40.0;
        state.slowed_known = 1;
        state.slowed_by = TARE_SLOWED_BY_HEAT;
    }

    const void *extension(std::string_view name) override {
        if (name == TARE_DEVICE_ENERGY) return tare::device_energy<TellingBackend>();
        if (name == TARE_DEVICE_MEMORY) return tare::device_memory<TellingBackend>();
        if (name == TARE_DEVICE_STATE) return tare::device_state<TellingBackend>();
        if (name == TARE_ALLOCATOR) return tare::allocator<StagedSession>();
        if (name == TARE_STAGE_TIMES) return tare::stage_times<StagedSession>();
        if (name == TARE_DEVICE_TIMER) return tare::device_timer<StagedSession>();
        if (name == TARE_PROFILE) return tare::profile<StagedSession>();
        if (name == TARE_CANCEL) return tare::cancel<TellingBackend>();
        if (name == TARE_MARKS) return tare::marks<StagedSession>();
        if (name == TARE_TRAINING) return tare::training<StagedSession>();
        return nullptr;
    }

private:
    static void check(const std::string &device) {
        if (device != device_id)
            throw tare::Error(TARE_ERROR_NOT_FOUND, "there is no device `" + device + "`");
    }
};

} // namespace

extern "C" const tare_backend_api *tare_backend_v1(const tare_host_api *host) {
    return ::tare::detail::enter<TellingBackend>(host);
}
