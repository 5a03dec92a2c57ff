// Sums down columns: of a few rows in T, of which those of all are added in double.
#include <vector>

#include "host/functions.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr Py_ssize_t kRows = 128;  // that are added in T

template <class T>
[[gnu::always_inline]] inline void add_rows(const T* __restrict x, Py_ssize_t rows, Py_ssize_t n,
                                            T* __restrict sums) {
  Py_ssize_t row = 0;
  for (; row + 4 <= rows; row += 4, x += 4 * n)
    for (Py_ssize_t i = 0; i < n; ++i) sums[i] += (x[i] + x[n + i]) + (x[2 * n + i] + x[3 * n + i]);
  for (; row < rows; ++row, x += n)
    for (Py_ssize_t i = 0; i < n; ++i) sums[i] += x[i];
}
TRITORCH_WIDEST void add_some(const float* x, Py_ssize_t rows, Py_ssize_t n, float* sums) {
  add_rows(x, rows, n, sums);
}
TRITORCH_WIDEST void add_some(const double* x, Py_ssize_t rows, Py_ssize_t n, double* sums) {
  add_rows(x, rows, n, sums);
}

// The sums of `outer` matrices' columns.
template <class T>
void sum_columns(const T* x, T* out, Py_ssize_t outer, Py_ssize_t rows, Py_ssize_t n) {
  const Py_ssize_t blocks = (rows + kRows - 1) / kRows;
  const double cost = static_cast<double>(std::min(rows, kRows) * n) / 8;  // of a block
  if (blocks == 1) {
    std::fill(out, out + outer * n, T{});
    return in_parts(outer, cost, [&](Py_ssize_t from, Py_ssize_t to) {
      for (; from < to; ++from) add_some(x + from * rows * n, rows, n, out + from * n);
    });
  }
  std::vector<T> sums(static_cast<std::size_t>(outer * blocks * n));
  in_parts(outer * blocks, cost, [&](Py_ssize_t from, Py_ssize_t to) {
    for (; from < to; ++from) {
      const Py_ssize_t first = from % blocks * kRows;
      add_some(x + (from / blocks * rows + first) * n, std::min(kRows, rows - first), n,
               sums.data() + from * n);
    }
  });
  std::vector<double> total(static_cast<std::size_t>(n));
  for (Py_ssize_t i = 0; i < outer; ++i) {
    std::fill(total.begin(), total.end(), 0.0);
    const T* from = sums.data() + i * blocks * n;
    for (Py_ssize_t block = 0; block < blocks; ++block, from += n)
      for (Py_ssize_t k = 0; k < n; ++k) total[static_cast<std::size_t>(k)] += from[k];
    for (Py_ssize_t k = 0; k < n; ++k)
      out[i * n + k] = static_cast<T>(total[static_cast<std::size_t>(k)]);
  }
}

// column_sums(x, out, kind, outer, rows, n)
PyObject* column_sums(PyObject*, PyObject* args) {
  PyObject *x, *out;
  const char* kind;
  Py_ssize_t outer, rows, n;
  if (!PyArg_ParseTuple(args, "OOsnnn", &x, &out, &kind, &outer, &rows, &n)) return nullptr;
  const NDArray* from = dense(x, outer * rows * n, "what is added");
  const NDArray* to = from ? dense(out, outer * n, "the result") : nullptr;
  if (!to) return nullptr;
  const auto run = [&]<class T>(T) {
    sum_columns(reinterpret_cast<const T*>(from->data), reinterpret_cast<T*>(to->data), outer, rows,
                n);
  };
  *kind == 'f' ? run(float{}) : run(double{});
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"column_sums", column_sums, METH_VARARGS, "Sums down the columns of matrices of floats."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_sums(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
