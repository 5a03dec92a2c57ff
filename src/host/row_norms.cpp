// Norms of rows, each of which may be channels of planes (layer, RMS and group norms), and their
// gradients: sums (norms.h), then one pass that writes.
#include <cmath>
#include <vector>

#include "host/norms.h"

namespace tritorch::host {
namespace {

constexpr Py_ssize_t kTogether = 16;    // rows whose gradients of weights are added in T
constexpr Py_ssize_t kBlock = 1 << 15;  // elements of rows that are added by one thread
constexpr Py_ssize_t kLeastRows = 64;   // the same, at least

// A weight for each element of a row or, in groups, for each channel, a plane of elements.
struct Rows {
  Py_ssize_t count, groups, channels, plane;

  Py_ssize_t length() const { return channels * plane; }
  Py_ssize_t size() const { return count * length(); }
  Py_ssize_t weights() const { return groups * channels; }
  double cost() const { return static_cast<double>(length()) / 2; }  // of a row, in nanoseconds
};

template <class T>
struct Norm {
  Rows of;
  const T *x, *weight, *bias;
  T *out, *mean, *rstd;  // mean: none of RMS norms
  T eps;
};

template <class T>
struct Gradient {
  Rows of;
  const T *g, *x, *weight, *mean, *rstd;
  T* out;
};

template <class T>
[[gnu::always_inline]] inline T centred(T x, T mean, T lack) {
  if constexpr (kMeansLack<T>) return (x - mean) - lack;
  return x - mean;
}

template <class T>
[[gnu::always_inline]] inline void write(const T* x, T* out, Py_ssize_t n, T mean, T lack, T rstd,
                                         const T* weight, const T* bias) {
  if (weight && bias)
    for (Py_ssize_t i = 0; i < n; ++i)
      out[i] = centred(x[i], mean, lack) * rstd * weight[i] + bias[i];
  else if (weight)
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = centred(x[i], mean, lack) * rstd * weight[i];
  else if (bias)
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = centred(x[i], mean, lack) * rstd + bias[i];
  else
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = centred(x[i], mean, lack) * rstd;
}

template <class T>
[[gnu::always_inline]] inline void write_channel(const T* x, T* out, Py_ssize_t n, T mean, T lack,
                                                 T rstd, T weight, T bias) {
  for (Py_ssize_t i = 0; i < n; ++i) out[i] = centred(x[i], mean, lack) * rstd * weight + bias;
}

template <class T>
[[gnu::always_inline]] inline void normalise_some(const Norm<T>& of, Py_ssize_t from,
                                                  Py_ssize_t to) {
  const Py_ssize_t n = of.of.length(), plane = of.of.plane, channels = of.of.channels;
  const auto count = static_cast<double>(n);
  for (Py_ssize_t row = from; row < to; ++row) {
    const T* x = of.x + row * n;
    T* out = of.out + row * n;
    T mean{};
    if (of.mean) of.mean[row] = mean = static_cast<T>(sum_of(x, n) / count);
    double total[2] = {};
    squares_of(x, mean, n, total);
    const double lacks = of.mean ? total[1] / count : 0.0;  // to an infinite mean, NaN
    const T lack = static_cast<T>(lacks);
    const T var = static_cast<T>(total[0] / count - lacks * lacks);
    const T rstd = of.rstd[row] = T{1} / std::sqrt(var + of.eps);
    if (of.of.groups == 1 && plane == 1) {
      write(x, out, n, mean, lack, rstd, of.weight, of.bias);
      continue;
    }
    const Py_ssize_t first = row % of.of.groups * channels;
    for (Py_ssize_t c = 0; c < channels; ++c)
      write_channel(x + c * plane, out + c * plane, plane, mean, lack, rstd,
                    of.weight ? of.weight[first + c] : T{1}, of.bias ? of.bias[first + c] : T{});
  }
}

// The sum of g w, and that of g w (x - mean).
template <class T>
[[gnu::always_inline]] inline void weighed_sums(const T* g, const T* x, const T* weight, T mean,
                                                Py_ssize_t n, double* total) {
  if (!weight) return sums_of(g, x, mean, n, total);
  sum_pieces<T>(n, total, [&](Py_ssize_t i, Py_ssize_t of, Vector<T>& sum, Vector<T>& other) {
    const auto grad = some(g + i, of).lanes * some(weight + i, of).lanes;
    sum.lanes += grad;
    other.lanes += grad * (some(x + i, of, mean).lanes - mean);
  });
}

// A row's gradient, and what it adds to those of weights and biases.
template <bool kWeighed, class T>
[[gnu::always_inline]] inline void write_slopes(const T* __restrict g, const T* __restrict x,
                                                const T* __restrict weight, T* __restrict out,
                                                T* __restrict dw, T* __restrict db, Py_ssize_t n,
                                                T mean, T rstd, T by, T plus) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    const T centred = x[i] - mean, grad = g[i];
    dw[i] += grad * (centred * rstd);
    db[i] += grad;
    out[i] = ((kWeighed ? grad * weight[i] : grad) - (centred * by + plus)) * rstd;
  }
}

// Gradients of rows; those of weights and biases of elements are added to `total`, by way of
// `some`, both of 2 n elements.
template <class T>
[[gnu::always_inline]] inline void slope_some(const Gradient<T>& of, Py_ssize_t from, Py_ssize_t to,
                                              T* few, double* total) {
  const Py_ssize_t n = of.of.length();
  const auto count = static_cast<double>(n);
  for (Py_ssize_t row = from; row < to; ++row) {
    const T *g = of.g + row * n, *x = of.x + row * n, rstd = of.rstd[row];
    const T mean = of.mean ? of.mean[row] : T{};
    double sums[2] = {};
    weighed_sums(g, x, of.weight, mean, n, sums);
    const auto r = static_cast<double>(rstd);
    const T by = static_cast<T>(sums[1] * r * r / count);
    const T plus = of.mean ? static_cast<T>(sums[0] / count) : T{};
    T* out = of.out + row * n;
    if (of.weight)
      write_slopes<true>(g, x, of.weight, out, few, few + n, n, mean, rstd, by, plus);
    else
      write_slopes<false>(g, x, of.weight, out, few, few + n, n, mean, rstd, by, plus);
    if ((row - from) % kTogether != kTogether - 1 && row + 1 != to) continue;
    for (Py_ssize_t i = 0; i < 2 * n; ++i) total[i] += static_cast<double>(few[i]), few[i] = T{};
  }
}

// The same in groups: dw and db have places for the channels of each row.
template <class T>
[[gnu::always_inline]] inline void slope_groups(const Gradient<T>& of, T* dw, T* db,
                                                Py_ssize_t from, Py_ssize_t to) {
  const Py_ssize_t n = of.of.length(), plane = of.of.plane, channels = of.of.channels;
  const auto count = static_cast<double>(n);
  for (Py_ssize_t row = from; row < to; ++row) {
    const T *g = of.g + row * n, *x = of.x + row * n, mean = of.mean[row], rstd = of.rstd[row];
    const T* weight = of.weight ? of.weight + row % of.of.groups * channels : nullptr;
    const auto r = static_cast<double>(rstd);
    double all[2] = {};
    for (Py_ssize_t c = 0; c < channels; ++c) {
      double sums[2] = {};
      sums_of(g + c * plane, x + c * plane, mean, plane, sums);
      db[row * channels + c] = static_cast<T>(sums[0]);
      dw[row * channels + c] = static_cast<T>(sums[1] * r);
      const double w = weight ? static_cast<double>(weight[c]) : 1.0;
      for (int i = 0; i < 2; ++i) all[i] += sums[i] * w;
    }
    const T by = static_cast<T>(all[1] * r * r / count), plus = static_cast<T>(all[0] / count);
    for (Py_ssize_t c = 0; c < channels; ++c) {
      const T w = weight ? weight[c] : T{1};
      const Py_ssize_t at = c * plane;
      T* __restrict out = of.out + row * n + at;
      for (Py_ssize_t i = 0; i < plane; ++i)
        out[i] = (g[at + i] * w - ((x[at + i] - mean) * by + plus)) * rstd;
    }
  }
}

// The passes over rows, for each dtype.
#define TRITORCH_PASSES(T)                                                                        \
  TRITORCH_WIDEST(void, norm_pass, (const Norm<T>& of, Py_ssize_t from, Py_ssize_t to),           \
                  (of, from, to), { normalise_some(of, from, to); })                              \
  TRITORCH_WIDEST(void, slope_pass,                                                               \
                  (const Gradient<T>& of, Py_ssize_t from, Py_ssize_t to, T* few, double* total), \
                  (of, from, to, few, total), { slope_some(of, from, to, few, total); })          \
  TRITORCH_WIDEST(void, group_pass,                                                               \
                  (const Gradient<T>& of, T* dw, T* db, Py_ssize_t from, Py_ssize_t to),          \
                  (of, dw, db, from, to), { slope_groups(of, dw, db, from, to); })
TRITORCH_PASSES(float)
TRITORCH_PASSES(double)

