// DLPack: arrays handed to and taken from other libraries without a copy.
#pragma once

#include <Python.h>

#include "array/array.h"

namespace tritorch {

// A capsule that owns a reference to the array's storage.
PyObject* to_dlpack(const Array& array, bool versioned);
// Takes over a capsule (either version); throws std::invalid_argument for what is not on a GPU.
Array from_dlpack(PyObject* capsule);

}  // namespace tritorch
