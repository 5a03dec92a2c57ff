// Note [Blocking regions]: a thread that may wait (for the driver, for a contended lock) must not
// hold Python's interpreter lock meanwhile: the simulated device runs kernels in Python on
// whichever thread drains a queue, and a real driver may run host callbacks.  Code that may wait
// opens a BlockingRegion.  The core knows nothing of Python: the bindings install the two hooks.
#pragma once

#include <mutex>

namespace tritorch {

struct BlockingHooks {
  void* (*enter)() = nullptr;      // releases the interpreter lock if this thread holds it
  void (*leave)(void*) = nullptr;  // takes it back; not called when enter returned null
};
inline BlockingHooks blocking_hooks;

class BlockingRegion {
 public:
  BlockingRegion() : token_(blocking_hooks.enter ? blocking_hooks.enter() : nullptr) {}
  ~BlockingRegion() {
    if (token_) blocking_hooks.leave(token_);
  }
  BlockingRegion(const BlockingRegion&) = delete;
  BlockingRegion& operator=(const BlockingRegion&) = delete;

 private:
  void* token_;
};

// Locks without a blocking region when the mutex is free, which is nearly always.
template <class Mutex>
std::unique_lock<Mutex> lock_politely(Mutex& mutex) {
  std::unique_lock<Mutex> lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    BlockingRegion waiting;
    lock.lock();
  }
  return lock;
}

}  // namespace tritorch
