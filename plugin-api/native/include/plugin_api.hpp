/*
 * Writing a backend in C++17: plugin_api.h, wrapped. Header only.
 *
 * Derive from tare::Backend, tare::Model, tare::Session and tare::Tensor, and put
 * TARE_EXPORT_BACKEND(YourBackend) into one source file. Exceptions do not cross the table: a
 * tare::Error keeps its code, std::bad_alloc becomes TARE_ERROR_OUT_OF_MEMORY, and anything else an
 * internal error. Sizes, counts and shapes are checked before your code sees them.
 *
 * plugin_api.h documents the meaning and the thread of each call.
 */
#ifndef TARE_PLUGIN_API_HPP
#define TARE_PLUGIN_API_HPP

#include "plugin_api.h"

#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tare {

/* ---- Types of a backend --------------------------------------------------------------------- */

/* An error with one of TARE_ERROR_*. */
class Error : public std::exception {
public:
    Error(int32_t code, std::string message, std::string details = {})
        : code_(code), message_(std::move(message)), details_(std::move(details)) {}
    int32_t code() const noexcept { return code_; }
    const std::string &message() const noexcept { return message_; }
    const std::string &details() const noexcept { return details_; }
    const char *what() const noexcept override { return message_.c_str(); }

private:
    int32_t code_;
    std::string message_;
    std::string details_;
};

/* Thrown by a backend's constructor: why this host is refused, and which side must be updated. */
class Refusal : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

using Attributes = std::vector<std::pair<std::string, std::string>>;

struct Description {
    std::string id;
    std::string version;
    std::string engine;
    std::string engine_version;
    std::vector<std::string> extensions;
    std::vector<std::string> modes = {}; /* "inference", "training", "generation"; none: inference. */
};

struct Device {
    std::string id; /* Such as "cpu:0": A-Z a-z 0-9 . _ : / - with a letter or digit first. */
    std::string kind;
    std::string name;
    uint64_t memory_bytes = 0; /* 0: unknown. */
    std::vector<std::string> precisions;
    Attributes attributes;
};

struct Dimension {
    int64_t size = TARE_DYNAMIC;
    std::string name; /* Of a dynamic axis; axes with one name have one size. */
};

inline bool operator==(tare_dtype one, tare_dtype other) {
    return one.code == other.code && one.bits == other.bits && one.lanes == other.lanes;
}
inline bool operator!=(tare_dtype one, tare_dtype other) { return !(one == other); }

/* The element type of an arithmetic C++ type. */
template <typename T> constexpr tare_dtype dtype_of() {
    static_assert(std::is_arithmetic<T>::value && !std::is_same<T, long double>::value,
                  "not an element type");
    return {static_cast<uint8_t>(std::is_same<T, bool>::value             ? TARE_DTYPE_BOOL
                                 : std::is_floating_point<T>::value ? TARE_DTYPE_FLOAT
                                 : std::is_signed<T>::value         ? TARE_DTYPE_INT
                                                                    : TARE_DTYPE_UINT),
            static_cast<uint8_t>(8 * sizeof(T)), 1};
}

/* The element type of text. */
inline tare_dtype string_dtype() { return {TARE_DTYPE_STRING, TARE_STRING_BITS, 1}; }

struct TensorInfo {
    std::string name;
    tare_dtype dtype = {0, 0, 1};      /* bits = 0: unknown. */
    bool shape_known = true;           /* Whether the model states its axes. */
    std::vector<Dimension> dimensions; /* Empty if unknown, or for a scalar. */
    uint32_t kind = TARE_KIND_TENSOR;  /* One of TARE_KIND_*. */
};

struct ModelInfo {
    std::vector<TensorInfo> inputs;
    std::vector<TensorInfo> outputs;
};

/* An operator as it ran: after fusion, so it may stand for several of the model's. */
struct Operator {
    std::string name;
    std::string kind;     /* Such as "Conv"; empty: unknown. */
    std::string provider; /* Where it ran, such as "CUDAExecutionProvider". */
    uint64_t start_ns;    /* Since the run began. */
    uint64_t duration_ns; /* Its own time, without operators that it contains. */
};

/* Elements in the host's memory, with any strides. */
class View {
public:
    explicit View(const tare_view *raw) {
        if (raw == nullptr || !TARE_HAS(tare_view, raw, byte_offset))
            throw Error(TARE_ERROR_VERSION, "the view is null, or smaller than in ABI 1.0");
        if (raw->rank > 64 || (raw->rank > 0 && raw->shape == nullptr))
            throw Error(TARE_ERROR_INVALID_ARGUMENT, "the view has no shape, or too many axes");
        dtype_ = raw->dtype;
        size_ = static_cast<size_t>(dtype_.bits) * dtype_.lanes / 8;
        if (dtype_.bits == 0 || dtype_.bits % 8 != 0 || size_ == 0)
            throw Error(TARE_ERROR_INVALID_ARGUMENT, "the view's elements have no whole bytes");
        shape_.assign(raw->shape, raw->shape + raw->rank);
        strides_.resize(raw->rank);
        count_ = 1;
        for (size_t axis = shape_.size(); axis-- > 0;) {
            const int64_t length = shape_[axis];
            if (length < 0 || (length > 0 && count_ > (INT64_MAX / 64) / length))
                throw Error(TARE_ERROR_INVALID_ARGUMENT, "the view's shape is impossible");
            strides_[axis] = raw->strides != nullptr ? raw->strides[axis] : count_;
            count_ *= length;
        }
        if (count_ > 0 && raw->data == nullptr)
            throw Error(TARE_ERROR_INVALID_ARGUMENT, "the view's data is null");
        first_ = static_cast<char *>(raw->data) + raw->byte_offset;
    }

