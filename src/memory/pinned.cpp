// The pinned allocator's policy.
//
// Up to 1 MiB a request is rounded up to a power of two, at least 512 bytes, and its block is cut
// from a segment of 2 MiB that holds blocks of that size only: registering memory costs a hundred
// microseconds, so small requests share it.  Larger ones are rounded up to 2 MiB and get a segment
// each; a cached one is reused for a request that fills at least three quarters of it.
//
// Streams that use a block are recorded; after a free it waits for an event on each.  Blocks
// without any are handed out again at once.  A stream under capture cannot be given an event: such
// a block waits for the capture's end (and who replays the graph must keep its host memory alive).
//
// Streams of several devices may use one block.  The context that is current at record_stream is
// the stream's; it is made current again to record the event.
#include "memory/pinned.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "driver/error.h"
#include "driver/fork.h"
#include "memory/event_queues.h"
#include "memory/free_index.h"
#include "memory/statistics.h"

namespace tritorch::memory {
namespace {

constexpr std::size_t kMinBlock = 512, kSmallLimit = std::size_t{1} << 20,
                      kSegment = std::size_t{2} << 20;

struct HostSegment;

struct Use {
  cu::CUstream stream;
  cu::CUcontext context;
  bool operator==(const Use&) const = default;
};

struct HostBlock {
  std::uintptr_t address = 0;
  std::size_t size = 0;
  HostBlock* list_prev = nullptr;
  HostBlock* list_next = nullptr;
  HostSegment* segment = nullptr;
  bool live = false;
  unsigned pending_events = 0;
  std::vector<Use> uses;
};

struct HostSegment {
  std::uintptr_t base = 0;
  std::size_t size = 0, block_size = 0;
  std::size_t busy = 0;  // blocks that are live or wait for events
  std::unique_ptr<HostBlock[]> blocks;
};

}  // namespace

struct PinnedAllocator::Impl {
  explicit Impl(const cu::Driver& driver_) : driver(driver_), events(driver_) {}
  ~Impl() {
    for (auto& [base, segment] : segments) (void)driver.cuMemFreeHost(as_pointer(base));
  }

