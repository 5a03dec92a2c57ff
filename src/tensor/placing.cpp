#include "tensor/placing.h"

#include <algorithm>
#include <vector>

#include "array/array.h"
#include "array/order.h"

namespace tritorch {

PyObject* lay_out = nullptr;

namespace {

using Ints = std::vector<std::int64_t>;

std::int64_t times(std::int64_t a, std::int64_t b) {  // a slice's step may be of any size
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// ---- views --------------------------------------------------------------------------------------

// The view array[key]: NumPy gives new dims strides of 0, and forgets where an empty slice starts
// and what its step is.
bool place_part(NDArray* part, PyObject* array, PyObject* key) {
  const NDArray* source = as_ndarray(array);
  const Py_ssize_t n = PyTuple_GET_SIZE(key);
  bool widened = false;
  for (Py_ssize_t i = 0; i < n; ++i) widened |= PyTuple_GET_ITEM(key, i) == Py_None;
  const bool empty = part->is_empty();
  if (!widened && !empty) return true;
  int from = 0, to = 0;
  std::int64_t skip = 0;
  for (Py_ssize_t i = 0; i < n && to <= part->nd; ++i) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    if (item == Py_Ellipsis) break;
    if (item == Py_None) {
      const std::int64_t inner =
          from < source->nd ? source->dimensions[from] * source->strides[from] : itemsize_of(array);
      if (PyErr_Occurred()) return false;
      part->strides[to++] = inner;
    } else if (PySlice_Check(item)) {
      Py_ssize_t start, stop, step;
      if (PySlice_Unpack(item, &start, &stop, &step) < 0) return false;
      PySlice_AdjustIndices(source->dimensions[from], &start, &stop, step);
      skip += start * source->strides[from];
      part->strides[to++] = times(step, source->strides[from++]);
    } else {
      Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);
      if (index == -1 && PyErr_Occurred()) return false;
      if (index < 0) index += source->dimensions[from];
      skip += index * source->strides[from++];
    }
  }
  while (from < source->nd && to < part->nd) part->strides[to++] = source->strides[from++];
  if (empty) part->data = source->data + skip;
  return true;
}

bool place_reshaped(NDArray* view, PyObject* array) {
  bool determined = true;  // dims of several elements have the only strides that there are
  for (int dim = 0; dim < view->nd; ++dim) determined &= view->dimensions[dim] > 1;
  if (determined) return true;
  const NDArray* source = as_ndarray(array);
  if (source->nd && strictly_row_major(source)) {
    std::int64_t step = source->strides[source->nd - 1];
    for (int dim = view->nd; dim-- > 0; step *= view->dimensions[dim]) view->strides[dim] = step;
    return true;
  }
  const std::int64_t itemsize = itemsize_of(array);
  if (itemsize <= 0) return !PyErr_Occurred();
  Ints own(source->strides, source->strides + source->nd);
  for (std::int64_t& stride : own) stride /= itemsize;
  const auto strides = view_strides(Layout(source->shape(), own), view->shape());
  for (int dim = 0; strides && dim < view->nd; ++dim)
    view->strides[dim] = (*strides)[static_cast<std::size_t>(dim)] * itemsize;
  return true;
}

bool place_unsqueezed(NDArray* view, PyObject* array, std::int64_t at) {
  const NDArray* source = as_ndarray(array);
  std::int64_t inner;
  if (at < source->nd)
    inner = source->dimensions[at] * source->strides[at];
  else if ((inner = itemsize_of(array)) <= 0)
    return !PyErr_Occurred();
  for (int dim = 0; dim < view->nd; ++dim)
    view->strides[dim] =
        dim < at ? source->strides[dim] : (dim == at ? inner : source->strides[dim - 1]);
  return true;
}

// ---- results ------------------------------------------------------------------------------------

// Whether all arrays are dense in row-major order, so that a result is where NumPy has put it.
bool all_row_major(const NDArray* result, PyObject* const* inputs, std::size_t n) {
  if (!result->is_contiguous()) return false;
  for (std::size_t i = 0; i < n; ++i) {
    const NDArray* input = inputs[i] ? as_ndarray(inputs[i]) : nullptr;
    if (input && !strictly_row_major(input)) return false;
  }
  return true;
}

// The strides that the operands of an elementwise operator ask for; none if that is not known.
Ints wanted_strides(const NDArray* result, PyObject* const* inputs, std::size_t n) {
  std::vector<Lie> operands;
  operands.reserve(n);
  bool numbers = false;
  for (std::size_t i = 0; i < n; ++i) {
    const NDArray* input = inputs[i] ? as_ndarray(inputs[i]) : nullptr;
    if (!input || input->nd == 0 || input->nd > result->nd) {
      numbers = true;
      continue;
    }
    const std::int64_t itemsize = itemsize_of(inputs[i]);
    if (itemsize <= 0) return {};
    operands.push_back({input->shape(), input->steps(), itemsize});
  }
  return result_strides(result->shape(), operands, numbers);
}

// Gives an array other strides where nothing is read through them.  False: it takes a copy.
bool restride(NDArray* array, const Ints& strides, std::int64_t itemsize) {
  if (!array->is_empty())
    for (int dim = 0; dim < array->nd; ++dim)
      if (array->dimensions[dim] > 1 &&
          array->strides[dim] != strides[static_cast<std::size_t>(dim)] * itemsize)
        return false;
  for (int dim = 0; dim < array->nd; ++dim)
    array->strides[dim] = strides[static_cast<std::size_t>(dim)] * itemsize;
  return true;
}

}  // namespace

