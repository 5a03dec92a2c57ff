#include "tensor/placing.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "array/array.h"
#include "array/order.h"
#include "launch/pack.h"
#include "ref.h"

namespace tritorch {

PyObject* lay_out = nullptr;

namespace {

using Ints = std::vector<std::int64_t>;

std::int64_t times(std::int64_t a, std::int64_t b) {  // a slice's step may be of any size
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// ---- views --------------------------------------------------------------------------------------

// Follows the items of a basic index through the dims of its source.
struct Part {
  NDArray* part;
  const NDArray* source;
  int from = 0, to = 0;
  std::int64_t skip = 0;

  void whole(int dims) {
    while (dims-- > 0) part->strides[to++] = source->strides[from++];
  }
  bool new_dim(PyObject* array) {
    const std::int64_t inner =
        from < source->nd ? source->dimensions[from] * source->strides[from] : itemsize_of(array);
    part->strides[to++] = inner;
    return !PyErr_Occurred();
  }
  bool index(PyObject* item) {
    Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);
    if (index == -1 && PyErr_Occurred()) return false;
    if (index < 0) index += source->dimensions[from];
    skip += index * source->strides[from++];
    return true;
  }
  bool range(PyObject* first, PyObject* end, PyObject* by) {
    const Ref slice(PySlice_New(first, end, by));
    Py_ssize_t start, stop, step;
    if (!slice || PySlice_Unpack(slice.get(), &start, &stop, &step) < 0) return false;
    PySlice_AdjustIndices(source->dimensions[from], &start, &stop, step);
    skip += start * source->strides[from];
    part->strides[to++] = times(step, source->strides[from++]);
    return true;
  }
};

// The view by (dim, index), by (dim, start, end, step) or by a key of ints, (start, end, step) and
// None: NumPy gives new dims strides of 0, and forgets where an empty slice starts and what its
// step is.
bool place_part(NDArray* part, PyObject* array, PyObject* params) {
  const NDArray* source = as_ndarray(array);
  const Py_ssize_t n = PyTuple_GET_SIZE(params);
  PyObject* first = PyTuple_GET_ITEM(params, 0);
  PyObject* key = PyTuple_Check(first) ? first : nullptr;
  const bool empty = part->is_empty();
  bool widened = false;
  for (Py_ssize_t i = 0; key && i < PyTuple_GET_SIZE(key); ++i)
    widened |= PyTuple_GET_ITEM(key, i) == Py_None;
  if (!widened && !empty) return true;
  Part found{part, source};
  if (key) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key) && found.to <= part->nd; ++i) {
      PyObject* item = PyTuple_GET_ITEM(key, i);
      bool good;
      if (item == Py_None)
        good = found.new_dim(array);
      else if (PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 3)
        good = found.range(PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1),
                           PyTuple_GET_ITEM(item, 2));
      else
        good = found.index(item);
      if (!good) return false;
    }
  } else {
    const long dim = PyLong_AsLong(first);
    if (dim == -1 && PyErr_Occurred()) return false;
    found.whole(static_cast<int>(dim));
    const bool good =
        n == 2 ? found.index(PyTuple_GET_ITEM(params, 1))
               : n != 4 || found.range(PyTuple_GET_ITEM(params, 1), PyTuple_GET_ITEM(params, 2),
                                       PyTuple_GET_ITEM(params, 3));
    if (!good) return false;
  }
  while (found.from < source->nd && found.to < part->nd) found.whole(1);
  if (empty) part->data = source->data + found.skip;
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

// How an array lies, on the host or a device; nothing for what is no array.
std::optional<Lie> lie_of(PyObject* array) {
  if (const NDArray* host = as_ndarray(array)) {
    const std::int64_t itemsize = itemsize_of(array);
    if (itemsize <= 0) return std::nullopt;
    return Lie{host->shape(), host->steps(), itemsize};
  }
  if (const Array* device = as_array(array))
    return Lie{device->layout.shape(), device->layout.strides()};
  return std::nullopt;
}

const NDArray* array_at(const Inputs& inputs, std::size_t i) {
  return inputs.arrays[i] ? as_ndarray(inputs.arrays[i]) : nullptr;
}

// Whether all arrays are dense in row-major order, so that a result is where NumPy has put it.
bool all_row_major(const NDArray* result, const Inputs& inputs) {
  if (!result->is_contiguous()) return false;
  for (std::size_t i = 0; i < inputs.n; ++i) {
    const NDArray* input = array_at(inputs, i);
    if (input && !strictly_row_major(input)) return false;
  }
  return true;
}

// The strides that the operands of an elementwise operator ask for; none if that is not known.
Ints elementwise_strides(const NDArray* result, const Inputs& inputs) {
  std::vector<Lie> operands;
  std::vector<Ints> casts;
  operands.reserve(inputs.n);
  casts.reserve(inputs.n);
  bool numbers = inputs.numbers;
  for (std::size_t i = 0; i < inputs.n; ++i) {
    const NDArray* input = array_at(inputs, i);
    if (!input || input->nd == 0 || input->nd > result->nd) {
      numbers = true;
      continue;
    }
    const std::int64_t itemsize = itemsize_of(inputs.arrays[i]);
    if (itemsize <= 0) return {};
    operands.push_back({input->shape(), input->steps(), itemsize});
    if (inputs.computed && input->descr != inputs.computed && i >= inputs.masks) {
      casts.push_back(copy_strides(operands.back()));
      operands.back() = {input->shape(), casts.back(), 1};
    }
  }
  return result_strides(result->shape(), operands, numbers);
}

