// Note [Attention]
// A block is some rows of one head: its scores are multiplied, masked, made weights and multiplied
// again while the cache holds them, and never stored whole.  A causal block stops at the last
// column that it sees.  Threads share blocks, and for gradients heads of keys: what all rows of all
// queries that share keys add to their gradients is added in order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "driver/blocking.h"
#include "host/chains/reductions.h"
#include "host/elementary.h"
#include "host/functions.h"
#include "products/blas.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr Py_ssize_t kScores = 1 << 15;  // of a block; the cache holds as much again, and inputs
constexpr Py_ssize_t kLeastRows = 16;

// The passes over a row, for each dtype.
#define TRITORCH_PASSES(T)                                                                         \
  TRITORCH_WIDEST(void, subtract, (T * x, Py_ssize_t n, T y), (x, n, y), {                         \
    for (Py_ssize_t i = 0; i < n; ++i) x[i] -= y;                                                  \
  })                                                                                               \
  TRITORCH_WIDEST(void, multiply, (T * x, Py_ssize_t n, T y), (x, n, y), {                         \
    for (Py_ssize_t i = 0; i < n; ++i) x[i] *= y;                                                  \
  })                                                                                               \
  TRITORCH_WIDEST(void, multiply_into, (T * out, const T* x, Py_ssize_t n, T y), (out, x, n, y), { \
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = x[i] * y;                                          \
  })                                                                                               \
  TRITORCH_WIDEST(void, join, (T * out, const T* a, const T* b, Py_ssize_t n), (out, a, b, n), {   \
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = a[i] * b[i];                                       \
  })                                                                                               \
  TRITORCH_WIDEST(void, slope, (T * x, const T* weights, Py_ssize_t n, T inner),                   \
                  (x, weights, n, inner), {                                                        \
                    for (Py_ssize_t i = 0; i < n; ++i) x[i] = (x[i] - inner) * weights[i];         \
                  })
TRITORCH_PASSES(float)
TRITORCH_PASSES(double)

template <class T>
T reduced(Reduce by, const T* x, Py_ssize_t n) {
  T found;
  by(reinterpret_cast<const char*>(x), n, reinterpret_cast<char*>(&found));
  return found;
}

// An array of examples, heads, rows and columns, whose rows BLAS takes as they lie.
template <class T>
struct Heads {
  T* data = nullptr;
  Py_ssize_t examples = 0, heads = 0, rows = 0, columns = 0;
  Py_ssize_t by_example = 0, by_head = 0, by_row = 0;  // elements

  // False if it lies otherwise.
  bool read(PyObject* given) {
    const NDArray* array = as_ndarray(given);
    constexpr auto size = static_cast<Py_ssize_t>(sizeof(T));
    if (!array || array->nd != 4) return false;
    for (int i = 0; i < 4; ++i)
      if (array->strides[i] % size) return false;
    data = reinterpret_cast<T*>(array->data);
    examples = array->dimensions[0], heads = array->dimensions[1];
    rows = array->dimensions[2], columns = array->dimensions[3];
    by_example = array->strides[0] / size, by_head = array->strides[1] / size;
    by_row = rows == 1 ? columns : array->strides[2] / size;
    return examples && heads && rows && columns && by_row >= columns &&
           (columns == 1 || array->strides[3] == size);
  }
  T* at(Py_ssize_t example, Py_ssize_t head, Py_ssize_t row = 0) const {
    return data + example * by_example + head * by_head + row * by_row;
  }
};

// What scores are masked by: bools, of which false hides, or numbers that are added.
struct Mask {
  const char* data = nullptr;
  Py_ssize_t strides[4];
  bool hides = false;

  bool read(PyObject* given, Py_ssize_t size, const Py_ssize_t (&sizes)[4]) {
    if (given == Py_None) return true;
    const NDArray* array = as_ndarray(given);
    if (!array || array->nd != 4 || !std::equal(sizes, sizes + 4, array->dimensions)) return false;
    data = array->data;
    std::copy(array->strides, array->strides + 4, strides);
    hides = size == 1;
    return true;
  }
  template <class T>
  void apply(T* scores, Py_ssize_t n, Py_ssize_t example, Py_ssize_t head, Py_ssize_t row) const {
    const char* at = data + example * strides[0] + head * strides[1] + row * strides[2];
    constexpr T hidden = -std::numeric_limits<T>::infinity();
    if (hides)
      for (Py_ssize_t i = 0; i < n; ++i) scores[i] = at[i * strides[3]] ? scores[i] : hidden;
    else
      for (Py_ssize_t i = 0; i < n; ++i)
        scores[i] += *reinterpret_cast<const T*>(at + i * strides[3]);
  }
};

