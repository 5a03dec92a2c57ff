// Gathering from, and adding to, places along a dim.  Arrays are (before, along, after); indices
// are looked at in the pass that uses them.
#include <atomic>
#include <cstdint>
#include <cstring>

#include "host/functions.h"
#include "tensor/fields.h"

namespace tritorch::host {
namespace {

constexpr double kTake = 0.7, kAdd = 1.2;  // nanoseconds an element, in the cache

struct Sizes {
  Py_ssize_t before, along, after;  // of what is indexed
  Py_ssize_t count;                 // indices along the dim

  std::size_t elements() const { return static_cast<std::size_t>(before * along * after); }
  Py_ssize_t indices() const { return before * count * after; }
};

// each(element's place, index's place) for the rows [from, to) of the first dim; false if an index
// is outside, after what was done before it.
template <class Each>
bool walk(const Sizes& sizes, const std::int64_t* index, Py_ssize_t from, Py_ssize_t to,
          const Each& each) {
  const auto along = static_cast<std::uint64_t>(sizes.along);
  for (Py_ssize_t i = from; i < to; ++i) {
    const Py_ssize_t base = i * sizes.along * sizes.after;
    Py_ssize_t at = i * sizes.count * sizes.after;
    if (sizes.after == 1) {
      for (Py_ssize_t j = 0; j < sizes.count; ++j, ++at) {
        if (static_cast<std::uint64_t>(index[at]) >= along) return false;
        each(base + index[at], at);
      }
      continue;
    }
    for (Py_ssize_t j = 0; j < sizes.count; ++j)
      for (Py_ssize_t k = 0; k < sizes.after; ++k, ++at) {
        if (static_cast<std::uint64_t>(index[at]) >= along) return false;
        each(base + index[at] * sizes.after + k, at);
      }
  }
  return true;
}

template <class Each>
bool walk_all(const Sizes& sizes, const std::int64_t* index, double cost, const Each& each) {
  std::atomic<bool> good{true};
  in_parts(sizes.before, cost * static_cast<double>(sizes.count * sizes.after),
           [&](Py_ssize_t from, Py_ssize_t to) {
             if (!walk(sizes, index, from, to, each)) good = false;
           });
  return good;
}

template <class T>
bool gather_as(const Sizes& sizes, const char* x, const std::int64_t* index, char* out) {
  const T* from = reinterpret_cast<const T*>(x);
  T* to = reinterpret_cast<T*>(out);
  return walk_all(sizes, index, kTake,
                  [=](Py_ssize_t place, Py_ssize_t at) { to[at] = from[place]; });
}

struct Pair {
  std::uint64_t parts[2];
};

// gather(x, index, out, before, after, itemsize): whether all indices were inside
PyObject* gather(PyObject*, PyObject* args) {
  PyObject *given, *indices, *made;
  Sizes sizes;
  Py_ssize_t itemsize;
  if (!PyArg_ParseTuple(args, "OOOnnnnn", &given, &indices, &made, &sizes.before, &sizes.along,
                        &sizes.after, &sizes.count, &itemsize))
    return nullptr;
  const NDArray* x =
      dense(given, static_cast<Py_ssize_t>(sizes.elements()), "what is gathered from");
  const NDArray* index = x ? dense(indices, sizes.indices(), "the index") : nullptr;
  const NDArray* out = index ? dense(made, sizes.indices(), "the result") : nullptr;
  if (!out) return nullptr;
  const auto* places = reinterpret_cast<const std::int64_t*>(index->data);
  switch (itemsize) {
    case 1:
      return PyBool_FromLong(gather_as<std::uint8_t>(sizes, x->data, places, out->data));
    case 2:
      return PyBool_FromLong(gather_as<std::uint16_t>(sizes, x->data, places, out->data));
    case 4:
      return PyBool_FromLong(gather_as<std::uint32_t>(sizes, x->data, places, out->data));
    case 8:
      return PyBool_FromLong(gather_as<std::uint64_t>(sizes, x->data, places, out->data));
    case 16:
      return PyBool_FromLong(gather_as<Pair>(sizes, x->data, places, out->data));
    default:
      return PyErr_Format(PyExc_ValueError, "elements of %zd bytes", itemsize);
  }
}

template <class T>
bool add_as(const Sizes& sizes, char* x, const std::int64_t* index, const char* src) {
  const T* from = reinterpret_cast<const T*>(src);
  T* to = reinterpret_cast<T*>(x);
  return walk_all(sizes, index, kAdd, [=](Py_ssize_t place, Py_ssize_t at) {
    to[place] = static_cast<T>(to[place] + from[at]);
  });
}

// scatter_add(x, index, src, before, along, after, count, kind): whether all indices were inside;
// x is changed.  Integers wrap.
PyObject* scatter_add(PyObject*, PyObject* args) {
  PyObject *given, *indices, *added;
  Sizes sizes;
  const char* kind;
  if (!PyArg_ParseTuple(args, "OOOnnnns", &given, &indices, &added, &sizes.before, &sizes.along,
                        &sizes.after, &sizes.count, &kind))
    return nullptr;
  const NDArray* x = dense(given, static_cast<Py_ssize_t>(sizes.elements()), "what is added to");
  const NDArray* index = x ? dense(indices, sizes.indices(), "the index") : nullptr;
  const NDArray* src = index ? dense(added, sizes.indices(), "what is added") : nullptr;
  if (!src) return nullptr;
  const auto* places = reinterpret_cast<const std::int64_t*>(index->data);
  switch (*kind) {
    case 'f':
      return PyBool_FromLong(add_as<float>(sizes, x->data, places, src->data));
    case 'd':
      return PyBool_FromLong(add_as<double>(sizes, x->data, places, src->data));
    case 'i':
      return PyBool_FromLong(add_as<std::uint32_t>(sizes, x->data, places, src->data));
    case 'l':
      return PyBool_FromLong(add_as<std::uint64_t>(sizes, x->data, places, src->data));
    default:
      return PyErr_Format(PyExc_ValueError, "numbers of dtype '%s'", kind);
  }
}

// all_inside(index, n): whether all numbers of a dense int64 array are indices into n elements
PyObject* all_inside(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "all_inside(index, n)");
  const NDArray* index = as_ndarray(args[0]);
  const Py_ssize_t n = PyLong_AsSsize_t(args[1]);
  if (PyErr_Occurred()) return nullptr;
  if (!index || !index->is_contiguous())
    return PyErr_Format(PyExc_SystemError, "the index is no dense array");
  const auto* numbers = reinterpret_cast<const std::uint64_t*>(index->data);
  std::uint64_t largest = 0;  // negative ones are larger than all others
  for (std::size_t i = 0, all = index->size(); i < all; ++i)
    largest = std::max(largest, numbers[i]);
  return PyBool_FromLong(!index->size() || largest < static_cast<std::uint64_t>(n));
}

PyMethodDef functions[] = {
    {"gather", gather, METH_VARARGS, "Elements at indices along a dim."},
    {"scatter_add", scatter_add, METH_VARARGS, "Adds elements at indices along a dim."},
    {"all_inside", TRITORCH_FASTCALL(all_inside), "Whether all numbers are indices."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_indexing(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
