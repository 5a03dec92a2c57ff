// The caching allocator's policy.
//
// Sizes.  A request is rounded up to 512 bytes (or to a division of a power of two, if the user
// asked for that).  Up to 1 MiB it is small, else large; small and large blocks never share a
// segment, so that a long-lived small tensor cannot pin a large piece of memory.
//
// Lanes.  A block belongs to the stream it was allocated on, and a free block is handed out again
// on that stream at once: whatever the stream still has to do with the old contents comes before
// what it will do with the new.  So each (private pool, stream) is a lane with free blocks of its
// own. Other streams that use the block must be told of (record_stream): then a free records an
// event on each of them, and the block is free when all have completed.  While a graph is being
// captured events may be neither recorded nor queried; such frees wait for the end of the captures.
//
// Segments.  Plain ones come from cuMemAlloc: 2 MiB for small requests, 20 MiB for those below 10
// MiB, else the request rounded up to 2 MiB.  Expandable ones, the default, reserve addresses for
// more than the device's memory and map physical chunks where a block needs them: free memory at
// the end of the mapped part, or beside a hole, grows in place, so sizes that change from step to
// step do not leave unusable gaps behind.  A block is cut to size if the remainder is worth
// keeping: any remainder in an expandable segment or a small one, more than 1 MiB in a large plain
// one (and none if the block exceeds max_split_size).  A freed block merges with free neighbours.
//
// Choice.  The smallest sufficient free block; among equals the lowest address.
//
// When nothing cached fits, the ladder: collect old blocks (garbage_collection_threshold); ask the
// driver; wait for the streams that freed blocks wait for; release cached blocks that are big
// enough; release all of them; let the host language collect garbage, and do it all once more; give
// up. A private pool's memory goes to nobody else while the pool is in use: a graph will be
// replayed over it.
//
// Errors.  An exception leaves everything as it was.  Frees never throw: what fails in one is
// thrown by the next allocation.
#include "memory/allocator.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "memory/allocator_impl.h"
#include "profiling/events.h"
#include "simulator/simulator.h"

