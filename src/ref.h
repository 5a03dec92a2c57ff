// A reference to a Python object that is given up at the end of its scope, on every path.
#pragma once

#include <Python.h>

#include <utility>

#include "interpreter.h"

namespace tritorch {

// An owned reference, or nothing.  It is made, copied and dropped with the interpreter lock; only
// where a thread is unwound because Python ends it is left as it is (Note [Threads at exit]).
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}  // a new reference, which it takes over
  static Ref to(PyObject* borrowed) { return Ref(Py_XNewRef(borrowed)); }
  Ref(const Ref& other) : object_(Py_XNewRef(other.object_)) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ && may_use_python()) Py_DECREF(object_);
  }
  PyObject* get() const { return object_; }
  template <class T>
  T* as() const {  // an object of a type of ours
    return reinterpret_cast<T*>(object_);
  }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// The error that is set is taken away.  It is set again, or dropped at the end.
class TakenError {
 public:
  TakenError() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    type_ = Ref(type), value_ = Ref(value), traceback_ = Ref(traceback);
  }
  void normalize() {
    PyObject *type = type_.release(), *value = value_.release(), *traceback = traceback_.release();
    PyErr_NormalizeException(&type, &value, &traceback);
    type_ = Ref(type), value_ = Ref(value), traceback_ = Ref(traceback);
  }
  void restore() { PyErr_Restore(type_.release(), value_.release(), traceback_.release()); }
  explicit operator bool() const { return static_cast<bool>(type_); }
  PyObject* value() const { return value_.get(); }
  PyObject* traceback() const { return traceback_.get(); }

 private:
  Ref type_, value_, traceback_;
};

}  // namespace tritorch