    tare_dtype dtype() const { return dtype_; }
    const std::vector<int64_t> &shape() const { return shape_; }
    size_t count() const { return static_cast<size_t>(count_); }

    /* The elements in C order. */
    template <typename T> std::vector<T> values() const {
        expect(dtype_of<T>());
        std::vector<T> values(count());
        char *target = reinterpret_cast<char *>(values.data());
        each([&](char *element) {
            std::memcpy(target, element, sizeof(T));
            target += sizeof(T);
        });
        return values;
    }

    /* The texts in C order, if elements are texts. */
    std::vector<std::string> texts() const {
        expect(string_dtype());
        std::vector<std::string> texts;
        each([&](char *element) {
            tare_string text;
            std::memcpy(&text, element, sizeof text);
            texts.emplace_back(text.data == nullptr ? "" : text.data, text.length);
        });
        return texts;
    }

    /* Writes elements that are in C order. For the view of a Tensor::read only. */
    template <typename T> void write(const std::vector<T> &values) const {
        expect(dtype_of<T>());
        if (values.size() != count())
            throw Error(TARE_ERROR_INVALID_ARGUMENT, "the view has another number of elements");
        const char *source = reinterpret_cast<const char *>(values.data());
        each([&](char *element) {
            std::memcpy(element, source, sizeof(T));
            source += sizeof(T);
        });
    }

    /* Calls `visit` with the address of each element, in C order. It need not be aligned. */
    template <typename Visit> void each(Visit visit) const {
        if (count_ == 0) return;
        std::vector<int64_t> index(shape_.size(), 0);
        int64_t offset = 0;
        for (;;) {
            visit(first_ + offset * static_cast<int64_t>(size_));
            size_t axis = shape_.size();
            for (;;) {
                if (axis == 0) return;
                --axis;
                offset += strides_[axis];
                if (++index[axis] < shape_[axis]) break;
                offset -= shape_[axis] * strides_[axis];
                index[axis] = 0;
            }
        }
    }

private:
    void expect(tare_dtype wanted) const {
        if (dtype_ != wanted)
            throw Error(TARE_ERROR_INVALID_ARGUMENT, "elements are of another type");
    }

    tare_dtype dtype_;
    size_t size_;
    int64_t count_;
    char *first_;
    std::vector<int64_t> shape_;
    std::vector<int64_t> strides_;
};

struct LoadRequest {
    std::string path;
    std::string device;
    uint32_t threads; /* 0: the backend chooses. */
    Attributes options;
    std::string mode; /* One of the description's modes. */

    /* Refuses every unknown option. Call it first. */
    void only(const std::vector<std::string_view> &known) const {
        for (const auto &option : options) {
            bool found = false;
            std::string list;
            for (std::string_view name : known) {
                found = found || name == option.first;
                list += list.empty() ? " " : ", ";
                list += name;
            }
            if (!found)
                throw Error(TARE_ERROR_INVALID_ARGUMENT,
                            "there is no option `" + option.first + "`; there are:" +
                                (list.empty() ? " none" : list));
        }
    }
};

struct PrepareRequest {
    std::string precision;
    std::vector<std::vector<int64_t>> shapes; /* One for each input, matching ModelInfo. */
    /* Bounds of the shapes that calls may have, if a Session serves shapes other than those above; or empty. */
    std::vector<std::vector<int64_t>> least, greatest;
};

/* ---- Classes to implement --------------------------------------------------------------------- */

/* Elements on a device. */
class Tensor {
public:
    virtual ~Tensor() = default;
    virtual tare_dtype dtype() const = 0;
    virtual const std::vector<int64_t> &shape() const = 0;
    /* Copies the elements into a view of the same type and shape. */
    virtual void read(const View &into) const = 0;
    /* The elements, if dtype() is string_dtype(). Replaces read() for text. */
    virtual const std::vector<std::string> *texts() const { return nullptr; }
    /* One of TARE_KIND_*. Nothing else is called for values that are not tensors. */
    virtual uint32_t kind() const { return TARE_KIND_TENSOR; }
};

/* A tensor in the host's memory, for backends whose device that is. */
template <typename T> class HostTensor : public Tensor {
public:
    explicit HostTensor(std::vector<int64_t> shape, std::vector<T> elements)
        : values(std::move(elements)), shape_(std::move(shape)) {}
    explicit HostTensor(const View &view) : values(view.values<T>()), shape_(view.shape()) {}
    tare_dtype dtype() const override { return dtype_of<T>(); }
    const std::vector<int64_t> &shape() const override { return shape_; }
    void read(const View &into) const override { into.write(values); }

    std::vector<T> values;

private:
    std::vector<int64_t> shape_;
};

