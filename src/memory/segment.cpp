// Segments: how the allocator obtains memory from the driver, and gives it back.
#include <algorithm>

#include "driver/waiting.h"
#include "memory/allocator_impl.h"
#include "simulator/simulator.h"

namespace tritorch::memory {

void DeviceAllocator::Impl::count_reserved(BlockPool& pool, std::size_t bytes) {
  increase(stats.reserved_bytes, pool.kind, bytes);
  ++stats.num_device_alloc;
}
void DeviceAllocator::Impl::count_released(BlockPool& pool, std::size_t bytes) {
  decrease(stats.reserved_bytes, pool.kind, bytes);
  ++stats.num_device_free;
}

// ---- Plain segments

// A segment with one free block, in no list; null if there is no memory for it.
Block* DeviceAllocator::Impl::new_plain_segment(BlockPool& pool, std::size_t size) {
  const std::size_t bytes = pool.kind == kSmallPool ? kSmallSegment
                            : size < kOwnSegment    ? kLargeSegment
                                                    : round_up(size, kRoundLarge);
  if (std::size_t(stats.reserved_bytes.all.current) + bytes > limit) return nullptr;
  slab.reserve(1);
  pool.segments.push_back(std::make_unique<Segment>());
  cu::CUdeviceptr base = 0;
  cu::CUresult code;
  {
    RelaxedCapture relaxed(driver);
    code = driver.cuMemAlloc(&base, bytes);
  }
  if (code != cu::CUDA_SUCCESS) {
    pool.segments.pop_back();
    if (code == cu::CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    throw_cuda_error(code, "cuMemAlloc(&base, bytes)");
  }
  Segment& segment = *pool.segments.back();
  Block* block = slab.get();
  segment.base = block->address = base;
  segment.size = segment.mapped = block->size = bytes;
  segment.pool = &pool;
  segment.first = block;
  segment.oversize = bytes >= settings.max_split_size;
  block->segment = &segment;
  block->state = BlockState::free;
  block->free_clock = pool.clock;
  if (tells_simulator) cu::simulator::divide(base, bytes);
  count_reserved(pool, bytes);
  increase(stats.segment, pool.kind, 1);
  if (segment.oversize) increase(stats.oversize_segments, 1);
  note(TraceEntry::segment_alloc, base, bytes, pool.lane->stream, 0);
  if (settings.sanitize) poison(block);
  return block;
}

// ---- Expandable segments

void DeviceAllocator::Impl::add_hole(Block* block) noexcept {
  block->state = BlockState::unmapped;
  block->poisoned = false;
  block->list_prev = nullptr;
  block->list_next = block->segment->holes;
  if (block->list_next) block->list_next->list_prev = block;
  block->segment->holes = block;
}

void DeviceAllocator::Impl::remove_hole(Block* block) noexcept {
  if (block->list_next) block->list_next->list_prev = block->list_prev;
  (block->list_prev ? block->list_prev->list_next : block->segment->holes) = block->list_next;
  block->list_prev = block->list_next = nullptr;
}

// A free block of at least `size`, in no list, at the place where that takes the least new memory;
// null if there is no memory for it.
Block* DeviceAllocator::Impl::grow_expandable(BlockPool& pool, std::size_t size) {
  const std::size_t chunk =
      round_up(pool.kind == kSmallPool ? kSmallSegment : kLargeSegment, granularity);
  const auto free_bytes = [](const Block* block) {
    return block && block->state == BlockState::free ? block->size : 0;
  };
  Block* place = nullptr;
  std::size_t bytes = round_up(size, chunk);
  for (auto& segment : pool.segments) {
    for (Block* hole = segment->holes; hole; hole = hole->list_next) {
      const std::size_t before = free_bytes(hole->prev);
      if (before + hole->size + free_bytes(hole->next) < size) continue;
      const std::size_t missing = std::max(size, before + 1) - before;
      const std::size_t cost = std::min(round_up(missing, chunk), hole->size);
      if (!place || cost < bytes || (cost == bytes && hole->address < place->address)) {
        place = hole;
        bytes = cost;
      }
    }
  }
  if (std::size_t(stats.reserved_bytes.all.current) + bytes > limit) return nullptr;
  slab.reserve(2);
  if (!place) {
    if (size > total_memory) return nullptr;
    auto segment = std::make_unique<Segment>();
    segment->pool = &pool;
    segment->chunk = chunk;
    segment->size = round_up(total_memory + total_memory / 8, chunk);
    pool.segments.reserve(pool.segments.size() + 1);
    const cu::CUresult code = [&] {
      RelaxedCapture relaxed(driver);
      return driver.cuMemAddressReserve(&segment->base, segment->size, 0, 0, 0);
    }();
    if (code == cu::CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
    check(code, "cuMemAddressReserve(&base, size, 0, 0, 0)");
    place = segment->first = slab.get();
    place->address = segment->base;
    place->size = segment->size;
    place->segment = segment.get();
    add_hole(place);
    pool.segments.push_back(std::move(segment));
    slab.reserve(2);
  }
  Segment& segment = *place->segment;
  const cu::CUresult code = map_chunks(segment, place->address, bytes);
  if (code == cu::CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  check(code, "cuMemCreate, cuMemMap and cuMemSetAccess, to grow an expandable segment");
  if (tells_simulator) cu::simulator::divide(place->address, bytes);

  remove_hole(place);
  if (bytes < place->size) add_hole(cut(place, bytes));
  place->state = BlockState::free;
  place->free_clock = pool.clock;
  segment.mapped += bytes;
  count_reserved(pool, bytes);
  note(TraceEntry::segment_map, place->address, bytes, pool.lane->stream, 0);
  if (settings.sanitize) poison(place);
  return coalesce(place);
}

// All or nothing.
cu::CUresult DeviceAllocator::Impl::map_chunks(Segment& segment, cu::CUdeviceptr address,
                                               std::size_t bytes) {
  RelaxedCapture relaxed(driver);
  cu::CUmemAllocationProp prop{};
  prop.type = cu::CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {cu::CU_MEM_LOCATION_TYPE_DEVICE, device};
  cu::CUresult code = cu::CUDA_SUCCESS;
  std::size_t done = 0;
  for (; done < bytes && code == cu::CUDA_SUCCESS; done += segment.chunk) {
    cu::CUmemGenericAllocationHandle handle = 0;
    // So that other processes may map it; not every system can.
    if (exportable) prop.requestedHandleTypes = cu::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    code = driver.cuMemCreate(&handle, segment.chunk, &prop, 0);
    if (exportable &&
        (code == cu::CUDA_ERROR_NOT_SUPPORTED || code == cu::CUDA_ERROR_INVALID_VALUE)) {
      exportable = false;
      prop.requestedHandleTypes = cu::CU_MEM_HANDLE_TYPE_NONE;
      code = driver.cuMemCreate(&handle, segment.chunk, &prop, 0);
    }
    if (code) break;
    code = driver.cuMemMap(address + done, segment.chunk, 0, handle, 0);
    // A mapping keeps its memory alive, so that unmapping is all it takes to give it back.
    const cu::CUresult released = driver.cuMemRelease(handle);
    if (code) break;
    code = released;
  }
  if (code == cu::CUDA_SUCCESS) {
    const cu::CUmemAccessDesc access{prop.location, cu::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    code = driver.cuMemSetAccess(address, bytes, &access, 1);
  }
  if (code != cu::CUDA_SUCCESS && done) (void)driver.cuMemUnmap(address, done);
  return code;
}

// ---- Giving back

// The whole chunks that lie in a free block: what releasing it can unmap.
static std::pair<cu::CUdeviceptr, std::size_t> whole_chunks(const Block* block) {
  const Segment& segment = *block->segment;
  const std::size_t offset = block->address - segment.base;
  const std::size_t start = round_up(offset, segment.chunk);
  const std::size_t end = round_down(offset + block->size, segment.chunk);
  return {segment.base + start, end > start ? end - start : 0};
}

std::size_t DeviceAllocator::Impl::releasable(const Block* block) const {
  if (block->segment->expandable()) return whole_chunks(block).second;
  return block->prev || block->next ? 0 : block->size;
}

std::vector<DeviceAllocator::Impl::Cached> DeviceAllocator::Impl::cached_blocks() {
  std::vector<Cached> cached;
  for (auto& [key, lane] : lanes) {
    if (key.first != 0 && in_use(key.first)) continue;
    for (BlockPool& pool : lane->pools)
      pool.free.for_each([&](Block* block) {
        if (const std::size_t bytes = releasable(block)) cached.push_back({block, bytes});
      });
  }
  return cached;
}

// Memory that a stream may still be working on must not be unmapped.  True if nothing is.
bool DeviceAllocator::Impl::quiesce(const Lane& lane, bool& device_is_idle) {
  if (device_is_idle) return true;
  RelaxedCapture relaxed(driver);
  if (capturing()) {
    if (capture_of(lane.stream) != kNoCapture) return false;  // may not be waited for
    CHECK_CU(driver.cuStreamSynchronize(lane.stream));
    return true;
  }
  CHECK_CU(driver.cuCtxSynchronize());
  return device_is_idle = true;
}

// Gives back what releasable() says; the block may be gone afterwards.
std::size_t DeviceAllocator::Impl::release(Block* block) {
  Segment& segment = *block->segment;
  BlockPool& pool = *segment.pool;
  RelaxedCapture relaxed(driver);
  if (!segment.expandable()) {
    const std::size_t bytes = segment.size;
    CHECK_CU(driver.cuMemFree(segment.base));
    note(TraceEntry::segment_free, segment.base, bytes, pool.lane->stream, 0);
    pool.free.remove(block);
    slab.put(block);
    count_released(pool, bytes);
    decrease(stats.segment, pool.kind, 1);
    if (segment.oversize) decrease(stats.oversize_segments, 1);
    std::erase_if(pool.segments, [&](const auto& each) { return each.get() == &segment; });
    return bytes;
  }
  const auto [start, bytes] = whole_chunks(block);
  slab.reserve(2);
  CHECK_CU(driver.cuMemUnmap(start, bytes));
  note(TraceEntry::segment_unmap, start, bytes, pool.lane->stream, 0);
  pool.free.remove(block);
  if (const std::size_t before = start - block->address) {
    Block* rest = cut(block, before);
    pool.free.insert(block);
    block = rest;
  }
  if (block->size > bytes) pool.free.insert(cut(block, bytes));
  const auto is_hole = [](const Block* other) {
    return other && other->state == BlockState::unmapped;
  };
  if (Block* prev = block->prev; is_hole(prev)) {
    remove_hole(prev);
    block = absorb(prev, block);
  }
  if (Block* next = block->next; is_hole(next)) {
    remove_hole(next);
    block = absorb(block, next);
  }
  add_hole(block);
  segment.mapped -= bytes;
  count_released(pool, bytes);
  return bytes;
}

std::size_t DeviceAllocator::Impl::release_blocks(const std::vector<Cached>& cached,
                                                  std::size_t enough) {
  if (launches_wait()) return 0;  // they may know memory by its address alone
  std::size_t released = 0;
  bool device_is_idle = false;
  for (const Cached& each : cached) {
    if (released >= enough) break;
    if (quiesce(*each.block->segment->pool->lane, device_is_idle)) released += release(each.block);
  }
  forget_empty();
  return released;
}

std::size_t DeviceAllocator::Impl::release_all() {
  return release_blocks(cached_blocks(), SIZE_MAX);
}

// The smallest cached block that makes room for `size`, or else the fewest that do.  Nothing if
// even all together do not: then release_all() comes next anyway.
std::size_t DeviceAllocator::Impl::release_fitting(std::size_t size) {
  std::vector<Cached> cached = cached_blocks();
  std::sort(cached.begin(), cached.end(),
            [](const Cached& a, const Cached& b) { return a.bytes > b.bytes; });
  const std::size_t needed = round_up(size, kRoundLarge);
  std::size_t sum = 0;
  for (const Cached& each : cached) sum += each.bytes;
  if (sum < needed) return 0;
  const auto too_small = std::find_if(cached.begin(), cached.end(),
                                      [&](const Cached& each) { return each.bytes < needed; });
  if (too_small != cached.begin()) cached.erase(cached.begin(), too_small - 1);
  return release_blocks(cached, needed);
}

// Above the user's threshold: releases the large blocks that have been cached the longest.
void DeviceAllocator::Impl::collect_old_blocks() {
  const double allowed = double(std::min(limit, total_memory));
  const auto threshold = std::size_t(settings.garbage_collection_threshold * allowed);
  const auto reserved = std::size_t(stats.reserved_bytes.all.current);
  if (reserved <= threshold) return;
  std::vector<Cached> cached = cached_blocks();
  std::erase_if(cached,
                [](const Cached& each) { return each.block->segment->pool->kind == kSmallPool; });
  const auto age = [](const Cached& each) {
    return each.block->segment->pool->clock - each.block->free_clock;
  };
  std::stable_sort(cached.begin(), cached.end(),
                   [&](const Cached& a, const Cached& b) { return age(a) > age(b); });
  release_blocks(cached, reserved - threshold);
}

void DeviceAllocator::Impl::forget_empty() noexcept {
  for (auto& [key, lane] : lanes)
    for (BlockPool& pool : lane->pools)
      std::erase_if(pool.segments, [this](const auto& segment) {
        if (segment->mapped) return false;
        RelaxedCapture relaxed(driver);
        remember(driver.cuMemAddressFree(segment->base, segment->size),
                 "cuMemAddressFree(base, size)");
        slab.put(segment->first);
        return true;
      });
  for (auto pool = private_pools.begin(); pool != private_pools.end();) {
    const auto first = lanes.lower_bound({pool->first, nullptr});
    const auto last = lanes.lower_bound({pool->first + 1, nullptr});
    const bool empty = std::all_of(first, last, [](const auto& entry) {
      return entry.second->pools[kSmallPool].segments.empty() &&
             entry.second->pools[kLargePool].segments.empty();
    });
    if (!empty || in_use(pool->first)) {
      ++pool;
      continue;
    }
    recent_lanes.fill(nullptr);
    lanes.erase(first, last);
    pool = private_pools.erase(pool);
  }
}

}  // namespace tritorch::memory
