// Work of a device, as events: CUPTI says what it did, or CUDA events around each launch how long
// that took.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "driver/abi.h"
#include "profiling/activities.h"
#include "profiling/events.h"

namespace tritorch::profiling {

// Names that have their number from the start.
enum Known : std::uint32_t {
  kNothing,
  kLaunchKernel,
  kLaunchGraph,
  kWaitForDevice,
  kWaitForStream,
  kCopy,
  kUnknownKernel,
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kFill,
  kFilled,
};
constexpr const char* kKnownNames[] = {"",
                                       "cudaLaunchKernel",
                                       "cudaGraphLaunch",
                                       "cudaDeviceSynchronize",
                                       "cudaStreamSynchronize",
                                       "cudaMemcpyAsync",
                                       "triton_kernel",
                                       "Memcpy HtoD",
                                       "Memcpy DtoH",
                                       "Memcpy DtoD",
                                       "cudaMemsetAsync",
                                       "Memset"};

// Note [Nodes of graphs]: what a graph's kernels are of is known when they are captured, or when
// their nodes are recorded: names' numbers of the kernel, of the operator that launched it and of
// its module, and a stack.  A graph keeps that; a profile in which it is launched has it by the
// graph's number, and gives each kernel that CUPTI tells of to the node of its name whose turn it
// is.
struct NodeNote {
  std::uint32_t name = 0, op = 0, module = 0, stack = 0;
};
struct GraphNotes {
  std::uint32_t number = 0;  // 0: nothing was noted
  std::vector<NodeNote> nodes;
  void set(std::vector<NodeNote> noted);
};

// What a device did, in nanoseconds of the host's clock.
struct Span {
  std::uint32_t name = 0;                // of a launch of one kernel
  std::uint64_t thread = 0, launch = 0;  // the event of the launch: its thread, its place there
  Activity activity;                     // its name: of what CUPTI tells of
};

// What is launched while it is in scope: an event of the host, and of the device where the profile
// asks for it and the stream is not captured.
class LaunchScope {
 public:
  LaunchScope(Known call, std::uint32_t name, int device, cu::CUstream stream,
              const GraphNotes* notes = nullptr);
  ~LaunchScope();

 private:
  void collect(std::uint32_t name, int device, std::uint64_t place);

  Scope host_;
  cu::CUstream stream_;
  cu::CUevent end_ = nullptr;
  bool entered_ = false;
};

// The host waits for a device while it is in scope.
class WaitScope {
 public:
  explicit WaitScope(Known call) {
    if (!enabled) return;
    Scope* scope = new (&place_) Scope(Kind::wait, call);
    find_trace(scope->thread, *scope->event);
    open_ = true;
  }
  ~WaitScope() {
    if (open_) reinterpret_cast<Scope*>(&place_)->~Scope();
  }

 private:
  alignas(Scope) char place_[sizeof(Scope)];
  bool open_ = false;
};

// After the profile's end: waits for what was launched and reads it.
std::vector<Span> read_device();
// What is noted of the graphs that were launched.
std::map<std::uint32_t, std::vector<NodeNote>> read_graphs();
// What was launched into a capture, in this order: each launch with its thread.
std::vector<std::pair<std::shared_ptr<Thread>, const Event*>> captured_launches(std::uint64_t id);

}  // namespace tritorch::profiling
