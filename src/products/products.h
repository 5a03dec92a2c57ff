// Matrix products of ndarrays on our own threads: Note [Products on our threads] in blas.h.
#pragma once

#include <Python.h>

namespace tritorch {

// Adds `multiply` and `find_blas_with` to the module.  False with a Python error set on failure.
bool add_product_functions(PyObject* module);

}  // namespace tritorch