/* The inputs of a run, in the order of ModelInfo. */
class Inputs {
public:
    explicit Inputs(tare_tensor *const *raw) : raw_(raw) {}
    const Tensor &operator[](size_t index) const {
        return *reinterpret_cast<const Tensor *>(raw_[index]);
    }

private:
    tare_tensor *const *raw_;
};

/* The outputs of a run, in the order of ModelInfo: each the output of an earlier run, or nullptr. */
class Outputs {
public:
    explicit Outputs(tare_tensor **raw) : raw_(raw) {}
    Tensor *operator[](size_t index) const { return reinterpret_cast<Tensor *>(raw_[index]); }
    void set(size_t index, std::unique_ptr<Tensor> tensor) const {
        delete (*this)[index];
        raw_[index] = reinterpret_cast<tare_tensor *>(tensor.release());
    }

private:
    tare_tensor **raw_;
};

/* A model that is ready to run with given shapes. */
class Session {
public:
    virtual ~Session() = default;
    /* The settings in use, as opposed to those requested: at least "precision". */
    virtual Attributes used() const = 0;
    /* One of TARE_SHAPES_*: which shapes calls may have, if bounds were given. */
    virtual uint32_t shapes_served() const { return TARE_SHAPES_ONE; }
    /* Returns when the device is done and every output is set. */
    virtual void run(const Inputs &inputs, const Outputs &outputs) = 0;
    /* May return as soon as the work is queued. */
    virtual void enqueue(const Inputs &inputs, const Outputs &outputs) { run(inputs, outputs); }
    /* Returns when all queued work is done. */
    virtual void synchronise() {}
};

/* A model on a device. */
class Model {
public:
    virtual ~Model() = default;
    virtual ModelInfo info() const = 0;
    virtual std::unique_ptr<Session> prepare(const PrepareRequest &request) = 0;
    virtual std::unique_ptr<Tensor> tensor(const View &view) = 0;
};

/* A plugin's root. Its constructor takes `const tare_host_api &` and may throw a Refusal. */
class Backend {
public:
    virtual ~Backend() = default;
    virtual Description description() const = 0;
    virtual std::vector<Device> devices() = 0;
    virtual std::unique_ptr<Model> load(const LoadRequest &request) = 0;
    /* An extension's table, valid as long as the backend. */
    virtual const void *extension(std::string_view name) {
        (void)name;
        return nullptr;
    }
};

/* ---- The table over these classes --------------------------------------------------------------- */

