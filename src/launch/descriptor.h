// Descriptor(array, block): a block-wise view of an array, for kernels that load through TMA.
//
// What triton.tools.tensor_descriptor.TensorDescriptor says, without its Python: shape and strides
// are the array's own, so making one and passing it costs no conversion.
#pragma once

#include <Python.h>

#include <array>

#include "array/array.h"

namespace tritorch {

struct Descriptor {
  static constexpr int kMaxRank = 5;
  PyObject_HEAD PyObject* base;  // owned; an Array
  const Array* array;            // base's
  int rank;
  // Innermost dimension first, as tensor maps want them; strides of dims of size one are replaced
  // by what the hardware accepts.
  std::array<std::int64_t, kMaxRank> shape, strides;
  std::array<std::uint32_t, kMaxRank> block;
};

// Null for anything else.
const Descriptor* as_descriptor(PyObject* object) noexcept;

bool add_descriptor_type(PyObject* module);

}  // namespace tritorch