  static void* as_pointer(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

  std::unique_lock<ForkMutex> lock() {
    if (inside_driver_section) [[unlikely]]
      throw std::logic_error(
          "pinned memory was asked for, or about, by code that runs inside a driver call of an "
          "allocator (a kernel of the simulated device?)");
    auto held = lock_politely(mutex);
    // See Note [Frees that must not wait].
    if (has_late_frees.load(std::memory_order_acquire)) [[unlikely]] {
      for (const void* base : take_late_frees()) free_locked(base);
    }
    return held;
  }

  std::vector<const void*> take_late_frees() {
    std::lock_guard held(late_mutex);
    has_late_frees = false;
    return std::exchange(late_frees, {});
  }

  // The block that `pointer` lies in, or null.
  HostBlock* find(const void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    HostSegment* segment = recent;
    if (!segment || address - segment->base >= segment->size) {
      auto after = segments.upper_bound(address);
      if (after == segments.begin()) return nullptr;
      segment = &std::prev(after)->second;
      if (address - segment->base >= segment->size) return nullptr;
      recent = segment;
    }
    return &segment
                ->blocks[segment->block_size == segment->size
                             ? 0
                             : (address - segment->base) >> std::countr_zero(segment->block_size)];
  }

  FreeIndex<HostBlock>& index_of(std::size_t size) {
    return size <= kSmallLimit ? small_free : large_free;
  }

  HostBlock* take_cached(std::size_t size) {
    HostBlock* block;
    if (size <= kSmallLimit) {
      block =
          small_free.best_fit(size, [size](const HostBlock* each) { return each->size == size; });
    } else {
      block = large_free.best_fit(
          size, [size](const HostBlock* each) { return each->size <= size + size / 3; });
    }
    if (!block) return nullptr;
    index_of(size).remove(block);
    ++block->segment->busy;
    return block;
  }

  // Adds a segment's free blocks to the index.  False: no memory.
  bool new_segment(std::size_t size) {
    const std::size_t bytes = std::max(size, kSegment),
                      count = size <= kSmallLimit ? bytes / size : 1;
    auto blocks = std::make_unique<HostBlock[]>(count);
    void* base = nullptr;
    cu::CUresult code;
    {
      RelaxedCapture relaxed(driver);
      code = driver.cuMemHostAlloc(&base, bytes, cu::CU_MEMHOSTALLOC_PORTABLE);
    }
    if (code == cu::CUDA_ERROR_OUT_OF_MEMORY) return false;
    check(code, "cuMemHostAlloc(&base, bytes, CU_MEMHOSTALLOC_PORTABLE)");
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    HostSegment* segment;
    try {
      segment = &segments[address];
    } catch (...) {
      (void)driver.cuMemFreeHost(base);
      throw;
    }
    *segment = {address, bytes, size, 0, std::move(blocks)};
    for (std::size_t i = count; i-- > 0;) {
      HostBlock& block = segment->blocks[i];
      block.address = address + i * size;
      block.size = size;
      block.segment = segment;
      index_of(size).insert(&block);
    }
    increase(stats.allocated_bytes, std::int64_t(bytes));
    increase(stats.allocations, 1);
    ++stats.num_host_alloc;
    return true;
  }

  HostBlock* obtain(std::size_t size) {
    if (new_segment(size)) return take_cached(size);
    {
      RelaxedCapture relaxed(driver);
      CHECK_CU(events.wait([this](HostBlock* block) { event_done(block); }));
    }
    if (HostBlock* block = take_cached(size)) return block;
    release_all();
    return new_segment(size) ? take_cached(size) : nullptr;
  }

  void* allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    auto held = lock();
    if (failed_code) [[unlikely]]
      throw_cuda_error(std::exchange(failed_code, cu::CUDA_SUCCESS), failed_call);
    if (!events.empty() || !deferred.empty()) process_events();
    HostBlock* block = nullptr;
    if (bytes < (std::size_t{1} << 47)) [[likely]] {
      const std::size_t size = bytes <= kSmallLimit ? std::bit_ceil(std::max(bytes, kMinBlock))
                                                    : (bytes + kSegment - 1) / kSegment * kSegment;
      block = take_cached(size);
      if (!block) block = obtain(size);
    }
    if (!block)
      throw OutOfMemoryError(
          "out of page-locked (pinned) host memory: the driver could not pin " +
          std::to_string(bytes) + " bytes; this process has pinned " +
          std::to_string(stats.allocated_bytes.current) + " bytes, " +
          std::to_string(stats.active_bytes.current) +
          " of them in use. Free pinned tensors, use fewer DataLoader workers or a smaller "
          "prefetch_factor, or pin_memory=False.");
    block->live = true;
    increase(stats.active_bytes, std::int64_t(block->size));
    increase(stats.active_requests, 1);
    return as_pointer(block->address);
  }

  void free(const void* base) noexcept {
    if (!base) return;
    if (!inside_driver_section) [[likely]] {
      if (std::unique_lock held(mutex, std::try_to_lock); held.owns_lock()) {
        free_locked(base);
        return;
      }
    }
    std::lock_guard held(late_mutex);
    late_frees.push_back(base);
    has_late_frees.store(true, std::memory_order_release);
  }

  void free_locked(const void* base) noexcept {
    HostBlock* block = find(base);
    if (!block || !block->live || block->address != reinterpret_cast<std::uintptr_t>(base)) return;
    block->live = false;
    decrease(stats.active_bytes, std::int64_t(block->size));
    decrease(stats.active_requests, 1);
    if (block->uses.empty()) [[likely]]
      finish_free(block);
    else
      record_events(block);
  }

  void finish_free(HostBlock* block) noexcept {
    --block->segment->busy;
    index_of(block->size).insert(block);
  }

  void record_events(HostBlock* block) noexcept {
    RelaxedCapture relaxed(driver);
    cu::CUcontext caller = nullptr;
    (void)driver.cuCtxGetCurrent(&caller);
    record_uses(block);
    (void)driver.cuCtxSetCurrent(caller);
    if (block->uses.empty() && block->pending_events == 0) finish_free(block);
  }

  void record_uses(HostBlock* block) noexcept {
    while (!block->uses.empty()) {
      const auto [stream, context] = block->uses.back();
      (void)driver.cuCtxSetCurrent(context);
      cu::CUstreamCaptureStatus status = cu::CU_STREAM_CAPTURE_STATUS_NONE;
      (void)driver.cuStreamGetCaptureInfo(stream, &status, nullptr, nullptr, nullptr, nullptr);
      cu::CUresult code = cu::CUDA_SUCCESS;
      if (status == cu::CU_STREAM_CAPTURE_STATUS_NONE) {
        code = events.record(stream, block, context);
        if (code == cu::CUDA_SUCCESS) {
          ++block->pending_events;
        } else if (code == cu::CUDA_ERROR_INVALID_HANDLE ||
                   code == cu::CUDA_ERROR_INVALID_CONTEXT) {
          // The stream is gone, its work perhaps not: wait for everything.
          code = driver.cuCtxSynchronize();
        }
      }
      if (status != cu::CU_STREAM_CAPTURE_STATUS_NONE || code != cu::CUDA_SUCCESS) {
        remember(code);
        deferred.push_back(block);
        return;
      }
      block->uses.pop_back();
    }
  }

