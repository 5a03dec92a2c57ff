// What the CPU computes natively that NumPy has no one pass for: Note [Passes] in functions.cpp.
#pragma once

#include <Python.h>

#include <algorithm>
#include <type_traits>

#include "tensor/ndarray.h"
#include "workers.h"

namespace tritorch::host {

// Adds the functions to the module; false with a Python error set.
bool add_attention(PyObject* module);
bool add_columns(PyObject* module);
bool add_conv(PyObject* module);
bool add_copies(PyObject* module);
bool add_elementary(PyObject* module);
bool add_indexing(PyObject* module);
bool add_norms(PyObject* module);
bool add_pooling(PyObject* module);
bool add_resampling(PyObject* module);
bool add_row_norms(PyObject* module);
bool add_scaled_sums(PyObject* module);
bool add_scans(PyObject* module);
bool add_sorting(PyObject* module);

// The fields of a dense array of some elements of a size; null with a Python error set.
NDArray* dense(PyObject* given, Py_ssize_t size, const char* what);

// run(T{}) of the dtype of a kind, float or double: None; or null with a Python error set if it is
// another, or memory is missing, as a `run` that gives false says.
template <class Run>
PyObject* of_kind(const char* kind, const Run& run) {
  const auto done = [&](auto zero) {
    if constexpr (std::is_same_v<decltype(run(zero)), bool>) return run(zero);
    run(zero);
    return true;
  };
  if (*kind != 'f' && *kind != 'd')
    return PyErr_Format(PyExc_ValueError, "numbers of dtype '%s'", kind);
  if (!(*kind == 'f' ? done(float{}) : done(double{}))) return PyErr_NoMemory();
  Py_RETURN_NONE;
}

// work(from, to) for parts of [0, n), of which each takes `cost` nanoseconds, about: over threads,
// and without the interpreter lock, where that pays.
template <class Work>
void in_parts(Py_ssize_t n, double cost, const Work& work) {
  constexpr double kWorth = 16'000, kPart = 8'000;
  if (static_cast<double>(n) * cost < kWorth) return work(Py_ssize_t{0}, n);
  const Py_ssize_t per = std::max<Py_ssize_t>(static_cast<Py_ssize_t>(kPart / cost), 1);
  Py_BEGIN_ALLOW_THREADS;
  if (workers() == 1)
    work(Py_ssize_t{0}, n);
  else
    share((n + per - 1) / per, [&](Parts& parts) {
      for (Py_ssize_t i; (i = parts.take()) >= 0;) work(i * per, std::min(n, (i + 1) * per));
    });
  Py_END_ALLOW_THREADS;
}

}  // namespace tritorch::host

namespace tritorch {
bool add_host_functions(PyObject* module);
}