namespace detail {

struct OwnedError {
    tare_error raw; /* First, so that a pointer to one is a pointer to the other. */
    std::string message;
    std::string details;
};

inline tare_string borrow(const std::string &text) { return {text.data(), text.size()}; }

inline tare_error *raise(int32_t code, const char *message, const char *details) noexcept {
    static tare_error no_memory = {sizeof(tare_error), TARE_ERROR_OUT_OF_MEMORY, 0,
                                   {"out of memory", 13}, {nullptr, 0}, [](tare_error *) {}};
    try {
        auto error = std::make_unique<OwnedError>();
        error->message = message;
        error->details = details;
        error->raw = {sizeof(tare_error), code, 0, borrow(error->message), borrow(error->details),
                      [](tare_error *raw) { delete reinterpret_cast<OwnedError *>(raw); }};
        return &error.release()->raw;
    } catch (...) {
        return &no_memory;
    }
}

/* Runs the body of a call: no exception leaves it. */
template <typename Body> tare_error *guard(Body body) noexcept {
    try {
        body();
        return nullptr;
    } catch (const Error &error) {
        return raise(error.code(), error.message().c_str(), error.details().c_str());
    } catch (const std::bad_alloc &) {
        return raise(TARE_ERROR_OUT_OF_MEMORY, "out of memory", "");
    } catch (const std::exception &exception) {
        return raise(TARE_ERROR_INTERNAL, exception.what(), "");
    } catch (...) {
        return raise(TARE_ERROR_INTERNAL, "an exception of an unknown type", "");
    }
}

inline void require(bool holds, int32_t code, const char *message) {
    if (!holds) throw Error(code, message);
}

/* Checks that a backend has made something. */
template <typename T> std::unique_ptr<T> made(std::unique_ptr<T> object) {
    require(object != nullptr, TARE_ERROR_INTERNAL, "the backend made nothing");
    return object;
}

#define TARE_DETAIL_ARGUMENTS(type, args, last)                                                    \
    ::tare::detail::require((args) != nullptr && TARE_HAS(type, args, last), TARE_ERROR_VERSION,   \
                            "a " #type " is null, or smaller than in ABI 1.0")

inline std::string own(tare_string text) {
    return text.length == 0 ? std::string() : std::string(text.data, text.length);
}

inline std::vector<std::vector<int64_t>> own(const tare_shape *shapes, size_t count) {
    std::vector<std::vector<int64_t>> owned;
    for (size_t index = 0; index < count; ++index)
        owned.emplace_back(shapes[index].sizes, shapes[index].sizes + shapes[index].rank);
    return owned;
}

inline std::vector<tare_attribute> borrow(const Attributes &attributes) {
    std::vector<tare_attribute> raw;
    for (const auto &attribute : attributes)
        raw.push_back({borrow(attribute.first), borrow(attribute.second)});
    return raw;
}

inline std::vector<tare_string> borrow(const std::vector<std::string> &texts) {
    std::vector<tare_string> raw;
    for (const auto &text : texts) raw.push_back(borrow(text));
    return raw;
}

/* Information in the ABI's form, with the data that it points to. Never moved once made. */
struct StoredTensors {
    std::vector<std::vector<tare_dimension>> dimensions;
    std::vector<tare_tensor_info> raw;
    std::vector<const tare_tensor_info *> pointers;

    explicit StoredTensors(const std::vector<TensorInfo> &owned) {
        for (const auto &info : owned) {
            std::vector<tare_dimension> axes;
            for (const auto &axis : info.dimensions) axes.push_back({axis.size, borrow(axis.name)});
            dimensions.push_back(std::move(axes));
        }
        for (size_t index = 0; index < owned.size(); ++index) {
            const auto rank = static_cast<int32_t>(dimensions[index].size());
            raw.push_back({sizeof(tare_tensor_info), borrow(owned[index].name), owned[index].dtype,
                           owned[index].shape_known ? rank : -1, dimensions[index].data(),
                           owned[index].kind, 0});
        }
        for (const auto &info : raw) pointers.push_back(&info);
    }
};

struct LoadedModel {
    std::unique_ptr<Model> model;
    ModelInfo owned;
    StoredTensors inputs, outputs;
    tare_model_info raw;

    explicit LoadedModel(std::unique_ptr<Model> loaded)
        : model(std::move(loaded)), owned(model->info()), inputs(owned.inputs),
          outputs(owned.outputs),
          raw{sizeof(tare_model_info), inputs.pointers.data(), inputs.pointers.size(),
              outputs.pointers.data(), outputs.pointers.size()} {}
    LoadedModel(const LoadedModel &) = delete;
    LoadedModel &operator=(const LoadedModel &) = delete;
};

struct StoredProfile {
    std::vector<Operator> owned;
    std::vector<tare_operator> raw;
    std::vector<const tare_operator *> pointers;

    explicit StoredProfile(std::vector<Operator> operators) : owned(std::move(operators)) {
        for (const auto &ran : owned)
            raw.push_back({sizeof(tare_operator), borrow(ran.name), borrow(ran.kind),
                           borrow(ran.provider), ran.start_ns, ran.duration_ns});
        for (const auto &ran : raw) pointers.push_back(&ran);
    }
    StoredProfile(const StoredProfile &) = delete;
    StoredProfile &operator=(const StoredProfile &) = delete;
};

struct PreparedSession {
    std::unique_ptr<Session> session;
    size_t input_count, output_count;
    Attributes owned;
    std::vector<tare_attribute> used;
    tare_session_info raw;
    std::unique_ptr<StoredProfile> profile; /* The latest profile. */
    std::string allocator;                  /* Its name at the last call. */
    std::vector<std::string> phases;        /* Names of its phases at the last call. */
    std::vector<tare_string> phase_names;

    PreparedSession(std::unique_ptr<Session> prepared, const ModelInfo &info)
        : session(std::move(prepared)), input_count(info.inputs.size()),
          output_count(info.outputs.size()), owned(session->used()), used(borrow(owned)),
          raw{sizeof(tare_session_info), used.data(), used.size()} {}
    PreparedSession(const PreparedSession &) = delete;
    PreparedSession &operator=(const PreparedSession &) = delete;
};

struct StoredDevices {
    std::vector<Device> owned;
    std::vector<std::vector<tare_string>> precisions;
    std::vector<std::vector<tare_attribute>> attributes;
    std::vector<tare_device> raw;
    std::vector<const tare_device *> pointers;

    explicit StoredDevices(std::vector<Device> devices) : owned(std::move(devices)) {
        for (const auto &device : owned) {
            precisions.push_back(borrow(device.precisions));
            attributes.push_back(borrow(device.attributes));
        }
        for (size_t index = 0; index < owned.size(); ++index) {
            const auto &device = owned[index];
            raw.push_back({sizeof(tare_device), borrow(device.id), borrow(device.kind),
                           borrow(device.name), device.memory_bytes, precisions[index].data(),
                           precisions[index].size(), attributes[index].data(),
                           attributes[index].size()});
        }
        for (const auto &device : raw) pointers.push_back(&device);
    }
    StoredDevices(const StoredDevices &) = delete;
    StoredDevices &operator=(const StoredDevices &) = delete;
};

inline void check_shapes(const ModelInfo &info, const std::vector<std::vector<int64_t>> &shapes) {
    require(shapes.size() == info.inputs.size(), TARE_ERROR_INVALID_ARGUMENT,
            "there must be one shape for each input");
    std::map<std::string, int64_t> named;
    for (size_t index = 0; index < shapes.size(); ++index) {
        const TensorInfo &input = info.inputs[index];
        const auto wrong = [&](const std::string &what) {
            throw Error(TARE_ERROR_INVALID_ARGUMENT, "input `" + input.name + "`: " + what);
        };
        for (int64_t size : shapes[index])
            if (size < 0) wrong("an axis cannot be negative");
        if (!input.shape_known) continue;
        if (shapes[index].size() != input.dimensions.size())
            wrong("there must be " + std::to_string(input.dimensions.size()) + " axes");
        for (size_t axis = 0; axis < input.dimensions.size(); ++axis) {
            const Dimension &dimension = input.dimensions[axis];
            const int64_t size = shapes[index][axis];
            int64_t expected = dimension.size;
            if (expected == TARE_DYNAMIC)
                expected = dimension.name.empty() ? size
                                                  : named.emplace(dimension.name, size).first->second;
            if (size != expected)
                wrong("axis " + std::to_string(axis) + " must be " + std::to_string(expected) +
                      ", not " + std::to_string(size));
        }
    }
}

/* Checks that the least shapes do not exceed the typical ones, or those the greatest. */
inline void check_bounds(const ModelInfo &info, const PrepareRequest &request) {
    check_shapes(info, request.least);
    check_shapes(info, request.greatest);
    for (size_t index = 0; index < request.shapes.size(); ++index) {
        const auto &least = request.least[index], &greatest = request.greatest[index];
        const auto &typical = request.shapes[index];
        bool within = least.size() == typical.size() && typical.size() == greatest.size();
        for (size_t axis = 0; within && axis < typical.size(); ++axis)
            within = least[axis] <= typical[axis] && typical[axis] <= greatest[axis];
        require(within, TARE_ERROR_INVALID_ARGUMENT, "a shape is not between its bounds");
    }
}

/* Writes the addresses of texts, which stay valid until their tensor changes. */
inline void write_texts(const View &view, const std::vector<std::string> *texts) {
    require(texts != nullptr && texts->size() == view.count(), TARE_ERROR_INTERNAL,
            "the backend has a tensor of text with another number of texts");
    auto text = texts->begin();
    view.each([&](char *element) {
        const tare_string raw = borrow(*text++);
        std::memcpy(element, &raw, sizeof raw);
    });
}

inline LoadedModel &model(tare_model *handle) { return *reinterpret_cast<LoadedModel *>(handle); }
inline PreparedSession &session(tare_session *handle) {
    return *reinterpret_cast<PreparedSession *>(handle);
}
inline Tensor &tensor(tare_tensor *handle) { return *reinterpret_cast<Tensor *>(handle); }

/* Contents of a backend's handle. */
struct Instance {
    tare_backend_api api;
    std::unique_ptr<Backend> backend;
    Description description;
    std::vector<tare_string> extensions, modes;
    tare_description raw;
    std::unique_ptr<StoredDevices> devices;

    explicit Instance(std::unique_ptr<Backend> root)
        : backend(std::move(root)), description(backend->description()),
          extensions(borrow(description.extensions)), modes(borrow(description.modes)),
          raw{sizeof(tare_description), borrow(description.id), borrow(description.version),
              borrow(description.engine), borrow(description.engine_version), extensions.data(),
              extensions.size(), modes.data(), modes.size()} {
        api = {sizeof(tare_backend_api),
               TARE_ABI_MAJOR,
               TARE_ABI_MINOR,
               reinterpret_cast<tare_backend *>(this),
               call_describe,
               call_devices,
               call_load,
               call_prepare,
               call_run,
               call_synchronise,
               call_release,
               call_unload,
               call_destroy,
               call_tensor_create,
               call_tensor_describe,
               call_tensor_read,
               call_tensor_destroy,
               call_get_extension};
    }
    Instance(const Instance &) = delete;
    Instance &operator=(const Instance &) = delete;

    void check_mode(const std::string &mode) const {
        bool offered = description.modes.empty() && mode == "inference";
        for (const auto &known : description.modes) offered = offered || known == mode;
        if (!offered) throw Error(TARE_ERROR_UNSUPPORTED, "the mode " + mode + " is not offered");
    }

    static Instance &of(tare_backend *handle) { return *reinterpret_cast<Instance *>(handle); }

    static tare_error *call_describe(tare_describe_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_describe_args, args, description);
            args->description = &of(args->backend).raw;
        });
    }

    static tare_error *call_devices(tare_devices_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_devices_args, args, device_count);
            Instance &self = of(args->backend);
            self.devices = std::make_unique<StoredDevices>(self.backend->devices());
            args->devices = self.devices->pointers.data();
            args->device_count = self.devices->pointers.size();
        });
    }

    static tare_error *call_load(tare_load_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_load_args, args, info);
            LoadRequest request{own(args->path), own(args->device), args->threads, {}, "inference"};
            if (TARE_HAS(tare_load_args, args, mode) && args->mode.length > 0)
                request.mode = own(args->mode);
            of(args->backend).check_mode(request.mode);
            for (size_t index = 0; index < args->option_count; ++index)
                request.options.emplace_back(own(args->options[index].key),
                                             own(args->options[index].value));
            auto loaded = std::make_unique<LoadedModel>(
                made(of(args->backend).backend->load(request)));
            args->info = &loaded->raw;
            args->model = reinterpret_cast<tare_model *>(loaded.release());
        });
    }

    static tare_error *call_prepare(tare_prepare_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_prepare_args, args, info);
            LoadedModel &loaded = model(args->model);
            PrepareRequest request{own(args->precision), own(args->shapes, args->shape_count), {}, {}};
            check_shapes(loaded.owned, request.shapes);
            const bool bounded = TARE_HAS(tare_prepare_args, args, shapes_served) &&
                                 args->least != nullptr && args->greatest != nullptr;
            if (bounded) {
                request.least = own(args->least, args->shape_count);
                request.greatest = own(args->greatest, args->shape_count);
                check_bounds(loaded.owned, request);
            }
            auto prepared = std::make_unique<PreparedSession>(
                made(loaded.model->prepare(request)), loaded.owned);
            if (bounded) args->shapes_served = prepared->session->shapes_served();
            args->info = &prepared->raw;
            args->session = reinterpret_cast<tare_session *>(prepared.release());
        });
    }

    static tare_error *call_run(tare_run_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_run_args, args, output_count);
            checked_run(args, [&](Session &session, const Inputs &inputs, const Outputs &outputs) {
                if (args->flags == 0)
                    session.run(inputs, outputs);
                else if (args->flags == TARE_RUN_ENQUEUE)
                    session.enqueue(inputs, outputs);
                else
                    throw Error(TARE_ERROR_UNSUPPORTED, "unknown flags");
            });
        });
    }

    static tare_error *call_synchronise(tare_synchronise_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_synchronise_args, args, session);
            session(args->session).session->synchronise();
        });
    }

    static tare_error *call_release(tare_release_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_release_args, args, session);
            delete &session(args->session);
        });
    }

    static tare_error *call_unload(tare_unload_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_unload_args, args, model);
            delete &model(args->model);
        });
    }

    static tare_error *call_destroy(tare_destroy_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_destroy_args, args, backend);
            delete &of(args->backend);
        });
    }

    static tare_error *call_tensor_create(tare_tensor_create_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_tensor_create_args, args, tensor);
            auto tensor = made(model(args->model).model->tensor(View(args->view)));
            args->tensor = reinterpret_cast<tare_tensor *>(tensor.release());
        });
    }

    static tare_error *call_tensor_describe(tare_tensor_describe_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_tensor_describe_args, args, shape);
            const Tensor &described = tensor(args->tensor);
            if (described.kind() != TARE_KIND_TENSOR) {
                require(TARE_HAS(tare_tensor_describe_args, args, kind), TARE_ERROR_UNSUPPORTED,
                        "it is not a tensor");
                args->kind = described.kind();
                return;
            }
            args->dtype = described.dtype();
            args->rank = static_cast<uint32_t>(described.shape().size());
            args->shape = described.shape().data();
        });
    }

    static tare_error *call_tensor_read(tare_tensor_read_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_tensor_read_args, args, view);
            const Tensor &source = tensor(args->tensor);
            require(source.kind() == TARE_KIND_TENSOR, TARE_ERROR_UNSUPPORTED, "it is not a tensor");
            const View view(args->view);
            require(view.dtype() == source.dtype() && view.shape() == source.shape(),
                    TARE_ERROR_INVALID_ARGUMENT, "the view has another type or shape");
            if (source.dtype() == string_dtype())
                write_texts(view, source.texts());
            else
                source.read(view);
        });
    }

    static tare_error *call_tensor_destroy(tare_tensor_destroy_args *args) {
        return guard([&] {
            TARE_DETAIL_ARGUMENTS(tare_tensor_destroy_args, args, tensor);
            delete &tensor(args->tensor);
        });
    }

    /* Runs with `body` after the common checks. Outputs must exist afterwards if the run is whole. */
    template <typename Run>
    static void checked_run(tare_run_args *args, Run run, bool whole = true) {
        PreparedSession &prepared = session(args->session);
        require(args->input_count == prepared.input_count &&
                    args->output_count == prepared.output_count,
                TARE_ERROR_INVALID_ARGUMENT, "the number of inputs or outputs is wrong");
        const Inputs inputs(args->inputs);
        const Outputs outputs(args->outputs);
        run(*prepared.session, inputs, outputs);
        for (size_t index = 0; whole && index < prepared.output_count; ++index)
            require(outputs[index] != nullptr, TARE_ERROR_INTERNAL,
                    "the backend left an output empty");
    }

    static const void *call_get_extension(tare_backend *backend, tare_string name) {
        try {
            return of(backend).backend->extension(own(name));
        } catch (...) {
            return nullptr;
        }
    }
};

