// Reductions down columns.  Sums of eight rows are added up in double, those of doubles with what
// rounding loses (Knuth's sum).  An extreme is NaN where there is one, as NumPy's.
#include <cmath>
#include <string_view>
#include <type_traits>
#include <vector>

#include "host/chains/reductions.h"
#include "host/functions.h"
#include "joins.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr Py_ssize_t kRows = 128;   // that are joined by one thread
constexpr Py_ssize_t kStrip = 512;  // columns of these whose sums stay in the cache
constexpr Py_ssize_t kFew = 8;      // rows that are added up in T

// Joins rows, of which there is one at least.
template <class T, class Join>
[[gnu::always_inline]] inline void join_rows(const T* __restrict x, Py_ssize_t rows, Py_ssize_t n,
                                             T* __restrict made, Join join) {
  for (Py_ssize_t i = 0; i < n; ++i) made[i] = x[i];
  Py_ssize_t row = 1;
  x += n;
  for (; row + 4 <= rows; row += 4, x += 4 * n)
    for (Py_ssize_t i = 0; i < n; ++i)
      made[i] = join(made[i], join(join(x[i], x[n + i]), join(x[2 * n + i], x[3 * n + i])));
  for (; row < rows; ++row, x += n)
    for (Py_ssize_t i = 0; i < n; ++i) made[i] = join(made[i], x[i]);
}

template <class T>
[[gnu::always_inline]] inline void add_one(T more, double& total, double& lost) {
  if constexpr (std::is_same_v<T, float>) {
    total += static_cast<double>(more);
  } else {
    const double sum = total + more, back = sum - total;
    lost += (total - (sum - back)) + (more - back);
    total = sum;
  }
}

// Adds up `width` columns of rows of n, eight rows at a time: totals in double, and what their
// rounding lost, of doubles.
template <class T>
[[gnu::always_inline]] inline void add_rows(const T* __restrict x, Py_ssize_t rows, Py_ssize_t n,
                                            Py_ssize_t width, double* __restrict total,
                                            double* __restrict lost) {
  for (; rows >= 8; rows -= 8, x += 8 * n)
    for (Py_ssize_t i = 0; i < width; ++i)
      add_one(((x[i] + x[n + i]) + (x[2 * n + i] + x[3 * n + i])) +
                  ((x[4 * n + i] + x[5 * n + i]) + (x[6 * n + i] + x[7 * n + i])),
              total[i], lost[i]);
  for (; rows >= 2; rows -= 2, x += 2 * n)
    for (Py_ssize_t i = 0; i < width; ++i) add_one(x[i] + x[n + i], total[i], lost[i]);
  for (; rows; --rows, x += n)
    for (Py_ssize_t i = 0; i < width; ++i) add_one(x[i], total[i], lost[i]);
}
// Those of all columns, in strips that stay in the cache.
template <class T>
[[gnu::always_inline]] inline void add_strips(const T* x, Py_ssize_t rows, Py_ssize_t n,
                                              double* total, double* lost) {
  for (Py_ssize_t low = 0; low < n; low += kStrip)
    add_rows(x + low, rows, n, std::min(kStrip, n - low), total + low, lost + low);
}
TRITORCH_WIDEST(void, add_some,
                (const float* x, Py_ssize_t rows, Py_ssize_t n, double* total, double* lost),
                (x, rows, n, total, lost), { add_strips(x, rows, n, total, lost); })
TRITORCH_WIDEST(void, add_some,
                (const double* x, Py_ssize_t rows, Py_ssize_t n, double* total, double* lost),
                (x, rows, n, total, lost), { add_strips(x, rows, n, total, lost); })

// For each dtype and each of what joins.
#define TRITORCH_PASS(T, Join)                                                     \
  TRITORCH_WIDEST(void, join_some,                                                 \
                  (const T* x, Py_ssize_t rows, Py_ssize_t n, T* made, Join join), \
                  (x, rows, n, made, join), { join_rows(x, rows, n, made, join); })
#define TRITORCH_PASSES(T) \
  TRITORCH_PASS(T, Add) TRITORCH_PASS(T, Multiply) TRITORCH_PASS(T, Larger) TRITORCH_PASS(T, Less)
TRITORCH_PASSES(float)
TRITORCH_PASSES(double)

double cost_of(Py_ssize_t rows, Py_ssize_t n) {  // of a block
  return 5 + static_cast<double>(std::min(rows, kRows) * n) / 8;
}

// The columns of `outer` matrices, each of which has rows.
template <class T, class Join>
void join(const T* x, T* out, Py_ssize_t outer, Py_ssize_t rows, Py_ssize_t n, Join join) {
  const Py_ssize_t blocks = (rows + kRows - 1) / kRows;
  std::vector<T> some(static_cast<std::size_t>(blocks == 1 ? 0 : outer * blocks * n));
  T* made = blocks == 1 ? out : some.data();
  in_parts(outer * blocks, cost_of(rows, n), [&](Py_ssize_t from, Py_ssize_t to) {
    for (; from < to; ++from) {
      const Py_ssize_t first = from % blocks * kRows;
      join_some(x + (from / blocks * rows + first) * n, std::min(kRows, rows - first), n,
                made + from * n, join);
    }
  });
  if (blocks == 1) return;
  for (Py_ssize_t i = 0; i < outer; ++i)
    join_some(made + i * blocks * n, blocks, n, out + i * n, join);
}

