// What the allocator tells: history, snapshots, and the message when memory is exhausted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <unordered_map>

#include "memory/allocator_impl.h"

namespace tritorch::memory {

// ---- History

void DeviceAllocator::Impl::note_slowly(TraceEntry::Action action, cu::CUdeviceptr address,
                                        std::size_t size, cu::CUstream stream,
                                        TraceId trace) noexcept {
  using namespace std::chrono;
  const auto now = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  const TraceEntry entry{action, address, size, stream, traces ? trace : 0, now};
  if (ring.size() < history_limit) {
    ring.push_back(entry);
  } else {
    ring[ring_next] = entry;
    ring_next = (ring_next + 1) % history_limit;
  }
}

void DeviceAllocator::record_history(bool traces, std::size_t max_entries) {
  auto held = impl_->lock();
  impl_->ring.clear();
  impl_->ring.shrink_to_fit();
  impl_->ring_next = 0;
  impl_->history_limit = max_entries;
  impl_->traces = traces;
  impl_->tracing = traces || impl_->settings.sanitize;
}

std::vector<TraceEntry> DeviceAllocator::history() {
  auto held = impl_->lock();
  std::vector<TraceEntry> entries = impl_->ring;
  std::rotate(entries.begin(), entries.begin() + std::ptrdiff_t(impl_->ring_next), entries.end());
  return entries;
}

// ---- Snapshot

std::vector<SegmentSnapshot> DeviceAllocator::snapshot() {
  auto held = impl_->lock();
  std::vector<SegmentSnapshot> result;
  impl_->for_each_segment([&](Segment& segment) {
    // In an expandable segment each run of mapped blocks is shown as one.
    bool open = false;
    for (const Block* block = segment.first; block; block = block->next) {
      if (block->state == BlockState::unmapped) {
        open = false;
        continue;
      }
      if (!open) {
        const Lane& lane = *segment.pool->lane;
        result.push_back({block->address,
                          0,
                          0,
                          0,
                          0,
                          lane.stream,
                          segment.pool->kind,
                          lane.pool,
                          segment.expandable(),
                          {}});
        open = true;
      }
      SegmentSnapshot& shown = result.back();
      const bool allocated = block->state == BlockState::allocated;
      const bool active = allocated || block->state == BlockState::awaiting;
      shown.total_size += block->size;
      shown.allocated_size += allocated ? block->size : 0;
      shown.active_size += active ? block->size : 0;
      shown.requested_size += active ? block->requested : 0;
      shown.blocks.push_back({block->address, block->size, active ? block->requested : 0,
                              allocated ? BlockSnapshot::active_allocated
                              : active  ? BlockSnapshot::active_awaiting_free
                                        : BlockSnapshot::inactive,
                              active ? block->trace : 0});
    }
  });
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  impl_->note(TraceEntry::snapshot, 0, std::size_t(impl_->stats.reserved_bytes.all.current),
              nullptr, 0);
  return result;
}

// ---- Out of memory

OomReport DeviceAllocator::Impl::report_oom(std::size_t asked) {
  OomReport report{};
  report.asked = asked;
  report.total = total_memory;
  {
    DriverSection section;
    std::size_t total = 0;
    (void)driver.cuMemGetInfo(&report.free_on_device, &total);
  }
  report.allocated = std::size_t(stats.allocated_bytes.all.current);
  report.active = std::size_t(stats.active_bytes.all.current);
  report.reserved = std::size_t(stats.reserved_bytes.all.current);
  report.limit = limit;
  report.traced = traces;
  std::unordered_map<TraceId, std::pair<std::size_t, std::size_t>> held;
  for_each_segment([&](Segment& segment) {
    if (!segment.expandable()) report.plain_segments = true;
    for (const Block* block = segment.first; block; block = block->next) {
      if (block->state == BlockState::free) {
        ++report.holes;
        report.hole_bytes += block->size;
        report.largest_hole = std::max(report.largest_hole, block->size);
      } else if (block->state != BlockState::unmapped && block->trace) {
        auto& [bytes, blocks] = held[block->trace];
        bytes += block->size;
        ++blocks;
      }
    }
  });
  report.holders.assign(held.begin(), held.end());
  std::sort(report.holders.begin(), report.holders.end(), [](const auto& a, const auto& b) {
    return std::tie(b.second.first, a.first) < std::tie(a.second.first, b.first);
  });
  if (report.holders.size() > 5) report.holders.resize(5);
  return report;
}

static std::string readable(std::size_t bytes) {
  static constexpr const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = double(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, "%.2f %s", value, units[unit]);
  return text;
}

std::string DeviceAllocator::Impl::describe(const OomReport& report) const {
  std::string text = "CUDA out of memory. Tried to allocate " + readable(report.asked) +
                     " on GPU " + std::to_string(device) + ", which has " + readable(report.total) +
                     ", of which " + readable(report.free_on_device) +
                     " is free. This process has allocated " + readable(report.allocated) +
                     " by tritorch";
  if (report.active > report.allocated)
    text += " (" + readable(report.active - report.allocated) +
            " more is freed but still in use by other streams)";
  text += "; " + readable(report.hole_bytes) + " is reserved but unallocated";
  if (report.holes)
    text += ", in " + std::to_string(report.holes) + (report.holes == 1 ? " hole" : " holes") +
            ", the largest of " + readable(report.largest_hole);
  text += ".";
  if (report.limit != SIZE_MAX)
    text += " It may reserve " + readable(report.limit) +
            " (tritorch.cuda.memory.set_per_process_memory_fraction) and has reserved " +
            readable(report.reserved) + ".";
  if (report.asked > report.total) {
    text += " No state of this device could serve the request: check the size asked for.";
  } else if (report.hole_bytes >= report.asked && report.plain_segments) {
    text +=
        " What is unallocated would be enough, but it is scattered: try "
        "TRITORCH_CUDA_ALLOC_CONF=expandable_segments:True.";
  } else if (report.hole_bytes >= report.asked) {
    text +=
        " What is unallocated would be enough, but it belongs to other streams or graphs, or "
        "is scattered: free graphs that are no longer needed, or allocate on fewer streams.";
  } else {
    text +=
        " Try a smaller batch, activation checkpointing, or freeing tensors that are no longer "
        "needed.";
  }
  if (!report.traced) {
    text +=
        " To see who holds the memory, call tritorch.cuda.memory._record_memory_history() at "
        "the start of the program.";
    return text;
  }
  text += "\nWho holds the most:";
  for (const auto& [trace, held] : report.holders) {
    text += "\n" + readable(held.first) + " in " + std::to_string(held.second) +
            (held.second == 1 ? " block" : " blocks") + ", allocated at:\n";
    text += hooks.describe_trace ? hooks.describe_trace(trace) : "stack " + std::to_string(trace);
  }
  if (report.holders.empty()) text += " nothing that was allocated since recording began.";
  return text;
}

DeviceAllocator::Place DeviceAllocator::place(cu::CUdeviceptr address) const {
  auto held = impl_->lock();
  Place found{0, 0, 0};
  impl_->for_each_segment([&](const Segment& segment) {
    if (address - segment.base < segment.size) found = {segment.base, segment.size, segment.chunk};
  });
  if (!found.base) throw std::invalid_argument("the memory is not of the caching allocator");
  return found;
}

}  // namespace tritorch::memory
