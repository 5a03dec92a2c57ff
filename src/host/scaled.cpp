// Sums with what is scaled, in place: one pass, where NumPy has two.
#include "host/functions.h"
#include "widest.h"

namespace tritorch::host {
namespace {

template <class T>
[[gnu::always_inline]] inline void add(T* x, const T* y, T scale, Py_ssize_t n) {
#pragma GCC ivdep
  for (Py_ssize_t i = 0; i < n; ++i) x[i] += y[i] * scale;
}
#define TRITORCH_PASS(T)                                                                        \
  TRITORCH_WIDEST(void, add_some, (T * x, const T* y, T scale, Py_ssize_t n), (x, y, scale, n), \
                  { add(x, y, scale, n); })
TRITORCH_PASS(float)
TRITORCH_PASS(double)

// add_scaled(x, y, scale, kind): x += y scale, of dense arrays of floats that are one or lie apart.
PyObject* add_scaled(PyObject*, PyObject* args) {
  PyObject *given, *added;
  double scale;
  const char* kind;
  if (!PyArg_ParseTuple(args, "OOds", &given, &added, &scale, &kind)) return nullptr;
  const NDArray* x = as_ndarray(given);
  const auto n = static_cast<Py_ssize_t>(x ? x->size() : 0);
  const NDArray* to = dense(given, n, "what is added to");
  const NDArray* from = to ? dense(added, n, "what is added") : nullptr;
  if (!from) return nullptr;
  return of_kind(kind, [&]<class T>(T) {
    T* sums = reinterpret_cast<T*>(to->data);
    const T* terms = reinterpret_cast<const T*>(from->data);
    in_parts(n, 0.04 * sizeof(T), [&](Py_ssize_t low, Py_ssize_t high) {
      add_some(sums + low, terms + low, static_cast<T>(scale), high - low);
    });
  });
}

PyMethodDef functions[] = {
    {"add_scaled", add_scaled, METH_VARARGS, "Adds a multiple of an array to another."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_scaled_sums(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
