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

  // NumPy's numbers of types that are computed with natively.
  enum Type { kOther = -1, kFloat32 = 11, kFloat64 = 12 };

  bool is_contiguous() const { return flags & 1; }
  static constexpr int kWriteable = 0x0400;
  bool is_writeable() const { return flags & kWriteable; }
  struct Descr {  // as a dtype begins
    PyObject_HEAD PyTypeObject* scalar;
    char kind, character, byteorder, reserved;
    int number;

    // How many bits an integer type's elements have; 0 of other types.
    int integer_bits() const {
      switch (character) {
        case 'b':
        case 'B':
          return 8;
        case 'h':
        case 'H':
          return 16;
        case 'i':
        case 'I':
          return 32;
        case 'l':
        case 'L':
        case 'q':
        case 'Q':
          return 64;
        default:
          return 0;
      }
    }
    // Whether a Python integer is one that the type holds; of other types, that any integer type
    // does.
    bool holds(PyObject* number) const;
  };
  const Descr* dtype() const { return reinterpret_cast<const Descr*>(descr); }
  char kind() const { return dtype()->kind; }  // as in NumPy: 'f', 'i', 'u', ...
  Type type() const {
    const Descr* d = dtype();
    const bool known = d->number == kFloat32 || d->number == kFloat64;
    return known && d->byteorder == '=' ? static_cast<Type>(d->number) : kOther;
  }
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

// A new dense array, whose elements are anything.  Null with a Python error set on failure.
PyObject* new_array(int nd, const Py_ssize_t* shape, PyObject* descr);

// A new view of an array's memory, writable as it is: strides in bytes, elements as `descr` says,
// by default the array's.  Nothing is checked.  Null with a Python error set on failure.
PyObject* view_of(PyObject* source, int nd, const Py_ssize_t* shape, const Py_ssize_t* strides,
                  char* data, PyObject* descr = nullptr);

// A new array as NumPy's astype makes one: in another's order, of a dtype; its elements are
// anything. Null with a Python error set on failure.
PyObject* like_array(PyObject* array, PyObject* descr);

// to[...] = from with whatever cast that takes.  False with a Python error set on failure.
bool copy_into(PyObject* to, PyObject* from);

// The same with a number.
bool fill_with(PyObject* to, PyObject* number);

// Whether the memory that two arrays reach over, of elements of so many bytes, has bytes in common.
bool share_memory(const NDArray* a, const NDArray* b, std::int64_t itemsize);

// Adds `strided_view` to the module.  False with a Python error set on failure.
bool add_ndarray_functions(PyObject* module);

}  // namespace tritorch