// What both passes know.
template <class T>
struct Attention {
  Heads<const T> q, k, v;
  Mask mask;
  bool causal;
  T scale;
  Reduce add = reduction("add", sizeof(T) == 4 ? 'f' : 'd');
  Reduce largest = reduction("maximum", sizeof(T) == 4 ? 'f' : 'd');

  Py_ssize_t group() const { return q.heads / k.heads; }  // heads that share keys
  Py_ssize_t block() const {                              // rows
    return std::min(q.rows, std::max(kLeastRows, kScores / k.rows));
  }
  // Columns that some of the rows before `high` see.
  Py_ssize_t seen(Py_ssize_t high) const { return causal ? std::min(high, k.rows) : k.rows; }
  double cost(Py_ssize_t rows) const {
    const auto scores = static_cast<double>(rows * k.rows);
    return scores * (static_cast<double>(q.columns + v.columns) / 16 + 2);
  }

  struct Block {
    Py_ssize_t example, head, low, rows, columns;
  };

  // scaled = q scale; scores = scaled k^T, masked.
  void score(const Block& at, T* scaled, T* scores) const {
    for (Py_ssize_t i = 0; i < at.rows; ++i)
      multiply_into(scaled + i * q.columns, q.at(at.example, at.head, at.low + i), q.columns,
                    scale);
    blas::multiply<T>(at.rows, at.columns, q.columns, {scaled, q.columns, false},
                      {k.at(at.example, at.head / group()), k.by_row, true},
                      {scores, at.columns, false});
    if (!mask.data) return;
    for (Py_ssize_t i = 0; i < at.rows; ++i)
      mask.apply(scores + i * at.columns, at.columns, at.example, at.head, at.low + i);
  }

  // How many of a row's columns are seen.
  Py_ssize_t length(const Block& at, Py_ssize_t row) const {
    return causal ? std::min(at.low + row + 1, at.columns) : at.columns;
  }
};

// Memory of a part of the work, which begins where lines do.
template <class T>
class Scratch {
 public:
  explicit Scratch(Py_ssize_t n)
      : memory_(new (std::nothrow) char[static_cast<std::size_t>(n) * sizeof(T) + kLine]) {}
  explicit operator bool() const { return memory_ != nullptr; }
  T* data() const {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    return reinterpret_cast<T*>(memory_.get() + (kLine - address % kLine) % kLine);
  }

 private:
  static constexpr std::size_t kLine = 64;
  std::unique_ptr<char[]> memory_;
};

template <class T>
struct Forward {
  Attention<T> of;
  Heads<T> out;
  T* lse;

  bool run() const {
    const Py_ssize_t step = of.block(), blocks = (of.q.rows + step - 1) / step;
    std::atomic<bool> good{true};
    in_parts(of.q.examples * of.q.heads * blocks, of.cost(step),
             [&](Py_ssize_t from, Py_ssize_t to) {
               const Scratch<T> scratch(step * (of.q.columns + of.k.rows));
               if (!scratch) return good.store(false);
               for (; from < to; ++from) {
                 const Py_ssize_t low = from % blocks * step, head = from / blocks;
                 const Py_ssize_t rows = std::min(step, of.q.rows - low);
                 compute({head / of.q.heads, head % of.q.heads, low, rows, of.seen(low + rows)},
                         scratch.data());
               }
             });
    return good;
  }

 private:
  void compute(const typename Attention<T>::Block& at, T* scaled) const {
    T* scores = scaled + at.rows * of.q.columns;
    of.score(at, scaled, scores);
    T* logs = lse + (at.example * of.q.heads + at.head) * of.q.rows + at.low;
    for (Py_ssize_t i = 0; i < at.rows; ++i) {
      T* row = scores + i * at.columns;
      const Py_ssize_t n = of.length(at, i);
      logs[i] = weigh(row, n);
      std::fill(row + n, row + at.columns, T{});
    }
    blas::multiply<T>(at.rows, of.v.columns, at.columns, {scores, at.columns, false},
                      {of.v.at(at.example, at.head / of.group()), of.v.by_row, false},
                      {out.at(at.example, at.head, at.low), out.by_row, false});
  }

