#include "launch/recording.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "driver/context.h"
#include "ref.h"

namespace tritorch {
namespace {

// Calls that ask and change nothing, by how their names begin.
constexpr std::string_view kHarmless[] = {"cuDevice",     "cuDriver",     "cuCtxGet",
                                          "cuFunc",       "cuOccupancy",  "cuStreamG",
                                          "cuMemGetInfo", "cuEventCreate"};

// Integers of a class of their own: no two are one object, as small integers are.
PyObject* number_class() {
  static PyObject* const made = PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type),
                                                      "s(O){}", "RecordedNumber", &PyLong_Type);
  return made;
}

bool is_use_at(const Use& use, std::size_t node, std::size_t place) {
  return use.node == node && place >= use.place && place < use.place + use.size;
}

bool same_attributes(const GraphNode& a, const GraphNode& b) {
  return std::ranges::equal(a.attributes, b.attributes, [](const auto& x, const auto& y) {
    return x.id == y.id && std::memcmp(&x.value, &y.value, sizeof x.value) == 0;
  });
}

std::string node_name(const GraphNode& node, std::size_t number) {
  const char* kinds[] = {"a kernel", "a fill", "a copy"};
  return std::string(kinds[node.kind]) + " (number " + std::to_string(number) + ")";
}

}  // namespace

std::string difference(const Record& a, const Record& b) {
  if (a.nodes.size() != b.nodes.size())
    return "the number of launches differs from call to call (" + std::to_string(a.nodes.size()) +
           ", " + std::to_string(b.nodes.size()) + ")";
  if (!std::ranges::equal(a.allocations, b.allocations, [](const auto& x, const auto& y) {
        return x.bytes == y.bytes && x.content == y.content;
      }))
    return "other memory is allocated, or other numbers are copied, from call to call";
  std::size_t next = 0;  // uses are in the order of their nodes
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const GraphNode &x = a.nodes[i], &y = b.nodes[i];
    if (x.kind != y.kind || x.function != y.function || x.grid != y.grid ||
        x.threads != y.threads || x.shared != y.shared || x.value != y.value ||
        x.width != y.width || x.count != y.count || x.offsets != y.offsets ||
        x.chunks.size() != y.chunks.size() || !same_attributes(x, y))
      return node_name(x, i) + " differs from call to call";
    const std::size_t from = next;
    while (next < a.uses.size() && a.uses[next].node == i) ++next;
    for (std::size_t at = 0; at < x.chunks.size() * sizeof(GraphNode::Chunk); ++at)
      if (x.bytes()[at] != y.bytes()[at] &&
          std::none_of(a.uses.begin() + from, a.uses.begin() + next,
                       [&](const Use& use) { return is_use_at(use, i, at); }))
        return "a parameter of " + node_name(x, i) + " differs from call to call";
  }
  const bool same_maps = std::ranges::equal(a.maps, b.maps, [](auto x, const auto& y) {
    x.address = y.address;
    return x == y;
  });
  if (!same_maps || a.uses != b.uses) return "kernels get other memory from call to call";
  return "";
}

void Recording::unfit(const std::string& why) {
  if (unfit_because.empty()) unfit_because = why;
}

void Recording::drove(const char* call) noexcept {
  const std::string_view name(call, std::string_view(call).find('('));
  for (std::string_view harmless : kHarmless)
    if (name.starts_with(harmless)) return;
  unfit("its functions call " + std::string(name));
}

void Recording::check_stream(cu::CUstream stream) {
  if (stream != stream_) unfit("it uses several streams");
}

void Recording::add_input(const StorageRef& storage, cu::CUdeviceptr anchor) {
  inputs_.push_back({storage, anchor});
}

Origin Recording::find(cu::CUdeviceptr address) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Storage& storage = *inputs_[i].storage.get();
    if (address >= storage.address && address < storage.address + storage.bytes)
      return {Origin::input, static_cast<std::uint32_t>(i),
              static_cast<std::int64_t>(address - inputs_[i].anchor)};
  }
  auto next = live_.upper_bound(address);
  if (next == live_.begin()) return {};
  const auto& [begin, live] = *std::prev(next);
  if (address >= live.end) return {};
  return {Origin::allocation, live.allocation, static_cast<std::int64_t>(address - begin)};
}

