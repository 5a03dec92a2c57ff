// The simulated device: a second filling of the driver's table that needs no GPU.
//
// It is adversarial.  Device memory is host memory with poison in it (memory.cpp, entries
// in memory_calls.cpp); work waits in its stream's queue and runs as late, and in as odd
// an order, as the program's own events and synchronisation allow (queue.cpp); capture
// refuses what the driver refuses (graph.cpp); kernels are host functions
// (launch.cpp).  A missing event wait, a stale pointer or a host buffer that is reused
// too early gives a wrong answer here, for some seed.
//
// One mutex guards all state.  It is free while a kernel's body or a host function runs, and one
// thread at a time is in one; all else, copies included, happens under it.  Nothing that may call
// back into our callers' code (a body, a kernel's `destroy`) happens under it.
//
// Where documents leave the driver's behaviour open, this takes the stricter reading.
#include "simulator/simulator.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "driver/error.h"
#include "simulator/state.h"

namespace tritorch::cu {
namespace simulator {
namespace {

thread_local int current = -1;  // the device of the thread's context
char contexts[kMaxDevices];     // a context is the address of one of these

// In a forked child: what the parent's threads were changing is left as it lies.
void start_afresh(void* pointer) {
  State& s = *static_cast<State*>(pointer);
  new (&s.changed) std::condition_variable;
  new (&s.functions) decltype(s.functions);
  s.executing = false;
  (void)s.world.release();
  s.world = std::make_unique<World>(s.options);
}

}  // namespace

State& state() {
  // Never destroyed: kernels may belong to an interpreter that is gone when statics are.
  static State& the_state = []() -> State& {
    auto* made = new State;
    made->world = std::make_unique<World>(made->options);
    in_forked_child(start_afresh, made);
    return *made;
  }();
  return the_state;
}

World::World(const SimulatorOptions& options) {
  memory.set_poison(options.poison);
  add_devices(options.devices);
}

void World::add_devices(int count) {
  while (devices.size() < static_cast<std::size_t>(count)) {
    const int device = static_cast<int>(devices.size());
    Device& made = devices.emplace_back();
    made.legacy = make_stream(*this, device);
    made.legacy->legacy = true;
    made.per_thread = make_stream(*this, device);
  }
}

// Queued operations and captures refer to their streams, which refer to them.
World::~World() {
  for (const auto& capture : captures) {
    for (const auto& stream : capture->streams) stream->capture = nullptr;
    capture->streams.clear();
    capture->origin = nullptr;
  }
  for (const Device& device : devices)
    for (const auto& stream : device.streams) stream->queue.clear();
}

std::uint64_t draw(std::uint64_t below) {  // splitmix64
  std::uint64_t x = (state().random += 0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return (x ^ (x >> 31)) % below;
}

// May be called without the lock: the launcher's fast path does.
int current_device() {
  require(current >= 0, CUDA_ERROR_INVALID_CONTEXT);
  return current;
}

Device& device_state(int device) {
  auto& devices = state().world->devices;
  require(device >= 0 && static_cast<std::size_t>(device) < devices.size(),
          CUDA_ERROR_INVALID_CONTEXT);
  return devices[static_cast<std::size_t>(device)];
}

std::shared_ptr<Stream> make_stream(World& world, int device) {
  auto stream = std::make_shared<Stream>();
  stream->id = world.next_stream_id++;
  stream->device = device;
  world.devices[static_cast<std::size_t>(device)].streams.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> find_stream(CUstream handle) {
  const auto special = reinterpret_cast<std::uintptr_t>(handle);
  if (special > 2) return state().world->streams.get(handle);
  const Device& device = device_state(current_device());
  return special == 2 ? device.per_thread : device.legacy;
}

void check_sticky(int device) {
  std::atomic<int>& sticky = state().sticky[static_cast<std::size_t>(device)];
  const int code = state().keep_errors ? sticky.load() : sticky.exchange(CUDA_SUCCESS);
  require(code == CUDA_SUCCESS, static_cast<CUresult>(code));
}

void check_injected(Call call) {
  std::atomic<std::uint64_t>& left = state().fail_in[static_cast<std::size_t>(call)];
  if (left == 0 || --left > 0) return;
  throw Fail{static_cast<CUresult>(state().fail_code[static_cast<std::size_t>(call)].load())};
}

void check_device(int device) {
  const auto count = state().world->devices.size();
  require(device >= 0 && static_cast<std::size_t>(device) < count, CUDA_ERROR_INVALID_DEVICE);
}

int device_of(CUcontext context) {
  for (int device = 0; device < kMaxDevices; ++device)
    if (context == reinterpret_cast<CUcontext>(&contexts[device])) return device;
  throw Fail{CUDA_ERROR_INVALID_CONTEXT};
}

// The entries.

namespace entry {

void cuInit(unsigned flags) {
  require(flags == 0);
  state().initialized = true;
}
void cuDriverGetVersion(int* version) {
  require(version != nullptr);
  *version = 12080;
}
void cuGetErrorName(CUresult code, const char** text) {
  require(text != nullptr);
  *text = error_name(code);
}
void cuGetErrorString(CUresult code, const char** text) {
  require(text != nullptr);
  *text = error_meaning(code);
}

// Devices and contexts.

void cuDeviceGet(CUdevice* device, int ordinal) {
  Lock lock(state().mutex);
  check_device(ordinal);
  require(device != nullptr);
  *device = ordinal;
}
void cuDeviceGetCount(int* count) {
  Lock lock(state().mutex);
  require(count != nullptr);
  *count = static_cast<int>(state().world->devices.size());
}
void cuDeviceGetName(char* name, int size, CUdevice device) {
  Lock lock(state().mutex);
  check_device(device);
  require(name && size > 0);
  std::snprintf(name, static_cast<std::size_t>(size), "tritorch simulated device %d", device);
}
void cuDeviceTotalMem(std::size_t* size, CUdevice device) {
  Lock lock(state().mutex);
  check_device(device);
  require(size != nullptr);
  *size = state().options.memory;
}
void cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  Lock lock(state().mutex);
  check_device(device);
  require(uuid != nullptr);
  std::memcpy(uuid->bytes, "tritorch-sim-000", sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<char>(device);
}
void cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  Lock lock(state().mutex);
  check_device(device);
  check_device(peer);
  require(can != nullptr);
  *can = device != peer;
}

void cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  Lock lock(state().mutex);
  check_device(device);
  require(value != nullptr);
  *value = [&] {
    switch (attribute) {  // an H100's
      case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return 1024;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 48 << 10;
      case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
      case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        return 65536;
      case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return 1980000;
      case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 132;
      case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        return 0;
      case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return device + 1;
      case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
        return 0;
      case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 2619000;
      case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 5120;
      case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return 50 << 20;
      case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return 2048;
      case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        return 0;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
      case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return 0;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return 228 << 10;
      case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return 65536;
      case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD:
        return 0;
      case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        return 1;
      case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return 227 << 10;
      case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return int{state().options.virtual_memory};
    }
    throw Fail{CUDA_ERROR_INVALID_VALUE};
  }();
}

void cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  Lock lock(state().mutex);
  check_device(device);
  require(context != nullptr);
  *context = reinterpret_cast<CUcontext>(&contexts[device]);
}

void cuCtxSetCurrent(CUcontext context) {
  Lock lock(state().mutex);
  if (context) device_state(device_of(context));
  current = context ? device_of(context) : -1;
}
void cuCtxGetCurrent(CUcontext* context) {
  require(context != nullptr);
  *context = current < 0 ? nullptr : reinterpret_cast<CUcontext>(&contexts[current]);
}
void cuCtxSynchronize() {
  Lock lock(state().mutex);
  const int device = current_device();
  device_state(device);
  check_device_not_capturing(device);
  check_sticky(device);
  drain_device(lock, device);
  check_sticky(device);
}
void cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  Lock lock(state().mutex);
  const int other = device_of(peer);
  device_state(other);
  require(flags == 0);
  require(other != current_device(), CUDA_ERROR_INVALID_DEVICE);
  std::vector<int>& peers = device_state(current_device()).peers;
  require(std::find(peers.begin(), peers.end(), other) == peers.end(),
          CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  peers.push_back(other);
}
void cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  current_device();
  if (least) *least = 0;
  if (greatest) *greatest = -5;
}
void cuCtxSetLimit(CUlimit, std::size_t) { current_device(); }

// Streams.

void cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
  Lock lock(state().mutex);
  const int number = current_device();
  Device& device = device_state(number);
  require(handle && flags <= CU_STREAM_NON_BLOCKING);
  check_sticky(number);
  const auto stream = make_stream(*state().world, number);
  stream->blocking = flags == CU_STREAM_DEFAULT;
  stream->priority = std::clamp(priority, -5, 0);
  *handle = state().world->streams.add(stream);
  ++device.counters.live_streams;
}

