// Batch norms of planes, and their gradients, channel by channel.
#include "host/norms.h"

#include <cmath>

namespace tritorch::host {
namespace {

struct Channels {
  Py_ssize_t images, channels, plane;

  Py_ssize_t size() const { return images * channels * plane; }
  // each(offset) for a channel's planes.
  template <class Each>
  void for_planes(Py_ssize_t channel, const Each& each) const {
    for (Py_ssize_t image = 0; image < images; ++image) each((image * channels + channel) * plane);
  }
};

template <class T>
[[gnu::always_inline]] inline void write_moved(const T* x, T* out, Py_ssize_t n, T mean, T scale,
                                               T shift, bool moves, bool relu) {
  if (moves)
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale + shift;
  else
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale;
  if (relu)
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = out[i] < T{} ? T{} : out[i];
}

// The gradient of relu, whose result was y, if there is one.
template <class T>
[[gnu::always_inline]] inline void mask(const T* g, const T* y, T* to, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) to[i] = y[i] <= T{} ? T{} : g[i];
}

template <class T>
[[gnu::always_inline]] inline void write_spread(const T* g, const T* x, T* out, Py_ssize_t n,
                                                T mean, T by, T plus, T factor) {
  for (Py_ssize_t i = 0; i < n; ++i) out[i] = (g[i] - ((x[i] - mean) * by + plus)) * factor;
}

// The passes over a plane, for each dtype.
#define TRITORCH_PASSES(T)                                                                        \
  TRITORCH_WIDEST(double, sum_pass, (const T* x, Py_ssize_t n), (x, n), { return sum_of(x, n); }) \
  TRITORCH_WIDEST(double, square_pass, (const T* x, T mean, Py_ssize_t n), (x, mean, n), {        \
    double total[2] = {};                                                                         \
    squares_of(x, mean, n, total);                                                                \
    return total[0];                                                                              \
  })                                                                                              \
  TRITORCH_WIDEST(                                                                                \
      void, move_pass,                                                                            \
      (const T* x, T* out, Py_ssize_t n, T mean, T scale, T shift, bool moves, bool relu),        \
      (x, out, n, mean, scale, shift, moves, relu),                                               \
      { write_moved(x, out, n, mean, scale, shift, moves, relu); })                               \
  TRITORCH_WIDEST(void, mask_pass, (const T* g, const T* y, T* to, Py_ssize_t n), (g, y, to, n),  \
                  { mask(g, y, to, n); })                                                         \
  TRITORCH_WIDEST(void, sums_pass, (const T* g, const T* x, T mean, Py_ssize_t n, double* total), \
                  (g, x, mean, n, total), { sums_of(g, x, mean, n, total); })                     \
  TRITORCH_WIDEST(void, spread_pass,                                                              \
                  (const T* g, const T* x, T* out, Py_ssize_t n, T mean, T by, T plus, T factor), \
                  (g, x, out, n, mean, by, plus, factor),                                         \
                  { write_spread(g, x, out, n, mean, by, plus, factor); })
TRITORCH_PASSES(float)
TRITORCH_PASSES(double)

template <class Work>
void for_channels(const Channels& of, const Work& work) {
  const double cost = static_cast<double>(of.images * of.plane) / 2;
  in_parts(of.channels, cost, [&](Py_ssize_t from, Py_ssize_t to) {
    for (Py_ssize_t c = from; c < to; ++c) work(c);
  });
}

template <class T>
struct Norm {
  const Channels& of;
  const T *x, *weight, *bias;
  T *out, *mean, *var;  // mean and var are given, or made
  T eps;
  bool training, relu;

  void run() const {
    for_channels(of, [this](Py_ssize_t c) { channel(c); });
  }

 private:
  void channel(Py_ssize_t c) const {
    const auto count = static_cast<double>(of.images * of.plane);
    if (training) {
      double total = 0;
      of.for_planes(c, [&](Py_ssize_t at) { total += sum_pass(x + at, of.plane); });
      mean[c] = static_cast<T>(total / count);
      total = 0;
      of.for_planes(c, [&](Py_ssize_t at) { total += square_pass(x + at, mean[c], of.plane); });
      var[c] = static_cast<T>(total / count);
    }
    const T rstd = T{1} / std::sqrt(var[c] + eps), scale = weight ? rstd * weight[c] : rstd;
    of.for_planes(c, [&](Py_ssize_t at) {
      move_pass(x + at, out + at, of.plane, mean[c], scale, bias ? bias[c] : T{}, bias, relu);
    });
  }
};

template <class T>
struct NormGradient {
  const Channels& of;
  const T *g, *y, *x, *weight, *mean, *rstd;  // y: relu's result, or none
  T *out, *dw, *db;
  bool training;