Origin Recording::origin_of(const Array& array) const {
  const Storage* storage = array.storage.get();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].storage.get() == storage)
      return {Origin::input, static_cast<std::uint32_t>(i),
              static_cast<std::int64_t>(array.data() - inputs_[i].anchor)};
  const auto found = by_storage_.find(storage);
  if (found == by_storage_.end() || found->second.address != storage->address) return {};
  return {Origin::allocation, found->second.allocation,
          static_cast<std::int64_t>(array.data() - storage->address)};
}

void Recording::use(const Origin& origin, std::uint32_t node, std::size_t place, int map) {
  if (origin.kind == Origin::elsewhere) return;
  const auto source = origin.kind == Origin::input ? Use::input : Use::allocation;
  const std::uint32_t size = map < 0 ? sizeof(cu::CUdeviceptr) : sizeof(cu::CUtensorMap);
  record.uses.push_back(
      {source, origin.index, node, static_cast<std::uint32_t>(place), size, origin.delta, map});
  if (source == Use::input) return;
  Allocation& used = record.allocations[origin.index];
  used.first = std::min(used.first, node);
  used.last = std::max(used.last, node);
}

void Recording::use_address(cu::CUdeviceptr address, std::uint32_t node, std::size_t place) {
  if (address) use(find(address), node, place);
}

void Recording::allocated(cu::CUdeviceptr address, std::size_t bytes, const void* storage) {
  const auto allocation = static_cast<std::uint32_t>(record.allocations.size());
  record.allocations.emplace_back(bytes);
  by_storage_[storage] = {allocation, address};
  if (bytes == 0) return;
  auto at = live_.upper_bound(address);
  if (at != live_.begin() && std::prev(at)->second.end > address) --at;
  while (at != live_.end() && at->first < address + bytes) at = live_.erase(at);
  live_[address] = {address + bytes, allocation};
}

PyObject* Recording::number(PyObject* value) {
  PyObject* made = PyObject_CallOneArg(number_class(), value);
  if (!made) return nullptr;
  kept_numbers_.push_back(Ref::to(made));
  numbers_[made] = n_numbers_++;
  return made;
}

PyObject* Recording::free_number(PyObject* value, PyObject* mark) {
  PyObject* made = PyObject_CallOneArg(number_class(), value);
  if (!made) return nullptr;
  kept_numbers_.push_back(Ref::to(made));
  free_numbers_[made] = Ref::to(mark);
  return made;
}

int Recording::number_of(PyObject* value) const {
  const auto found = numbers_.find(value);
  return found == numbers_.end() ? -1 : static_cast<int>(found->second);
}

bool Recording::is_used(std::uint32_t number) const {
  return std::ranges::any_of(record.uses, [&](const Use& use) {
    return use.source == Use::number && use.index == number;
  });
}