// Their sums: each block leaves totals and what they lost.
template <class T>
void add(const T* x, T* out, Py_ssize_t outer, Py_ssize_t rows, Py_ssize_t n) {
  const Py_ssize_t blocks = (rows + kRows - 1) / kRows;
  std::vector<double> sums(static_cast<std::size_t>(outer * blocks * 2 * n));
  in_parts(outer * blocks, cost_of(rows, n), [&](Py_ssize_t from, Py_ssize_t to) {
    for (; from < to; ++from) {
      const Py_ssize_t first = from % blocks * kRows;
      double* total = sums.data() + from * 2 * n;
      add_some(x + (from / blocks * rows + first) * n, std::min(kRows, rows - first), n, total,
               total + n);
    }
  });
  for (Py_ssize_t i = 0; i < outer; ++i) {
    double *total = sums.data() + i * blocks * 2 * n, *lost = total + n;
    for (Py_ssize_t block = 1; block < blocks; ++block) {
      const double* more = total + block * 2 * n;
      add_some(more, 1, n, total, lost);
      for (Py_ssize_t k = 0; k < n; ++k) lost[k] += more[n + k];
    }
    for (Py_ssize_t k = 0; k < n; ++k)
      out[i * n + k] = static_cast<T>(std::isfinite(lost[k]) ? total[k] + lost[k] : total[k]);
  }
}

template <class T, class Join>
void fold(const T* x, T* out, Py_ssize_t outer, Py_ssize_t rows, Py_ssize_t n, Join how) {
  if (std::is_same_v<Join, Add> && rows > kFew)
    add(x, out, outer, rows, n);
  else
    join(x, out, outer, rows, n, how);
}

// fold_columns(x, out, kind, name, outer, rows, n): by the ufunc of a name; False if there is none.
PyObject* fold_columns(PyObject*, PyObject* args) {
  PyObject *x, *out;
  const char *kind, *name;
  Py_ssize_t outer, rows, n;
  if (!PyArg_ParseTuple(args, "OOssnnn", &x, &out, &kind, &name, &outer, &rows, &n)) return nullptr;
  const NDArray* from = dense(x, outer * rows * n, "what is reduced");
  const NDArray* to = from ? dense(out, outer * n, "the result") : nullptr;
  if (!to) return nullptr;
  if (rows < 1) return PyErr_Format(PyExc_SystemError, "a reduction of no rows");
  const auto run = [&](auto join) {
    const auto of = [&]<class T>(T) {
      fold(reinterpret_cast<const T*>(from->data), reinterpret_cast<T*>(to->data), outer, rows, n,
           join);
    };
    *kind == 'f' ? of(float{}) : of(double{});
    Py_RETURN_TRUE;
  };
  const std::string_view wanted = name;
  if (wanted == "add") return run(Add{});
  if (wanted == "multiply") return run(Multiply{});
  if (wanted == "maximum") return run(Larger{});
  if (wanted == "minimum") return run(Less{});
  Py_RETURN_FALSE;
}

// sum_dims(x, first, count, keepdim): over `count` dims that follow each other; None of what is no
// dense array of floats.
PyObject* sum_dims(PyObject*, PyObject* const* args, Py_ssize_t given) {
  const NDArray* x = given == 4 ? as_ndarray(args[0]) : nullptr;
  if (!x || !x->is_contiguous() || x->type() == NDArray::kOther) Py_RETURN_NONE;
  const long first = PyLong_AsLong(args[1]), count = PyLong_AsLong(args[2]);
  const bool keepdim = args[3] == Py_True;
  if (PyErr_Occurred()) return nullptr;
  if (first < 0 || count < 0 || first + count > x->nd)
    return PyErr_Format(PyExc_IndexError, "no dims %ld to %ld of %d", first, first + count, x->nd);
  Py_ssize_t shape[64], sizes[3] = {1, 1, 1};  // before, of them and after
  int dims = 0;
  for (int i = 0; i < x->nd; ++i) {
    const int part = i < first ? 0 : i < first + count ? 1 : 2;
    sizes[part] *= x->dimensions[i];
    if (part != 1 || keepdim) shape[dims++] = part == 1 ? 1 : x->dimensions[i];
  }
  PyObject* made = new_array(dims, shape, x->descr);
  if (!made) return nullptr;
  const auto [outer, n, inner] = sizes;
  char* out = reinterpret_cast<NDArray*>(made)->data;
  const auto of = [&]<class T>(T, char kind) {
    const T* from = reinterpret_cast<const T*>(x->data);
    T* to = reinterpret_cast<T*>(out);
    if (!n) {
      std::fill_n(to, outer * inner, T{});
    } else if (inner == 1) {
      const Reduce add_row = reduction("add", kind);
      in_parts(outer, 5 + static_cast<double>(n) / 8, [&](Py_ssize_t low, Py_ssize_t high) {
        for (Py_ssize_t i = low; i < high; ++i)
          add_row(reinterpret_cast<const char*>(from + i * n), n, reinterpret_cast<char*>(to + i));
      });
    } else if (outer && inner) {
      fold(from, to, outer, n, inner, Add{});
    }
  };
  x->type() == NDArray::kFloat32 ? of(float{}, 'f') : of(double{}, 'd');
  return made;
}

PyMethodDef functions[] = {
    {"fold_columns", fold_columns, METH_VARARGS,
     "Sums, products and extremes down the columns of matrices of floats."},
    {"sum_dims", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(sum_dims)),
     METH_FASTCALL, "The sums of a dense array of floats over dims that follow each other."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_columns(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