  // A row of scores becomes weights; the log of the sum of their exponentials.
  T weigh(T* row, Py_ssize_t n) const {
    T top = reduced(of.largest, row, n);
    if (top == -std::numeric_limits<T>::infinity()) top = 0;  // nothing is seen
    subtract(row, n, top);
    exponentials(row, n);
    const T sum = reduced(of.add, row, n);
    multiply(row, n, T{1} / (sum == 0 ? T{1} : sum));
    return std::log(sum) + top;
  }
};

template <class T>
struct Backward {
  Attention<T> of;
  Heads<const T> g, out;
  const T* lse;
  Heads<T> dq, dk, dv;  // dk and dv of the heads of keys

  bool run() const {
    std::atomic<bool> good{true};
    const double cost = 3 * of.cost(of.q.rows) * static_cast<double>(of.group());
    in_parts(of.k.examples * of.k.heads, cost, [&](Py_ssize_t from, Py_ssize_t to) {
      const Py_ssize_t step = of.block();
      const Scratch<T> scratch(step * (of.q.columns + of.v.columns + 2 * of.k.rows));
      if (!scratch) return good.store(false);
      for (; from < to; ++from) compute(from / of.k.heads, from % of.k.heads, step, scratch.data());
    });
    return good;
  }

 private:
  // All rows of all heads that share keys.
  void compute(Py_ssize_t example, Py_ssize_t keys, Py_ssize_t step, T* scratch) const {
    for (Py_ssize_t row = 0; row < of.k.rows; ++row) {
      std::fill_n(dk.at(example, keys, row), dk.columns, T{});
      std::fill_n(dv.at(example, keys, row), dv.columns, T{});
    }
    for (Py_ssize_t head = keys * of.group(); head < (keys + 1) * of.group(); ++head)
      for (Py_ssize_t low = 0; low < of.q.rows; low += step) {
        const Py_ssize_t rows = std::min(step, of.q.rows - low);
        compute({example, head, low, rows, of.seen(low + rows)}, keys, scratch);
      }
  }

  void compute(const typename Attention<T>::Block& at, Py_ssize_t keys, T* scaled) const {
    const Py_ssize_t columns = at.columns, wide = of.v.columns;
    T *products = scaled + at.rows * of.q.columns, *weights = products + at.rows * wide;
    T* slopes = weights + at.rows * columns;
    of.score(at, scaled, weights);
    const auto grad = [&](Py_ssize_t i) { return g.at(at.example, at.head, at.low + i); };
    const typename blas::Matrix<const T> dy{grad(0), g.by_row, false};
    blas::multiply<T>(at.rows, columns, wide, dy, {of.v.at(at.example, keys), of.v.by_row, true},
                      {slopes, columns, false});
    const T* logs = lse + (at.example * of.q.heads + at.head) * of.q.rows + at.low;
    for (Py_ssize_t i = 0; i < at.rows; ++i) {
      T *row = weights + i * columns, *sloped = slopes + i * columns;
      const Py_ssize_t n = of.length(at, i);
      // Where nothing is seen, no weight.
      subtract(row, n, logs[i] == -std::numeric_limits<T>::infinity() ? T{} : logs[i]);
      exponentials(row, n);
      std::fill(row + n, row + columns, T{});
      T* joined = products + i * wide;
      join(joined, grad(i), out.at(at.example, at.head, at.low + i), wide);
      slope(sloped, row, n, reduced(of.add, joined, wide));
      std::fill(sloped + n, sloped + columns, T{});
    }
    blas::multiply<T>(columns, wide, at.rows, {weights, columns, true}, dy,
                      {dv.at(at.example, keys), dv.by_row, false}, 1);
    blas::multiply<T>(columns, of.q.columns, at.rows, {slopes, columns, true},
                      {scaled, of.q.columns, false}, {dk.at(at.example, keys), dk.by_row, false},
                      1);
    T* made = dq.at(at.example, at.head, at.low);
    blas::multiply<T>(at.rows, of.q.columns, columns, {slopes, columns, false},
                      {of.k.at(at.example, keys), of.k.by_row, false}, {made, dq.by_row, false});
    for (Py_ssize_t i = 0; i < at.rows; ++i) multiply(made + i * dq.by_row, dq.columns, of.scale);
  }
};

// Reads what both passes are given; false if something lies otherwise.
template <class T>
bool read(Attention<T>& of, PyObject* q, PyObject* k, PyObject* v, PyObject* mask,
          Py_ssize_t size) {
  if (!of.q.read(q) || !of.k.read(k) || !of.v.read(v)) return false;
  const bool fits = of.q.examples == of.k.examples && of.k.examples == of.v.examples &&
                    of.k.heads == of.v.heads && of.k.rows == of.v.rows &&
                    of.q.columns == of.k.columns && of.q.heads % of.k.heads == 0;
  return fits && of.mask.read(mask, size, {of.q.examples, of.q.heads, of.q.rows, of.k.rows});
}

