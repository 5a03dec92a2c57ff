// What a program asks of a tensor all the time (its sizes, its device, ...), answered without
// Python where the array is a plain one: an ndarray or a device array, and the tensor's class is
// Tensor or Parameter.  The methods and properties in tritorch/core/tensor.py say what is meant,
// and answer for all other tensors, arguments and mistakes.
#pragma once

#include <Python.h>

namespace tritorch {

// Null, and no error, where Python's function has to be asked.  args[0] is the tensor.
using Reply = PyObject* (*)(PyObject* const* args, Py_ssize_t n);

// The answer to a method of this name, or null.
Reply find_reply(PyObject* name);

// Adds the type Property, a `property` that is answered natively.  False with a Python error set
// on failure.
bool add_property_type(PyObject* module);

}  // namespace tritorch
