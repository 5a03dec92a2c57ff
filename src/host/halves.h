// Casts between float16 and float32, of dense arrays.
#pragma once

#include <Python.h>

#include "tensor/ndarray.h"

namespace tritorch::host {

// to[...] = from. False, and nothing is done, for other dtypes and for arrays that lie otherwise.
bool cast_halves(const NDArray* from, const NDArray* to);

// Adds `cast_halves` to the module.  False with a Python error set on failure.
bool add_halves(PyObject* module);

}  // namespace tritorch::host
