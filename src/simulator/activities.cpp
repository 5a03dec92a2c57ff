// The simulated device's CUPTI: what streams have done, as records in a program's buffers.
//
// Its clock is another than the host's, records come when they are flushed and not before, and each
// buffer that is asked for is filled: so a reader meets what a GPU would give it.
#include <cstring>
#include <set>

#include "profiling/cupti.h"
#include "simulator/state.h"

namespace tritorch::cu::simulator {
namespace {

constexpr std::int64_t kClockAhead = 1'700'000'000'000'000'000;

struct Activities {
  std::set<cupti::Kind> kinds;
  cupti::Requested request = nullptr;
  cupti::Completed complete = nullptr;
  std::vector<std::vector<std::uint8_t>> records;
  std::set<std::string> names;  // records point to them
  std::uint32_t last = 0;
};
Activities& activities() {
  static Activities made;  // under the lock of the simulated device
  return made;
}
thread_local std::vector<std::uint64_t> entered;

template <class T>
void add(const T& record) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&record);
  activities().records.emplace_back(bytes, bytes + sizeof record);
}

std::size_t size_of(cupti::Kind kind) {
  switch (kind) {
    case cupti::kKernel:
      return sizeof(cupti::Kernel);
    case cupti::kMemcpy:
    case cupti::kMemset:
      return sizeof(cupti::Transfer);
    default:
      return sizeof(cupti::External);
  }
}

std::uint64_t ticks(std::chrono::steady_clock::time_point time) {
  using std::chrono::nanoseconds;
  const auto since = std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count();
  return static_cast<std::uint64_t>(since + kClockAhead);
}

template <class T>
T common(cupti::Kind kind, const Stream& stream, std::uint32_t correlation, CUgraphNode node,
         std::chrono::steady_clock::time_point begin) {
  T record{};
  record.kind = kind;
  record.start = ticks(begin);
  record.end = ticks(std::chrono::steady_clock::now());
  record.device = static_cast<std::uint32_t>(stream.device);
  record.stream = static_cast<std::uint32_t>(stream.id);
  record.correlation = correlation;
  record.node = reinterpret_cast<std::uintptr_t>(node);
  return record;
}

}  // namespace

std::uint32_t correlate() {
  Activities& all = activities();
  if (all.kinds.empty()) return 0;
  const std::uint32_t number = ++all.last;
  if (!entered.empty() && all.kinds.count(cupti::kExternalCorrelation) &&
      all.kinds.count(cupti::kDriverCall))
    add(cupti::External{cupti::kExternalCorrelation, cupti::kOurs, entered.back(), number, 0});
  return number;
}

void note_activity(const Action& action, const Stream& stream, std::uint32_t correlation,
                   CUgraphNode node, std::chrono::steady_clock::time_point begin) {
  Activities& all = activities();
  if (action.launch && all.kinds.count(cupti::kKernel)) {
    auto record = common<cupti::Kernel>(cupti::kKernel, stream, correlation, node, begin);
    const CUlaunchConfig& config = action.launch->config;
    record.grid[0] = static_cast<std::int32_t>(config.gridDimX);
    record.grid[1] = static_cast<std::int32_t>(config.gridDimY);
    record.grid[2] = static_cast<std::int32_t>(config.gridDimZ);
    record.block[0] = static_cast<std::int32_t>(config.blockDimX);
    record.block[1] = static_cast<std::int32_t>(config.blockDimY);
    record.block[2] = static_cast<std::int32_t>(config.blockDimZ);
    record.dynamic_shared = static_cast<std::int32_t>(config.sharedMemBytes);
    record.registers = 32;
    record.name = all.names.insert(action.launch->function->name).first->c_str();
    add(record);
  } else if (action.copies && all.kinds.count(cupti::kMemcpy)) {
    auto record = common<cupti::Transfer>(cupti::kMemcpy, stream, correlation, node, begin);
    record.what = action.copies;
    record.bytes = action.bytes;
    add(record);
  } else if (std::strcmp(action.kind, "memset") == 0 && all.kinds.count(cupti::kMemset)) {
    auto record = common<cupti::Transfer>(cupti::kMemset, stream, correlation, node, begin);
    record.bytes = action.bytes;
    add(record);
  }
}

namespace {

cupti::Result get_timestamp(std::uint64_t* time) {
  *time = ticks(std::chrono::steady_clock::now());
  return cupti::kSuccess;
}

cupti::Result register_callbacks(cupti::Requested request, cupti::Completed complete) {
  const Lock lock(state().mutex);
  activities().request = request;
  activities().complete = complete;
  return cupti::kSuccess;
}

cupti::Result enable(cupti::Kind kind) {
  const Lock lock(state().mutex);
  activities().kinds.insert(kind);
  return cupti::kSuccess;
}

cupti::Result disable(cupti::Kind kind) {
  const Lock lock(state().mutex);
  activities().kinds.erase(kind);
  return cupti::kSuccess;
}

cupti::Result flush_all(std::uint32_t) {
  std::vector<std::vector<std::uint8_t>> records;
  cupti::Requested request;
  cupti::Completed complete;
  {
    const Lock lock(state().mutex);
    records.swap(activities().records);
    request = activities().request;
    complete = activities().complete;
  }
  if (!request || !complete) return 1;
  for (std::size_t i = 0; i < records.size();) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0, filled = 0;
    request(&buffer, &size, &most);
    if (!buffer || size < sizeof(cupti::Kernel)) return 1;
    for (; i < records.size() && filled + records[i].size() <= size; ++i) {
      std::memcpy(buffer + filled, records[i].data(), records[i].size());
      filled += records[i].size();
    }
    complete(nullptr, 0, buffer, size, filled);
  }
  return cupti::kSuccess;
}

cupti::Result get_next_record(std::uint8_t* buffer, std::size_t valid, cupti::Record** record) {
  std::uint8_t* next = buffer;
  if (*record) next = reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + valid) return cupti::kNoMoreRecords;
  *record = reinterpret_cast<cupti::Record*>(next);
  return cupti::kSuccess;
}

cupti::Result push_external(int whose, std::uint64_t number) {
  if (whose == cupti::kOurs) entered.push_back(number);
  return cupti::kSuccess;
}

cupti::Result pop_external(int whose, std::uint64_t* number) {
  if (whose != cupti::kOurs || entered.empty()) return 1;
  *number = entered.back();
  entered.pop_back();
  return cupti::kSuccess;
}

}  // namespace
}  // namespace tritorch::cu::simulator

namespace tritorch::cupti {

const Library& simulated_library() {
  namespace simulated = cu::simulator;
  static const Library table{simulated::get_timestamp, simulated::register_callbacks,
                             simulated::enable,        simulated::disable,
                             simulated::flush_all,     simulated::get_next_record,
                             simulated::push_external, simulated::pop_external};
  return table;
}

}  // namespace tritorch::cupti