namespace tritorch::memory {

DeviceAllocator::Impl::Impl(const cu::Driver& driver_, int device_, Settings settings_,
                            Hooks hooks_)
    : driver(driver_),
      device(device_),
      hooks(hooks_),
      tells_simulator(driver_.simulated && !cu::simulator::options().discard_launches),
      events(driver_) {
  cu::CUdevice handle = 0;
  CHECK_CU(driver.cuDeviceGet(&handle, device));
  CHECK_CU(driver.cuDeviceTotalMem(&total_memory, handle));
  int has_virtual_memory = 0;
  CHECK_CU(driver.cuDeviceGetAttribute(
      &has_virtual_memory, cu::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, handle));
  if (has_virtual_memory) {
    cu::CUmemAllocationProp prop{};
    prop.type = cu::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {cu::CU_MEM_LOCATION_TYPE_DEVICE, device};
    CHECK_CU(driver.cuMemGetAllocationGranularity(&granularity, &prop,
                                                  cu::CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  }
  apply_settings(settings_);
  nothing.state = BlockState::allocated;
}

DeviceAllocator::Impl::~Impl() {
  // Live blocks go too: their owners are gone, or about to be.
  for_each_segment([this](Segment& segment) {
    if (!segment.expandable()) {
      (void)driver.cuMemFree(segment.base);
      return;
    }
    for (Block* block = segment.first; block;) {
      if (block->state == BlockState::unmapped) {
        block = block->next;
        continue;
      }
      const cu::CUdeviceptr start = block->address;
      while (block && block->state != BlockState::unmapped) block = block->next;
      const cu::CUdeviceptr end = block ? block->address : segment.base + segment.size;
      (void)driver.cuMemUnmap(start, end - start);
    }
    (void)driver.cuMemAddressFree(segment.base, segment.size);
  });
}

void DeviceAllocator::Impl::apply_settings(const Settings& wanted) {
  settings = wanted;
  expandable = wanted.expandable_segments && granularity != 0;
  poisoning = wanted.poison_on_free || wanted.sanitize ||
              (driver.simulated && cu::simulator::options().poison);
  stats.max_split_size =
      wanted.max_split_size == SIZE_MAX ? -1 : std::int64_t(wanted.max_split_size);
  tracing = traces || wanted.sanitize;
}

std::unique_lock<ForkMutex> DeviceAllocator::Impl::lock() {
  if (inside_driver_section) [[unlikely]]
    throw std::logic_error(
        "device memory was asked for, or about, by code that runs inside a driver call of an "
        "allocator (a kernel of the simulated device?)");
  auto held = lock_politely(mutex);
  if (late_frees.load(std::memory_order_relaxed)) [[unlikely]]
    process_late_frees();
  return held;
}

void DeviceAllocator::Impl::process_late_frees() noexcept {
  Block* block = late_frees.exchange(nullptr, std::memory_order_acquire);
  while (block) {
    Block* next = block->list_next;
    block->list_next = nullptr;
    free_locked(block);
    block = next;
  }
}

std::size_t DeviceAllocator::Impl::rounded(std::size_t bytes) const {
  const std::size_t divisions = settings.roundup_power2_divisions;
  if (divisions > 1 && bytes > kMinBlock * divisions) [[unlikely]]
    return round_up(round_up(bytes, std::bit_floor(bytes) / divisions), kMinBlock);
  return round_up(bytes, kMinBlock);
}

// ---- Allocation

Block* DeviceAllocator::Impl::allocate(std::size_t bytes, cu::CUstream stream) {
  if (bytes == 0) return &nothing;
  const TraceId trace = capture_trace();
  auto held = lock();
  bool collected = false;
  while (true) {
    if (failed_code) [[unlikely]]
      throw_cuda_error(std::exchange(failed_code, cu::CUDA_SUCCESS), failed_call);
    if (!events.empty() || !deferred.empty()) process_events();
    Lane& lane = lane_of(route(stream), stream);
    // More than any device has: the ladder cannot help, and rounding could overflow.
    if (bytes < (std::size_t{1} << 47)) [[likely]] {
      const std::size_t size = rounded(bytes) + (settings.sanitize ? 2 * kRedZone : 0);
      BlockPool& pool = lane.pools[size <= kSmallLimit ? kSmallPool : kLargePool];
      Block* block = take_cached(pool, size);
      if (!block) [[unlikely]]
        block = climb_ladder(pool, size);
      if (block) [[likely]]
        return hand_out(block, size, bytes, trace);
    }
    if (!collected && hooks.collect_garbage) {
      collected = true;
      held.unlock();
      const bool worth_another_try = hooks.collect_garbage();
      held = lock();
      if (worth_another_try) continue;
    }
    break;
  }
  ++stats.num_ooms;
  const OomReport report = report_oom(bytes);
  note(TraceEntry::oom, report.free_on_device, bytes, stream, trace);
  held.unlock();
  throw OutOfMemoryError(describe(report));
}

// Out of the free index, whole; null if nothing fits.
Block* DeviceAllocator::Impl::take_cached(BlockPool& pool, std::size_t size) {
  ++pool.clock;
  Block* block;
  if (settings.max_split_size == SIZE_MAX) [[likely]] {
    block = pool.free.best_fit(size, [](const Block*) { return true; });
  } else {
    // Blocks beyond max_split_size are kept whole, for requests that nearly fill them.  That is for
    // plain segments: in an expandable one any block may be cut, and must be, or it would only
    // grow.
    const std::size_t too_large =
        size < settings.max_split_size ? settings.max_split_size : size + kLargeSegment;
    block = pool.free.best_fit(size, [too_large](const Block* candidate) {
      return candidate->size < too_large || candidate->segment->expandable();
    });
  }
  if (block) pool.free.remove(block);
  return block;
}

Block* DeviceAllocator::Impl::obtain(BlockPool& pool, std::size_t size) {
  return expandable ? grow_expandable(pool, size) : new_plain_segment(pool, size);
}

Block* DeviceAllocator::Impl::climb_ladder(BlockPool& pool, std::size_t size) {
  if (settings.garbage_collection_threshold > 0) collect_old_blocks();
  if (Block* block = obtain(pool, size)) return block;
  if (!events.empty() && !capturing()) {
    wait_for_events();
    if (Block* block = take_cached(pool, size)) return block;
    if (Block* block = obtain(pool, size)) return block;
  }
  if (release_fitting(size))
    if (Block* block = obtain(pool, size)) return block;
  release_all();
  ++stats.num_alloc_retries;
  return obtain(pool, size);
}

bool DeviceAllocator::Impl::should_split(const Block* block, std::size_t size) const {
  const std::size_t remaining = block->size - size;
  if (block->segment->expandable() || block->segment->pool->kind == kSmallPool)
    return remaining >= kMinBlock;
  return size < settings.max_split_size && remaining > kSmallLimit;
}

// Ends `block` after `size` bytes; returns what follows, in the same state and in no list.
Block* DeviceAllocator::Impl::cut(Block* block, std::size_t size) {
  Block* rest = slab.get();
  rest->address = block->address + size;
  rest->size = block->size - size;
  rest->segment = block->segment;
  rest->prev = block;
  rest->next = block->next;
  rest->state = block->state;
  rest->poisoned = block->poisoned;
  rest->free_clock = block->free_clock;
  if (rest->next) rest->next->prev = rest;
  block->next = rest;
  block->size = size;
  return rest;
}

// `block` is in no list: cuts it to size and makes it an allocation.
Block* DeviceAllocator::Impl::hand_out(Block* block, std::size_t size, std::size_t bytes,
                                       TraceId trace) {
  Segment& segment = *block->segment;
  BlockPool& pool = *segment.pool;
  const PoolKind kind = pool.kind;
  const bool was_split = block->prev || block->next;
  if (should_split(block, size)) {
    Block* rest;
    try {
      rest = cut(block, size);
    } catch (...) {
      pool.free.insert(block);
      throw;
    }
    pool.free.insert(rest);
    if (!segment.expandable()) {
      if (was_split) {
        decrease(stats.inactive_split_bytes, kind, size);
      } else {
        increase(stats.inactive_split, kind, 1);
        increase(stats.inactive_split_bytes, kind, rest->size);
      }
    }
  } else if (was_split && !segment.expandable()) {
    decrease(stats.inactive_split, kind, 1);
    decrease(stats.inactive_split_bytes, kind, block->size);
  }
  block->state = BlockState::allocated;
  block->requested = bytes;
  block->trace = trace;
  increase(stats.allocation, kind, 1);
  increase(stats.allocated_bytes, kind, block->size);
  increase(stats.active, kind, 1);
  increase(stats.active_bytes, kind, block->size);
  increase(stats.requested_bytes, kind, bytes);
  if (block->size >= settings.max_split_size) increase(stats.oversize_allocations, 1);
  if (settings.sanitize && !capturing()) [[unlikely]] {
    check_poison(block);
    raise_guards(block);
  }
  block->poisoned = false;
  if (tells_simulator) [[unlikely]]
    cu::simulator::give(DeviceAllocator::view(block).address, bytes);
  note(TraceEntry::alloc, block->address, block->size, pool.lane->stream, trace);
  return block;
}

// ---- Freeing

// Never waits: see Note [Frees that must not wait].
void DeviceAllocator::Impl::free(Block* block) noexcept {
  if (!block || block == &nothing) return;
  if (!inside_driver_section) [[likely]] {
    block->free_trace = capture_trace();
    if (std::unique_lock held(mutex, std::try_to_lock); held.owns_lock()) {
      free_locked(block);
      return;
    }
  } else {
    block->free_trace = 0;
  }
  block->list_next = late_frees.load(std::memory_order_relaxed);
  while (!late_frees.compare_exchange_weak(block->list_next, block, std::memory_order_release,
                                           std::memory_order_relaxed)) {
  }
}

void DeviceAllocator::Impl::free_locked(Block* block) noexcept {
  if (block->state != BlockState::allocated) return;  // a double free: nothing better to do
  const PoolKind kind = block->segment->pool->kind;
  block->state = BlockState::awaiting;
  decrease(stats.allocation, kind, 1);
  decrease(stats.allocated_bytes, kind, block->size);
  if (block->size >= settings.max_split_size) decrease(stats.oversize_allocations, 1);
  note(TraceEntry::free_requested, block->address, block->size, block->segment->pool->lane->stream,
       block->free_trace);
  if (block->streams.empty()) [[likely]] {
    finish_free(block);
  } else if (capturing()) {
    deferred.push_back(block);
  } else {
    record_events(block);
  }
}

// No stream but the block's own can still use it.
void DeviceAllocator::Impl::finish_free(Block* block) noexcept {
  Segment& segment = *block->segment;
  BlockPool& pool = *segment.pool;
  const PoolKind kind = pool.kind;
  note(TraceEntry::free_completed, block->address, block->size, pool.lane->stream,
       block->free_trace);
  if (tells_simulator && !replays(*pool.lane)) [[unlikely]] {
    DriverSection section;
    cu::simulator::take_back(DeviceAllocator::view(block).address, block->requested,
                             pool.lane->stream);
  }
  if (block->guarded) [[unlikely]]
    lower_guards(block);
  if (poisoning) [[unlikely]]
    poison(block);
  decrease(stats.active, kind, 1);
  decrease(stats.active_bytes, kind, block->size);
  decrease(stats.requested_bytes, kind, block->requested);
  block->state = BlockState::free;
  block->requested = 0;
  block->free_clock = pool.clock;

  const auto is_free = [](const Block* other) { return other && other->state == BlockState::free; };
  const int subsumed = is_free(block->prev) + is_free(block->next);
  const std::size_t size = block->size;
  block = coalesce(block);
  pool.free.insert(block);
  if (!segment.expandable()) {  // PyTorch's exclusion: there, what is free can nearly always go
    const bool split = block->prev || block->next;
    const auto subsumed_bytes = std::int64_t(block->size - size);
    change(stats.inactive_split, kind, split - subsumed);
    change(stats.inactive_split_bytes, kind,
           (split ? std::int64_t(block->size) : 0) - subsumed_bytes);
  }
}

// Merges with free neighbours, which leave the index; the result is in no list.
Block* DeviceAllocator::Impl::coalesce(Block* block) noexcept {
  FreeIndex<Block>& index = block->segment->pool->free;
  if (Block* prev = block->prev; prev && prev->state == BlockState::free) {
    index.remove(prev);
    block = absorb(prev, block);
  }
  if (Block* next = block->next; next && next->state == BlockState::free) {
    index.remove(next);
    block = absorb(block, next);
  }
  return block;
}

// Both are of one state and in no list; `neighbour` is the next one.
Block* DeviceAllocator::Impl::absorb(Block* block, Block* neighbour) noexcept {
  block->size += neighbour->size;
  block->next = neighbour->next;
  if (block->next) block->next->prev = block;
  block->poisoned = block->poisoned && neighbour->poisoned;
  block->free_clock = std::max(block->free_clock, neighbour->free_clock);
  slab.put(neighbour);
  return block;
}

// ---- Other streams

void DeviceAllocator::Impl::remember(cu::CUresult code, const char* call) noexcept {
  if (code == cu::CUDA_SUCCESS || code == cu::CUDA_ERROR_DEINITIALIZED || failed_code) return;
  failed_code = code;
  failed_call = call;
}

// Turns the recorded streams into events.  What fails stays recorded, and is tried again later.
void DeviceAllocator::Impl::record_events(Block* block) noexcept {
  DriverSection section;
  while (!block->streams.empty()) {
    cu::CUresult code = events.record(block->streams.back(), block);
    if (code == cu::CUDA_SUCCESS) {
      ++block->pending_events;
    } else if (code == cu::CUDA_ERROR_INVALID_HANDLE || code == cu::CUDA_ERROR_INVALID_CONTEXT) {
      // The stream is gone, its work perhaps not: wait for everything.
      if ((code = driver.cuCtxSynchronize())) remember(code, "cuCtxSynchronize()");
    } else {
      remember(code, "cuEventRecord(event, stream)");
      deferred.push_back(block);
      return;
    }
    block->streams.pop_back();
  }
  if (block->pending_events == 0) finish_free(block);
}

void DeviceAllocator::Impl::event_done(Block* block) noexcept {
  if (--block->pending_events == 0 && block->streams.empty()) finish_free(block);
}

void DeviceAllocator::Impl::process_events() {
  if (capturing()) return;
  for (Block* block : std::exchange(deferred, {})) record_events(block);
  if (events.empty()) return;
  DriverSection section;
  CHECK_CU(events.poll([this](Block* block) { event_done(block); }));
}

void DeviceAllocator::Impl::wait_for_events() {
  ++stats.num_sync_all_streams;
  DriverSection section;
  CHECK_CU(events.wait([this](Block* block) { event_done(block); }));
}

// ---- The public face

static void note(const Block* block, int sign, int device) {
  profiling::note_memory(sign * static_cast<std::int64_t>(block->size), block->address, device, 0);
}

DeviceAllocator::DeviceAllocator(const cu::Driver& driver, int device, Settings settings,
                                 Hooks hooks)
    : impl_(std::make_unique<Impl>(driver, device, settings, hooks)) {}
DeviceAllocator::~DeviceAllocator() = default;

Block* DeviceAllocator::allocate(std::size_t bytes, cu::CUstream stream) {
  Block* block = impl_->allocate(bytes, stream);
  if (profiling::enabled && profiling::options.memory) note(block, 1, impl_->device);
  return block;
}
void DeviceAllocator::free(Block* block) noexcept {
  if (profiling::enabled && profiling::options.memory) note(block, -1, impl_->device);
  impl_->free(block);
}

void DeviceAllocator::forget_failure() {
  auto held = impl_->lock();
  impl_->failed_code = cu::CUDA_SUCCESS;
}

BlockView DeviceAllocator::view(const Block* block) {
  // Under the sanitizer every byte past the request is watched.
  if (block->guarded) return {block->address + kRedZone, block->requested, block->requested};
  return {block->address, block->size, block->requested};
}

void DeviceAllocator::record_stream(Block* block, cu::CUstream stream) {
  if (!block || block == &impl_->nothing) return;
  auto held = impl_->lock();
  if (stream == block->segment->pool->lane->stream) return;
  auto& streams = block->streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

Block* DeviceAllocator::find(cu::CUdeviceptr base) const {
  auto held = impl_->lock();
  Block* found = nullptr;
  impl_->for_each_segment([&](Segment& segment) {
    if (base < segment.base || base >= segment.base + segment.size) return;
    for (Block* block = segment.first; block; block = block->next)
      if (block->state == BlockState::allocated && view(block).address == base) found = block;
  });
  return found;
}

void DeviceAllocator::empty_cache() {
  auto held = impl_->lock();
  impl_->process_events();
  if (!impl_->events.empty() && !impl_->capturing()) impl_->wait_for_events();
  impl_->release_all();
}

void DeviceAllocator::set_memory_fraction(double fraction) {
  if (!(fraction > 0 && fraction <= 1))
    throw std::invalid_argument("the memory fraction must be in (0, 1], but got " +
                                std::to_string(fraction));
  auto held = impl_->lock();
  impl_->fraction = fraction;
  impl_->limit = fraction == 1 ? SIZE_MAX : std::size_t(fraction * double(impl_->total_memory));
}
double DeviceAllocator::memory_fraction() const {
  auto held = impl_->lock();
  return impl_->fraction;
}
void DeviceAllocator::set_settings(const Settings& settings) {
  auto held = impl_->lock();
  impl_->apply_settings(settings);
}
Settings DeviceAllocator::settings() const {
  auto held = impl_->lock();
  return impl_->settings;
}

Statistics DeviceAllocator::statistics() {
  auto held = impl_->lock();
  return impl_->stats;
}
void DeviceAllocator::reset_peak_statistics() {
  auto held = impl_->lock();
  for_each_stat(impl_->stats, [](const std::string&, Stat& stat) { stat.peak = stat.current; });
}
void DeviceAllocator::reset_accumulated_statistics() {
  auto held = impl_->lock();
  Statistics& stats = impl_->stats;
  for_each_stat(stats, [](const std::string&, Stat& stat) { stat.allocated = stat.freed = 0; });
  stats.num_alloc_retries = stats.num_ooms = stats.num_sync_all_streams = 0;
  stats.num_device_alloc = stats.num_device_free = 0;
}

}  // namespace tritorch::memory
