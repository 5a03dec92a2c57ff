#include "tensor/ndarray.h"

#include <algorithm>
#include <utility>

#include "ref.h"
#include "tensor/placing.h"

namespace tritorch {

PyObject* ndarray_type = nullptr;

namespace {

constexpr int kMostDims = 64;  // NumPy's limit, and PyTorch's
// Entries of the table of NumPy's C API, whose places are part of its ABI.
constexpr int kCopyInto = 50, kFillWithScalar = 104, kNewFromDescr = 94, kNewLikeArray = 277,
              kSetBaseObject = 282;

using NewFromDescr = PyObject* (*)(PyTypeObject*, PyObject*, int, const Py_ssize_t*,
                                   const Py_ssize_t*, void*, int, PyObject*);

void** numpy_api() {
  static void** table = nullptr;
  if (table) return table;
  const Ref module(PyImport_ImportModule("numpy._core._multiarray_umath"));
  const Ref capsule(module ? PyObject_GetAttrString(module.get(), "_ARRAY_API") : nullptr);
  if (capsule) table = static_cast<void**>(PyCapsule_GetPointer(capsule.get(), nullptr));
  return table;
}

// The addresses from the lowest to behind the highest byte of an array's elements.
std::pair<const char*, const char*> bounds(const NDArray* a, std::int64_t itemsize) {
  const char *low = a->data, *high = a->data;
  if (a->is_empty()) return {low, high};
  for (int dim = 0; dim < a->nd; ++dim) {
    const Py_ssize_t reach = (a->dimensions[dim] - 1) * a->strides[dim];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high + itemsize};
}

// The array whose memory a view shows: the last one in the chain of bases.
const NDArray* owner_of(PyObject* array) {
  auto* type = reinterpret_cast<PyTypeObject*>(ndarray_type);
  for (;;) {
    PyObject* base = reinterpret_cast<NDArray*>(array)->base;
    if (!base || !PyObject_TypeCheck(base, type)) return reinterpret_cast<NDArray*>(array);
    array = base;
  }
}

// How many numbers of a tuple or list were read; -1 with a Python error set.
Py_ssize_t read_numbers(PyObject* given, Py_ssize_t* out) {
  const Ref items(PySequence_Fast(given, "a sequence of integers is needed"));
  if (!items) return -1;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(items.get());
  for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(n, kMostDims); ++i)
    out[i] = PyNumber_AsSsize_t(PySequence_Fast_GET_ITEM(items.get(), i), PyExc_OverflowError);
  if (n > kMostDims) PyErr_SetString(PyExc_ValueError, "an array has at most 64 dims");
  return PyErr_Occurred() ? -1 : n;
}

// strided_view(array, shape, strides, offset), in elements -> a view of the array's memory, which
// may reach further than the array does, but no further than the memory.
PyObject* strided_view(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const NDArray* source = n == 4 ? as_ndarray(args[0]) : nullptr;
  if (!source)
    return PyErr_Format(PyExc_TypeError, "strided_view(ndarray, shape, strides, offset)");
  Py_ssize_t shape[kMostDims], strides[kMostDims];
  const Py_ssize_t nd = read_numbers(args[1], shape);
  const Py_ssize_t given = nd < 0 ? -1 : read_numbers(args[2], strides);
  const Py_ssize_t offset = given < 0 ? -1 : PyNumber_AsSsize_t(args[3], PyExc_OverflowError);
  const std::int64_t itemsize = PyErr_Occurred() ? -1 : itemsize_of(args[0]);
  if (itemsize < 0) return nullptr;
  if (nd != given) return PyErr_Format(PyExc_ValueError, "as many strides as sizes are needed");
  for (Py_ssize_t dim = 0; dim < nd; ++dim) strides[dim] *= itemsize;
  char* data = source->data + offset * itemsize;
  NDArray wanted{};
  wanted.data = data;
  wanted.nd = static_cast<int>(nd);
  wanted.dimensions = shape;
  wanted.strides = strides;
  if (!wanted.is_empty()) {
    const NDArray* owner = owner_of(args[0]);
    const auto [low, high] =
        bounds(owner, itemsize_of(reinterpret_cast<PyObject*>(const_cast<NDArray*>(owner))));
    const auto [first, last] = bounds(&wanted, itemsize);
    if (first < low || last > high)
      return PyErr_Format(PyExc_RuntimeError,
                          "strided_view: bytes %zd to %zd from the array's first element on are "
                          "outside of its memory, which has bytes %zd to %zd",
                          first - source->data, last - source->data, low - source->data,
                          high - source->data);
  }
  return view_of(args[0], wanted.nd, shape, strides, data);
}

PyMethodDef functions[] = {
    {"strided_view", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(strided_view)),
     METH_FASTCALL, "A view of an ndarray's memory: shape, strides and offset in elements."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* new_array(int nd, const Py_ssize_t* shape, PyObject* descr) {
  void** api = numpy_api();
  if (!api) return nullptr;
  return reinterpret_cast<NewFromDescr>(api[kNewFromDescr])(
      reinterpret_cast<PyTypeObject*>(ndarray_type), Py_NewRef(descr), nd, shape, nullptr, nullptr,
      0, nullptr);
}

PyObject* like_array(PyObject* array, PyObject* descr) {
  using NewLikeArray = PyObject* (*)(PyObject*, int, PyObject*, int);
  constexpr int keep_order = 2;
  void** api = numpy_api();
  if (!api) return nullptr;
  return reinterpret_cast<NewLikeArray>(api[kNewLikeArray])(array, keep_order, Py_NewRef(descr), 0);
}

bool copy_into(PyObject* to, PyObject* from) {
  using CopyInto = int (*)(PyObject*, PyObject*);
  void** api = numpy_api();
  return api && reinterpret_cast<CopyInto>(api[kCopyInto])(to, from) == 0;
}

bool fill_with(PyObject* to, PyObject* number) {
  using FillWithScalar = int (*)(PyObject*, PyObject*);
  void** api = numpy_api();
  return api && reinterpret_cast<FillWithScalar>(api[kFillWithScalar])(to, number) == 0;
}

bool NDArray::Descr::holds(PyObject* number) const {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  const int bits = integer_bits();
  if (overflow) return false;
  if (kind == 'u') return value >= 0 && (bits == 64 || value >> bits == 0);
  if (kind != 'i') return true;
  return bits == 64 || (value >= -(1LL << (bits - 1)) && value < 1LL << (bits - 1));
}

bool share_memory(const NDArray* a, const NDArray* b, std::int64_t itemsize) {
  const auto [low, high] = bounds(a, itemsize);
  const auto [first, last] = bounds(b, itemsize);
  return first < high && low < last;
}

PyObject* view_of(PyObject* source, int nd, const Py_ssize_t* shape, const Py_ssize_t* strides,
                  char* data, PyObject* descr) {
  using SetBaseObject = int (*)(PyObject*, PyObject*);
  void** api = numpy_api();
  if (!api) return nullptr;
  const auto* from = reinterpret_cast<NDArray*>(source);
  PyObject* view = reinterpret_cast<NewFromDescr>(api[kNewFromDescr])(
      reinterpret_cast<PyTypeObject*>(ndarray_type), Py_NewRef(descr ? descr : from->descr), nd,
      shape, strides, data, from->flags & NDArray::kWriteable, nullptr);
  if (view && reinterpret_cast<SetBaseObject>(api[kSetBaseObject])(view, Py_NewRef(source)) < 0)
    Py_CLEAR(view);
  return view;
}

bool add_ndarray_functions(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch
