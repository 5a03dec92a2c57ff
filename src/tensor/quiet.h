// A Quiet is a function of the CPU's backend, called with NumPy's floating point errors ignored:
// 0/0 is NaN in PyTorch without a word, whatever the program has told NumPy (np.seterr) or Python
// (warnings.simplefilter("error")).
//
// NumPy keeps what it does about errors in a context variable.  Setting it takes 200 ns; entering a
// context in which it is set takes 40.
#pragma once

#include <Python.h>

#include "ref.h"

namespace tritorch {

// A scope in which NumPy's errors are ignored.
class QuietScope {
 public:
  QuietScope();
  ~QuietScope();
  QuietScope(const QuietScope&) = delete;
  bool entered() const { return entered_; }  // else a Python error is set

 private:
  Ref context_;
  bool entered_ = false;
};

// function(*arguments), quietly.
PyObject* call_quietly(PyObject* function, PyObject* const* args, size_t n, PyObject* names);

// Whether a function is a `Parts`: it is put together from public operators, whose own functions of
// arrays call plans see in its place.
bool is_parts(PyObject* function);

// Adds the type to the module.  False with a Python error set on failure.
bool add_quiet_type(PyObject* module);

// Throws away the contexts in which calls run, so that later ones have what is set now.
void forget_contexts();

}  // namespace tritorch
