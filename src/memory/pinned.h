// Page-locked host memory, cached: a freed block is handed out again once every stream that was
// recorded on it has passed the point where it was freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "driver/table.h"

namespace tritorch::memory {

struct HostStatistics {
  std::int64_t allocated_bytes = 0, peak_allocated_bytes = 0, reserved_bytes = 0, allocations = 0,
               segments = 0, num_host_alloc = 0, num_host_free = 0;
};

class PinnedAllocator {
 public:
  explicit PinnedAllocator(const cu::Driver& driver);
  ~PinnedAllocator();
  void* allocate(std::size_t bytes);  // zero bytes give null
  void free(void* base) noexcept;
  void forget_failure();  // as DeviceAllocator's
  // `base` was handed out by allocate, or lies within such a block; false if it is not ours.
  bool record_stream(const void* base, cu::CUstream stream);
  bool owns(const void* pointer) const;
  void empty_cache();
  HostStatistics statistics();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritorch::memory