// Whether x[indices] is row-major as a matter of course: strides of what it is made of decrease.
bool index_keeps_order(const NDArray* result, const Inputs& inputs) {
  if (!result->is_contiguous()) return false;
  for (int dim = 0; dim < result->nd; ++dim)
    if (result->dimensions[dim] < 2) return false;
  for (std::size_t i = 0; i < inputs.n; ++i) {
    const NDArray* input = array_at(inputs, i);
    if (input && !input->is_contiguous()) return false;
  }
  return true;
}

// PyTorch runs over x, in whose strides 0 stands for the indices' dims, and over the indices.
Ints indexed_strides(const NDArray* result, const Inputs& inputs) {
  const NDArray* x = array_at(inputs, 0);
  const std::int64_t itemsize = x ? itemsize_of(inputs.arrays[0]) : 0;
  if (itemsize <= 0) return {};
  std::size_t first = 0, last = 0, count = 0;
  for (std::size_t i = 1; i < inputs.n; ++i) {
    if (!inputs.arrays[i]) continue;
    if (!array_at(inputs, i)) return {};
    if (count++ == 0) first = i - 1;
    last = i - 1;
  }
  const auto nd = static_cast<std::size_t>(x->nd), wide = static_cast<std::size_t>(result->nd);
  if (count == 0 || wide + count < nd) return {};
  const std::size_t common = wide + count - nd;  // dims of the indices' shape
  const std::size_t at = last - first + 1 == count ? first : 0;
  const auto shape = result->shape();
  std::vector<Ints> lists;  // a shape and strides of each
  lists.reserve(2 * (count + 1));
  lists.emplace_back(shape.begin(), shape.end());
  Ints& source = lists.emplace_back(wide, 0);
  for (std::size_t dim = 0, to = 0; dim < nd; ++dim) {
    if (dim + 1 < inputs.n && inputs.arrays[dim + 1]) continue;
    if (to == at) to += common;
    source[to++] = x->strides[dim] / itemsize;
  }
  for (std::size_t i = 1; i < inputs.n; ++i) {
    const NDArray* index = array_at(inputs, i);
    if (!index) continue;
    const auto own = static_cast<std::size_t>(index->nd), lead = common - own;
    const Sizes sizes = shape.subspan(at, common);
    const auto bytes = static_cast<std::int64_t>(sizeof(std::int64_t));
    Ints steps(common);
    for (std::size_t dim = common; dim-- > 0;) {
      const std::int64_t inner = dim + 1 < common && own > 0 ? sizes[dim + 1] * steps[dim + 1] : 0;
      const std::int64_t have = dim >= lead ? index->dimensions[dim - lead] : 1;
      if (have == sizes[dim]) steps[dim] = dim >= lead ? index->strides[dim - lead] / bytes : inner;
    }
    Ints& whole = lists.emplace_back(wide, 1);
    std::ranges::copy(sizes, whole.begin() + static_cast<std::ptrdiff_t>(at));
    const auto seen = view_strides(Layout(sizes, steps), whole);
    if (!seen) return {};
    lists.push_back(*seen);
  }
  std::vector<Lie> operands;
  for (std::size_t i = 0; i < lists.size(); i += 2) operands.push_back({lists[i], lists[i + 1]});
  return result_strides(shape, operands, false);
}

}  // namespace

