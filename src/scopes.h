// What is set for a time, and set back: the base of all context managers that set something.
#pragma once

#include <Python.h>

namespace tritorch {

// Whether what is set back in this thread must be set, even if deferred calls cannot be computed
// first.
extern thread_local int restoring;

// Whether a dispatch mode, or who notes calls, is told of every operator, in any thread.
bool is_watched();

// Adds the types and functions to the module.  False with a Python error set on failure.
bool add_scope_types(PyObject* module);

}  // namespace tritorch
