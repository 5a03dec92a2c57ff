// Deadlines, errors, and how a thread of this folder waits: in slices, between which it looks
// whether the program was interrupted.  Nothing here knows Python.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tritorch::distributed {

enum class Trouble : std::uint8_t {
  backend,   // a collective failed
  mismatch,  // the members of a group called different collectives
  timeout,   // a collective or a message did not end in time
  lost,      // a member is gone
  network,   // no connection
  store,     // a store refused, or what was waited for did not come in time
  empty,     // a queue of a store has nothing
};

class Error : public std::runtime_error {
 public:
  Error(Trouble kind, const std::string& what) : std::runtime_error(what), kind(kind) {}
  Trouble kind;
};

// Ctrl-C: the bindings know the exception.
struct Interrupted {};

// Whether the program was interrupted; the bindings set it.  It is asked in threads of Python's
// alone, while they wait for long.
inline bool (*interrupted)() = nullptr;
inline thread_local bool may_be_interrupted = false;
// Whether the process ends while threads of Python's still wait.
inline std::atomic<bool> ending{false};
inline void look_for_interrupts() {
  if (!may_be_interrupted) return;
  if (ending) throw Error(Trouble::lost, "the process ends: its main thread has raised an error");
  if (interrupted && interrupted()) throw Interrupted{};
}

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  static Deadline in(std::chrono::milliseconds time) { return Deadline(Clock::now() + time); }
  explicit Deadline(Clock::time_point end) : end_(end) {}
  bool over() const { return Clock::now() >= end_; }
  // Milliseconds until then: at least 0, at most a slice.
  int slice(int longest = 100) const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count() + 1;
    return left <= 0 ? 0 : left < longest ? static_cast<int>(left) : longest;
  }
  Clock::time_point end() const { return end_; }

 private:
  Clock::time_point end_;
};

}  // namespace tritorch::distributed