std::int64_t itemsize_of(PyObject* array) {
  static PyObject* name = PyUnicode_InternFromString("itemsize");
  const Ref size(PyObject_GetAttr(array, name));
  return size ? PyLong_AsLongLong(size.get()) : -1;
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
  if (placing == Placing::part) return place_part(a, source, params);
  const long long dim = PyLong_AsLongLong(PyTuple_GET_ITEM(params, 0));
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

bool restride(PyObject* object, std::span<const std::int64_t> strides) {
  NDArray* array = as_ndarray(object);
  const std::int64_t itemsize = array ? itemsize_of(object) : 0;
  if (itemsize <= 0 || strides.size() != static_cast<std::size_t>(array->nd)) return false;
  if (!array->is_empty())
    for (std::size_t dim = 0; dim < strides.size(); ++dim)
      if (array->dimensions[dim] > 1 && array->strides[dim] != strides[dim] * itemsize)
        return false;
  for (std::size_t dim = 0; dim < strides.size(); ++dim)
    array->strides[dim] = strides[dim] * itemsize;
  return true;
}

namespace {

// The deciding inputs of a memory format, and whether they and the result lie in row-major order.
struct Deciding {
  std::vector<Lie> lies;
  bool usual = true;
};

Deciding deciding(const Lie& result, const Inputs& inputs) {
  Deciding found;
  found.usual = strictly_row_major(result);
  for (std::size_t i = 0; i < inputs.n; ++i) {
    if (i < 32 && !((inputs.deciding >> i) & 1)) continue;
    const auto lie = inputs.arrays[i] ? lie_of(inputs.arrays[i]) : std::nullopt;
    if (!lie || lie->shape.size() != result.shape.size()) continue;
    found.usual &= strictly_row_major(*lie);
    found.lies.push_back(*lie);
  }
  return found;
}

// The strides of a result that no operand's elements are merged for; none if they are right or
// not known.
Ints simple_strides(Placing placing, const Lie& result, const Inputs& inputs) {
  const auto first = inputs.n && inputs.arrays[0] ? lie_of(inputs.arrays[0]) : std::nullopt;
  if (placing == Placing::copy) {
    if (!first || !std::ranges::equal(first->shape, result.shape)) return {};
    if (strictly_row_major(*first) && strictly_row_major(result)) return {};
    return copy_strides(*first);
  }
  if (placing == Placing::format || placing == Placing::any_format) {
    const Deciding found = deciding(result, inputs);
    if (found.usual) return {};
    return format_strides(result.shape, found.lies, placing == Placing::any_format);
  }
  if (placing == Placing::column_major && first && first->shape.size() == result.shape.size())
    return column_major_strides(result.shape);
  if (placing == Placing::row_major && strictly_row_major(result)) return {};
  return result_strides(result.shape, {}, false);
}

PyObject* copy_with(PyObject* array, const Ints& strides) {
  const Ref wanted(PyTuple_New(static_cast<Py_ssize_t>(strides.size())));
  if (!wanted) return nullptr;
  for (std::size_t dim = 0; dim < strides.size(); ++dim)
    PyTuple_SET_ITEM(wanted.get(), static_cast<Py_ssize_t>(dim), PyLong_FromLongLong(strides[dim]));
  return PyObject_CallFunctionObjArgs(lay_out, array, wanted.get(), nullptr);
}

// A device's result.  Kernels of elementwise operators and of indexing write in PyTorch's order by
// themselves; of the others most do, and for the rest a copy follows.
PyObject* place_on_device(Placing placing, PyObject* array, const Array& result,
                          const Inputs& inputs) {
  const bool simple = placing == Placing::format || placing == Placing::any_format ||
                      placing == Placing::copy || placing == Placing::row_major;
  if (!simple || result.layout.ndim() == 0) return Py_NewRef(array);
  const Lie lie{result.layout.shape(), result.layout.strides()};
  const Ints wanted = simple_strides(placing, lie, inputs);
  if (wanted.empty() || std::ranges::equal(wanted, lie.strides)) return Py_NewRef(array);
  for (std::size_t dim = 0; dim < wanted.size(); ++dim)
    if (lie.shape[dim] > 1 && lie.strides[dim] != wanted[dim]) return copy_with(array, wanted);
  return array_object(result.view_of(Layout(lie.shape, wanted), result.offset));
}

}  // namespace

PyObject* place_result(Placing placing, PyObject* array, const Inputs& inputs) {
  const NDArray* result = as_ndarray(array);
  if (!result) {
    const Array* on_device = as_array(array);
    return on_device ? place_on_device(placing, array, *on_device, inputs) : Py_NewRef(array);
  }
  if (result->nd == 0) return Py_NewRef(array);
  if (placing == Placing::magnitude) {
    const std::int64_t own = itemsize_of(array),
                       of = inputs.n ? itemsize_of(inputs.arrays[0]) : own;
    if (own <= 0 || of <= 0) return nullptr;
    placing = own == of ? Placing::elementwise : Placing::copy;
  }
  Ints wanted;
  if (placing == Placing::elementwise) {
    if (all_row_major(result, inputs)) return Py_NewRef(array);
    wanted = elementwise_strides(result, inputs);
  } else if (placing == Placing::indexed) {
    if (index_keeps_order(result, inputs)) return Py_NewRef(array);
    wanted = indexed_strides(result, inputs);
  } else {
    const bool follows = placing != Placing::row_major && placing != Placing::column_major;
    if (follows && strictly_row_major(result) && all_row_major(result, inputs))
      return Py_NewRef(array);
    const auto lie = lie_of(array);
    if (!lie) return PyErr_Occurred() ? nullptr : Py_NewRef(array);
    wanted = simple_strides(placing, *lie, inputs);
  }
  if (wanted.empty()) return PyErr_Occurred() ? nullptr : Py_NewRef(array);
  const std::int64_t itemsize = itemsize_of(array);
  if (itemsize <= 0) return nullptr;
  bool good = true;
  for (std::size_t dim = 0; dim < wanted.size(); ++dim)
    good &= result->strides[dim] == wanted[dim] * itemsize;
  if (good) return Py_NewRef(array);
  const bool own =
      std::find(inputs.arrays, inputs.arrays + inputs.n, array) == inputs.arrays + inputs.n;
  if (own && restride(array, wanted)) return Py_NewRef(array);
  return copy_with(array, wanted);
}

}  // namespace tritorch
