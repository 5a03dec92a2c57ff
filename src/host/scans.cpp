// Running sums along rows, and down columns.
#include <cstdint>
#include <vector>

#include "host/functions.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr Py_ssize_t kStrip = 256;  // columns that are added up together
constexpr Py_ssize_t kSide = 8;     // rows side by side: a sum waits for the one before it

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

template <class T>
[[gnu::always_inline]] inline void add_down(const T* __restrict x, T* __restrict out, Py_ssize_t n,
                                            Py_ssize_t inner, Py_ssize_t wide,
                                            double* __restrict sums) {
  for (Py_ssize_t i = 0; i < n; ++i, x += inner, out += inner)
    for (Py_ssize_t k = 0; k < wide; ++k) {
      sums[k] += static_cast<double>(x[k]);
      out[k] = static_cast<T>(sums[k]);
    }
}
TRITORCH_WIDEST(void, add_columns,
                (const float* x, float* out, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t wide,
                 double* sums),
                (x, out, n, inner, wide, sums), { add_down(x, out, n, inner, wide, sums); })
TRITORCH_WIDEST(void, add_columns,
                (const double* x, double* out, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t wide,
                 double* sums),
                (x, out, n, inner, wide, sums), { add_down(x, out, n, inner, wide, sums); })

// Of `outer` matrices of n rows, in strips of columns.
template <class T>
void sums_down(const char* from, char* to, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) {
  const T* x = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  const Py_ssize_t strips = (inner + kStrip - 1) / kStrip;
  const double cost = static_cast<double>(n * std::min(inner, kStrip)) / 2;
  in_parts(outer * strips, cost, [=](Py_ssize_t low, Py_ssize_t high) {
    for (; low < high; ++low) {
      const Py_ssize_t first = low % strips * kStrip, at = low / strips * n * inner + first;
      double sums[kStrip] = {};
      add_columns(x + at, out + at, n, inner, std::min(kStrip, inner - first), sums);
    }
  });
}

// running_sums(x, out, outer, n, inner, kind): along the middle one of three dims, added in double
PyObject* running_sums_of(PyObject*, PyObject* args) {
  PyObject *given, *made;
  Py_ssize_t outer, n, inner;
  const char* kind;
  if (!PyArg_ParseTuple(args, "OOnnns", &given, &made, &outer, &n, &inner, &kind)) return nullptr;
  const NDArray* x = dense(given, outer * n * inner, "what is added up");
  const NDArray* out = x ? dense(made, outer * n * inner, "the result") : nullptr;
  if (!out) return nullptr;
  const auto run = [&]<class T>(T) {
    if (inner == 1)
      running_sums<T>(x->data, out->data, outer, n);
    else
      sums_down<T>(x->data, out->data, outer, n, inner);
  };
  if (*kind != 'f' && *kind != 'd')
    return PyErr_Format(PyExc_ValueError, "numbers of dtype '%s'", kind);
  *kind == 'f' ? run(float{}) : run(double{});
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"running_sums", running_sums_of, METH_VARARGS, "Running sums."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_scans(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
