#include "profiling/device.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

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

// With CUPTI: launches by their numbers, from 1 on.
struct Launched {
  std::uint32_t name;
  std::uint64_t thread, place;
};
std::vector<Launched> numbered;
std::set<int> devices;
std::vector<Span> spans;  // of those activities that have been read
std::map<std::uint32_t, std::vector<NodeNote>> graphs;

cu::CUevent recorded(cu::CUstream stream) {
  cu::CUevent event = nullptr;
  if (driver().cuEventCreate(&event, 0)) return nullptr;
  if (driver().cuEventRecord(event, stream)) {
    driver().cuEventDestroy(event);
    return nullptr;
  }
  return event;
}

// The capture that a stream is part of; 0: of none.
std::uint64_t capture_of(cu::CUstream stream) {
  cu::CUstreamCaptureStatus status = cu::CU_STREAM_CAPTURE_STATUS_NONE;
  cu::cuuint64_t id = 0;
  const cu::CUresult result =
      driver().cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
  if (!result && status == cu::CU_STREAM_CAPTURE_STATUS_NONE) return 0;
  return id ? id : UINT64_MAX;
}

void forget() {
  for (const Pending& each : pending) {
    driver().cuEventDestroy(each.begin);
    driver().cuEventDestroy(each.end);
  }
  for (const auto& [device, base] : bases) driver().cuEventDestroy(base.event);
  pending.clear();
  bases.clear();
  numbered.clear();
  devices.clear();
  spans.clear();
  graphs.clear();
}

// With the lock: what is left of another profile goes.
void begin_profile() {
  if (of != generation) forget();
  of = generation;
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

void GraphNotes::set(std::vector<NodeNote> noted) {
  static std::atomic<std::uint32_t> last{0};
  nodes = std::move(noted);
  number = ++last;
}

LaunchScope::LaunchScope(Known call, std::uint32_t name, int device, cu::CUstream stream,
                         const GraphNotes* notes)
    : host_(Kind::launch, call), stream_(stream) {
  Event& event = *host_.event;
  const std::uint64_t place = host_.thread.count - 1;  // waiting below may write events, too
  event.extra = name;
  event.detail = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(stream));
  find_trace(host_.thread, event);
  if (!options.device && !options.captures) return;
  if (const std::uint64_t capture = capture_of(stream)) {
    event.captured = true;
    event.sequence = static_cast<std::int64_t>(capture);
    return;
  }
  if (!options.device) return;
  const std::lock_guard lock(mutex);
  begin_profile();
  if (notes && notes->number) {
    event.shapes = notes->number;
    graphs.try_emplace(notes->number, notes->nodes);
  }
  collect(name, device, place);
}

// With the lock.
void LaunchScope::collect(std::uint32_t name, int device, std::uint64_t place) {
  const std::uint64_t thread = host_.thread.id;
  if (collect_activities()) {
    devices.insert(device);
    numbered.push_back({name, thread, place});
    enter_launch(numbered.size());
    entered_ = true;
    return;
  }
  find_base(device, stream_);
  cu::CUevent begin = recorded(stream_);
  if (!begin || driver().cuEventCreate(&end_, 0)) return;
  Pending& made = pending.emplace_back();
  made.span.name = name;
  made.span.thread = thread;
  made.span.launch = place;
  made.span.activity.device = static_cast<std::uint32_t>(device);
  made.span.activity.stream = reinterpret_cast<std::uintptr_t>(stream_);
  made.begin = begin;
  made.end = end_;
}

LaunchScope::~LaunchScope() {
  if (entered_) leave_launch();
  if (end_) driver().cuEventRecord(end_, stream_);
}

std::vector<Span> read_device() {
  std::vector<Span> found;
  const std::lock_guard lock(mutex);
  if (of != generation) return found;
  for (const int device : devices) {
    const DeviceScope scope(device);
    driver().cuCtxSynchronize();  // an error is the program's, which will meet it
  }
  for (Activity& activity : end_activities()) {
    // The simulated device's allocator poisons memory with fills that no GPU would make.
    if (!activity.launch && driver().simulated) continue;
    if (activity.launch > numbered.size()) continue;
    Span& span = spans.emplace_back();
    if (activity.launch) {
      const Launched& launched = numbered[activity.launch - 1];
      span.name = launched.name;
      span.thread = launched.thread;
      span.launch = launched.place;
    }
    span.activity = std::move(activity);
  }
  found = spans;
  for (Pending& each : pending) {
    Activity& activity = each.span.activity;
    const auto base = bases.find(static_cast<int>(activity.device));
    if (base == bases.end() || driver().cuEventSynchronize(each.end)) continue;
    activity.begin = base->second.at + since(base->second.event, each.begin);
    activity.end = base->second.at + since(base->second.event, each.end);
    found.push_back(each.span);
  }
  return found;
}

std::map<std::uint32_t, std::vector<NodeNote>> read_graphs() {
  const std::lock_guard lock(mutex);
  if (of != generation) return {};
  return graphs;
}

std::vector<std::pair<std::shared_ptr<Thread>, const Event*>> captured_launches(std::uint64_t id) {
  std::vector<std::pair<std::shared_ptr<Thread>, const Event*>> found;
  for (const auto& thread : threads()) {
    for (std::size_t i = 0; i < thread->count; ++i) {
      const Event& event = thread->at(i);
      if (event.captured && event.sequence == static_cast<std::int64_t>(id))
        found.emplace_back(thread, &event);
    }
  }
  std::ranges::stable_sort(found, {}, [](const auto& each) { return each.second->begin; });
  return found;
}

}  // namespace tritorch::profiling
