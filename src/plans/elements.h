// Plans of pointwise records on the CPU: Note [Plans of elements] in elements.cpp.
#pragma once

#include <Python.h>

namespace tritorch::plans {

// Adds `ElementPlans` to the module.  False with a Python error set on failure.
bool add_element_plans(PyObject* module);

}  // namespace tritorch::plans
