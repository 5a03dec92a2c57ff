// Which driver is in use, its devices and their contexts, and what is current on this thread.
#pragma once

#include <atomic>
#include <string>

#include "driver/blocking.h"
#include "driver/error.h"
#include "driver/recorder.h"
#include "driver/table.h"
#include "driver/waiting.h"

namespace tritorch {

inline constexpr int kMaxDevices = 64;

namespace detail {
// Null until the driver is loaded, and again in a forked child.
extern std::atomic<const cu::Driver*> active_driver;
const cu::Driver& load_driver();
}  // namespace detail

// The driver; loads and initialises it at first use.  Throws CudaUnavailable, also in a process
// that was forked after its parent used CUDA.
inline const cu::Driver& driver() {
  const cu::Driver* table = detail::active_driver.load(std::memory_order_acquire);
  return table ? *table : detail::load_driver();
}
bool driver_loaded();         // false in a forked child of a process that used CUDA
bool simulation_requested();  // TRITORCH_SIMULATE_CUDA is set to something other than "", "0"

int device_count();  // throws CudaUnavailable
int device_count_or_zero(std::string* problem = nullptr) noexcept;

// Contexts.  The primary context of a device is retained at its first use and never released:
// the driver tears it down with the process.
cu::CUcontext context_of(int device);
void bind(int device);  // makes the device's context current on this thread
bool device_in_use(int device) noexcept;

// The device and streams that are current on this thread, as in PyTorch.
int current_device() noexcept;
void set_current_device(int device);  // validates
cu::CUstream current_stream(int device) noexcept;
void set_current_stream(int device, cu::CUstream stream);
// A stream from the pool of `device`: 32 a priority, handed out in turn and never destroyed.
cu::CUstream stream_from_pool(int device, int priority);

struct DeviceProperties {
  std::string name;
  std::string uuid;
  int major, minor, multi_processor_count, warp_size, max_threads_per_block,
      max_threads_per_multi_processor, regs_per_multiprocessor, shared_memory_per_block,
      shared_memory_per_block_optin, shared_memory_per_multiprocessor, l2_cache_size, clock_rate,
      memory_clock_rate, memory_bus_width, pci_bus_id, pci_device_id, pci_domain_id;
  bool is_integrated, is_multi_gpu_board, virtual_memory;
  std::size_t total_memory;
};
const DeviceProperties& device_properties(int device);

// Runs a driver call outside Python's interpreter lock (see Note [Blocking regions]).
template <class Call>
inline void drive(const char* text, Call&& call) {
  start_what_waits();
  if (recorder) [[unlikely]]
    recorder->drove(text);
  cu::CUresult result;
  {
    BlockingRegion region;
    result = call();
  }
  check(result, text);
}
#define DRIVE(call) ::tritorch::drive(#call, [&] { return (::tritorch::driver().call); })

// Binds a device for a scope; the thread's current device stays what it was.
class DeviceScope {
 public:
  explicit DeviceScope(int device) : previous_(current_device()) { bind(device); }
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_;
};

// In its scope others may be bound; then the one is again that was.
class Bound {
 public:
  Bound();
  ~Bound();
  Bound(const Bound&) = delete;

 private:
  int before_;
};

}  // namespace tritorch