void cuStreamDestroy(CUstream handle) {
  std::shared_ptr<Graph> captured, dropped;
  Lock lock(state().mutex);
  const auto stream = state().world->streams.take(handle);
  Device& device = device_state(stream->device);
  stream->destroyed = true;
  if (const std::shared_ptr<Capture> capture = stream->capture) {
    capture->invalidated = true;
    if (capture->origin == stream) {  // or nobody could end it
      captured = end_capture(capture);
      dropped = state().world->graphs.take(captured->handle);
    }
  }
  if (!stream->running && stream->queue.empty()) std::erase(device.streams, stream);
  --device.counters.live_streams;
}

void cuStreamSynchronize(CUstream handle) {
  Lock lock(state().mutex);
  const auto stream = find_stream(handle);
  check_not_capturing(*stream);
  check_sticky(stream->device);
  const Point last = last_point(stream);
  drain(lock, {&last, 1});
  check_sticky(stream->device);
}

void cuStreamQuery(CUstream handle) {
  Lock lock(state().mutex);
  const auto stream = find_stream(handle);
  check_not_capturing(*stream);
  check_sticky(stream->device);
  const Point last = last_point(stream);
  progress(lock, last);
  check_sticky(stream->device);
  require(reached(last), CUDA_ERROR_NOT_READY);
}

