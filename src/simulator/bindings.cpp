// Controls of the simulated device.
#include <nanobind/ndarray.h>

#include <cmath>

#include "bindings/convert.h"
#include "memory/registry.h"
#include "simulator/python.h"
#include "simulator/simulator.h"

namespace tritorch {
namespace {

cu::simulator::Call call_named(const std::string& name) {
  if (name == "alloc") return cu::simulator::Call::alloc;
  if (name == "launch") return cu::simulator::Call::launch;
  if (name == "copy") return cu::simulator::Call::copy;
  if (name == "graph") return cu::simulator::Call::graph;
  throw std::domain_error("a failure is injected into 'alloc', 'launch', 'copy' or 'graph', not '" +
                          name + "'");
}

void check_block(std::size_t addresses, std::size_t mask, std::size_t values) {
  if (addresses != values || mask != values)
    throw std::domain_error("addresses, mask and values differ in size");
}

}  // namespace

void bind_simulator(nb::module_& m) {
  nb::module_ sim = m.def_submodule("simulator", "Controls of the simulated device.");
  sim.def(
      "configure",
      [](const std::string& text) {
        try {
          cu::simulator::set_options(cu::parse_simulator_options(text));
        } catch (const std::invalid_argument& error) {
          throw std::domain_error(error.what());
        }
      },
      "settings"_a);
  sim.def(
      "check",
      [](const std::string& text) {
        try {
          cu::parse_simulator_options(text);
        } catch (const std::invalid_argument& error) {
          throw std::domain_error(error.what());
        }
      },
      "settings"_a);
  device_fault = PyErr_NewExceptionWithDoc(
      "tritorch._C.simulator.DeviceFault",
      "Ends a simulated kernel as a GPU would: (the CUresult that the device is left with, why).",
      nullptr, nullptr);
  if (!device_fault) throw nb::python_error();
  sim.attr("DeviceFault") = nb::borrow(device_fault);
  resume_collector_in_children();
  sim.def("tell_launch_sites", &tell_launch_sites, "skipped"_a);
  sim.def("set_seed", &cu::simulator::set_seed, "seed"_a);
  sim.def(
      "fail",
      [](const std::string& call, std::uint64_t nth, int code) {
        cu::simulator::fail(call_named(call), nth, static_cast<cu::CUresult>(code));
      },
      "call"_a, "nth"_a, "code"_a);
  sim.def("clear_error", [] {
    BlockingRegion region;
    cu::simulator::clear_error();
    memory::forget_failures();  // else the next allocation would tell of the error
  });
  // What interpreted kernels load and store.  -> the first bad address's place, or -1
  using Addresses = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;
  using Mask = nb::ndarray<const bool, nb::c_contig, nb::device::cpu>;
  sim.def(
      "load",
      [](Addresses addresses, std::optional<Mask> mask,
         nb::ndarray<nb::c_contig, nb::device::cpu> out) {
        check_block(addresses.size(), mask ? mask->size() : out.size(), out.size());
        return cu::simulator::load(addresses.data(), mask ? mask->data() : nullptr,
                                   addresses.size(), out.itemsize(), out.data());
      },
      "addresses"_a, "mask"_a.none(), "out"_a);
  sim.def(
      "store",
      [](Addresses addresses, std::optional<Mask> mask,
         nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> values) {
        check_block(addresses.size(), mask ? mask->size() : values.size(), values.size());
        return cu::simulator::store(addresses.data(), mask ? mask->data() : nullptr,
                                    addresses.size(), values.itemsize(), values.data());
      },
      "addresses"_a, "mask"_a.none(), "values"_a);
  sim.def(
      "counters",
      [](int device) {
        cu::simulator::Counters c = cu::simulator::counters(device);
        nb::dict out;
        out["launches"] = c.launches;
        out["copies"] = c.copies;
        out["graph_launches"] = c.graph_launches;
        out["node_changes"] = c.node_changes;
        out["memsets"] = c.memsets;
        out["allocations"] = c.allocations;
        out["frees"] = c.frees;
        out["live_allocations"] = c.live_allocations;
        out["live_bytes"] = c.live_bytes;
        out["live_streams"] = c.live_streams;
        out["live_events"] = c.live_events;
        return out;
      },
      "device"_a);
  sim.def(
      "make_function",
      [](const std::string& name, std::vector<std::uint32_t> sizes, nb::object callback) {
        return handle_of(make_simulated(name, std::move(sizes), callback.ptr()));
      },
      "name"_a, "parameter_sizes"_a, "callback"_a);
  sim.def(
      "image_of",
      [](std::uint64_t function) {
        const std::string image =
            cu::simulator::image_of(reinterpret_cast<cu::CUfunction>(function));
        return nb::bytes(image.data(), image.size());
      },
      "function"_a);
  // c = a b + c, rounded once, to float32 if they are: what an interpreted kernel's fma does.
  using Numbers = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  sim.def(
      "fma",
      [](Numbers a, Numbers b, Numbers c, bool narrow) {
        if (a.size() != c.size() || b.size() != c.size()) throw std::domain_error("sizes differ");
        double *x = a.data(), *y = b.data(), *z = c.data();
        for (std::size_t i = 0; i < c.size(); ++i)
          z[i] = narrow ? std::fma(static_cast<float>(x[i]), static_cast<float>(y[i]),
                                   static_cast<float>(z[i]))
                        : std::fma(x[i], y[i], z[i]);
      },
      "a"_a, "b"_a, "c"_a, "narrow"_a);
  sim.def("last_launch", [] {
    nb::dict out;
    const LastLaunch& last = last_launch();
    out["grid"] = nb::make_tuple(last.grid[0], last.grid[1], last.grid[2]);
    out["block"] = nb::make_tuple(last.block[0], last.block[1], last.block[2]);
    out["shared"] = last.shared;
    out["attributes"] = last.attributes;
    return out;
  });
  sim.def(
      "free_function",
      [](std::uint64_t function) {
        BlockingRegion region;
        cu::simulator::free_function(reinterpret_cast<cu::CUfunction>(function));
      },
      "function"_a);
}

}  // namespace tritorch
