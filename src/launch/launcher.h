// Launching.  Two Python types, written against CPython because each call is a hot path:
//
//   Launcher  one compiled kernel's plan.  Called by Triton's own kernel[grid](...) path.
//   Kernel    a jit function launched by tritorch itself: from arguments to a key (dtypes, 16-byte
//             alignment, divisibility, size one, constants, options, device), from the key to a
//             Launcher and its CUfunction, all in one call.  A miss asks Python to compile.
#pragma once

#include <Python.h>

namespace tritorch {

// Adds both types, and the registration functions below, to the module.  Returns false with a
// Python error set on failure.
bool add_launch_types(PyObject* module);

}  // namespace tritorch
