// Pointwise functions of arrays, computed together: Note [Chains] in chain.cpp.
#pragma once

#include <Python.h>

namespace tritorch {

// Adds the type Chain to the module.  False with a Python error set on failure.
bool add_chain_type(PyObject* module);

}  // namespace tritorch
