// The inside of DeviceAllocator.  allocator.cpp: the policy and the hot path; segment.cpp:
// obtaining and releasing memory; private_pools.cpp: routing; sanitizer.cpp; report.cpp: snapshots,
// messages.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "driver/error.h"
#include "driver/fork.h"
#include "memory/block.h"
#include "memory/event_queues.h"
#include "memory/statistics.h"

namespace tritorch::memory {

constexpr std::size_t kMinBlock = 512;
constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t kSmallLimit = 1 * MiB;  // the largest small request, and the largest
                                              // remainder that is not split off a plain block
constexpr std::size_t kSmallSegment = 2 * MiB;
constexpr std::size_t kLargeSegment = 20 * MiB;
constexpr std::size_t kOwnSegment = 10 * MiB;  // requests from here on get segments of their own
constexpr std::size_t kRoundLarge = 2 * MiB;
constexpr std::size_t kRedZone = 512;
constexpr unsigned char kPoison = 0xDB, kGuard = 0xFB;

inline std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
inline std::size_t round_down(std::size_t value, std::size_t multiple) {
  return value / multiple * multiple;
}

// What the message of an OutOfMemoryError says, gathered under the lock.
struct OomReport {
  std::size_t asked, total, free_on_device;
  std::size_t allocated, active, reserved, limit;
  std::size_t holes = 0, hole_bytes = 0, largest_hole = 0;
  bool plain_segments, traced;
  std::vector<std::pair<TraceId, std::pair<std::size_t, std::size_t>>> holders;  // bytes, blocks
};

// A finding of the sanitizer; it is put into words without the lock.
struct Finding {
  enum Kind { before_start, past_end, after_free } kind;
  cu::CUdeviceptr address;  // of the allocation
  std::size_t requested;
  std::int64_t offset;  // of the first damaged byte, from `address`
  TraceId trace, free_trace;
};

struct FreedRange {  // what was last in a piece of free memory
  cu::CUdeviceptr address;
  std::size_t requested;
  TraceId trace, free_trace;
};

struct DeviceAllocator::Impl {
  Impl(const cu::Driver& driver_, int device_, Settings settings_, Hooks hooks_);
  ~Impl();

  // ---- allocator.cpp
  std::unique_lock<ForkMutex> lock();
  TraceId capture_trace() const {
    return tracing.load(std::memory_order_relaxed) && hooks.capture_trace ? hooks.capture_trace()
                                                                          : 0;
  }
  std::size_t rounded(std::size_t bytes) const;
  Block* allocate(std::size_t bytes, cu::CUstream stream);
  void free(Block* block) noexcept;
  void apply_settings(const Settings& wanted);

  Block* take_cached(BlockPool& pool, std::size_t size);
  Block* obtain(BlockPool& pool, std::size_t size);  // from the driver; null: out of memory
  Block* climb_ladder(BlockPool& pool, std::size_t size);
  bool should_split(const Block* block, std::size_t size) const;
  Block* cut(Block* block, std::size_t size);
  Block* hand_out(Block* block, std::size_t size, std::size_t bytes, TraceId trace);
  void free_locked(Block* block) noexcept;
  void process_late_frees() noexcept;
  void finish_free(Block* block) noexcept;
  Block* coalesce(Block* block) noexcept;
  Block* absorb(Block* block, Block* neighbour) noexcept;

  void record_events(Block* block) noexcept;
  void event_done(Block* block) noexcept;
  void process_events();
  void wait_for_events();
  void remember(cu::CUresult code, const char* call) noexcept;
  bool capturing() const { return !captures.empty(); }

  // ---- segment.cpp
  Block* new_plain_segment(BlockPool& pool, std::size_t size);
  Block* grow_expandable(BlockPool& pool, std::size_t size);
  cu::CUresult map_chunks(Segment& segment, cu::CUdeviceptr address, std::size_t bytes);
  void add_hole(Block* block) noexcept;
  void remove_hole(Block* block) noexcept;
  struct Cached {
    Block* block;
    std::size_t bytes;  // what releasing it gives back
  };
  std::size_t releasable(const Block* block) const;
  std::vector<Cached> cached_blocks();
  bool quiesce(const Lane& lane, bool& device_is_idle);
  std::size_t release(Block* block);
  std::size_t release_blocks(const std::vector<Cached>& cached, std::size_t enough);
  std::size_t release_fitting(std::size_t size);
  std::size_t release_all();
  void collect_old_blocks();
  void forget_empty() noexcept;  // segments without memory, private pools without segments
  void count_reserved(BlockPool& pool, std::size_t bytes);
  void count_released(BlockPool& pool, std::size_t bytes);

