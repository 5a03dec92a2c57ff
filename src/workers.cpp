// Note [Workers]
// Whoever has work takes its parts one by one, as do the threads that come to help: nobody waits
// for a thread to wake, only for parts that one has begun.  So some ten microseconds of work can be
// shared: telling the threads costs the caller 2 us, and one that slept is late by some 50.  After
// a piece of work a thread looks for the next one for a while before it sleeps; who waits for the
// last parts does the same.  One piece of work is shared at a time; who comes meanwhile does its
// own alone.  How many threads are wanted is looked up for each piece: as many as there may be, or
// fewer beside other processes (Note [Crowding]).  Threads are started when they are first wanted;
// those that are not wanted any more sleep until their number changes: they must not be among those
// that wait for work, of whom only as many are woken as there are parts.  A forked child starts its
// own.
#include "workers.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#include "crowding.h"
#include "driver/fork.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tritorch {
namespace {

using Clock = Crowding::Clock;

// How long a thread looks for the next piece of work: longer than Python takes between two
// operators, which is what lies between most pieces.
constexpr auto kPatience = std::chrono::microseconds(500);
// How long who shares work looks for the end of the last parts.
constexpr auto kHaste = std::chrono::microseconds(50);

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether `good` came true in time.
template <class Condition>
bool look_for(std::chrono::microseconds patience, const Condition& good) {
  const auto until = Clock::now() + patience;
  do {
    for (int i = 0; i < 64; ++i, pause())
      if (good()) return true;
  } while (Clock::now() < until);
  return false;
}

struct Pool {
  std::atomic<int> count{1};      // threads that there may be, the caller's among them
  std::atomic<bool> anew{false};  // whether somebody has said how many, since work was shared
  std::atomic_flag busy;          // while work is shared: who sets it changes the next three
  int started = 0;                // helpers
  Crowding crowding;
  std::atomic<int> wanted{1};  // threads, the caller's among them
  // The work.  `round` says which.  A helper first says that it is inside, then looks whether the
  // work is open; whoever shares it closes it, then looks whether somebody is inside.
  std::atomic<unsigned> round{0};
  std::atomic<bool> open{false};
  std::atomic<int> inside{0}, sleeping{0};
  Parts parts;
  void (*work)(void*, Parts&) = nullptr;
  void* argument = nullptr;

  // Waits for a round after `seen`; which one.
  unsigned wait(unsigned seen) {
    if (!look_for(kPatience, [&] { return round.load() != seen; })) {
      sleeping.fetch_add(1);
      while (round.load() == seen) round.wait(seen);
      sleeping.fetch_sub(1);
    }
    return round.load();
  }

  // Ends the wait of all helpers, so that those that are not wanted any more see it.
  void want(int threads) {
    if (wanted.load() == threads) return;
    wanted.store(threads);
    wanted.notify_all();
    round.fetch_add(1);
    round.notify_all();
  }

  [[noreturn]] void help(int i, unsigned seen) {
    for (;;) {
      for (int others; i >= (others = wanted.load()) - 1;) wanted.wait(others);
      seen = wait(seen);
      if (i >= wanted.load() - 1) continue;
      inside.fetch_add(1);
      if (open.load()) work(argument, parts);
      if (inside.fetch_sub(1) == 1) inside.notify_all();
    }
  }

  // Starts so many helpers; false if there are none to be had.
  bool start(int helpers) {
    try {
      for (; started < helpers; ++started)
        std::thread(&Pool::help, this, started, round.load()).detach();
    } catch (const std::system_error&) {
    }
    return started > 0;
  }

  void wake(std::ptrdiff_t helpers) {
    const int asleep = sleeping.load();
    if (asleep > helpers)
      for (; helpers > 0; --helpers) round.notify_one();
    else if (asleep)
      round.notify_all();
  }

  // How many threads are to share the next piece, which are then those that are wanted.
  int threads() {
    if (anew.load() && anew.exchange(false)) crowding = {};
    const int found = crowding.threads(count.load(), Clock::now());
    want(found);
    return found;
  }

  void run(std::ptrdiff_t n, int threads, void (*function)(void*, Parts&), void* with) {
    const auto began = Clock::now();
    parts.reset(n);
    work = function, argument = with;
    open.store(true);
    round.fetch_add(1);
    wake(n - 1);
    work(argument, parts);
    open.store(false);
    const auto done = Clock::now();
    if (look_for(kHaste, [&] { return !inside.load(); })) return;
    for (int left; (left = inside.load());) inside.wait(left);
    const auto now = Clock::now();
    crowding.note({threads, n, done - began, now - done}, now);
  }
};

// Never freed: its threads outlive everything.
alignas(Pool) char memory[sizeof(Pool)];

Pool& pool() {
  static Pool* made = [] {
    in_forked_child(  // whose threads were not copied
        [](void* self) {
          const int count = static_cast<Pool*>(self)->count.load();
          (new (self) Pool)->count.store(count);
        },
        memory);
    return new (memory) Pool;
  }();
  return *made;
}

}  // namespace

void set_workers(int count) {
  pool().count.store(count);
  pool().anew.store(true);
}
int workers() { return pool().count.load(); }

void share(std::ptrdiff_t count, void (*work)(void*, Parts&), void* argument) {
  Pool& all = pool();
  if (all.count.load() > 1 && count > 1 && !all.busy.test_and_set()) {
    const int threads = all.threads();
    const bool shared = threads > 1 && all.start(threads - 1);
    if (shared) all.run(count, threads, work, argument);
    all.busy.clear();
    if (shared) return;
  }
  Parts alone;
  alone.reset(count);
  work(argument, alone);
}

}  // namespace tritorch
