// Loops of the inverse error function, as ufuncs have them.
#pragma once

#include <Python.h>

namespace tritorch::host {

void erfinv32(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*);
void erfinv64(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*);

}  // namespace tritorch::host
