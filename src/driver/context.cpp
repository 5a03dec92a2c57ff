#include "driver/context.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "driver/fork.h"
#include "simulator/simulator.h"

namespace tritorch {
namespace detail {
std::atomic<const cu::Driver*> active_driver{nullptr};
}  // namespace detail

namespace {

struct Device {
  std::once_flag once;
  std::atomic<cu::CUcontext> context{nullptr};
  std::once_flag properties_once;
  DeviceProperties properties;
  ForkMutex pool_mutex;
  std::array<std::vector<cu::CUstream>, 8> pool;  // by -priority
  std::array<unsigned, 8> next{};
};

ForkMutex load_mutex;
std::atomic<bool> initialising{false};  // or initialised: cuInit has been called
std::atomic<bool> forked{false};
cu::Driver real_table;
std::array<Device, kMaxDevices> devices;
std::atomic<int> known_device_count{-1};

thread_local int this_device = 0;
thread_local int bound_device = -1;
thread_local std::array<cu::CUstream, kMaxDevices> this_stream{};

constexpr const char* kForked =
    "CUDA was used in the parent before this process was forked, and a forked child cannot use it: "
    "start workers with the 'spawn' or 'forkserver' method (multiprocessing.set_start_method), or "
    "use CUDA only after the fork";

void after_fork_in_child(void*) {
  if (!initialising) return;
  forked = true;
  detail::active_driver = nullptr;
}
const bool watching_forks = (in_forked_child(after_fork_in_child, &forked), true);

void validate(int device) {
  int count = device_count();
  if (device < 0 || device >= count)
    throw CudaError(cu::CUDA_ERROR_INVALID_DEVICE, "set device " + std::to_string(device),
                    "there " +
                        (count == 1 ? std::string("is 1 device")
                                    : "are " + std::to_string(count) + " devices") +
                        ", numbered from 0");
}

Device& device_at(int device) {
  validate(device);
  return devices[device];
}

}  // namespace

bool simulation_requested() {
  const char* value = std::getenv("TRITORCH_SIMULATE_CUDA");
  return value && *value && std::strcmp(value, "0") != 0;
}

const cu::Driver& detail::load_driver() {
  if (forked) throw CudaUnavailable(kForked);
  BlockingRegion waiting;
  std::lock_guard lock(load_mutex);
  if (const cu::Driver* table = active_driver.load()) return *table;
  const cu::Driver* table;
  if (simulation_requested()) {
    cu::simulator::set_options(cu::parse_simulator_options(std::getenv("TRITORCH_SIMULATE_CUDA")));
    table = &cu::simulated_driver();
  } else {
    std::string problem;
    if (!cu::load_real_driver(real_table, problem)) throw CudaUnavailable(problem);
    table = &real_table;
  }
  initialising = true;
  cu::CUresult result = table->cuInit(0);
  if (result != cu::CUDA_SUCCESS) initialising = false;
  if (result == cu::CUDA_ERROR_NO_DEVICE)
    throw CudaUnavailable(
        "The NVIDIA driver found no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES, or set "
        "TRITORCH_SIMULATE_CUDA=1 to try tritorch without one");
  if (result != cu::CUDA_SUCCESS)
    throw CudaUnavailable(std::string("The NVIDIA driver could not be initialised: ") +
                          error_name(result) + ": " + error_meaning(result));
  active_driver = table;
  return *table;
}

bool driver_loaded() { return detail::active_driver.load() != nullptr; }

int device_count() {
  int count = known_device_count.load();
  if (count >= 0 && driver_loaded()) return count;
  check(driver().cuDeviceGetCount(&count), "cuDeviceGetCount(&count)");
  if (count > kMaxDevices) count = kMaxDevices;
  known_device_count = count;
  return count;
}

int device_count_or_zero(std::string* problem) noexcept {
  try {
    return device_count();
  } catch (const std::exception& error) {
    if (problem) *problem = error.what();
    return 0;
  }
}

cu::CUcontext context_of(int device) {
  Device& entry = device_at(device);
  if (cu::CUcontext context = entry.context.load()) return context;
  BlockingRegion waiting;  // another thread may be in there
  std::call_once(entry.once, [&] {
    cu::CUdevice handle;
    cu::CUcontext context;
    DRIVE(cuDeviceGet(&handle, device));
    DRIVE(cuDevicePrimaryCtxRetain(&context, handle));
    entry.context = context;
  });
  return entry.context.load();
}

bool device_in_use(int device) noexcept {
  return device >= 0 && device < kMaxDevices && driver_loaded() && devices[device].context.load();
}

void bind(int device) {
  if (bound_device == device && driver_loaded()) return;
  driver();  // a forked child stops here
  CHECK_CU(driver().cuCtxSetCurrent(context_of(device)));
  bound_device = device;
}

DeviceScope::~DeviceScope() {
  if (bound_device == previous_ || !device_in_use(previous_)) return;
  if (driver().cuCtxSetCurrent(devices[previous_].context.load()) == cu::CUDA_SUCCESS)
    bound_device = previous_;
}

Bound::Bound() : before_(bound_device) {}

Bound::~Bound() {
  if (bound_device == before_ || before_ < 0 || !device_in_use(before_)) return;
  if (driver().cuCtxSetCurrent(devices[before_].context.load()) == cu::CUDA_SUCCESS)
    bound_device = before_;
}

int current_device() noexcept { return this_device; }

void set_current_device(int device) {
  validate(device);
  this_device = device;
}

cu::CUstream current_stream(int device) noexcept { return this_stream[device]; }

void set_current_stream(int device, cu::CUstream stream) {
  validate(device);
  this_stream[device] = stream;
}

cu::CUstream stream_from_pool(int device, int priority) {
  constexpr unsigned kPoolSize = 32;
  Device& entry = device_at(device);
  DeviceScope scope(device);
  int least = 0, greatest = 0;
  DRIVE(cuCtxGetStreamPriorityRange(&least, &greatest));
  if (priority > least) priority = least;
  if (priority < greatest) priority = greatest;
  unsigned level = static_cast<unsigned>(-priority) % entry.pool.size();
  std::unique_lock lock = lock_politely(entry.pool_mutex);
  std::vector<cu::CUstream>& pool = entry.pool[level];
  unsigned turn = entry.next[level]++ % kPoolSize;
  if (turn >= pool.size()) {
    cu::CUstream stream;
    DRIVE(cuStreamCreateWithPriority(&stream, cu::CU_STREAM_NON_BLOCKING, priority));
    pool.push_back(stream);
  }
  return pool[turn];
}

const DeviceProperties& device_properties(int device) {
  Device& entry = device_at(device);
  BlockingRegion waiting;
  std::call_once(entry.properties_once, [&] {
    DeviceProperties& p = entry.properties;
    cu::CUdevice handle;
    DRIVE(cuDeviceGet(&handle, device));
    char name[256] = {};
    DRIVE(cuDeviceGetName(name, sizeof name - 1, handle));
    p.name = name;
    cu::CUuuid uuid;
    DRIVE(cuDeviceGetUuid(&uuid, handle));
    for (int i = 0; i < 16; ++i) {
      char hex[4];
      std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
      p.uuid += hex;
      if (i == 3 || i == 5 || i == 7 || i == 9) p.uuid += '-';
    }
    DRIVE(cuDeviceTotalMem(&p.total_memory, handle));
    auto read = [&](cu::CUdevice_attribute attribute) {
      int value = 0;
      DRIVE(cuDeviceGetAttribute(&value, attribute, handle));
      return value;
    };
    p.major = read(cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    p.minor = read(cu::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    p.multi_processor_count = read(cu::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    p.warp_size = read(cu::CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    p.max_threads_per_block = read(cu::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    p.max_threads_per_multi_processor =
        read(cu::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    p.regs_per_multiprocessor = read(cu::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    p.shared_memory_per_block = read(cu::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    p.shared_memory_per_block_optin =
        read(cu::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    p.shared_memory_per_multiprocessor =
        read(cu::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    p.l2_cache_size = read(cu::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    p.clock_rate = read(cu::CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    p.memory_clock_rate = read(cu::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    p.memory_bus_width = read(cu::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    p.pci_bus_id = read(cu::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    p.pci_device_id = read(cu::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    p.pci_domain_id = read(cu::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
    p.is_integrated = read(cu::CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
    p.is_multi_gpu_board = read(cu::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD) != 0;
    p.virtual_memory = read(cu::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
  });
  return entry.properties;
}

}  // namespace tritorch
