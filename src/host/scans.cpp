// Running sums along rows.
#include <cstdint>

#include "host/functions.h"
#include "tensor/fields.h"

namespace tritorch::host {
namespace {

constexpr Py_ssize_t kSide = 8;  // rows side by side: a sum waits for the one before it

template <class T, Py_ssize_t Side>
void add_up(const T* x, T* out, Py_ssize_t n) {
  double sums[Side] = {};
  for (Py_ssize_t i = 0; i < n; ++i)
    for (Py_ssize_t k = 0; k < Side; ++k) {
      sums[k] += static_cast<double>(x[k * n + i]);
      out[k * n + i] = static_cast<T>(sums[k]);
    }
}

template <class T>
void running_sums(const char* from, char* to, Py_ssize_t rows, Py_ssize_t n) {
  const T* x = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  in_parts((rows + kSide - 1) / kSide, static_cast<double>(n * kSide),
           [=](Py_ssize_t low, Py_ssize_t high) {
             for (Py_ssize_t row = low * kSide, end = std::min(rows, high * kSide); row < end;) {
               if (end - row >= kSide) {
                 add_up<T, kSide>(x + row * n, out + row * n, n);
                 row += kSide;
               } else {
                 add_up<T, 1>(x + row * n, out + row * n, n);
                 ++row;
               }
             }
           });
}

// running_sums(x, out, rows, n, kind): along rows of n numbers, added in double
PyObject* running_sums_of(PyObject*, PyObject* args) {
  PyObject *given, *made;
  Py_ssize_t rows, n;
  const char* kind;
  if (!PyArg_ParseTuple(args, "OOnns", &given, &made, &rows, &n, &kind)) return nullptr;
  const NDArray* x = dense(given, rows * n, "what is added up");
  const NDArray* out = x ? dense(made, rows * n, "the result") : nullptr;
  if (!out) return nullptr;
  if (*kind == 'f')
    running_sums<float>(x->data, out->data, rows, n);
  else if (*kind == 'd')
    running_sums<double>(x->data, out->data, rows, n);
  else
    return PyErr_Format(PyExc_ValueError, "numbers of dtype '%s'", kind);
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"running_sums", running_sums_of, METH_VARARGS, "Sums along rows."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_scans(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