  void run() const {
    for_channels(of, [this](Py_ssize_t c) { channel(c); });
  }

 private:
  void channel(Py_ssize_t c) const {
    double totals[2] = {};
    of.for_planes(c, [&](Py_ssize_t at) {
      if (y) mask_pass(g + at, y + at, out + at, of.plane);
      sums_pass(y ? out + at : g + at, x + at, mean[c], of.plane, totals);
    });
    const auto r = static_cast<double>(rstd[c]);
    const auto count = static_cast<double>(of.images * of.plane);
    const double first = totals[0], second = totals[1] * r;
    db[c] = static_cast<T>(first), dw[c] = static_cast<T>(second);
    const T by = training ? static_cast<T>(second * r / count) : T{};
    const T plus = training ? static_cast<T>(first / count) : T{};
    const T factor = weight ? rstd[c] * weight[c] : rstd[c];
    of.for_planes(c, [&](Py_ssize_t at) {
      const T* grad = y ? out + at : g + at;
      if (training)
        spread_pass(grad, x + at, out + at, of.plane, mean[c], by, plus, factor);
      else
        move_pass(grad, out + at, of.plane, T{}, factor, T{}, false, false);
    });
  }
};

// normalise(x, weight, bias, out, mean, var, kind, (images, channels, plane), eps, training, relu)
PyObject* normalise(PyObject*, PyObject* args) {
  PyObject *x, *weight, *bias, *out, *mean, *var;
  const char* kind;
  Channels of;
  double eps;
  int training, relu;
  if (!PyArg_ParseTuple(args, "OOOOOOs(nnn)dpp", &x, &weight, &bias, &out, &mean, &var, &kind,
                        &of.images, &of.channels, &of.plane, &eps, &training, &relu))
    return nullptr;
  Given given;
  const Numbers data[] = {
      given(x, of.size(), "what is normalised"), given(weight, of.channels, "the weight"),
      given(bias, of.channels, "the bias"),      given(out, of.size(), "the result"),
      given(mean, of.channels, "the mean"),      given(var, of.channels, "the variance")};
  if (!given.good) return nullptr;
  return of_kind(kind, [&]<class T>(T) {
    Norm<T>{of,
            data[0],
            data[1],
            data[2],
            data[3],
            data[4],
            data[5],
            static_cast<T>(eps),
            training != 0,
            relu != 0}
        .run();
  });
}

// normalise_backward(g, y, x, weight, mean, rstd, out, dw, db, kind, (images, channels, plane),
// training)
PyObject* normalise_backward(PyObject*, PyObject* args) {
  PyObject *g, *y, *x, *weight, *mean, *rstd, *out, *dw, *db;
  const char* kind;
  Channels of;
  int training;
  if (!PyArg_ParseTuple(args, "OOOOOOOOOs(nnn)p", &g, &y, &x, &weight, &mean, &rstd, &out, &dw, &db,
                        &kind, &of.images, &of.channels, &of.plane, &training))
    return nullptr;
  Given given;
  const Numbers data[] = {given(g, of.size(), "the gradient"),
                          given(y, of.size(), "relu's result"),
                          given(x, of.size(), "what was normalised"),
                          given(weight, of.channels, "the weight"),
                          given(mean, of.channels, "the mean"),
                          given(rstd, of.channels, "1 / the root of the variance"),
                          given(out, of.size(), "the result"),
                          given(dw, of.channels, "the weight's gradient"),
                          given(db, of.channels, "the bias's gradient")};
  if (!given.good) return nullptr;
  return of_kind(kind, [&]<class T>(T) {
    NormGradient<T>{of,      data[0], data[1], data[2], data[3],      data[4],
                    data[5], data[6], data[7], data[8], training != 0}
        .run();
  });
}

PyMethodDef functions[] = {
    {"normalise", normalise, METH_VARARGS, "A batch norm of planes, and relu."},
    {"normalise_backward", normalise_backward, METH_VARARGS,
     "The gradients of a batch norm of planes, and relu."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_norms(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