  void remember(cu::CUresult code) noexcept {
    if (code == cu::CUDA_SUCCESS || code == cu::CUDA_ERROR_DEINITIALIZED || failed_code) return;
    failed_code = code;
    failed_call = "cuEventRecord(event, stream)";
  }

  void event_done(HostBlock* block) noexcept {
    if (--block->pending_events == 0 && block->uses.empty()) finish_free(block);
  }

  void process_events() {
    for (HostBlock* block : std::exchange(deferred, {})) record_events(block);
    if (events.empty()) return;
    RelaxedCapture relaxed(driver);
    CHECK_CU(events.poll([this](HostBlock* block) { event_done(block); }));
  }

  void release_all() {
    recent = nullptr;
    for (auto entry = segments.begin(); entry != segments.end();) {
      HostSegment& segment = entry->second;
      if (segment.busy) {
        ++entry;
        continue;
      }
      {
        RelaxedCapture relaxed(driver);
        CHECK_CU(driver.cuMemFreeHost(as_pointer(segment.base)));
      }
      for (std::size_t i = 0; i * segment.block_size < segment.size; ++i)
        index_of(segment.block_size).remove(&segment.blocks[i]);
      decrease(stats.allocated_bytes, std::int64_t(segment.size));
      decrease(stats.allocations, 1);
      ++stats.num_host_free;
      entry = segments.erase(entry);
    }
  }

  const cu::Driver& driver;
  ForkMutex mutex;
  ForkMutex late_mutex;  // never held while anything else is waited for
  std::vector<const void*> late_frees;
  std::atomic<bool> has_late_frees{false};

  // All below is guarded by the mutex.
  std::map<std::uintptr_t, HostSegment> segments;
  HostSegment* recent = nullptr;
  FreeIndex<HostBlock> small_free, large_free;
  EventQueues<HostBlock> events;
  std::vector<HostBlock*> deferred;
  cu::CUresult failed_code = cu::CUDA_SUCCESS;  // in a free; for the next allocation
  const char* failed_call = "";
  HostStatistics stats;
};

PinnedAllocator::PinnedAllocator(const cu::Driver& driver)
    : impl_(std::make_unique<Impl>(driver)) {}
PinnedAllocator::~PinnedAllocator() = default;

void* PinnedAllocator::allocate(std::size_t bytes) { return impl_->allocate(bytes); }
void PinnedAllocator::free(void* base) noexcept { impl_->free(base); }

void PinnedAllocator::forget_failure() {
  auto held = impl_->lock();
  impl_->failed_code = cu::CUDA_SUCCESS;
}

bool PinnedAllocator::record_stream(const void* base, cu::CUstream stream) {
  auto held = impl_->lock();
  HostBlock* block = impl_->find(base);
  if (!block || !block->live) return false;
  Use use{stream, nullptr};
  CHECK_CU(impl_->driver.cuCtxGetCurrent(&use.context));
  auto& uses = block->uses;
  if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
  return true;
}

bool PinnedAllocator::owns(const void* pointer) const {
  auto held = impl_->lock();
  const HostBlock* block = impl_->find(pointer);
  return block && block->live;
}

void PinnedAllocator::empty_cache() {
  auto held = impl_->lock();
  impl_->process_events();
  impl_->release_all();
}

HostStatistics PinnedAllocator::statistics() {
  auto held = impl_->lock();
  return impl_->stats;
}

void PinnedAllocator::reset_peak_statistics() {
  auto held = impl_->lock();
  for_each_host_stat(impl_->stats, [](const char*, Stat& stat) { stat.peak = stat.current; });
}

void PinnedAllocator::reset_accumulated_statistics() {
  auto held = impl_->lock();
  HostStatistics& stats = impl_->stats;
  for_each_host_stat(stats, [](const char*, Stat& stat) { stat.allocated = stat.freed = 0; });
  stats.num_host_alloc = stats.num_host_free = 0;
}

}  // namespace tritorch::memory