std::int64_t itemsize_of(PyObject* array) {
  static PyObject* name = PyUnicode_InternFromString("itemsize");
  PyObject* size = PyObject_GetAttr(array, name);
  const long long found = size ? PyLong_AsLongLong(size) : -1;
  Py_XDECREF(size);
  return found;
}

bool give_strides(PyObject* array) {
  NDArray* a = as_ndarray(array);
  if (!a || a->nd == 0 || !a->is_empty()) return true;
  for (int dim = 0; dim < a->nd; ++dim)
    if (a->strides[dim] != 0) return true;
  std::int64_t step = itemsize_of(array);
  if (step <= 0) return !PyErr_Occurred();
  for (int dim = a->nd; dim-- > 0;) {
    a->strides[dim] = step;
    step *= a->dimensions[dim] > 1 ? a->dimensions[dim] : 1;
  }
  return true;
}

bool place_view(Placing placing, PyObject* view, PyObject* source, PyObject* params) {
  NDArray* a = as_ndarray(view);
  if (placing == Placing::own || !a || view == source || !as_ndarray(source)) return true;
  if (placing == Placing::reshaped) return place_reshaped(a, source);
  if (!PyTuple_Check(params) || PyTuple_GET_SIZE(params) == 0) return true;
  PyObject* first = PyTuple_GET_ITEM(params, 0);
  if (placing == Placing::part) return !PyTuple_Check(first) || place_part(a, source, first);
  const long long dim = PyLong_AsLongLong(first);
  return !PyErr_Occurred() && place_unsqueezed(a, source, dim);
}

bool strictly_row_major(const NDArray* a) {
  if (!a->is_contiguous()) return false;
  std::int64_t step = 0;  // the bytes of what lies further in; unknown before a dim of several
  for (int dim = a->nd; dim-- > 0;) {
    if (a->dimensions[dim] == 1) continue;
    step = a->strides[dim];
    break;
  }
  bool ones = false, nothing = false;
  for (int dim = 0; dim < a->nd; ++dim) {
    ones |= a->dimensions[dim] == 1;
    nothing |= a->dimensions[dim] == 0;
  }
  if (!ones && !nothing) return true;
  if (nothing || step == 0) return false;  // or nothing but ones: whoever asks looks closer
  for (int dim = a->nd; dim-- > 0; step *= a->dimensions[dim])
    if (a->strides[dim] != step) return false;
  return true;
}

PyObject* place_result(Placing placing, PyObject* array, PyObject* const* inputs, std::size_t n) {
  NDArray* result = as_ndarray(array);
  if (!result || result->nd == 0) return Py_NewRef(array);
  Ints wanted;
  if (placing == Placing::elementwise) {
    if (all_row_major(result, inputs, n)) return Py_NewRef(array);
    wanted = wanted_strides(result, inputs, n);
  } else if (placing == Placing::copy) {
    const NDArray* input = n && inputs[0] ? as_ndarray(inputs[0]) : nullptr;
    if (!input || !std::ranges::equal(input->shape(), result->shape())) return Py_NewRef(array);
    if (strictly_row_major(input) && strictly_row_major(result)) return Py_NewRef(array);
    const std::int64_t itemsize = itemsize_of(inputs[0]);
    if (itemsize > 0) wanted = copy_strides({input->shape(), input->steps(), itemsize});
  } else {
    if (strictly_row_major(result)) return Py_NewRef(array);
    wanted = result_strides(result->shape(), {}, false);
  }
  const std::int64_t itemsize = wanted.empty() ? 0 : itemsize_of(array);
  if (itemsize <= 0) return PyErr_Occurred() ? nullptr : Py_NewRef(array);
  const bool own = std::find(inputs, inputs + n, array) == inputs + n;
  if (own && restride(result, wanted, itemsize)) return Py_NewRef(array);
  PyObject* strides = PyTuple_New(result->nd);
  for (int dim = 0; strides && dim < result->nd; ++dim)
    PyTuple_SET_ITEM(strides, dim, PyLong_FromLongLong(wanted[static_cast<std::size_t>(dim)]));
  PyObject* moved =
      strides ? PyObject_CallFunctionObjArgs(lay_out, array, strides, nullptr) : nullptr;
  Py_XDECREF(strides);
  return moved;
}

}  // namespace tritorch
