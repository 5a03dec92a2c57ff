// Who writes down what this thread asks of a device, while a program is recorded:
// launch/recording.h says what for.  Whatever is asked by `DRIVE` and told by no function here is
// told to `drove`.
#pragma once

#include <cstddef>
#include <span>

#include "driver/abi.h"

namespace tritorch {

class Recorder {
 public:
  virtual void allocated(cu::CUdeviceptr address, std::size_t bytes, const void* storage) = 0;
  virtual void filled(cu::CUdeviceptr to, unsigned value, unsigned width, std::size_t count,
                      cu::CUstream stream) = 0;
  virtual void copied(cu::CUdeviceptr to, cu::CUdeviceptr from, std::size_t bytes,
                      cu::CUstream stream) = 0;
  virtual void uploaded(cu::CUdeviceptr to, std::span<const std::byte> bytes,
                        cu::CUstream stream) = 0;
  virtual void drove(const char* call) noexcept = 0;

 protected:
  ~Recorder() = default;
};

inline constinit thread_local Recorder* recorder = nullptr;

// In its scope nothing is told: what is driven there has been written down.
class Unrecorded {
 public:
  Unrecorded() : before_(recorder) { recorder = nullptr; }
  ~Unrecorded() { recorder = before_; }
  Unrecorded(const Unrecorded&) = delete;

 private:
  Recorder* before_;
};

}  // namespace tritorch