template <typename T> const tare_backend_api *enter(const tare_host_api *host) noexcept {
    if (host == nullptr || !TARE_HAS(tare_host_api, host, refuse)) return nullptr;
    const auto refuse = [host](const char *reason) -> const tare_backend_api * {
        if (host->refuse != nullptr) host->refuse(host->context, {reason, std::strlen(reason)});
        return nullptr;
    };
    if (host->abi_major != TARE_ABI_MAJOR) return refuse("the host speaks another major ABI version");
    try {
        return &(new Instance(std::make_unique<T>(*host)))->api;
    } catch (const std::exception &exception) {
        return refuse(exception.what());
    } catch (...) {
        return refuse("an exception of an unknown type");
    }
}

} // namespace detail

/* ---- Extensions that Tare defines ----------------------------------------------------------------- */

struct DeviceMemory {
    uint64_t used_bytes;
    uint64_t peak_bytes; /* 0: unknown. */
};

struct AllocatorUse {
    std::string name; /* The engine's name for it. */
    uint64_t used_bytes;
    uint64_t peak_bytes;     /* 0: unknown. */
    uint64_t reserved_bytes; /* 0: unknown. */
};

struct StageTimes {
    uint64_t copy_in_ns;
    uint64_t compute_ns;
    uint64_t copy_out_ns;
};

