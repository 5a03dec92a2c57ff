// Where the arrays of views and of results lie, to the stride: PyTorch gives dims of size one, and
// tensors without elements, strides of which NumPy knows nothing.
#pragma once

#include <Python.h>

#include <cstdint>

#include "tensor/ndarray.h"

namespace tritorch {

extern PyObject* lay_out;  // (array, strides) -> a copy of the array with other strides

// Bytes of one element; -1 with a Python error, or for what is no number of bytes.
std::int64_t itemsize_of(PyObject* array);

// What an operator's record says of where its results lie; by these numbers in operator.py.
enum class Placing : char {
  own,           // where its function has put them
  elementwise,   // as the operands ask for
  row_major,     // dense in row-major order
  copy,          // as a copy of the first input would
  format,        // dense in the memory format that all deciding inputs suggest
  column_major,  // what has the first input's dims, matrices, column by column
  indexed,       // as x[indices] does: the inputs are x and an index, or nothing, for each dim
  part,          // a view: params are dim and index, dim and slice, or a key of such
  reshaped,      // a view of all elements in another shape
  unsqueezed,    // a view with a dim of size one at params[0]
  magnitude,     // elementwise, but of complex numbers as a copy
  any_format,    // channels_last where one of the deciding inputs suggests it, else row-major
};

// Gives an array without elements the strides that PyTorch would: NumPy makes them all 0.  Returns
// false with a Python error set on failure, as do the others.
bool give_strides(PyObject* array);

// Gives a new view of `source` the strides, and if it has no elements the place, of PyTorch's.
bool place_view(Placing placing, PyObject* view, PyObject* source, PyObject* params);

// Whether an array is dense in row-major order to the stride, dims of size one included.
bool strictly_row_major(const NDArray* a);

// What a result is placed by.
struct Inputs {
  PyObject* const* arrays;  // null for what is no tensor, or lies elsewhere
  std::size_t n;
  bool numbers = false;          // there are Python numbers among the operands
  PyObject* computed = nullptr;  // the dtype that operands are first cast to, but
  std::size_t masks = 0;         // so many at the start
  unsigned deciding = ~0U;       // bit j: input j has a say in a memory format
};

// A result's array, on the host or a device, where it belongs: the array itself, or a copy with
// other strides (a new reference).
PyObject* place_result(Placing placing, PyObject* array, const Inputs& inputs);

// Gives a new array other strides, in elements, where nothing is read through them.  False: it
// takes a copy, or a Python error is set.
bool restride(PyObject* array, std::span<const std::int64_t> strides);

}  // namespace tritorch
