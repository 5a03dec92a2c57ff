// Launches that wait for their kernels, as code sees them that asks anything of a device: it has to
// start them first, so that all happens in the order in which it was asked for (`drive` does).
// launch/waiting.h says what waits and why.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "driver/recorder.h"

namespace tritorch {

// What starts them; null while none waits.
inline std::atomic<void (*)()> starts_what_waits{nullptr};

inline bool launches_wait() noexcept {
  return starts_what_waits.load(std::memory_order_acquire) != nullptr;
}

// Starts what waits, and waits for its kernels.  Throws what that raises.
inline void start_what_waits() {
  if (auto start = starts_what_waits.load(std::memory_order_acquire)) [[unlikely]]
    start();
}

// Puts a call behind what waits; false if nothing does any more, or this thread starts it.
inline bool (*puts_behind)(std::function<void()> call) = nullptr;

// Whether a call will be made behind launches that wait.  What is recorded waits for nothing.
template <class Call>
bool made_later(Call&& call) {
  if (!launches_wait() || recorder) return false;
  return puts_behind(std::forward<Call>(call));
}

}  // namespace tritorch
