// The caching allocators: statistics, history, settings, pools.
#include <nanobind/ndarray.h>

#include <iterator>
#include <unordered_map>

#include "bindings/convert.h"
#include "memory/registry.h"
#include "memory/statistics.h"
#include "simulator/simulator.h"
#include "traces.h"

namespace tritorch {
namespace {

// Adds a counter's four numbers under its name.
auto into(nb::dict& out) {
  return [&out](const std::string& name, const memory::Stat& stat) {
    out[(name + ".current").c_str()] = stat.current;
    out[(name + ".peak").c_str()] = stat.peak;
    out[(name + ".allocated").c_str()] = stat.allocated;
    out[(name + ".freed").c_str()] = stat.freed;
  };
}

nb::dict statistics_dict(int device) {
  const memory::Statistics s = memory::device_allocator(device).statistics();
  nb::dict out;
  memory::for_each_stat(s, into(out));
  out["num_alloc_retries"] = s.num_alloc_retries;
  out["num_ooms"] = s.num_ooms;
  out["num_sync_all_streams"] = s.num_sync_all_streams;
  out["num_device_alloc"] = s.num_device_alloc;
  out["num_device_free"] = s.num_device_free;
  out["max_split_size"] = s.max_split_size;
  return out;
}

nb::list frames_list(memory::TraceId trace) {
  nb::list frames;
  for (const TraceFrame& frame : trace_frames(trace)) {
    nb::dict entry;
    entry["filename"] = frame.filename;
    entry["line"] = frame.line;
    entry["name"] = frame.function;
    frames.append(entry);
  }
  return frames;
}

nb::list segments_list(int device) {
  static const char* const kStates[] = {"active_allocated", "active_awaiting_free", "inactive"};
  nb::list out;
  for (const memory::SegmentSnapshot& segment : memory::device_allocator(device).snapshot()) {
    nb::dict entry;
    entry["device"] = device;
    entry["address"] = segment.address;
    entry["total_size"] = segment.total_size;
    entry["allocated_size"] = segment.allocated_size;
    entry["active_size"] = segment.active_size;
    entry["requested_size"] = segment.requested_size;
    entry["stream"] = handle_of(segment.stream);
    entry["segment_type"] = segment.kind == memory::kSmallPool ? "small" : "large";
    entry["segment_pool_id"] = nb::make_tuple(0, segment.pool);
    entry["is_expandable"] = segment.expandable;
    nb::list blocks;
    for (const memory::BlockSnapshot& block : segment.blocks) {
      nb::dict item;
      item["address"] = block.address;
      item["size"] = block.size;
      item["requested_size"] = block.requested;
      item["state"] = kStates[block.state];
      item["frames"] = frames_list(block.trace);
      blocks.append(item);
    }
    entry["blocks"] = blocks;
    out.append(entry);
  }
  return out;
}

nb::list history_list(int device) {
  static const char* const kActions[] = {"alloc",         "free_requested", "free_completed",
                                         "segment_alloc", "segment_free",   "segment_map",
                                         "segment_unmap", "snapshot",       "oom"};
  nb::object actions[std::size(kActions)];
  for (std::size_t i = 0; i < std::size(kActions); ++i) actions[i] = nb::str(kActions[i]);
  const nb::str action("action"), addr("addr"), device_free("device_free"), size("size"),
      stream("stream"), time_us("time_us"), frames("frames");
  // Entries of one stack share its list: a snapshot of a million is made, and written, in seconds.
  std::unordered_map<memory::TraceId, nb::list> known;
  nb::list out;
  for (const memory::TraceEntry& entry : memory::device_allocator(device).history()) {
    auto [place, is_new] = known.try_emplace(entry.trace);
    if (is_new) place->second = frames_list(entry.trace);
    nb::dict item;
    item[action] = actions[entry.action];
    item[entry.action == memory::TraceEntry::oom ? device_free : addr] = entry.address;
    item[size] = entry.size;
    item[stream] = handle_of(entry.stream);
    item[time_us] = entry.time_us;
    item[frames] = place->second;
    out.append(item);
  }
  return out;
}

memory::Settings settings_from(const std::string& text) {
  try {
    return memory::parse_settings(text);
  } catch (const std::invalid_argument& error) {
    throw std::domain_error(error.what());
  }
}

}  // namespace

void bind_memory(nb::module_& m) {
  using memory::device_allocator;
  m.def("memory_stats", &statistics_dict, "device"_a);
  m.def("memory_segments", &segments_list, "device"_a);
  m.def(
      "check_allocator_settings", [](const std::string& text) { settings_from(text); },
      "settings"_a);
  m.def("memory_history", &history_list, "device"_a);
  m.def(
      "record_memory_history",
      [](int device, bool traces, std::size_t entries) {
        device_allocator(device).record_history(traces, entries);
      },
      "device"_a, "traces"_a, "max_entries"_a);
  m.def(
      "reset_peak_memory_stats",
      [](int device) { device_allocator(device).reset_peak_statistics(); }, "device"_a);
  m.def(
      "reset_accumulated_memory_stats",
      [](int device) { device_allocator(device).reset_accumulated_statistics(); }, "device"_a);
  m.def("empty_cache", [] {
    start_what_waits();
    for (int device = 0; device < kMaxDevices; ++device)
      if (memory::existing_allocator(device)) {
        DeviceScope scope(device);
        device_allocator(device).empty_cache();
      }
    if (memory::PinnedAllocator* pinned = memory::existing_pinned_allocator())
      pinned->empty_cache();
  });
  m.def(
      "set_memory_fraction",
      [](double fraction, int device) { device_allocator(device).set_memory_fraction(fraction); },
      "fraction"_a, "device"_a);
  m.def(
      "memory_fraction", [](int device) { return device_allocator(device).memory_fraction(); },
      "device"_a);
  m.def(
      "set_allocator_settings",
      [](const std::string& text) {
        memory::Settings settings = settings_from(text);
        settings.poison_on_free |= simulation_requested() && cu::simulator::options().poison;
        memory::set_settings(settings);
      },
      "settings"_a);
  m.def("allocator_settings", [] {
    memory::Settings s = memory::current_settings();
    nb::dict out;
    out["expandable_segments"] = s.expandable_segments;
    out["max_split_size"] =
        s.max_split_size == SIZE_MAX ? -1 : static_cast<std::int64_t>(s.max_split_size);
    out["garbage_collection_threshold"] = s.garbage_collection_threshold;
    out["roundup_power2_divisions"] = s.roundup_power2_divisions;
    out["sanitize"] = s.sanitize;
    out["poison_on_free"] = s.poison_on_free;
    return out;
  });
  m.def(
      "check_memory", [](int device) { return device_allocator(device).check_memory(); },
      "device"_a);
  m.def(
      "create_pool", [](int device) { return device_allocator(device).create_pool(); }, "device"_a);
  m.def(
      "release_pool",
      [](int device, memory::PoolId pool) {
        if (driver_loaded()) device_allocator(device).release_pool(pool);
      },
      "device"_a, "pool"_a);
  m.def(
      "pool_use_count",
      [](int device, memory::PoolId pool) { return device_allocator(device).pool_use_count(pool); },
      "device"_a, "pool"_a);
  m.def(
      "begin_thread_to_pool",
      [](int device, memory::PoolId pool) { device_allocator(device).begin_thread_to_pool(pool); },
      "device"_a, "pool"_a);
  m.def(
      "end_thread_to_pool",
      [](int device, memory::PoolId pool) { device_allocator(device).end_thread_to_pool(pool); },
      "device"_a, "pool"_a);
  m.def(
      "pinned_buffer",
      [](std::size_t bytes) {
        // A writable ndarray of bytes over page-locked memory, which goes back when the array dies.
        void* data = memory::pinned_allocator().allocate(bytes);
        nb::capsule owner(data ? data : reinterpret_cast<void*>(1), [](void* base) noexcept {
          if (base != reinterpret_cast<void*>(1) && driver_loaded())
            memory::pinned_allocator().free(base);
        });
        std::size_t shape[1] = {bytes};
        return nb::ndarray<nb::numpy, std::uint8_t>(data, 1, shape, owner);
      },
      "nbytes"_a);
  m.def(
      "is_pinned",
      [](std::uint64_t address) {
        memory::PinnedAllocator* pinned = memory::existing_pinned_allocator();
        return pinned && pinned->owns(reinterpret_cast<void*>(address));
      },
      "address"_a);
  m.def("host_memory_stats", [] {
    memory::HostStatistics s = memory::pinned_allocator().statistics();
    nb::dict out;
    memory::for_each_host_stat(s, into(out));
    out["num_host_alloc"] = s.num_host_alloc;
    out["num_host_free"] = s.num_host_free;
    return out;
  });
  m.def("empty_pinned_cache", [] {
    if (memory::PinnedAllocator* pinned = memory::existing_pinned_allocator())
      pinned->empty_cache();
  });
  m.def("reset_peak_host_memory_stats", [] { memory::pinned_allocator().reset_peak_statistics(); });
  m.def("reset_accumulated_host_memory_stats",
        [] { memory::pinned_allocator().reset_accumulated_statistics(); });
}

}  // namespace tritorch