template <class T>
bool is_like(const Heads<T>& a, Py_ssize_t examples, Py_ssize_t heads, Py_ssize_t rows,
             Py_ssize_t columns) {
  return a.examples == examples && a.heads == heads && a.rows == rows && a.columns == columns;
}

// run(T{}) for floats or doubles: 1 if done, 0 if something lies otherwise, -1 without memory.
template <class Run>
PyObject* answer(const char* kind, const Run& run) {
  if (!blas::has_library()) Py_RETURN_FALSE;
  const blas::OneThread alone;
  const int done = *kind == 'f' ? run(float{}) : *kind == 'd' ? run(double{}) : 0;
  if (done < 0) return PyErr_NoMemory();
  return PyBool_FromLong(done);
}

// attend(q, k, v, mask, out, lse, kind, mask's itemsize, causal, scale); False: not done, something
// is empty or lies otherwise.
PyObject* attend(PyObject*, PyObject* args) {
  PyObject *q, *k, *v, *mask, *made, *logs;
  const char* kind;
  Py_ssize_t size;
  int causal;
  double scale;
  if (!PyArg_ParseTuple(args, "OOOOOOsnpd", &q, &k, &v, &mask, &made, &logs, &kind, &size, &causal,
                        &scale))
    return nullptr;
  return answer(kind, [&]<class T>(T) {
    Attention<T> of{.causal = causal != 0, .scale = static_cast<T>(scale)};
    Heads<T> out;
    if (!read(of, q, k, v, mask, size) || !out.read(made) ||
        !is_like(out, of.q.examples, of.q.heads, of.q.rows, of.v.columns))
      return 0;
    const NDArray* lse = as_ndarray(logs);
    const Py_ssize_t rows = of.q.examples * of.q.heads * of.q.rows;
    if (!lse || !lse->is_contiguous() || lse->size() != static_cast<std::size_t>(rows)) return 0;
    return Forward<T>{of, out, reinterpret_cast<T*>(lse->data)}.run() ? 1 : -1;
  });
}

// attend_backward(g, q, k, v, mask, out, lse, dq, dk, dv, kind, mask's itemsize, causal, scale):
// dk and dv are of the heads of keys.
PyObject* attend_backward(PyObject*, PyObject* args) {
  PyObject *g, *q, *k, *v, *mask, *made, *logs, *dq, *dk, *dv;
  const char* kind;
  Py_ssize_t size;
  int causal;
  double scale;
  if (!PyArg_ParseTuple(args, "OOOOOOOOOOsnpd", &g, &q, &k, &v, &mask, &made, &logs, &dq, &dk, &dv,
                        &kind, &size, &causal, &scale))
    return nullptr;
  return answer(kind, [&]<class T>(T) {
    Backward<T> to{.of = {.causal = causal != 0, .scale = static_cast<T>(scale)}};
    Attention<T>& of = to.of;
    const bool lie = read(of, q, k, v, mask, size) && to.g.read(g) && to.out.read(made) &&
                     to.dq.read(dq) && to.dk.read(dk) && to.dv.read(dv);
    if (!lie || !is_like(to.g, of.q.examples, of.q.heads, of.q.rows, of.v.columns) ||
        !is_like(to.out, of.q.examples, of.q.heads, of.q.rows, of.v.columns) ||
        !is_like(to.dq, of.q.examples, of.q.heads, of.q.rows, of.q.columns) ||
        !is_like(to.dk, of.k.examples, of.k.heads, of.k.rows, of.k.columns) ||
        !is_like(to.dv, of.v.examples, of.v.heads, of.v.rows, of.v.columns))
      return 0;
    const NDArray* lse = as_ndarray(logs);
    const Py_ssize_t rows = of.q.examples * of.q.heads * of.q.rows;
    if (!lse || !lse->is_contiguous() || lse->size() != static_cast<std::size_t>(rows)) return 0;
    to.lse = reinterpret_cast<const T*>(lse->data);
    return to.run() ? 1 : -1;
  });
}

PyMethodDef functions[] = {
    {"attend", attend, METH_VARARGS, "Scaled dot-product attention of floats."},
    {"attend_backward", attend_backward, METH_VARARGS, "The gradients of attention."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_attention(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