void cuStreamGetPriority(CUstream handle, int* priority) {
  Lock lock(state().mutex);
  require(priority != nullptr);
  *priority = find_stream(handle)->priority;
}

// Events.  (cuEventRecord and cuStreamWaitEvent lie with the graphs, whose edges they make.)

void cuEventCreate(CUevent* handle, unsigned flags) {
  Lock lock(state().mutex);
  const int number = current_device();
  Device& device = device_state(number);
  require(handle && flags < 8);
  require(!(flags & CU_EVENT_INTERPROCESS) || (flags & CU_EVENT_DISABLE_TIMING));
  check_sticky(number);
  auto event = std::make_shared<Event>();
  event->device = number;
  event->flags = flags;
  *handle = state().world->events.add(std::move(event));
  ++device.counters.live_events;
}

void cuEventDestroy(CUevent handle) {
  std::shared_ptr<Event> doomed;  // may hold the last reference to a capture, and so to kernels
  Lock lock(state().mutex);
  current_device();
  doomed = state().world->events.take(handle);
  --device_state(doomed->device).counters.live_events;
}

void cuEventQuery(CUevent handle) {
  Lock lock(state().mutex);
  current_device();
  const auto event = state().world->events.get(handle);
  require(!event->capture, CUDA_ERROR_CAPTURED_EVENT);
  check_unsafe_in_capture();
  check_sticky(event->device);
  const auto record = event->record;
  if (!record || record->done) return;
  progress(lock, record->point);
  check_sticky(event->device);
  require(record->done, CUDA_ERROR_NOT_READY);
}

void cuEventSynchronize(CUevent handle) {
  Lock lock(state().mutex);
  current_device();
  const auto event = state().world->events.get(handle);
  require(!event->capture, CUDA_ERROR_CAPTURED_EVENT);
  check_unsafe_in_capture();
  check_sticky(event->device);
  const auto record = event->record;
  if (!record) return;
  drain(lock, {&record->point, 1});
  check_sticky(event->device);
}

// Work of a simulated device runs in its own process alone, when somebody there waits.  So what
// another process may wait for is done before that one can ask.
static constexpr char kEventMagic[] = "simulated event";

void cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event_handle) {
  Lock lock(state().mutex);
  const auto event = state().world->events.get(event_handle);
  require(handle && event->flags & CU_EVENT_INTERPROCESS, CUDA_ERROR_INVALID_VALUE);
  event->shared = true;
  *handle = {};
  std::copy_n(kEventMagic, sizeof kEventMagic, handle->reserved);
  const auto record = event->record;
  if (record && !record->done) drain(lock, {&record->point, 1});
}

void cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  {
    Lock lock(state().mutex);
    require(event && std::equal(kEventMagic, kEventMagic + sizeof kEventMagic, handle.reserved));
  }
  cuEventCreate(event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  Lock lock(state().mutex);
  state().world->events.get(*event)->shared = true;
}

void cuEventElapsedTime(float* milliseconds, CUevent from_handle, CUevent to_handle) {
  Lock lock(state().mutex);
  current_device();
  const auto from = state().world->events.get(from_handle);
  const auto to = state().world->events.get(to_handle);
  require(milliseconds != nullptr);
  require(!from->capture && !to->capture, CUDA_ERROR_CAPTURED_EVENT);
  require(from->record && to->record && from->device == to->device &&
              !((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING),
          CUDA_ERROR_INVALID_HANDLE);
  check_sticky(from->device);
  require(from->record->done && to->record->done, CUDA_ERROR_NOT_READY);
  const auto elapsed = to->record->time - from->record->time;
  *milliseconds = std::chrono::duration<float, std::milli>(elapsed).count();
}

}  // namespace entry

// The table: each entry with what is common to all around it.
namespace {

template <auto function, bool needs_init>
struct Entry;
template <class... Args, void (*function)(Args...), bool needs_init>
struct Entry<function, needs_init> {
  static CUresult call(Args... args) {
    if (needs_init && !state().initialized.load(std::memory_order_relaxed))
      return CUDA_ERROR_NOT_INITIALIZED;
    try {
      function(args...);
      return CUDA_SUCCESS;
    } catch (const Fail& fail) {
      return fail.code;
    } catch (const std::bad_alloc&) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
};

constexpr bool needs_init(std::string_view name) {
  return name != "cuInit" && name != "cuDriverGetVersion" && name != "cuGetErrorName" &&
         name != "cuGetErrorString";
}

}  // namespace

}  // namespace simulator

const Driver& simulated_driver() {
  static const Driver table = [] {
    Driver made;
    made.simulated = true;
#define TRITORCH_FILL(field, symbol, params) \
  made.field = simulator::Entry<&simulator::entry::field, simulator::needs_init(#field)>::call;
    TRITORCH_DRIVER_FUNCTIONS(TRITORCH_FILL, TRITORCH_FILL)
#undef TRITORCH_FILL
    return made;
  }();
  return table;
}

}  // namespace tritorch::cu
