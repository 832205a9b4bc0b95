// Functions of libtorch that the crate `tch` does not reach: autocast, fused optimisers, loss scaling, figures of
// allocators, events of devices, and observation of operators. `native.rs` is their only caller.
//
// Each returns null, or a message that belongs to the caller. Devices are numbered as in `tch`: -1 is the processor,
// -2 is Metal, others are graphics processors. Lists of tensors are arrays of pointers.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/record_function.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>

namespace {

c10::Device device_of(int number) {
  if (number == -1) return c10::Device(c10::DeviceType::CPU);
  if (number == -2) return c10::Device(c10::DeviceType::MPS, 0);
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(number));
}

template <typename Work>
char* guarded(Work work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("an exception of an unknown type");
  }
}

std::vector<at::Tensor> list(at::Tensor* const* tensors, size_t count) {
  std::vector<at::Tensor> found;
  found.reserve(count);
  for (size_t at = 0; at < count; ++at) found.push_back(*tensors[at]);
  return found;
}

std::optional<at::Tensor> maybe(at::Tensor* tensor) {
  return tensor ? std::optional<at::Tensor>(*tensor) : std::nullopt;
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// Counts what tensors on processors take. Libtorch reports allocations of the thread on which this is pushed, and the
// release of those that it has reported.
struct Counter : c10::MemoryReportingInfoBase {
  int64_t used = 0;
  int64_t peak = 0;

  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device device) override {
    if (!device.is_cpu()) return;
    used += size;
    if (used > peak) peak = used;
  }
  bool memoryProfilingEnabled() const override { return true; }
};

std::shared_ptr<Counter> counter;

// A function of the backward pass.
struct Observed : at::ObserverContext {
  std::string name;
  int64_t sequence = -1;
  int64_t begun = 0;
  std::optional<c10::Event> first;
};

struct Function {
  std::string name;
  int64_t sequence;
  // By the host's clock, or between events of the device, from the beginning of the observation.
  int64_t start;
  int64_t duration;
};

int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

struct Observation {
  c10::Device device;
  int64_t begun = now();
  std::optional<c10::Event> origin;
  std::mutex lock;
  std::vector<Function> functions;
  at::CallbackHandle handle = 0;

  explicit Observation(c10::Device device) : device(device) {}
};

// One observation at a time: the callbacks of libtorch are functions without a context.
Observation* observation = nullptr;

std::unique_ptr<at::ObserverContext> function_begins(const at::RecordFunction& function) {
  auto observed = std::make_unique<Observed>();
  observed->name = function.name();
  observed->sequence = function.seqNr();
  if (observation && !observation->device.is_cpu()) {
    observed->first.emplace(observation->device.type(), c10::EventFlag::BACKEND_DEFAULT);
    observed->first->record(current_stream(observation->device));
  }
  observed->begun = now();
  return observed;
}

void function_ends(const at::RecordFunction&, at::ObserverContext* context) {
  const int64_t end = now();
  auto* observed = static_cast<Observed*>(context);
  if (!observation || !observed) return;
  Function found{
      observed->name, observed->sequence, observed->begun - observation->begun,
      end - observed->begun};
  if (observed->first) {
    c10::Event last(observation->device.type(), c10::EventFlag::BACKEND_DEFAULT);
    last.record(current_stream(observation->device));
    last.synchronize();
    found.start = static_cast<int64_t>(observation->origin->elapsedTime(*observed->first) * 1e6);
    found.duration = static_cast<int64_t>(observed->first->elapsedTime(last) * 1e6);
  }
  const std::lock_guard<std::mutex> held(observation->lock);
  observation->functions.push_back(std::move(found));
}

// A graph of CUDA: the kernels of a run, which are queued again as one.
//
// Libtorch's class for it, `at::cuda::CUDAGraph`, is in the library for CUDA. The engine is not linked against that, so
// that one build serves every PyTorch, and the class's header needs CUDA's headers. So its functions are looked up by the
// names that they have in the version of PyTorch that the engine is for, and an object gets more room than it needs
// (its members are listed in `ATen/cuda/CUDAGraph.h`; they take less than 256 bytes).
struct Graph {
  using Make = void (*)(void*, bool);
  using Begin = void (*)(void*, std::pair<unsigned long long, unsigned long long>, int);
  using Plain = void (*)(void*);

