// The exponential function, for loops of our own.
#pragma once

#include <Python.h>

namespace tritorch::host {

// Each of n numbers that follow each other becomes its exponential: of floats that of `_C.exp`.
void exponentials(float* x, Py_ssize_t n);
void exponentials(double* x, Py_ssize_t n);

}  // namespace tritorch::host
