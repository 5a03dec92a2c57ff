// Note [Threads at exit]: when Python ends, daemon threads are still there.  Before 3.14, one that
// asks for the interpreter lock then is ended by pthread_exit, which unwinds its frames: ours would
// meet a destructor, a noexcept or a catch (...), and abort the process.  Here such a thread waits
// for the end of the process instead, as threads do since 3.14.  On its way to where it waits it
// passes destructors: those that need the interpreter ask for it (`may_use_python`).
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace tritorch {

// Python runs what was registered with atexit, or has: threads may come to their end in calls.
inline std::atomic<bool> python_ends{false};
inline pthread_t ending_thread;  // which runs it; set before

// False in a thread that is being unwound without the interpreter lock, or that Python has left.
inline bool may_use_python() {
  if (!python_ends.load(std::memory_order_acquire)) [[likely]]
    return true;
  return pthread_equal(pthread_self(), ending_thread) || (Py_IsInitialized() && PyGILState_Check());
}

// Where Python is about to forget its threads, a thread may not even ask for the lock.
inline void wait_if_python_is_gone() {
  while (python_ends && !Py_IsInitialized() && !pthread_equal(pthread_self(), ending_thread))
    pause();
}

// body(), for code that calls Python from frames that must not be unwound like that.
template <class Body>
auto outlasting(Body&& body) {
#ifdef __GLIBCXX__
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  return body();
#endif
}

// Holds the interpreter lock.  nanobind's own constructor is noexcept, so a thread that ends in it
// would abort the process.
class Acquired {
 public:
  Acquired() {
    wait_if_python_is_gone();
    state_ = PyGILState_Ensure();
  }
  ~Acquired() {
    if (may_use_python()) PyGILState_Release(state_);
  }
  Acquired(const Acquired&) = delete;
  Acquired& operator=(const Acquired&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace tritorch
