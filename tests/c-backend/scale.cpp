// The backend of scale.c again, in C++17 with plugin_api.hpp:
//
//     c++ -std=c++17 -shared -fPIC -I plugin-api/native/include scale.cpp -o libbackend_scale.so
#include "plugin_api.hpp"

#include <fstream>

namespace {

constexpr int64_t width = 4;
constexpr const char *device_id = "scale:0";
using FloatTensor = tare::HostTensor<float>;

class ScaleSession : public tare::Session {
public:
    ScaleSession(float factor, int64_t batch) : factor_(factor), batch_(batch) {}

    tare::Attributes used() const override { return {{"precision", "fp32"}, {"threads", "1"}}; }

    void run(const tare::Inputs &inputs, const tare::Outputs &outputs) override {
        const auto &input = dynamic_cast<const FloatTensor &>(inputs[0]);
        if (input.shape() != std::vector<int64_t>{batch_, width})
            throw tare::Error(TARE_ERROR_INVALID_ARGUMENT, "the input `x` is not as prepared");
        // The output of an earlier run is written again.
        if (outputs[0] == nullptr)
            outputs.set(0, std::make_unique<FloatTensor>(input.shape(), input.values));
        auto &output = dynamic_cast<FloatTensor &>(*outputs[0]);
        for (size_t at = 0; at < input.values.size(); ++at)
            output.values[at] = factor_ * input.values[at];
    }

private:
    float factor_;
    int64_t batch_;
};

class ScaleModel : public tare::Model {
public:
    explicit ScaleModel(float factor) : factor_(factor) {}

    tare::ModelInfo info() const override {
        const auto tensor = [](const char *name) {
            return tare::TensorInfo{
                name, tare::dtype_of<float>(), true, {{TARE_DYNAMIC, "batch"}, {width, ""}}};
        };
        return {{tensor("x")}, {tensor("y")}};
    }

    std::unique_ptr<tare::Session> prepare(const tare::PrepareRequest &request) override {
        if (request.precision != "fp32")
            throw tare::Error(TARE_ERROR_UNSUPPORTED, request.precision + " is not offered");
        return std::make_unique<ScaleSession>(factor_, request.shapes[0][0]);
    }

    std::unique_ptr<tare::Tensor> tensor(const tare::View &view) override {
        return std::make_unique<FloatTensor>(view);
    }

private:
    float factor_;
};

class ScaleBackend : public tare::Backend {
public:
    explicit ScaleBackend(const tare_host_api &) {}

    tare::Description description() const override { return {"scale", "0.1.0", "a loop", "", {}}; }

    std::vector<tare::Device> devices() override {
        return {{device_id, "cpu", "One thread of the processor", 0, {"fp32"}, {}}};
    }

    std::unique_ptr<tare::Model> load(const tare::LoadRequest &request) override {
        request.only({});
        if (request.device != device_id)
            throw tare::Error(TARE_ERROR_NOT_FOUND, "there is no device `" + request.device + "`");
        std::ifstream file(request.path);
        if (!file) throw tare::Error(TARE_ERROR_NOT_FOUND, request.path + ": cannot be opened");
        std::string word;
        float factor;
        if (!(file >> word >> factor) || word != "scale")
            throw tare::Error(TARE_ERROR_INVALID_MODEL,
                              request.path + ": does not begin with `scale FACTOR`");
        return std::make_unique<ScaleModel>(factor);
    }
};

} // namespace

TARE_EXPORT_BACKEND(ScaleBackend);