/* For Backend::extension to answer TARE_DEVICE_ENERGY with. `B` is the backend's class, and has
 * `uint64_t device_microjoules(const std::string &device)`. */
template <typename B> const void *device_energy() {
    static const tare_device_energy table = {
        sizeof(tare_device_energy), [](tare_device_energy_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_device_energy_args, args, microjoules);
                auto &backend = static_cast<B &>(*detail::Instance::of(args->backend).backend);
                args->microjoules = backend.device_microjoules(detail::own(args->device));
            });
        }};
    return &table;
}

/* For Backend::extension to answer TARE_DEVICE_MEMORY with. `B` is the backend's class, and has
 * `tare::DeviceMemory device_memory(const std::string &device)`. */
template <typename B> const void *device_memory() {
    static const tare_device_memory table = {
        sizeof(tare_device_memory), [](tare_device_memory_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_device_memory_args, args, peak_bytes);
                auto &backend = static_cast<B &>(*detail::Instance::of(args->backend).backend);
                const DeviceMemory memory = backend.device_memory(detail::own(args->device));
                args->used_bytes = memory.used_bytes;
                args->peak_bytes = memory.peak_bytes;
            });
        }};
    return &table;
}

/* For Backend::extension to answer TARE_DEVICE_STATE with. `B` is the backend's class, and has
 * `static void device_state(const std::string &device, tare_device_state_args &state)`, which sets the known fields
 * and leaves the others. It has no instance, since it is called on another thread than everything else. */