  c10::Device device;
  void* library;
  Make make;
  Begin begin;
  Plain end, replay, destroy;
  alignas(64) unsigned char object[4096];
  bool made = false;
  // While kernels are recorded, and before, the thread queues into a stream of its own.
  std::optional<c10::Stream> before;

  explicit Graph(c10::Device place) : device(place) {
    library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    if (!library) throw std::runtime_error("libtorch_cuda.so is not open");
    const auto find = [&](const char* name) {
      void* found = dlsym(library, name);
      if (!found) throw std::runtime_error(std::string("libtorch_cuda.so has no function ") + name);
      return found;
    };
    make = reinterpret_cast<Make>(find("_ZN2at4cuda9CUDAGraphC1Eb"));
    begin = reinterpret_cast<Begin>(
        find("_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode"));
    end = reinterpret_cast<Plain>(find("_ZN2at4cuda9CUDAGraph11capture_endEv"));
    replay = reinterpret_cast<Plain>(find("_ZN2at4cuda9CUDAGraph6replayEv"));
    destroy = reinterpret_cast<Plain>(find("_ZN2at4cuda9CUDAGraphD1Ev"));
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.setDevice(device);
    guard.synchronizeDevice(device.index());
    before = guard.exchangeStream(guard.getStreamFromGlobalPool(device, false));
  }

  // Queues into the stream of before again.
  void leave() {
    if (!before) return;
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.synchronizeDevice(device.index());
    guard.exchangeStream(*before);
    before.reset();
  }
};

} // namespace

