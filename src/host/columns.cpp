// Reductions down columns: of a few rows in T, of which sums of all are added in double.  An
// extreme is NaN where there is one, as NumPy's.
#include <cmath>
#include <string_view>
#include <type_traits>
#include <vector>

#include "host/functions.h"
#include "joins.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr Py_ssize_t kRows = 128;  // that are joined by one thread

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

// For each dtype and each of what joins.
#define TRITORCH_PASS(T, Join)                                                     \
  TRITORCH_WIDEST(void, join_some,                                                 \
                  (const T* x, Py_ssize_t rows, Py_ssize_t n, T* made, Join join), \
                  (x, rows, n, made, join), { join_rows(x, rows, n, made, join); })
#define TRITORCH_PASSES(T) \
  TRITORCH_PASS(T, Add) TRITORCH_PASS(T, Multiply) TRITORCH_PASS(T, Larger) TRITORCH_PASS(T, Less)
TRITORCH_PASSES(float)
TRITORCH_PASSES(double)

// The columns of `outer` matrices, each of which has rows.
template <class T, class Join>
void fold(const T* x, T* out, Py_ssize_t outer, Py_ssize_t rows, Py_ssize_t n, Join join) {
  const Py_ssize_t blocks = (rows + kRows - 1) / kRows;
  const double cost = 5 + static_cast<double>(std::min(rows, kRows) * n) / 8;  // of a block
  std::vector<T> some(static_cast<std::size_t>(blocks == 1 ? 0 : outer * blocks * n));
  T* made = blocks == 1 ? out : some.data();
  in_parts(outer * blocks, cost, [&](Py_ssize_t from, Py_ssize_t to) {
    for (; from < to; ++from) {
      const Py_ssize_t first = from % blocks * kRows;
      join_some(x + (from / blocks * rows + first) * n, std::min(kRows, rows - first), n,
                made + from * n, join);
    }
  });
  if (blocks == 1) return;
  if constexpr (!std::is_same_v<Join, Add>) {
    for (Py_ssize_t i = 0; i < outer; ++i)
      join_some(made + i * blocks * n, blocks, n, out + i * n, join);
    return;
  }
  std::vector<double> total(static_cast<std::size_t>(n)), lost(total.size());
  for (Py_ssize_t i = 0; i < outer; ++i) {
    std::fill(total.begin(), total.end(), 0.0);
    std::fill(lost.begin(), lost.end(), 0.0);
    const T* from = made + i * blocks * n;
    for (Py_ssize_t block = 0; block < blocks; ++block, from += n)
      for (std::size_t k = 0; k < total.size(); ++k) {  // with what rounding loses (Knuth's)
        const double more = from[k], sum = total[k] + more, back = sum - total[k];
        lost[k] += (total[k] - (sum - back)) + (more - back);
        total[k] = sum;
      }
    for (std::size_t k = 0; k < total.size(); ++k)
      out[i * n + static_cast<Py_ssize_t>(k)] =
          static_cast<T>(std::isfinite(lost[k]) ? total[k] + lost[k] : total[k]);
  }
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

PyMethodDef functions[] = {{"fold_columns", fold_columns, METH_VARARGS,
                            "Sums, products and extremes down the columns of matrices of floats."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_columns(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
