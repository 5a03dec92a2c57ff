// Work of a device, as events: CUDA events around each launch tell how long it took there.
#pragma once

#include <cstdint>
#include <vector>

#include "driver/abi.h"
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
                                       "Memcpy DtoD"};

// What a device did, in nanoseconds of the host's clock.
struct Span {
  std::uint32_t name, device;
  std::uint64_t stream, thread, launch;  // the event of the launch: its thread, its place there
  std::int64_t begin, end;
};

// What is launched while it is in scope: an event of the host, and of the device where the profile
// asks for it and the stream is not captured.
class LaunchScope {
 public:
  LaunchScope(Known call, std::uint32_t name, int device, cu::CUstream stream);
  ~LaunchScope();

 private:
  Scope host_;
  int device_;
  cu::CUstream stream_;
  cu::CUevent end_ = nullptr;
};

// The host waits for a device while it is in scope.
class WaitScope {
 public:
  explicit WaitScope(Known call) {
    if (enabled) new (&place_) Scope(Kind::wait, call), open_ = true;
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

}  // namespace tritorch::profiling
