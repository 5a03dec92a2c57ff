// Controls of the simulated device: one process-wide set of devices that live in
// host memory, behind the same table as the real driver.  See simulator.cpp for
// how it orders work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "driver/abi.h"

namespace tritorch::cu {

struct SimulatorOptions {
  std::uint64_t seed = 0;
  int devices = 1;
  std::size_t memory = std::size_t{16} << 30;  // bytes a device
  bool poison = true;                          // fill new and freed device memory with a pattern
  // Kernel launches succeed and do nothing, as fills and copies of more than 1 MiB within a device
  // do (host-time benchmarks).
  bool discard_launches = false;
  bool sticky = true;  // a failed kernel fails every later call, as on a GPU; false: only the next
  bool virtual_memory = true;  // whether the devices claim virtual memory management
  // 0, or which next call of that kind fails (see simulator::fail); armed by reset and set_options.
  std::uint64_t fail_alloc = 0, fail_launch = 0, fail_copy = 0, fail_graph = 0;
  bool graph_nodes = true;  // whether graphs can be built node by node
};

// Parses "1" or "seed=7,memory=2G,devices=2,fail_alloc=5,..." (the value of
// TRITORCH_SIMULATE_CUDA), including failures to inject.  Throws std::invalid_argument with a
// sentence that lists the known settings.
SimulatorOptions parse_simulator_options(const std::string& text);

namespace simulator {

// What a failure can be injected into.
enum class Call { alloc, launch, copy, graph };

// Forgets every stream, event and allocation and starts afresh.  For tests: no handle from before
// may be used after.
void reset(const SimulatorOptions& options);
// Keeps memory and streams; may add devices, but takes none away.
void set_options(const SimulatorOptions& options);
SimulatorOptions options();
void set_seed(std::uint64_t seed);

// The nth next call (1 = the very next) of that kind fails with `code`; 0 takes the injection back.
void fail(Call call, std::uint64_t nth, CUresult code);

// What a kernel's body answers when something that is no fault of the device ended it: Ctrl-C, say.
// The call that ran the body returns it, and the device lives on.
inline constexpr auto kInterrupted = static_cast<CUresult>(100000);

// A kernel is a host function.  `run` is called when the queue reaches it, on whichever thread
// drains the queue, with a copy of the parameters' bytes; a non-success result but kInterrupted
// becomes the device's sticky error, as on a GPU, with `error` as its detail.
struct Launch {
  const CUlaunchConfig* config;            // attrs are copied too
  const std::vector<const void*>* params;  // one pointer a parameter, into the copied bytes
  const std::string& site;                 // what the program was doing; see set_launch_site
};
using KernelBody = CUresult (*)(void* user, const Launch& launch, std::string& error);

// `param_sizes`: bytes of each kernel parameter.  `destroy(user)` runs when the function is freed.
CUfunction make_function(std::string name, std::vector<std::uint32_t> param_sizes, KernelBody run,
                         void* user, void (*destroy)(void*));
void free_function(CUfunction function);
// Says at each launch from where it comes; its kernel gets the answer when it runs.
void set_launch_site(std::string (*site)());
// What cuModuleLoadData takes for a module with this function, so that loading is the real path.
std::string image_of(CUfunction function);

// True if [ptr, ptr + size) lies in memory that is allocated (or mapped) on some device now.
bool accessible(CUdeviceptr ptr, std::size_t size);
// An allocator divides what it got from the driver: from now on kernels may touch only what it
// gives of that memory, until `stream` has done what it has been given when that is taken back.
void divide(CUdeviceptr address, std::size_t size);
void give(CUdeviceptr address, std::size_t size);
void take_back(CUdeviceptr address, std::size_t size, CUstream stream) noexcept;
// Checks `count` addresses of `size` bytes each, those with mask[i] (null: all); returns the index
// of the first that a kernel may not touch, or -1.  Page-locked host memory may be touched.
std::int64_t first_inaccessible(const std::int64_t* addresses, const bool* mask, std::size_t count,
                                std::size_t size);
// Copies elements of 1, 2, 4 or 8 bytes from those addresses, or to them, once all are found good;
// returns what first_inaccessible does.
std::int64_t load(const std::int64_t* addresses, const bool* mask, std::size_t count,
                  std::size_t size, void* out);
std::int64_t store(const std::int64_t* addresses, const bool* mask, std::size_t count,
                   std::size_t size, const void* values);

// The detail text of the last asynchronous failure ("" if none), and a way to clear the sticky
// error so that the process lives on.
std::string last_error_detail();
void clear_error();

// Counters for tests.
struct Counters {
  std::uint64_t launches = 0, copies = 0, memsets = 0, allocations = 0, frees = 0;
  std::uint64_t graph_launches = 0, node_changes = 0;
  std::uint64_t live_allocations = 0, live_bytes = 0, live_streams = 0, live_events = 0;
};
Counters counters(int device);

}  // namespace simulator
}  // namespace tritorch::cu
