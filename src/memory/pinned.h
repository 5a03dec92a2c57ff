// Page-locked host memory, cached: a freed block is handed out again once every stream that was
// recorded on it has passed the point where it was freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "driver/table.h"
#include "memory/allocator.h"

namespace tritorch::memory {

// What the driver has pinned for us (PyTorch calls it allocated), and what of it is handed out.
struct HostStatistics {
  Stat allocations, allocated_bytes, active_requests, active_bytes;
  std::int64_t num_host_alloc = 0, num_host_free = 0;
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
  void reset_peak_statistics();
  void reset_accumulated_statistics();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritorch::memory
