#include "profiling/activities.h"

#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "driver/context.h"
#include "driver/fork.h"
#include "profiling/cupti.h"
#include "profiling/events.h"

namespace tritorch::profiling {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr cupti::Kind kKinds[] = {cupti::kDriverCall, cupti::kExternalCorrelation, cupti::kKernel,
                                  cupti::kMemcpy, cupti::kMemset};

ForkMutex mutex;  // of all that follows
std::vector<std::string> paths;
std::string problem;
cupti::Library real;
const cupti::Library* library = nullptr;
bool collecting = false, failed = false, registered = false;

struct Clocks {
  std::int64_t ours = 0;
  std::uint64_t theirs = 0;
};
Clocks begun;

// CUPTI fills buffers from threads of its own.
ForkMutex buffers_mutex;
std::vector<std::uint8_t*> spare;
struct Found {
  Activity activity;
  std::uint32_t correlation;
};
std::vector<Found> found;
std::unordered_map<std::uint32_t, std::uint64_t> launches;  // by correlation

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  const std::lock_guard lock(buffers_mutex);
  *most_records = 0;  // as many as fit
  *size = kBufferBytes;
  if (spare.empty()) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  } else {
    *buffer = spare.back();
    spare.pop_back();
  }
}

Activity timed(std::uint64_t start, std::uint64_t end, std::uint32_t device, std::uint32_t stream,
               std::uint64_t node) {
  Activity made;
  made.begin = static_cast<std::int64_t>(start);
  made.end = static_cast<std::int64_t>(end);
  made.device = device;
  made.stream = stream;
  made.node = node;
  return made;
}

const char* name_of(const cupti::Transfer& transfer) {
  if (transfer.kind == cupti::kMemset) return "Memset";
  switch (transfer.what & 0xff) {
    case cupti::kHostToDevice:
      return "Memcpy HtoD";
    case cupti::kDeviceToHost:
      return "Memcpy DtoH";
    default:
      return "Memcpy DtoD";
  }
}

void read(const cupti::Record& record) {
  if (record.kind == cupti::kExternalCorrelation) {
    const auto& external = reinterpret_cast<const cupti::External&>(record);
    if (external.whose == cupti::kOurs) launches[external.correlation] = external.number;
  } else if (record.kind == cupti::kKernel) {
    const auto& kernel = reinterpret_cast<const cupti::Kernel&>(record);
    Activity made = timed(kernel.start, kernel.end, kernel.device, kernel.stream, kernel.node);
    std::copy(kernel.grid, kernel.grid + 3, made.grid.begin());
    std::copy(kernel.block, kernel.block + 3, made.block.begin());
    made.registers = kernel.registers;
    made.shared = kernel.static_shared + kernel.dynamic_shared;
    made.name = kernel.name ? kernel.name : "";
    found.push_back({std::move(made), kernel.correlation});
  } else if (record.kind == cupti::kMemcpy || record.kind == cupti::kMemset) {
    const auto& transfer = reinterpret_cast<const cupti::Transfer&>(record);
    Activity made =
        timed(transfer.start, transfer.end, transfer.device, transfer.stream, transfer.node);
    made.bytes = transfer.bytes;
    made.name = name_of(transfer);
    found.push_back({std::move(made), transfer.correlation});
  }
}

void take_buffer(void*, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(buffers_mutex);
  cupti::Record* record = nullptr;
  while (valid && library->cuptiActivityGetNextRecord(buffer, valid, &record) == cupti::kSuccess)
    read(*record);
  spare.push_back(buffer);
}

bool load() {
  if (library) return true;
  if (driver().simulated) {
    if (paths.empty()) return false;
    library = &cupti::simulated_library();
    return true;
  }
  for (const std::string& path : paths) {
    std::string why;
    if (cupti::load_real_library(path, real, why)) {
      library = &real;
      problem.clear();
      return true;
    }
    problem += (problem.empty() ? "" : "; ") + why;
  }
  return false;
}

Clocks clocks() {
  Clocks read;
  library->cuptiGetTimestamp(&read.theirs);
  read.ours = now();
  return read;
}

void disable() {
  for (const cupti::Kind kind : kKinds) library->cuptiActivityDisable(kind);
}

bool enable() {
  if (!registered) {
    if (library->cuptiActivityRegisterCallbacks(give_buffer, take_buffer)) return false;
    registered = true;
  }
  for (const cupti::Kind kind : kKinds) {
    if (const cupti::Result result = library->cuptiActivityEnable(kind)) {
      problem = "CUPTI collects no activities: error " + std::to_string(result);
      disable();
      return false;
    }
  }
  return true;
}

}  // namespace

void set_activity_libraries(std::vector<std::string> wanted) {
  const std::lock_guard lock(mutex);
  paths = std::move(wanted);
  problem.clear();
  failed = false;
  if (paths.empty() && !collecting) library = nullptr;
}

std::string activity_problem() {
  const std::lock_guard lock(mutex);
  return problem;
}

bool collect_activities() {
  const std::lock_guard lock(mutex);
  if (collecting || failed) return collecting;
  failed = !load() || !enable();
  if (failed) return false;
  const std::lock_guard held(buffers_mutex);
  found.clear();
  launches.clear();
  begun = clocks();
  return collecting = true;
}

void enter_launch(std::uint64_t number) {
  library->cuptiActivityPushExternalCorrelationId(cupti::kOurs, number);
}

void leave_launch() {
  std::uint64_t last;
  library->cuptiActivityPopExternalCorrelationId(cupti::kOurs, &last);
}

std::vector<Activity> end_activities() {
  const std::lock_guard lock(mutex);
  std::vector<Activity> activities;
  failed = false;
  if (!collecting) return activities;
  library->cuptiActivityFlushAll(cupti::kFlushForced);
  const Clocks ended = clocks();
  disable();
  collecting = false;
  // Two clocks that were read together at both ends.
  const double theirs = static_cast<double>(ended.theirs - begun.theirs);
  const double pace = theirs > 0 ? static_cast<double>(ended.ours - begun.ours) / theirs : 1;
  auto ours = [&](std::int64_t time) {
    const auto since = static_cast<double>(time - static_cast<std::int64_t>(begun.theirs));
    return begun.ours + static_cast<std::int64_t>(since * pace);
  };
  const std::lock_guard held(buffers_mutex);
  for (Found& each : found) {
    const auto launch = launches.find(each.correlation);
    if (launch != launches.end()) each.activity.launch = launch->second;
    each.activity.begin = ours(each.activity.begin);
    each.activity.end = ours(each.activity.end);
    activities.push_back(std::move(each.activity));
  }
  found.clear();
  launches.clear();
  return activities;
}

}  // namespace tritorch::profiling
