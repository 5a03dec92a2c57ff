// What of a NumPy array is read natively: the fields that NumPy's ABI has fixed since 1.7.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

#include "array/order.h"

namespace tritorch {

struct NDArray {
  PyObject_HEAD char* data;
  int nd;
  Py_ssize_t* dimensions;
  Py_ssize_t* strides;  // in bytes
  PyObject* base;
  PyObject* descr;
  int flags;

  bool is_contiguous() const { return flags & 1; }
  std::span<const std::int64_t> shape() const {
    static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
    return {reinterpret_cast<const std::int64_t*>(dimensions), static_cast<std::size_t>(nd)};
  }
  std::size_t size() const {
    std::size_t n = 1;
    for (int i = 0; i < nd; ++i) n *= static_cast<std::size_t>(dimensions[i]);
    return n;
  }
  bool is_empty() const {
    for (int i = 0; i < nd; ++i)
      if (dimensions[i] == 0) return true;
    return false;
  }
};

// The fields of an array, or null if it is of another type, a subclass for one.
NDArray* as_ndarray(PyObject* array) noexcept;

// Strides in bytes as PyTorch would have them: NumPy gives new dims of size one 0.
inline std::vector<std::int64_t> byte_strides(const NDArray& a, std::int64_t itemsize) {
  std::vector<std::int64_t> strides(a.strides, a.strides + a.nd);
  std::int64_t inner = itemsize;
  for (int dim = a.nd; dim-- > 0;) {
    if (a.dimensions[dim] == 1 && strides[dim] == 0) strides[dim] = inner;
    inner = a.dimensions[dim] * strides[dim];
  }
  return strides;
}

}  // namespace tritorch
