// Running sums and products along rows, and down columns: in double, rounded at each element.
#include <algorithm>
#include <type_traits>

#include "host/functions.h"
#include "joins.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr Py_ssize_t kStrip = 256;  // columns that are joined together
constexpr Py_ssize_t kSide = 8;     // rows side by side: a sum waits for the one before it

template <class Join>
constexpr double kNothing = std::is_same_v<Join, Multiply> ? 1.0 : 0.0;

template <class T, Py_ssize_t Side, class Join>
void join_up(const T* x, T* out, Py_ssize_t n, Join join) {
  double so_far[Side];
  std::fill_n(so_far, Side, kNothing<Join>);
  for (Py_ssize_t i = 0; i < n; ++i)
    for (Py_ssize_t k = 0; k < Side; ++k) {
      so_far[k] = join(so_far[k], static_cast<double>(x[k * n + i]));
      out[k * n + i] = static_cast<T>(so_far[k]);
    }
}

template <class T, class Join>
void along_rows(const char* from, char* to, Py_ssize_t rows, Py_ssize_t n, Join join) {
  const T* x = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  in_parts((rows + kSide - 1) / kSide, static_cast<double>(n * kSide),
           [=](Py_ssize_t low, Py_ssize_t high) {
             for (Py_ssize_t row = low * kSide, end = std::min(rows, high * kSide); row < end;) {
               if (end - row >= kSide) {
                 join_up<T, kSide>(x + row * n, out + row * n, n, join);
                 row += kSide;
               } else {
                 join_up<T, 1>(x + row * n, out + row * n, n, join);
                 ++row;
               }
             }
           });
}

template <class T, class Join>
[[gnu::always_inline]] inline void join_down(const T* __restrict x, T* __restrict out, Py_ssize_t n,
                                             Py_ssize_t inner, Py_ssize_t wide,
                                             double* __restrict so_far, Join join) {
  for (Py_ssize_t i = 0; i < n; ++i, x += inner, out += inner)
    for (Py_ssize_t k = 0; k < wide; ++k) {
      so_far[k] = join(so_far[k], static_cast<double>(x[k]));
      out[k] = static_cast<T>(so_far[k]);
    }
}
// For each dtype and each of what joins.
#define TRITORCH_PASS(T, Join)                                                          \
  TRITORCH_WIDEST(void, join_columns,                                                   \
                  (const T* x, T* out, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t wide, \
                   double* so_far, Join join),                                          \
                  (x, out, n, inner, wide, so_far, join),                               \
                  { join_down(x, out, n, inner, wide, so_far, join); })
TRITORCH_PASS(float, Add)
TRITORCH_PASS(float, Multiply)
TRITORCH_PASS(double, Add)
TRITORCH_PASS(double, Multiply)

// Of `outer` matrices of n rows, in strips of columns.
template <class T, class Join>
void down_columns(const char* from, char* to, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner,
                  Join join) {
  const T* x = reinterpret_cast<const T*>(from);
  T* out = reinterpret_cast<T*>(to);
  const Py_ssize_t strips = (inner + kStrip - 1) / kStrip;
  const double cost = static_cast<double>(n * std::min(inner, kStrip)) / 2;
  in_parts(outer * strips, cost, [=](Py_ssize_t low, Py_ssize_t high) {
    for (; low < high; ++low) {
      const Py_ssize_t first = low % strips * kStrip, at = low / strips * n * inner + first;
      double so_far[kStrip];
      std::fill_n(so_far, kStrip, kNothing<Join>);
      join_columns(x + at, out + at, n, inner, std::min(kStrip, inner - first), so_far, join);
    }
  });
}

// (x, out, outer, n, inner, kind): along the middle one of three dims
template <class Join>
PyObject* scan(PyObject*, PyObject* args) {
  PyObject *given, *made;
  Py_ssize_t outer, n, inner;
  const char* kind;
  if (!PyArg_ParseTuple(args, "OOnnns", &given, &made, &outer, &n, &inner, &kind)) return nullptr;
  const NDArray* x = dense(given, outer * n * inner, "what is scanned");
  const NDArray* out = x ? dense(made, outer * n * inner, "the result") : nullptr;
  if (!out) return nullptr;
  return of_kind(kind, [&]<class T>(T) {
    if (inner == 1)
      along_rows<T>(x->data, out->data, outer, n, Join{});
    else
      down_columns<T>(x->data, out->data, outer, n, inner, Join{});
  });
}

PyMethodDef functions[] = {{"running_sums", scan<Add>, METH_VARARGS, "Running sums."},
                           {"running_products", scan<Multiply>, METH_VARARGS, "Running products."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_scans(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
