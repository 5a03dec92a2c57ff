// A flush runs to its end, whatever signal arrives: the values are somebody's.
#pragma once

#include <Python.h>

namespace tritorch {

// True if the error that is set interrupts a program, and is none of what it computes.
inline bool is_interrupt() { return !PyErr_ExceptionMatches(PyExc_Exception); }

// Until it is finished, the first Ctrl-C waits; a second one is raised at once.  Does nothing in
// threads that run no signal handlers, nor inside of another.  It costs two calls of signal.signal,
// 0.7 us, so only who writes memory uses it; others can begin again.
class Uninterrupted {
 public:
  void begin();
  // Whether nothing was raised; `good`: whether that was so before.
  bool finish(bool good);

 private:
  PyObject* before_ = nullptr;                                      // the handler
  PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;  // what arrived at the beginning
};

}  // namespace tritorch
