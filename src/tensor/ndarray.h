// What of a NumPy array is read natively: the fields that NumPy's ABI has fixed since 1.7; and
// views made of one.  NumPy's own as_strided takes 30 us.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>

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
  std::span<const std::int64_t> steps() const {
    return {reinterpret_cast<const std::int64_t*>(strides), static_cast<std::size_t>(nd)};
  }
  bool is_empty() const {
    for (int i = 0; i < nd; ++i)
      if (dimensions[i] == 0) return true;
    return false;
  }
};

extern PyObject* ndarray_type;

// The fields of an array, or null if it is of another type, a subclass for one.
inline NDArray* as_ndarray(PyObject* array) {
  if (Py_TYPE(array) != reinterpret_cast<PyTypeObject*>(ndarray_type)) return nullptr;
  return reinterpret_cast<NDArray*>(array);
}

// A new view of an array's memory, writable as it is: strides in bytes, elements as `descr` says,
// by default the array's.  Nothing is checked.  Null with a Python error set on failure.
PyObject* view_of(PyObject* source, int nd, const Py_ssize_t* shape, const Py_ssize_t* strides,
                  char* data, PyObject* descr = nullptr);

// Adds `strided_view` to the module.  False with a Python error set on failure.
bool add_ndarray_functions(PyObject* module);

}  // namespace tritorch
