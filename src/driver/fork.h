// Note [Locks and forks]: a fork copies a lock in the state that it has, and the thread that would
// release it is not copied.  So every lock of ours is one that a forked child makes anew: a
// `ForkMutex` here, `tritorch._locks.lock()` in Python.  What such a lock guards may be half
// changed in the child.  That does no harm where the child may not use it (all that belongs to a
// driver which its parent had loaded) or starts afresh (`in_forked_child`).
#pragma once

#include <atomic>
#include <mutex>
#include <new>

namespace tritorch {

// Calls function(argument) in every forked child, before anything else runs there; later ones
// first.
void in_forked_child(void (*function)(void*), void* argument);
// Takes that back.
void forget_forked_child(void (*function)(void*), void* argument) noexcept;

class ForkMutex : public std::mutex {
 public:
  ForkMutex() { in_forked_child(renew, this); }
  ~ForkMutex() { forget_forked_child(renew, this); }
  ForkMutex(const ForkMutex&) = delete;

 private:
  static void renew(void* self) {
    new (static_cast<std::mutex*>(static_cast<ForkMutex*>(self))) std::mutex;
  }
};

}  // namespace tritorch