extern "C" {

void tare_torch_free(char* message) { free(message); }

// ---- Autocast --------------------------------------------------------------------------------------------------

// Begins a region in which products are computed in another type.
char* tare_torch_autocast_begin(int device, int type) {
  return guarded([&] {
    const auto kind = device_of(device).type();
    at::autocast::set_autocast_dtype(kind, static_cast<c10::ScalarType>(type));
    at::autocast::set_autocast_enabled(kind, true);
    at::autocast::increment_nesting();
  });
}

char* tare_torch_autocast_end(int device) {
  return guarded([&] {
    // As the context manager of Python does: weights that were converted are dropped with the outermost region.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_of(device).type(), false);
  });
}

// ---- Settings of the process --------------------------------------------------------------------------------------

char* tare_torch_deterministic(bool on) {
  return guarded([&] {
    auto& context = at::globalContext();
    context.setDeterministicAlgorithms(on, false);
    context.setDeterministicCuDNN(on);
    context.setDeterministicMkldnn(on);
    if (on) context.setBenchmarkCuDNN(false);
  });
}

// Sets whether products of fp32 may be narrowed to TF32 on graphics processors.
char* tare_torch_tf32(bool on) {
  return guarded([&] {
    auto& context = at::globalContext();
    context.setAllowTF32CuBLAS(on);
    context.setAllowTF32CuDNN(on);
  });
}

// ---- Tensors -----------------------------------------------------------------------------------------------------

// Makes a tensor whose channels are next to each other in memory.
char* tare_torch_channels_last(at::Tensor* tensor, at::Tensor** made) {
  return guarded([&] {
    *made = new at::Tensor(tensor->contiguous(at::MemoryFormat::ChannelsLast));
  });
}

// Drops the gradient.
char* tare_torch_forget_gradient(at::Tensor* tensor) {
  return guarded([&] { tensor->mutable_grad().reset(); });
}

// Computes gradients of all leaves from those of the outputs.
char* tare_torch_backward(at::Tensor* const* outputs, at::Tensor* const* gradients, size_t count) {
  return guarded([&] {
    torch::autograd::backward(list(outputs, count), list(gradients, count));
  });
}

// Adds others to tensors in place.
char* tare_torch_add(at::Tensor* const* tensors, at::Tensor* const* others, size_t count) {
  return guarded([&] {
    const at::NoGradGuard none;
    const auto all = list(tensors, count);
    at::_foreach_add_(all, list(others, count));
  });
}

// Overwrites tensors with others.
char* tare_torch_copy(at::Tensor* const* tensors, at::Tensor* const* others, size_t count) {
  return guarded([&] {
    const at::NoGradGuard none;
    const auto all = list(tensors, count);
    at::_foreach_copy_(all, list(others, count));
  });
}

// Makes a device that of this thread.
char* tare_torch_set_device(int device) {
  return guarded([&] {
    c10::impl::VirtualGuardImpl(device_of(device).type()).setDevice(device_of(device));
  });
}

// Multiplies all in place.
char* tare_torch_scale(at::Tensor* const* tensors, size_t count, double factor) {
  return guarded([&] {
    const at::NoGradGuard none;
    const auto all = list(tensors, count);
    at::_foreach_mul_(all, factor);
  });
}

// ---- Optimisers --------------------------------------------------------------------------------------------------

char* tare_torch_sgd(
    at::Tensor* const* weights,
    at::Tensor* const* gradients,
    at::Tensor* const* momenta,
    size_t count,
    double rate,
    double momentum,
    double decay,
    at::Tensor* found_infinity) {
  return guarded([&] {
    const at::NoGradGuard none;
    const std::vector<at::Tensor> buffers =
        momentum == 0.0 ? std::vector<at::Tensor>{} : list(momenta, count);
    at::_fused_sgd_(
        list(weights, count), list(gradients, count), buffers, decay, momentum, rate, 0.0, false,
        false, false, std::nullopt, maybe(found_infinity));
  });
}

char* tare_torch_adam(
    at::Tensor* const* weights,
    at::Tensor* const* gradients,
    at::Tensor* const* means,
    at::Tensor* const* squares,
    at::Tensor* steps,
    size_t count,
    double rate,
    double decay,
    bool decoupled,
    at::Tensor* found_infinity) {
  return guarded([&] {
    const at::NoGradGuard none;
    // The fused functions read the number of steps, one for each tensor, and do not advance it.
    steps->add_(1);
    const std::vector<at::Tensor> counts(count, *steps);
    const auto all = list(weights, count);
    const auto found = maybe(found_infinity);
    if (decoupled) {
      at::_fused_adamw_(
          all, list(gradients, count), list(means, count), list(squares, count), {}, counts, rate,
          0.9, 0.999, decay, 1e-8, false, false, std::nullopt, found);
    } else {
      at::_fused_adam_(
          all, list(gradients, count), list(means, count), list(squares, count), {}, counts, rate,
          0.9, 0.999, decay, 1e-8, false, false, std::nullopt, found);
    }
    // A step that was left out does not count.
    if (found) steps->sub_(found->reshape({}));
  });
}

// Divides gradients by the scale of the loss, and sets `found_infinity` to 1 if one of them is not finite.
char* tare_torch_unscale(
    at::Tensor* const* gradients, size_t count, at::Tensor* found_infinity, at::Tensor* inverse) {
  return guarded([&] {
    const at::NoGradGuard none;
    const auto all = list(gradients, count);
    at::_amp_foreach_non_finite_check_and_unscale_(all, *found_infinity, *inverse);
  });
}

// Lowers the scale after gradients that are not finite, and raises it after many that are.
char* tare_torch_update_scale(at::Tensor* scale, at::Tensor* growth, at::Tensor* found_infinity) {
  return guarded([&] { at::_amp_update_scale_(*scale, *growth, *found_infinity, 2.0, 0.5, 2000); });
}

// ---- Memory ------------------------------------------------------------------------------------------------------

// Figures of the allocator of a graphics processor: in use, most in use, held of the device.
char* tare_torch_allocator(int device, uint64_t* used, uint64_t* peak, uint64_t* reserved) {
  return guarded([&] {
    const auto place = device_of(device);
    const auto figures = at::getDeviceAllocator(place.type())->getDeviceStats(place.index());
    *used = figures.allocated_bytes[0].current;
    *peak = figures.allocated_bytes[0].peak;
    *reserved = figures.reserved_bytes[0].current;
  });
}

// Makes the most in use what is in use now.
char* tare_torch_forget_peak(int device) {
  return guarded([&] {
    const auto place = device_of(device);
    at::getDeviceAllocator(place.type())->resetPeakStats(place.index());
  });
}

// Gives memory that is not in use back to the device.
char* tare_torch_empty_cache(int device) {
  return guarded([&] { at::getDeviceAllocator(device_of(device).type())->emptyCache(); });
}

// Counts what this thread allocates on the processor from now on, until the counting ends.
char* tare_torch_count_begin() {
  return guarded([&] {
    counter = std::make_shared<Counter>();
    c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, counter);
  });
}