// Blocks of rows, whose number sizes alone decide, leave sums, which are added in their order.
template <class T>
void run_slopes(const Gradient<T>& of, T* dw, T* db) {
  const Py_ssize_t n = of.of.length(), rows = of.of.count;
  const Py_ssize_t per = std::max(kLeastRows, kBlock / std::max<Py_ssize_t>(n, 1));
  const Py_ssize_t blocks = (rows + per - 1) / per;
  std::vector<double> totals(static_cast<std::size_t>(std::max<Py_ssize_t>(blocks, 1) * 2 * n));
  const double cost = 2 * of.of.cost() * static_cast<double>(std::min(per, rows));
  in_parts(blocks, cost, [&](Py_ssize_t from, Py_ssize_t to) {
    std::vector<T> few(static_cast<std::size_t>(2 * n));
    for (Py_ssize_t block = from; block < to; ++block)
      slope_pass(of, block * per, std::min(rows, (block + 1) * per), few.data(),
                 totals.data() + block * 2 * n);
  });
  for (Py_ssize_t block = 1; block < blocks; ++block)
    for (Py_ssize_t i = 0; i < 2 * n; ++i)
      totals[static_cast<std::size_t>(i)] += totals[static_cast<std::size_t>(block * 2 * n + i)];
  for (Py_ssize_t i = 0; i < n; ++i) {
    dw[i] = static_cast<T>(totals[static_cast<std::size_t>(i)]);
    if (db) db[i] = static_cast<T>(totals[static_cast<std::size_t>(n + i)]);
  }
}

// normalise_rows(x, weight, bias, out, mean, rstd, kind, (rows, groups, channels, plane), eps)
PyObject* normalise_rows(PyObject*, PyObject* args) {
  PyObject *x, *weight, *bias, *out, *mean, *rstd;
  const char* kind;
  Rows of;
  double eps;
  if (!PyArg_ParseTuple(args, "OOOOOOs(nnnn)d", &x, &weight, &bias, &out, &mean, &rstd, &kind,
                        &of.count, &of.groups, &of.channels, &of.plane, &eps))
    return nullptr;
  Given given;
  const Numbers data[] = {
      given(x, of.size(), "what is normalised"), given(weight, of.weights(), "the weight"),
      given(bias, of.weights(), "the bias"),     given(out, of.size(), "the result"),
      given(mean, of.count, "the mean"),         given(rstd, of.count, "1 / the deviation")};
  if (!given.good) return nullptr;
  return of_kind(kind, [&]<class T>(T) {
    const Norm<T> norm{of,      data[0], data[1], data[2],
                       data[3], data[4], data[5], static_cast<T>(eps)};
    in_parts(of.count, of.cost(),
             [&](Py_ssize_t from, Py_ssize_t to) { norm_pass(norm, from, to); });
  });
}

// normalise_rows_backward(g, x, weight, mean, rstd, out, dw, db, kind,
// (rows, groups, channels, plane)): in groups, dw and db are those of each row.
PyObject* normalise_rows_backward(PyObject*, PyObject* args) {
  PyObject *g, *x, *weight, *mean, *rstd, *out, *dw, *db;
  const char* kind;
  Rows of;
  if (!PyArg_ParseTuple(args, "OOOOOOOOs(nnnn)", &g, &x, &weight, &mean, &rstd, &out, &dw, &db,
                        &kind, &of.count, &of.groups, &of.channels, &of.plane))
    return nullptr;
  const bool grouped = of.groups != 1 || of.plane != 1;
  const Py_ssize_t sums = grouped ? of.count * of.channels : of.channels;
  Given given;
  const Numbers data[] = {
      given(g, of.size(), "the gradient"),        given(x, of.size(), "what was normalised"),
      given(weight, of.weights(), "the weight"),  given(mean, of.count, "the mean"),
      given(rstd, of.count, "1 / the deviation"), given(out, of.size(), "the result"),
      given(dw, sums, "the weight's gradient"),   given(db, sums, "the bias's gradient")};
  if (!given.good) return nullptr;
  return of_kind(kind, [&]<class T>(T) {
    const Gradient<T> gradient{of, data[0], data[1], data[2], data[3], data[4], data[5]};
    T *const weights = data[6], *const biases = data[7];
    if (!grouped) return run_slopes(gradient, weights, biases);
    in_parts(of.count, 2 * of.cost(), [&](Py_ssize_t from, Py_ssize_t to) {
      group_pass(gradient, weights, biases, from, to);
    });
  });
}

PyMethodDef functions[] = {
    {"normalise_rows", normalise_rows, METH_VARARGS, "A layer, RMS or group norm."},
    {"normalise_rows_backward", normalise_rows_backward, METH_VARARGS,
     "The gradients of a layer, RMS or group norm."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_row_norms(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
