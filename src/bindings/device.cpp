// Devices, their streams and events, and graphs.
#include "profiling/device.h"

#include <cstring>

#include "bindings/convert.h"
#include "driver/event.h"
#include "memory/graph.h"

namespace tritorch {

void bind_device(nb::module_& m) {
  m.def("simulation_requested", &simulation_requested);
  m.def("driver_loaded", &driver_loaded);
  m.def("load_driver", [] { driver(); });
  m.def("is_simulated",
        [] { return driver_loaded() ? driver().simulated : simulation_requested(); });
  m.def("driver_version", [] {
    int version = 0;
    DRIVE(cuDriverGetVersion(&version));
    return version;
  });
  m.def("device_count", [] { return device_count_or_zero(); });
  m.def("why_unavailable", [] {
    std::string problem;
    int count = device_count_or_zero(&problem);
    return count > 0 ? std::string() : problem;
  });
  m.def("current_device", [] { return current_device(); });
  m.def("set_device", &set_current_device, "device"_a);
  m.def(
      "exchange_device",
      [](int device) {
        const int before = current_device();
        set_current_device(device);
        return before;
      },
      "device"_a);
  m.def("device_in_use", &device_in_use, "device"_a);
  m.def(
      "synchronize",
      [](int device) {
        DeviceScope scope(device);
        profiling::WaitScope waits(profiling::kWaitForDevice);
        DRIVE(cuCtxSynchronize());
      },
      "device"_a);
  m.def(
      "device_properties",
      [](int device) {
        const DeviceProperties& p = device_properties(device);
        nb::dict out;
        out["name"] = p.name;
        out["uuid"] = p.uuid;
        out["major"] = p.major;
        out["minor"] = p.minor;
        out["total_memory"] = p.total_memory;
        out["multi_processor_count"] = p.multi_processor_count;
        out["warp_size"] = p.warp_size;
        out["max_threads_per_block"] = p.max_threads_per_block;
        out["max_threads_per_multi_processor"] = p.max_threads_per_multi_processor;
        out["regs_per_multiprocessor"] = p.regs_per_multiprocessor;
        out["shared_memory_per_block"] = p.shared_memory_per_block;
        out["shared_memory_per_block_optin"] = p.shared_memory_per_block_optin;
        out["shared_memory_per_multiprocessor"] = p.shared_memory_per_multiprocessor;
        out["L2_cache_size"] = p.l2_cache_size;
        out["clock_rate"] = p.clock_rate;
        out["memory_clock_rate"] = p.memory_clock_rate;
        out["memory_bus_width"] = p.memory_bus_width;
        out["pci_bus_id"] = p.pci_bus_id;
        out["pci_device_id"] = p.pci_device_id;
        out["pci_domain_id"] = p.pci_domain_id;
        out["is_integrated"] = p.is_integrated;
        out["is_multi_gpu_board"] = p.is_multi_gpu_board;
        out["virtual_memory"] = p.virtual_memory;
        return out;
      },
      "device"_a);
  m.def(
      "can_access_peer",
      [](int device, int peer) {
        int yes = 0;
        cu::CUdevice a, b;
        DRIVE(cuDeviceGet(&a, device));
        DRIVE(cuDeviceGet(&b, peer));
        DRIVE(cuDeviceCanAccessPeer(&yes, a, b));
        return yes != 0;
      },
      "device"_a, "peer"_a);
  m.def(
      "mem_get_info",
      [](int device) {
        std::size_t free = 0, total = 0;
        DeviceScope scope(device);
        DRIVE(cuMemGetInfo(&free, &total));
        return nb::make_tuple(free, total);
      },
      "device"_a);
}

void bind_streams(nb::module_& m) {
  m.def("current_stream", [](int device) { return handle_of(current_stream(device)); }, "device"_a);
  m.def(
      "set_stream",
      [](int device, std::uint64_t stream) { set_current_stream(device, stream_of(stream)); },
      "device"_a, "stream"_a);
  m.def(
      "exchange_stream",
      [](std::pair<int, std::uint64_t> stream) {
        const auto before = handle_of(current_stream(stream.first));
        set_current_stream(stream.first, stream_of(stream.second));
        return std::pair(stream.first, before);
      },
      "stream"_a);
  m.def(
      "stream_from_pool",
      [](int device, int priority) { return handle_of(stream_from_pool(device, priority)); },
      "device"_a, "priority"_a);
  m.def(
      "stream_priority_range",
      [](int device) {
        int least = 0, greatest = 0;
        DeviceScope scope(device);
        DRIVE(cuCtxGetStreamPriorityRange(&least, &greatest));
        return nb::make_tuple(least, greatest);
      },
      "device"_a);
  m.def(
      "stream_synchronize",
      [](int device, std::uint64_t stream) {
        DeviceScope scope(device);
        profiling::WaitScope waits(profiling::kWaitForStream);
        DRIVE(cuStreamSynchronize(stream_of(stream)));
      },
      "device"_a, "stream"_a);
  m.def(
      "stream_query",
      [](int device, std::uint64_t stream) {
        start_what_waits();
        DeviceScope scope(device);
        cu::CUresult result;
        {
          BlockingRegion region;
          result = driver().cuStreamQuery(stream_of(stream));
        }
        if (result == cu::CUDA_ERROR_NOT_READY) return false;
        check(result, "cuStreamQuery(stream)");
        return true;
      },
      "device"_a, "stream"_a);
  m.def(
      "stream_priority",
      [](int device, std::uint64_t stream) {
        int priority = 0;
        DeviceScope scope(device);
        DRIVE(cuStreamGetPriority(stream_of(stream), &priority));
        return priority;
      },
      "device"_a, "stream"_a);
  m.def(
      "stream_capture_id",
      [](int device, std::uint64_t stream) {
        // 0 when nothing is being captured; -1 for a capture that an illegal call has spoilt.
        cu::CUstreamCaptureStatus status;
        cu::cuuint64_t id = 0;
        DeviceScope scope(device);
        cu::CUresult result;
        {
          BlockingRegion region;  // without `drive`: launches that wait are in no capture
          result = driver().cuStreamGetCaptureInfo(stream_of(stream), &status, &id, nullptr,
                                                   nullptr, nullptr);
        }
        check(result, "cuStreamGetCaptureInfo(stream, &status, &id)");
        if (status == cu::CU_STREAM_CAPTURE_STATUS_INVALIDATED) return std::int64_t{-1};
        return status == cu::CU_STREAM_CAPTURE_STATUS_ACTIVE ? static_cast<std::int64_t>(id)
                                                             : std::int64_t{0};
      },
      "device"_a, "stream"_a);

  nb::class_<Event>(m, "Event")
      .def(nb::init<unsigned>(), "flags"_a)
      .def(
          "record",
          [](Event& self, int device, std::uint64_t stream) {
            self.record(device, stream_of(stream));
          },
          "device"_a, "stream"_a)
      .def(
          "wait",
          [](Event& self, int device, std::uint64_t stream) {
            self.wait(device, stream_of(stream));
          },
          "device"_a, "stream"_a)
      .def(
          "ipc_handle",
          [](Event& self, int device) {
            const cu::CUipcEventHandle handle = self.ipc_handle(device);
            return nb::bytes(handle.reserved, sizeof handle.reserved);
          },
          "device"_a)
      .def_static(
          "from_ipc_handle",
          [](int device, nb::bytes bytes) {
            cu::CUipcEventHandle handle{};
            if (bytes.size() != sizeof handle.reserved)
              throw std::invalid_argument("an event's handle has 64 bytes");
            std::memcpy(handle.reserved, bytes.c_str(), bytes.size());
            return Event::from_ipc_handle(device, handle);
          },
          "device"_a, "handle"_a)
      .def("query", &Event::query)
      .def("synchronize", &Event::synchronize)
      .def("elapsed_time", &Event::elapsed_time, "end"_a)
      .def_prop_ro("flags", &Event::flags)
      .def_prop_ro("device_index", &Event::device)
      .def_prop_ro("handle", [](Event& self) { return handle_of(self.handle()); });

  m.def("exchange_capture_mode", &exchange_capture_mode, "mode"_a);
  nb::class_<Graph>(m, "Graph")
      .def(nb::init<>())
      .def(
          "capture_begin",
          [](Graph& self, int device, std::uint64_t stream, memory::PoolId pool, int mode) {
            self.capture_begin(device, stream_of(stream), pool, mode);
          },
          "device"_a, "stream"_a, "pool"_a, "mode"_a)
      .def("capture_end", &Graph::capture_end)
      .def("instantiate", &Graph::instantiate)
      .def(
          "replay", [](Graph& self, std::uint64_t stream) { self.replay(stream_of(stream)); },
          "stream"_a)
      .def("reset", &Graph::reset)
      .def("debug_dump", &Graph::debug_dump, "path"_a)
      .def("keep_graph", &Graph::keep_graph, "keep"_a)
      .def("raw_graph", &Graph::raw_graph)
      .def("raw_exec", &Graph::raw_exec)
      .def_prop_ro("pool", &Graph::pool)
      .def_prop_ro("device_index", &Graph::device)
      .def_prop_ro("node_count", &Graph::node_count)
      .def_prop_ro("capture_id", &Graph::capture_id)
      .def(
          "note",
          [](Graph& self, const std::vector<std::vector<std::uint32_t>>& nodes) {
            std::vector<profiling::NodeNote> noted;  // name, operator, module, stack
            for (const auto& each : nodes)
              noted.push_back({each.at(0), each.at(1), each.at(2), each.at(3)});
            self.notes.set(std::move(noted));
          },
          "nodes"_a);
}

}  // namespace tritorch