template <typename B> const void *device_state() {
    static const tare_device_state table = {
        sizeof(tare_device_state), [](tare_device_state_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_device_state_args, args, slowed_by);
                const double unknown = std::numeric_limits<double>::quiet_NaN();
                args->utilisation = args->memory_utilisation = unknown;
                args->clock_hertz = args->memory_clock_hertz = unknown;
                args->temperature_celsius = args->power_watts = unknown;
                args->slowed_known = args->slowed_by = 0;
                B::device_state(detail::own(args->device), *args);
            });
        }};
    return &table;
}

/* For Backend::extension to answer TARE_ALLOCATOR with. `S` is the class of its sessions, and has
 * `tare::AllocatorUse allocator_use()`. */
template <typename S> const void *allocator() {
    static const tare_allocator table = {
        sizeof(tare_allocator), [](tare_allocator_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_allocator_args, args, reserved_bytes);
                detail::PreparedSession &prepared = detail::session(args->session);
                const AllocatorUse use = static_cast<S &>(*prepared.session).allocator_use();
                prepared.allocator = use.name;
                args->name = {prepared.allocator.data(), prepared.allocator.size()};
                args->used_bytes = use.used_bytes;
                args->peak_bytes = use.peak_bytes;
                args->reserved_bytes = use.reserved_bytes;
            });
        }};
    return &table;
}

/* For Backend::extension to answer TARE_STAGE_TIMES with. `S` is the class of its sessions, and has
 * `tare::StageTimes run_in_stages(const tare::Inputs &, const tare::Outputs &)`. */
template <typename S> const void *stage_times() {
    static const tare_stage_times table = {
        sizeof(tare_stage_times), [](tare_stage_times_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_stage_times_args, args, copy_out_ns);
                TARE_DETAIL_ARGUMENTS(tare_run_args, args->run, output_count);
                detail::Instance::checked_run(
                    args->run, [&](Session &session, const Inputs &inputs, const Outputs &outputs) {
                        const StageTimes times =
                            static_cast<S &>(session).run_in_stages(inputs, outputs);
                        args->copy_in_ns = times.copy_in_ns;
                        args->compute_ns = times.compute_ns;
                        args->copy_out_ns = times.copy_out_ns;
                    });
            });
        }};
    return &table;
}

/* For Backend::extension to answer TARE_DEVICE_TIMER with. `S` is the class of its sessions, and has
 * `uint64_t run_timed(const tare::Inputs &, const tare::Outputs &)`, in nanoseconds. */
template <typename S> const void *device_timer() {
    static const tare_device_timer table = {
        sizeof(tare_device_timer), [](tare_device_timer_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_device_timer_args, args, device_ns);
                TARE_DETAIL_ARGUMENTS(tare_run_args, args->run, output_count);
                detail::Instance::checked_run(
                    args->run, [&](Session &session, const Inputs &inputs, const Outputs &outputs) {
                        args->device_ns = static_cast<S &>(session).run_timed(inputs, outputs);
                    });
            });
        }};
    return &table;
}

/* For Backend::extension to answer TARE_PROFILE with. `S` is the class of its sessions, and has
 * `std::vector<tare::Operator> profile(const tare::Inputs &)`. */
