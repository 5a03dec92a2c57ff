#include "profiling/events.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <mutex>

#include "driver/fork.h"

namespace tritorch::profiling {

constinit bool enabled = false;
constinit Options options;
constinit std::uint64_t generation = 0;
constinit TraceOfNow trace_of_now = nullptr;

namespace {

ForkMutex mutex;  // of the list, and of starting
std::vector<std::shared_ptr<Thread>> all;

struct Mine {
  std::shared_ptr<Thread> thread;
  std::uint64_t generation = 0;
};
thread_local Mine mine;

Thread& join() {
  auto thread = std::make_shared<Thread>();
  thread->id = static_cast<std::uint64_t>(syscall(SYS_gettid));
  thread->is_main = thread->id == static_cast<std::uint64_t>(getpid());
  std::lock_guard lock(mutex);
  all.push_back(thread);
  mine = {thread, generation};
  return *thread;
}

}  // namespace

std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

Thread& here() { return mine.thread && mine.generation == generation ? *mine.thread : join(); }

Event* begin(Thread& thread, Kind kind, std::uint32_t name) {
  if (thread.count % Thread::kChunk == 0) {
    thread.chunks.push_back(std::make_unique<Event[]>(Thread::kChunk));
    if (options.most && thread.count >= options.most) enabled = false;
  }
  Event* event = &thread.at(thread.count++);
  event->name = name;
  event->kind = kind;
  event->parent = thread.open;
  event->begin = now();
  return event;
}

void Thread::close(const Event* event) {
  for (std::uint32_t place = open; place; place = at(place - 1).parent) {
    if (&at(place - 1) != event) continue;
    open = event->parent;
    return;
  }
}

void find_trace(Thread& thread, Event& event) {
  if (!options.stacks || !trace_of_now) return;
  if (event.parent && thread.at(event.parent - 1).stack) return;
  event.stack = trace_of_now();
}

void start(const Options& wanted) {
  std::lock_guard lock(mutex);
  all.clear();
  ++generation;
  options = wanted;
  enabled = true;
}

void stop() { enabled = false; }

const std::vector<std::shared_ptr<Thread>>& threads() { return all; }

void note_memory(std::int64_t bytes, std::uint64_t address, int device, std::int64_t total) {
  Thread& thread = here();
  Event* event = begin(thread, Kind::memory, 0);
  if (bytes > 0) find_trace(thread, *event);
  event->end = total;
  event->sequence = bytes;
  event->detail = static_cast<std::int64_t>(address);
  event->extra = static_cast<std::uint32_t>(device + 1);
}

}  // namespace tritorch::profiling
