// Poison on free, and the sanitizer: red zones around each allocation, verified when it is freed
// and by check_memory(); the poison of free memory, verified before it is handed out again.
// Everything is ordered by the block's own stream, so it sees exactly what a kernel there would.
#include <algorithm>
#include <cstdio>

#include "memory/allocator_impl.h"

namespace tritorch::memory {

bool DeviceAllocator::Impl::fill(cu::CUdeviceptr address, unsigned char value, std::size_t bytes,
                                 cu::CUstream stream) noexcept {
  DriverSection section;
  const cu::CUresult code = driver.cuMemsetD8Async(address, value, bytes, stream);
  // A stream that its owner has destroyed cannot fill anything; that is no error of the free.
  if (code != cu::CUDA_ERROR_INVALID_HANDLE && code != cu::CUDA_ERROR_INVALID_CONTEXT)
    remember(code, "cuMemsetD8Async(address, value, bytes, stream)");
  return code == cu::CUDA_SUCCESS;
}

// The offset of the first byte that is not `value`, or -1.
std::int64_t DeviceAllocator::Impl::first_difference(cu::CUdeviceptr address, unsigned char value,
                                                     std::size_t bytes,
                                                     cu::CUstream stream) noexcept {
  DriverSection section;
  std::vector<unsigned char> copy(std::min(bytes, MiB));
  for (std::size_t done = 0; done < bytes; done += copy.size()) {
    const std::size_t part = std::min(copy.size(), bytes - done);
    cu::CUresult code = driver.cuMemcpyDtoHAsync(copy.data(), address + done, part, stream);
    if (code == cu::CUDA_SUCCESS) code = driver.cuStreamSynchronize(stream);
    if (code != cu::CUDA_SUCCESS) {
      if (code != cu::CUDA_ERROR_INVALID_HANDLE && code != cu::CUDA_ERROR_INVALID_CONTEXT)
        remember(code, "the sanitizer's look at device memory");
      return -1;
    }
    for (std::size_t i = 0; i < part; ++i)
      if (copy[i] != value) return std::int64_t(done + i);
  }
  return -1;
}

// Called at the end of a free, when no other stream uses the block any more: what was recorded may
// be read to the end, what was not is overwritten at once.
void DeviceAllocator::Impl::poison(Block* block) noexcept {
  const Lane& lane = *block->segment->pool->lane;
  // A capture would make the memset part of the graph; and a graph may use free memory of its pool.
  if (capturing() || replays(lane)) return;
  block->poisoned = fill(block->address, kPoison, block->size, lane.stream);
}

static std::size_t tail_offset(const Block* block) { return kRedZone + block->requested; }
static std::size_t tail_bytes(const Block* block) {
  return round_up(block->requested, kMinBlock) - block->requested + kRedZone;
}

void DeviceAllocator::Impl::raise_guards(Block* block) noexcept {
  const cu::CUstream stream = block->segment->pool->lane->stream;
  block->guarded = fill(block->address, kGuard, kRedZone, stream) &&
                   fill(block->address + tail_offset(block), kGuard, tail_bytes(block), stream);
}

void DeviceAllocator::Impl::check_guards(Block* block) noexcept {
  if (capturing()) return;
  const cu::CUstream stream = block->segment->pool->lane->stream;
  const cu::CUdeviceptr address = block->address + kRedZone;
  std::int64_t at = first_difference(block->address, kGuard, kRedZone, stream);
  if (at >= 0)
    findings.push_back({Finding::before_start, address, block->requested,
                        at - std::int64_t(kRedZone), block->trace, block->free_trace});
  at = first_difference(block->address + tail_offset(block), kGuard, tail_bytes(block), stream);
  if (at >= 0)
    findings.push_back({Finding::past_end, address, block->requested,
                        std::int64_t(block->requested) + at, block->trace, block->free_trace});
}

void DeviceAllocator::Impl::lower_guards(Block* block) noexcept {
  check_guards(block);
  block->guarded = false;
  if (freed_ranges.size() == 4096) freed_ranges.pop_front();
  freed_ranges.push_back(
      {block->address + kRedZone, block->requested, block->trace, block->free_trace});
}

void DeviceAllocator::Impl::check_poison(Block* block) noexcept {
  if (!block->poisoned || capturing()) return;
  const std::int64_t at =
      first_difference(block->address, kPoison, block->size, block->segment->pool->lane->stream);
  if (at < 0) return;
  const cu::CUdeviceptr damaged = block->address + cu::CUdeviceptr(at);
  for (auto range = freed_ranges.rbegin(); range != freed_ranges.rend(); ++range)
    if (damaged + kRedZone >= range->address &&
        damaged < range->address + range->requested + kRedZone) {
      findings.push_back({Finding::after_free, range->address, range->requested,
                          std::int64_t(damaged - range->address), range->trace, range->free_trace});
      return;
    }
  findings.push_back({Finding::after_free, damaged, 0, 0, 0, 0});
}

std::string DeviceAllocator::Impl::describe(const Finding& finding) const {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", finding.address);
  const std::string what = "a " + std::to_string(finding.requested) + "-byte allocation at " +
                           address + ": the first damaged byte is at offset " +
                           std::to_string(finding.offset);
  std::string text;
  switch (finding.kind) {
    case Finding::before_start:
      text = "write before the start of " + what;
      break;
    case Finding::past_end:
      text = "write past the end of " + what;
      break;
    case Finding::after_free:
      text = finding.requested ? "write to freed memory, to " + what
                               : std::string("write to freed memory at ") + address;
      break;
  }
  const auto stack = [this](TraceId trace) {
    return trace && hooks.describe_trace ? hooks.describe_trace(trace)
                                         : std::string("(no stack was recorded)");
  };
  text += "\nallocated at:\n" + stack(finding.trace);
  if (finding.free_trace || finding.kind == Finding::after_free)
    text += "\nfreed at:\n" + stack(finding.free_trace);
  return text;
}

std::vector<std::string> DeviceAllocator::check_memory() {
  std::vector<Finding> findings;
  {
    auto held = impl_->lock();
    if (!impl_->capturing()) {
      impl_->for_each_segment([this](Segment& segment) {
        for (Block* block = segment.first; block; block = block->next) {
          const std::size_t before = impl_->findings.size();
          if (block->guarded) {
            impl_->check_guards(block);
            if (impl_->findings.size() != before) impl_->raise_guards(block);  // report it once
          } else if (block->state == BlockState::free && block->poisoned) {
            impl_->check_poison(block);
            if (impl_->findings.size() != before) impl_->poison(block);
          }
        }
      });
    }
    findings.swap(impl_->findings);
  }
  std::vector<std::string> reports;
  for (const Finding& finding : findings) reports.push_back(impl_->describe(finding));
  return reports;
}

}  // namespace tritorch::memory
