// A Gate is a public function as users call it.  It looks at the call before the function does:
// a tensor subclass or another type may override it (`__torch_function__`), a mode may, and
// autocast may cast its arguments.  A plain call pays a comparison for each argument.
//
// What an override does is Python's (tritorch/core/gates.py, tritorch/amp).
#pragma once

#include <Python.h>

namespace tritorch {

// Adds the type and its functions to the module.  False with a Python error set on failure.
bool add_gate_type(PyObject* module);

}  // namespace tritorch
