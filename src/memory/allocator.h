// The caching allocator of one device.  (Policy in prose at the top of allocator.cpp.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/table.h"

namespace tritorch::memory {

// Parsed from TRITORCH_CUDA_ALLOC_CONF, e.g. "expandable_segments:False,max_split_size_mb:512".
struct Settings {
  bool expandable_segments = true;        // where the driver has virtual memory management
  std::size_t max_split_size = SIZE_MAX;  // blocks larger than this are never split
  double garbage_collection_threshold =
      0;  // 0: off; else the used share above which cached segments are released
  std::size_t roundup_power2_divisions = 0;  // 0: off
  bool sanitize = false;                     // poison on free, red zones, checks on free and reuse
  bool poison_on_free = false;  // fill freed blocks (always on under sanitize and in simulation)
};
// Throws std::invalid_argument with a sentence that names the unknown setting and lists the known.
Settings parse_settings(const std::string& text);

// Identifies an interned Python stack; 0 is "not recorded".
using TraceId = std::uint64_t;

// What the host language adds.  All may be null.  Never called with the allocator's lock held.
struct Hooks {
  TraceId (*capture_trace)() = nullptr;              // when history is recorded or under sanitize
  std::string (*describe_trace)(TraceId) = nullptr;  // for messages
  bool (*collect_garbage)() = nullptr;               // true if anything may have been freed
};

enum PoolKind : int { kSmallPool = 0, kLargePool = 1 };
using PoolId = std::uint64_t;  // 0 is the ordinary pool; others are private (graphs, MemPool)

struct Block;  // an allocation; the fields below are all that others may read
struct BlockView {
  cu::CUdeviceptr address;
  std::size_t size;  // what the caller may use (rounded up; under sanitize only what was asked)
  std::size_t requested;  // what the caller asked for
};

struct Stat {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
struct StatBySize {
  Stat all, small_pool, large_pool;
};
struct Statistics {
  StatBySize allocation, segment, active, inactive_split;  // counts
  StatBySize allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  Stat oversize_allocations, oversize_segments;
  std::int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0, num_device_free = 0;
  std::int64_t max_split_size = 0;
};

struct BlockSnapshot {
  cu::CUdeviceptr address;
  std::size_t size, requested;
  enum State { active_allocated, active_awaiting_free, inactive } state;
  TraceId trace;
};
struct SegmentSnapshot {
  cu::CUdeviceptr address;
  std::size_t total_size, allocated_size, active_size, requested_size;
  cu::CUstream stream;
  PoolKind kind;
  PoolId pool;
  bool expandable;
  std::vector<BlockSnapshot> blocks;
};
struct TraceEntry {
  enum Action {
    alloc,
    free_requested,
    free_completed,
    segment_alloc,
    segment_free,
    segment_map,
    segment_unmap,
    snapshot,
    oom
  } action;
  cu::CUdeviceptr address;
  std::size_t size;
  cu::CUstream stream;
  TraceId trace;
  std::int64_t time_us;
};

class DeviceAllocator {
 public:
  // Every call, and the construction and destruction, expects the device's context to be current on
  // the calling thread.
  DeviceAllocator(const cu::Driver& driver, int device, Settings settings, Hooks hooks = {});
  ~DeviceAllocator();
  DeviceAllocator(const DeviceAllocator&) = delete;

  // Zero bytes give a valid block without memory (address 0).  Throws OutOfMemoryError, CudaError.
  Block* allocate(std::size_t bytes, cu::CUstream stream);
  // Never waits for another thread.  What fails in it is thrown by the next allocation.
  void free(Block* block) noexcept;
  // The next allocation throws nothing of earlier frees: the failure that they met has passed.
  void forget_failure();
  static BlockView view(const Block* block);
  // The memory is also used on `stream`: it is reused only after that stream's work so far is done.
  void record_stream(Block* block, cu::CUstream stream);
  // The driver's allocation around an address: a plain segment, or (chunk is not 0) the pieces of
  // physical memory of so many bytes that an expandable one maps one after the other from base on.
  struct Place {
    cu::CUdeviceptr base;
    std::size_t size, chunk;
  };
  Place place(cu::CUdeviceptr address) const;  // throws std::invalid_argument
  Block* find(cu::CUdeviceptr base) const;     // the live block that starts there, or null (slow)

  // Releases all cached memory that nothing uses, also of private pools that are released.
  void empty_cache();
  void set_memory_fraction(double fraction);  // (0, 1] of the device's memory
  double memory_fraction() const;
  void set_settings(const Settings& settings);
  Settings settings() const;

  // Private pools.  While routing is on for a stream (or for every allocation of a thread), what is
  // allocated there comes from that pool.
  PoolId create_pool();  // use count 1; ids are never used twice
  void retain_pool(PoolId pool);
  void release_pool(PoolId pool);  // at zero, its segments are freed once their blocks are
  int pool_use_count(PoolId pool) const;
  // During graph capture: allocations on streams that take part in the capture that `stream` is in
  // use the pool.  Begin before the capture begins, end after it has ended: in between no event is
  // recorded or queried.
  void begin_capture_to_pool(PoolId pool, cu::CUstream stream);
  void end_capture_to_pool(PoolId pool, cu::CUstream stream);
  // use_mem_pool: allocations of the calling thread use the pool.
  void begin_thread_to_pool(PoolId pool);
  void end_thread_to_pool(PoolId pool);

  Statistics statistics();
  void reset_peak_statistics();
  void reset_accumulated_statistics();
  std::vector<SegmentSnapshot> snapshot();
  // History: how many entries to keep (0 turns recording off), and whether live blocks carry
  // traces.
  void record_history(bool traces, std::size_t max_entries);
  std::vector<TraceEntry> history();

  // Sanitizer: checks the red zones of every live block and the poison of every free one; returns
  // what it found since the last call, each report naming the allocation's (and free's) stack.
  std::vector<std::string> check_memory();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritorch::memory
