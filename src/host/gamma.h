// The loop of log |gamma|, as ufuncs have it.
#pragma once

#include <Python.h>

namespace tritorch::host {

void lgamma64(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*);

}  // namespace tritorch::host
