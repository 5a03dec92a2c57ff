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

Event* begin(Kind kind, std::uint32_t name) {
  Thread& thread = here();
  if (thread.count % Thread::kChunk == 0)
    thread.chunks.push_back(std::make_unique<Event[]>(Thread::kChunk));
  Event* event = &thread.at(thread.count++);
  event->name = name;
  event->kind = kind;
  event->begin = now();
  return event;
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
  Event* event = begin(Kind::memory, 0);
  event->end = total;
  event->sequence = bytes;
  event->detail = static_cast<std::int64_t>(address);
  event->extra = static_cast<std::uint32_t>(device + 1);
}

}  // namespace tritorch::profiling