void Recording::kernel(const cu::CUlaunchConfig& config, cu::CUfunction function,
                       const PackedArgs& packed, const std::vector<std::uint32_t>& sizes,
                       const std::vector<Mark>& marks, int device, PyObject* owner,
                       const profiling::NodeNote& note) {
  check_stream(config.hStream);
  if (device != device_) unfit("it uses several devices");
  const auto number = static_cast<std::uint32_t>(record.nodes.size());
  GraphNode& node = record.nodes.emplace_back();
  node.function = function;
  node.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  node.threads = config.blockDimX;
  node.shared = config.sharedMemBytes;
  node.attributes.assign(config.attrs, config.attrs + config.numAttrs);
  node.note = note;
  node.chunks.resize(packed.bytes() / sizeof(GraphNode::Chunk) +
                     1);  // with zeros between parameters
  for (std::size_t i = 0; i < packed.count(); ++i) {
    node.offsets.push_back(static_cast<std::uint32_t>(packed.offset(i)));
    std::memcpy(node.bytes() + packed.offset(i), packed.parameter(i), sizes[i]);
  }
  record.kept.push_back(Ref::to(owner));
  for (const Mark& mark : marks) {
    const std::size_t place = packed.offset(mark.parameter), size = sizes[mark.parameter];
    cu::CUdeviceptr value = 0;
    std::memcpy(&value, node.bytes() + place, std::min(size, sizeof value));
    const Array* array = mark.kind == Mark::number ? nullptr : as_array(mark.value);
    if (mark.kind == Mark::opaque) {
      unfit("a kernel gets a ready tensor map");
    } else if (const auto free = free_numbers_.find(mark.value);
               mark.kind == Mark::number && free != free_numbers_.end()) {
      record.uses.push_back({Use::any, static_cast<std::uint32_t>(record.marks.size()), number,
                             static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(size)});
      record.marks.push_back(free->second);
    } else if (const auto known = numbers_.find(mark.value);
               mark.kind == Mark::number && known != numbers_.end()) {
      record.uses.push_back({Use::number, known->second, number, static_cast<std::uint32_t>(place),
                             static_cast<std::uint32_t>(size)});
    } else if (mark.kind == Mark::number) {
      if (size == sizeof value) use_address(value, number, place);
    } else if (!array && mark.kind == Mark::address) {
      const Origin origin = value ? find(value) : Origin{};
      use(origin, number, place);
      if (origin.kind == Origin::elsewhere) record.kept.push_back(Ref::to(mark.value));
    } else if (!array) {
      unfit("a kernel gets a tensor map of what is no array");
    } else {
      const Origin origin = origin_of(*array);
      int map = -1;
      if (mark.kind == Mark::map && origin.kind != Origin::elsewhere) {
        map = static_cast<int>(record.maps.size());
        record.maps.push_back(mark.request);
      }
      use(origin, number, place, map);
      if (origin.kind == Origin::elsewhere && seen_elsewhere_.insert(array->storage.get()).second)
        record.elsewhere.push_back(array->storage);
    }
  }
  // The two scratch pointers are last, and nobody marks them.
  for (std::size_t i = packed.count() - 2; i < packed.count(); ++i) {
    cu::CUdeviceptr value;
    std::memcpy(&value, node.bytes() + packed.offset(i), sizeof value);
    use_address(value, number, packed.offset(i));
  }
}

void Recording::filled(cu::CUdeviceptr to, unsigned value, unsigned width, std::size_t count,
                       cu::CUstream stream) {
  check_stream(stream);
  const auto number = static_cast<std::uint32_t>(record.nodes.size());
  GraphNode& node = record.nodes.emplace_back();
  node.kind = GraphNode::fill;
  node.note.name = profiling::kFilled;
  node.value = value;
  node.width = width;
  node.count = count;
  node.chunks.resize(1);
  std::memcpy(node.bytes(), &to, sizeof to);
  use_address(to, number, 0);
}

void Recording::copied(cu::CUdeviceptr to, cu::CUdeviceptr from, std::size_t bytes,
                       cu::CUstream stream) {
  check_stream(stream);
  const auto number = static_cast<std::uint32_t>(record.nodes.size());
  GraphNode& node = record.nodes.emplace_back();
  node.kind = GraphNode::copy;
  node.note.name = profiling::kDeviceToDevice;
  node.count = bytes;
  node.chunks.resize(1);
  std::memcpy(node.bytes(), &to, sizeof to);
  std::memcpy(node.bytes() + sizeof to, &from, sizeof from);
  use_address(to, number, 0);
  use_address(from, number, sizeof to);
}

// Memory that keeps the content, and a copy from there.
void Recording::uploaded(cu::CUdeviceptr to, std::span<const std::byte> bytes,
                         cu::CUstream stream) {
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    cu::CUdeviceptr word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    if (word && find(word).kind != Origin::elsewhere) unfit("an address is copied to the device");
  }
  const auto content = static_cast<std::uint32_t>(record.allocations.size());
  record.allocations.emplace_back(bytes.size());
  record.allocations.back().content.assign(bytes.begin(), bytes.end());
  copied(to, 0, bytes.size(), stream);
  use({Origin::allocation, content, 0}, static_cast<std::uint32_t>(record.nodes.size()) - 1,
      sizeof to);
}

}  // namespace tritorch
