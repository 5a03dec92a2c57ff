// Steps of chains that NumPy has no loop for.
#pragma once

#include <Python.h>

namespace tritorch {

// Element by element, by mask: what the second operand has, or the third.  False if there is no
// such itemsize.
bool select_any(Py_ssize_t itemsize, char* const* p, const Py_ssize_t* by, Py_ssize_t n);

using Convert = void (*)(char* const*, const Py_ssize_t*, Py_ssize_t);

// Between dtypes by their characters.  Conversions that are the same on every machine: none of
// floats to integers; else null.
Convert converter(char from, char to);

// Whether all of n floats are.
bool is_finite(Py_ssize_t itemsize, const char* data, Py_ssize_t n);

}  // namespace tritorch