  // ---- private_pools.cpp
  Lane& lane_of(PoolId pool, cu::CUstream stream) {
    Lane* recent = recent_lanes[recent_slot(pool, stream)];
    if (recent && recent->stream == stream && recent->pool == pool) [[likely]]
      return *recent;
    return lane_of_slowly(pool, stream);
  }
  PoolId route(cu::CUstream stream) {
    return captures.empty() && thread_routes.empty() ? 0 : route_slowly(stream);
  }
  static std::size_t recent_slot(PoolId pool, cu::CUstream stream) {
    const auto bits = reinterpret_cast<std::uintptr_t>(stream);
    return (pool ^ (bits >> 4) ^ (bits >> 9)) % 16;
  }
  Lane& lane_of_slowly(PoolId pool, cu::CUstream stream);
  PoolId route_slowly(cu::CUstream stream);
  static constexpr cu::cuuint64_t kNoCapture = 0, kCannotTell = ~cu::cuuint64_t{0};
  cu::cuuint64_t capture_of(cu::CUstream stream) const;

  // ---- sanitizer.cpp
  bool fill(cu::CUdeviceptr address, unsigned char value, std::size_t bytes,
            cu::CUstream stream) noexcept;
  std::int64_t first_difference(cu::CUdeviceptr address, unsigned char value, std::size_t bytes,
                                cu::CUstream stream) noexcept;
  void raise_guards(Block* block) noexcept;
  void check_guards(Block* block) noexcept;
  void lower_guards(Block* block) noexcept;
  void check_poison(Block* block) noexcept;
  void poison(Block* block) noexcept;
  std::string describe(const Finding& finding) const;

  // ---- report.cpp
  void note(TraceEntry::Action action, cu::CUdeviceptr address, std::size_t size,
            cu::CUstream stream, TraceId trace) noexcept {
    if (history_limit) [[unlikely]]
      note_slowly(action, address, size, stream, trace);
  }
  void note_slowly(TraceEntry::Action action, cu::CUdeviceptr address, std::size_t size,
                   cu::CUstream stream, TraceId trace) noexcept;
  OomReport report_oom(std::size_t asked);
  std::string describe(const OomReport& report) const;
  template <class Visit>
  void for_each_segment(Visit visit) {
    for (auto& [key, lane] : lanes)
      for (BlockPool& pool : lane->pools)
        for (auto& segment : pool.segments) visit(*segment);
  }

  const cu::Driver& driver;
  const int device;
  const Hooks hooks;
  const bool tells_simulator;  // whose blocks are whose; kernels that are discarded touch none
  std::size_t total_memory = 0;
  std::size_t granularity = 0;  // of physical memory; 0: no virtual memory management

  ForkMutex mutex;
  std::atomic<bool> tracing{false};
  std::atomic<Block*> late_frees{nullptr};  // see Note [Frees that must not wait]

  // All below is guarded by the mutex.
  Settings settings;
  bool expandable = false, poisoning = false;
  bool exportable = true;  // physical memory, to other processes; false after a refusal
  double fraction = 1;
  std::size_t limit = SIZE_MAX;  // bytes this process may reserve

  BlockSlab slab;
  Block nothing;  // what an allocation of zero bytes is
  std::map<std::pair<PoolId, cu::CUstream>, std::unique_ptr<Lane>> lanes;
  std::array<Lane*, 16> recent_lanes{};  // a direct-mapped cache of `lanes`

  struct PrivatePool {
    int uses = 1;
    int routes = 0;         // begin_..._to_pool without the end
    bool captured = false;  // a graph may replay over its memory, free or not
  };
  struct Capture {
    PoolId pool;
    cu::CUstream stream;
  };
  struct ThreadRoute {
    std::thread::id thread;
    PoolId pool;
  };
  std::map<PoolId, PrivatePool> private_pools;
  PoolId last_pool = 0;
  std::vector<Capture> captures;
  std::vector<ThreadRoute> thread_routes;
  PrivatePool& private_pool(PoolId pool, const char* who);
  bool in_use(PoolId pool) const {
    auto found = private_pools.find(pool);
    return found != private_pools.end() && (found->second.uses > 0 || found->second.routes > 0);
  }

  // A graph may be replayed over memory of such a lane, whether it is free or not.
  bool replays(const Lane& lane) const {
    auto found = private_pools.find(lane.pool);
    return lane.pool != 0 && found != private_pools.end() && found->second.captured;
  }

  EventQueues<Block> events;
  std::vector<Block*> deferred;  // freed during a capture: their events are still to be recorded
  cu::CUresult failed_code = cu::CUDA_SUCCESS;  // in a free; for the next allocation
  const char* failed_call = "";

  Statistics stats;
  std::vector<TraceEntry> ring;
  std::size_t history_limit = 0, ring_next = 0;
  bool traces = false;
  std::vector<Finding> findings;
  std::deque<FreedRange> freed_ranges;
};

}  // namespace tritorch::memory
