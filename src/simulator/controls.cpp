// The controls of the simulated device: options, failures, what kernels may touch, counters.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "simulator/simulator.h"
#include "simulator/state.h"

namespace tritorch::cu {
namespace simulator {
namespace {

void arm(Call call, std::uint64_t nth, CUresult code) {
  state().fail_code[static_cast<std::size_t>(call)] = code;
  state().fail_in[static_cast<std::size_t>(call)] = nth;
}

// Takes the options over, except failures to inject, which are armed once.
void apply(SimulatorOptions options) {
  State& s = state();
  if (options.fail_alloc) arm(Call::alloc, options.fail_alloc, CUDA_ERROR_OUT_OF_MEMORY);
  if (options.fail_launch)
    arm(Call::launch, options.fail_launch, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  if (options.fail_copy) arm(Call::copy, options.fail_copy, CUDA_ERROR_UNKNOWN);
  if (options.fail_graph) arm(Call::graph, options.fail_graph, CUDA_ERROR_UNKNOWN);
  options.fail_alloc = options.fail_launch = options.fail_copy = options.fail_graph = 0;
  s.options = options;
  s.discard_launches = options.discard_launches;
  s.keep_errors = options.sticky;
}

void check_options(const SimulatorOptions& options) {
  if (options.devices < 1 || options.devices > kMaxDevices)
    throw std::invalid_argument("a simulation has 1 to 16 devices");
}

std::uint64_t parse_number(std::string_view text, bool& good) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const std::size_t shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 0;
  good = error == std::errc() && (unit.empty() || shift) && value <= UINT64_MAX >> shift;
  return value << shift;
}

}  // namespace

void reset(const SimulatorOptions& options) {
  check_options(options);
  std::unique_ptr<World> old;  // destroyed without the lock: it may own kernels
  Lock lock(state().mutex);
  wait_for_executor(lock);
  State& s = state();
  old = std::move(s.world);
  for (auto& left : s.fail_in) left = 0;
  for (auto& code : s.sticky) code = CUDA_SUCCESS;
  apply(options);
  s.random = options.seed;
  s.world = std::make_unique<World>(s.options);
}

void set_options(const SimulatorOptions& options) {
  check_options(options);
  Lock lock(state().mutex);
  State& s = state();
  if (options.seed != s.options.seed) s.random = options.seed;
  apply(options);
  s.world->memory.set_poison(options.poison);
  s.world->add_devices(options.devices);
  s.options.devices = static_cast<int>(s.world->devices.size());
}

SimulatorOptions options() {
  Lock lock(state().mutex);
  return state().options;
}

void set_seed(std::uint64_t seed) {
  Lock lock(state().mutex);
  state().options.seed = seed;
  state().random = seed;
}

void fail(Call call, std::uint64_t nth, CUresult code) {
  Lock lock(state().mutex);
  arm(call, nth, code);
}

bool accessible(CUdeviceptr ptr, std::size_t size) {
  Lock lock(state().mutex);
  return state().world->memory.accessible(ptr, size);
}

void divide(CUdeviceptr address, std::size_t size) {
  Lock lock(state().mutex);
  state().world->memory.divide(address, size);
}

void give(CUdeviceptr address, std::size_t size) {
  Lock lock(state().mutex);
  state().world->memory.blocks.add({address, address + size});
}

void take_back(CUdeviceptr address, std::size_t size, CUstream handle) noexcept try {
  Lock lock(state().mutex);
  auto work = [=](std::string&) {
    state().world->memory.blocks.remove({address, address + size});
    return CUDA_SUCCESS;
  };
  append(find_stream(handle), {"take back", work, false, nullptr, true});
} catch (const Fail&) {  // the stream is destroyed, its work maybe not done
}

std::int64_t first_inaccessible(const std::int64_t* addresses, const bool* mask, std::size_t count,
                                std::size_t size) {
  Lock lock(state().mutex);
  const Memory& memory = state().world->memory;
  Stretch known;
  for (std::size_t i = 0; i < count; ++i) {
    if (mask && !mask[i]) continue;
    const auto address = static_cast<CUdeviceptr>(addresses[i]);
    if (address < known.begin || address >= known.end || size > known.end - address) {
      known = memory.touchable(address);
      if ((known.end == 0 || size > known.end - address) &&
          !memory.pinned(reinterpret_cast<const void*>(address), size))
        return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

namespace {

template <typename Copy>
void each(const std::int64_t* addresses, const bool* mask, std::size_t count, Copy copy) {
  for (std::size_t i = 0; i < count; ++i)
    if (!mask || mask[i]) copy(i, reinterpret_cast<void*>(addresses[i]));
}

// Calls with the size as a constant, so that a copy is one instruction.
template <typename Body>
void with_size(std::size_t size, Body body) {
  switch (size) {
    case 1:
      return body(std::integral_constant<std::size_t, 1>{});
    case 2:
      return body(std::integral_constant<std::size_t, 2>{});
    case 4:
      return body(std::integral_constant<std::size_t, 4>{});
    default:
      return body(std::integral_constant<std::size_t, 8>{});
  }
}

}  // namespace

std::int64_t load(const std::int64_t* addresses, const bool* mask, std::size_t count,
                  std::size_t size, void* out) {
  const std::int64_t bad = first_inaccessible(addresses, mask, count, size);
  if (bad >= 0) return bad;
  auto* to = static_cast<unsigned char*>(out);
  with_size(size, [&](auto n) {
    each(addresses, mask, count,
         [&](std::size_t i, const void* from) { std::memcpy(to + i * n, from, n); });
  });
  return -1;
}

std::int64_t store(const std::int64_t* addresses, const bool* mask, std::size_t count,
                   std::size_t size, const void* values) {
  const std::int64_t bad = first_inaccessible(addresses, mask, count, size);
  if (bad >= 0) return bad;
  const auto* from = static_cast<const unsigned char*>(values);
  with_size(size, [&](auto n) {
    each(addresses, mask, count,
         [&](std::size_t i, void* to) { std::memcpy(to, from + i * n, n); });
  });
  return -1;
}

std::string last_error_detail() {
  Lock lock(state().mutex);
  return state().world->detail;
}

void clear_error() {
  Lock lock(state().mutex);
  for (auto& code : state().sticky) code = CUDA_SUCCESS;
  state().world->detail.clear();
}

Counters counters(int device) {
  Lock lock(state().mutex);
  const auto& devices = state().world->devices;
  if (device < 0 || static_cast<std::size_t>(device) >= devices.size()) return {};
  const Device& counted = devices[static_cast<std::size_t>(device)];
  Counters result = counted.counters;
  result.live_bytes = counted.allocated + state().world->memory.physical(device);
  return result;
}

}  // namespace simulator

SimulatorOptions parse_simulator_options(const std::string& text) {
  SimulatorOptions options;
  if (text == "1") return options;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    bool good = equals != std::string_view::npos;
    const std::uint64_t value = good ? simulator::parse_number(item.substr(equals + 1), good) : 0;
    if (item == "1") continue;
    if (good && name == "seed") {
      options.seed = value;
    } else if (good && name == "memory" && value > 0) {
      options.memory = value;
    } else if (good && name == "devices" && value >= 1 && value <= simulator::kMaxDevices) {
      options.devices = static_cast<int>(value);
    } else if (good && name == "poison" && value <= 1) {
      options.poison = value;
    } else if (good && name == "discard_launches" && value <= 1) {
      options.discard_launches = value;
    } else if (good && name == "sticky" && value <= 1) {
      options.sticky = value;
    } else if (good && name == "virtual_memory" && value <= 1) {
      options.virtual_memory = value;
    } else if (good && name == "fail_alloc") {
      options.fail_alloc = value;
    } else if (good && name == "fail_launch") {
      options.fail_launch = value;
    } else if (good && name == "fail_copy") {
      options.fail_copy = value;
    } else if (good && name == "fail_graph") {
      options.fail_graph = value;
    } else if (good && name == "graph_nodes" && value <= 1) {
      options.graph_nodes = value != 0;
    } else {
      throw std::invalid_argument(
          "TRITORCH_SIMULATE_CUDA: \"" + std::string(item) +
          "\" is not understood; give 1, or a list such as \"seed=7,memory=2G,devices=2\" of: "
          "seed=N, memory=SIZE (K, M or G), devices=1..16, poison=0|1, discard_launches=0|1, "
          "sticky=0|1, virtual_memory=0|1, graph_nodes=0|1, fail_alloc=N, fail_launch=N, "
          "fail_copy=N, fail_graph=N");
    }
  }
  return options;
}

}  // namespace tritorch::cu