// Returns bytes in use, and the most since the last call. Both are relative to the beginning, so they can be negative.
void tare_torch_counted(int64_t* used, int64_t* peak) {
  *used = counter ? counter->used : 0;
  *peak = counter ? counter->peak : 0;
  if (counter) counter->peak = counter->used;
}

char* tare_torch_count_end() {
  return guarded([&] {
    c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
    counter.reset();
  });
}

// ---- Events of a device ------------------------------------------------------------------------------------------

char* tare_torch_event(int device, c10::Event** made) {
  return guarded([&] {
    const auto place = device_of(device);
    auto event = std::make_unique<c10::Event>(place.type(), c10::EventFlag::BACKEND_DEFAULT);
    event->record(current_stream(place));
    *made = event.release();
  });
}

// Waits for both, and returns the milliseconds between them.
char* tare_torch_elapsed(c10::Event* first, c10::Event* last, double* milliseconds) {
  return guarded([&] {
    last->synchronize();
    *milliseconds = first->elapsedTime(*last);
  });
}

void tare_torch_event_free(c10::Event* event) { delete event; }

// ---- Graphs of CUDA ----------------------------------------------------------------------------------------------

// Makes a graph, and has the thread queue into a stream of its own, in which kernels have to have run before they are
// recorded.
char* tare_torch_graph(int device, Graph** made) {
  return guarded([&] { *made = new Graph(device_of(device)); });
}

// Records what is queued from now on, and does not run it.
char* tare_torch_graph_begin(Graph* graph) {
  return guarded([&] {
    const c10::impl::VirtualGuardImpl guard(graph->device.type());
    guard.synchronizeDevice(graph->device.index());
    graph->make(graph->object, false);
    graph->made = true;
    // `cudaStreamCaptureModeThreadLocal`: other threads may call what they like.
    graph->begin(graph->object, {0, 0}, 1);
  });
}

char* tare_torch_graph_end(Graph* graph) {
  return guarded([&] {
    graph->end(graph->object);
    graph->leave();
  });
}

// Queues all that was recorded.
char* tare_torch_graph_replay(Graph* graph) {
  return guarded([&] { graph->replay(graph->object); });
}

// Drops a graph, also in the middle of recording.
char* tare_torch_graph_free(Graph* graph) {
  return guarded([&] {
    const std::unique_ptr<Graph> owned(graph);
    if (owned->made) owned->destroy(owned->object);
    owned->leave();
  });
}

// ---- Observation of the backward pass ---------------------------------------------------------------------------

// Returns the number that the next operator of the forward pass gets. The function of the backward pass has the same.
uint64_t tare_torch_sequence() { return at::sequence_number::peek(); }

// Observes functions of the backward pass from now on.
char* tare_torch_observe_begin(int device) {
  return guarded([&] {
    auto made = std::make_unique<Observation>(device_of(device));
    if (!made->device.is_cpu()) {
      made->origin.emplace(made->device.type(), c10::EventFlag::BACKEND_DEFAULT);
      made->origin->record(current_stream(made->device));
    }
    observation = made.release();
    auto callback = at::RecordFunctionCallback(function_begins, function_ends)
                        .scopes({at::RecordScope::BACKWARD_FUNCTION});
    observation->handle = at::addGlobalCallback(callback);
  });
}

// Calls `each` with name, number, start and duration in nanoseconds of each function, and ends the observation. Starts
// count from its beginning.
char* tare_torch_observe_end(
    void* context,
    void (*each)(void*, const char*, int64_t sequence, int64_t start, int64_t duration)) {
  return guarded([&] {
    if (!observation) return;
    at::removeCallback(observation->handle);
    const std::unique_ptr<Observation> ended(observation);
    observation = nullptr;
    for (const auto& one : ended->functions) {
      each(context, one.name.c_str(), one.sequence, one.start, one.duration);
    }
  });
}

} // extern "C"
