#include "profiling/device.h"

#include <map>
#include <mutex>

#include "driver/context.h"
#include "driver/fork.h"

namespace tritorch::profiling {
namespace {

struct Pending {
  Span span;
  cu::CUevent begin, end;
};
struct Base {
  cu::CUevent event;
  std::int64_t at;  // when it happened, by the host's clock
};

ForkMutex mutex;
std::vector<Pending> pending;
std::map<int, Base> bases;
std::uint64_t of = 0;  // the profile that they belong to

cu::CUevent recorded(cu::CUstream stream) {
  cu::CUevent event = nullptr;
  if (driver().cuEventCreate(&event, 0)) return nullptr;
  if (driver().cuEventRecord(event, stream)) {
    driver().cuEventDestroy(event);
    return nullptr;
  }
  return event;
}

bool is_captured(cu::CUstream stream) {
  cu::CUstreamCaptureStatus status = cu::CU_STREAM_CAPTURE_STATUS_NONE;
  cu::cuuint64_t id;
  const cu::CUresult result =
      driver().cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
  return result || status != cu::CU_STREAM_CAPTURE_STATUS_NONE;
}

void forget() {
  for (const Pending& each : pending) {
    driver().cuEventDestroy(each.begin);
    driver().cuEventDestroy(each.end);
  }
  for (const auto& [device, base] : bases) driver().cuEventDestroy(base.event);
  pending.clear();
  bases.clear();
}

// The first launch on a device waits for it, once, so that both clocks are known together.
void find_base(int device, cu::CUstream stream) {
  if (bases.count(device)) return;
  cu::CUevent event = recorded(stream);
  if (!event) return;
  driver().cuEventSynchronize(event);
  bases[device] = {event, now()};
}

std::int64_t since(cu::CUevent from, cu::CUevent to) {
  float milliseconds = 0;
  driver().cuEventElapsedTime(&milliseconds, from, to);
  return static_cast<std::int64_t>(double{milliseconds} * 1e6);
}

}  // namespace

LaunchScope::LaunchScope(Known call, std::uint32_t name, int device, cu::CUstream stream)
    : host_(Kind::launch, call), device_(device), stream_(stream) {
  const Thread& thread = here();
  const std::uint64_t place = thread.count - 1;  // waiting below may write events, too
  host_.event->extra = name;
  host_.event->detail = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(stream));
  if (!options.device || is_captured(stream)) return;
  const std::lock_guard lock(mutex);
  if (of != generation) forget();
  of = generation;
  find_base(device, stream);
  cu::CUevent begin = recorded(stream);
  if (!begin || driver().cuEventCreate(&end_, 0)) return;
  pending.push_back({{name, static_cast<std::uint32_t>(device),
                      reinterpret_cast<std::uintptr_t>(stream), thread.id, place, 0, 0},
                     begin,
                     end_});
}

LaunchScope::~LaunchScope() {
  if (end_) driver().cuEventRecord(end_, stream_);
}

std::vector<Span> read_device() {
  std::vector<Span> found;
  const std::lock_guard lock(mutex);
  if (of != generation) return found;
  for (Pending& each : pending) {
    const auto base = bases.find(static_cast<int>(each.span.device));
    if (base == bases.end() || driver().cuEventSynchronize(each.end)) continue;
    each.span.begin = base->second.at + since(base->second.event, each.begin);
    each.span.end = base->second.at + since(base->second.event, each.end);
    found.push_back(each.span);
  }
  return found;
}

}  // namespace tritorch::profiling