template <typename S> const void *profile() {
    static const tare_profile table = {
        sizeof(tare_profile), [](tare_profile_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_profile_args, args, operator_count);
                detail::PreparedSession &prepared = detail::session(args->session);
                detail::require(args->input_count == prepared.input_count,
                                TARE_ERROR_INVALID_ARGUMENT, "the number of inputs is wrong");
                auto &session = static_cast<S &>(*prepared.session);
                prepared.profile = std::make_unique<detail::StoredProfile>(
                    session.profile(Inputs(args->inputs)));
                args->operators = prepared.profile->pointers.data();
                args->operator_count = prepared.profile->pointers.size();
            });
        }};
    return &table;
}

/* For Backend::extension to answer TARE_CANCEL with. `B` is the backend's class, and has
 * `static void cancel()`, which is called on another thread than the one that is busy. */
template <typename B> const void *cancel() {
    static const tare_cancel table = {
        sizeof(tare_cancel), [](tare_cancel_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_cancel_args, args, backend);
                B::cancel();
            });
        }};
    return &table;
}

/* Takes the time of moments within a run, by the host's clock. */
class Mark {
public:
    explicit Mark(const tare_marked_run_args &args) : context_(args.context), mark_(args.mark) {}
    /* Marks the completion of a counted item, such as a token. */
    void now() const {
        if (mark_ != nullptr) mark_(context_);
    }

private:
    void *context_;
    void (*mark_)(void *context);
};

/* For Backend::extension to answer TARE_MARKS with. `S` is the class of its sessions, and has
 * `std::vector<std::string> phases()` and
 * `void run_phase(uint32_t, const tare::Inputs &, const tare::Outputs &, const tare::Mark &)`. */
template <typename S> const void *marks() {
    static const tare_marks table = {
        sizeof(tare_marks),
        [](tare_phases_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_phases_args, args, phase_count);
                detail::PreparedSession &prepared = detail::session(args->session);
                prepared.phases = static_cast<S &>(*prepared.session).phases();
                prepared.phase_names = detail::borrow(prepared.phases);
                args->phases = prepared.phase_names.data();
                args->phase_count = prepared.phase_names.size();
            });
        },
        [](tare_marked_run_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_marked_run_args, args, mark);
                TARE_DETAIL_ARGUMENTS(tare_run_args, args->run, output_count);
                detail::PreparedSession &prepared = detail::session(args->run->session);
                const size_t count = static_cast<S &>(*prepared.session).phases().size();
                detail::require(args->phase < count || args->phase == 0,
                                TARE_ERROR_INVALID_ARGUMENT, "there is no such phase");
                detail::Instance::checked_run(
                    args->run,
                    [&](Session &session, const Inputs &inputs, const Outputs &outputs) {
                        static_cast<S &>(session).run_phase(args->phase, inputs, outputs,
                                                            Mark(*args));
                    },
                    args->phase + 1 >= count);
            });
        }};
    return &table;
}

/* For Backend::extension to answer TARE_TRAINING with. `S` is the class of its sessions, and has
 * `void evaluate(const tare::Inputs &, const tare::Outputs &)`. */
template <typename S> const void *training() {
    static const tare_training table = {
        sizeof(tare_training), [](tare_run_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_run_args, args, output_count);
                detail::Instance::checked_run(
                    args,
                    [&](Session &session, const Inputs &inputs, const Outputs &outputs) {
                        static_cast<S &>(session).evaluate(inputs, outputs);
                    });
            });
        }};
    return &table;
}

/* Memory that a phase took on the device, in bytes. */
struct PhaseMemory {
    uint64_t peak_bytes = 0; /* The most during the phase. */
    uint64_t used_bytes = 0; /* At its end. */
};

/* For Backend::extension to answer TARE_PHASE_MEMORY with. `S` is the class of its sessions, and has
 * `std::vector<std::string> phases()` and
 * `tare::PhaseMemory run_phase_counted(uint32_t, const tare::Inputs &, const tare::Outputs &)`. */
template <typename S> const void *phase_memory() {
    static const tare_phase_memory table = {
        sizeof(tare_phase_memory), [](tare_phase_memory_args *args) {
            return detail::guard([&] {
                TARE_DETAIL_ARGUMENTS(tare_phase_memory_args, args, used_bytes);
                TARE_DETAIL_ARGUMENTS(tare_run_args, args->run, output_count);
                detail::PreparedSession &prepared = detail::session(args->run->session);
                const size_t count = static_cast<S &>(*prepared.session).phases().size();
                detail::require(args->phase < count || args->phase == 0,
                                TARE_ERROR_INVALID_ARGUMENT, "there is no such phase");
                detail::Instance::checked_run(
                    args->run,
                    [&](Session &session, const Inputs &inputs, const Outputs &outputs) {
                        const PhaseMemory memory = static_cast<S &>(session).run_phase_counted(
                            args->phase, inputs, outputs);
                        args->peak_bytes = memory.peak_bytes;
                        args->used_bytes = memory.used_bytes;
                    },
                    args->phase + 1 >= count);
            });
        }};
    return &table;
}

} // namespace tare

/* Makes a class that derives from tare::Backend this library's plugin. */
#define TARE_EXPORT_BACKEND(type)                                                                  \
    extern "C" const tare_backend_api *tare_backend_v1(const tare_host_api *host) {                \
        return ::tare::detail::enter<type>(host);                                                  \
    }                                                                                              \
    static_assert(true, "so that a semicolon may follow")

#endif /* TARE_PLUGIN_API_HPP */
