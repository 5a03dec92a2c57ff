#include "host/shifted.h"

#include "host/vectors.h"

namespace tritorch::host {
namespace {

template <class T>
[[gnu::always_inline]] inline void shifted(const T* seen, const Py_ssize_t* taps, const T* weights,
                                           Py_ssize_t count, T* out, Py_ssize_t n) {
  using V = Vector<T>;
  constexpr Py_ssize_t w = V::kWidth;
  Py_ssize_t i = 0;
  for (; n - i > 3 * w; i += 4 * w) {
    V a(T{}), b(T{}), c(T{}), d(T{});
    for (Py_ssize_t k = 0; k < count; ++k) {
      const T* at = seen + taps[k] + i;
      const V by(weights[k]);
      a.add(V(at), by), b.add(V(at + w), by), c.add(V(at + 2 * w), by), d.add(V(at + 3 * w), by);
    }
    a.put(out + i), b.put(out + i + w), c.put(out + i + 2 * w), d.put(out + i + 3 * w);
  }
  for (; i < n; i += w) {
    V a(T{});
    for (Py_ssize_t k = 0; k < count; ++k) a.add(V(seen + taps[k] + i), V(weights[k]));
    a.put(out + i);
  }
}

// Four taps, or one.
template <class T, bool Four>
[[gnu::always_inline]] inline void products(const Lines<T>& g, const Lines<T>& seen,
                                            Py_ssize_t rows, Py_ssize_t n, const Py_ssize_t* taps,
                                            double* sums) {
  using V = Vector<T>;
  constexpr Py_ssize_t w = V::kWidth;
  V a(T{}), b(T{}), c(T{}), d(T{});
  const T *grad = g.data, *row = seen.data;
  for (Py_ssize_t y = 0; y < rows; ++y, grad += g.apart, row += seen.apart) {
    Py_ssize_t i = 0;
    for (; i + w <= n; i += w) {
      const V by(grad + i);
      a.add(V(row + taps[0] + i), by);
      if (Four)
        b.add(V(row + taps[1] + i), by), c.add(V(row + taps[2] + i), by),
            d.add(V(row + taps[3] + i), by);
    }
    if (i == n) continue;
    const V by(grad + i, n - i);
    a.add(V(row + taps[0] + i, n - i), by);
    if (Four)
      b.add(V(row + taps[1] + i, n - i), by), c.add(V(row + taps[2] + i, n - i), by),
          d.add(V(row + taps[3] + i, n - i), by);
  }
  sums[0] += a.sum();
  if (Four) sums[1] += b.sum(), sums[2] += c.sum(), sums[3] += d.sum();
}

template <class T>
[[gnu::always_inline]] inline void all_products(const Lines<T>& g, const Lines<T>& seen,
                                                Py_ssize_t rows, Py_ssize_t n,
                                                const Py_ssize_t* taps, Py_ssize_t count,
                                                double* sums) {
  Py_ssize_t k = 0;
  for (; k + 4 <= count; k += 4) products<T, true>(g, seen, rows, n, taps + k, sums + k);
  for (; k < count; ++k) products<T, false>(g, seen, rows, n, taps + k, sums + k);
}

}  // namespace

TRITORCH_WIDEST(void, add_shifted,
                (const float* seen, const Py_ssize_t* taps, const float* weights, Py_ssize_t count,
                 float* out, Py_ssize_t n),
                (seen, taps, weights, count, out, n),
                { shifted(seen, taps, weights, count, out, n); })
TRITORCH_WIDEST(void, add_shifted,
                (const double* seen, const Py_ssize_t* taps, const double* weights,
                 Py_ssize_t count, double* out, Py_ssize_t n),
                (seen, taps, weights, count, out, n),
                { shifted(seen, taps, weights, count, out, n); })

TRITORCH_WIDEST(void, add_products,
                (const Lines<float>& g, const Lines<float>& seen, Py_ssize_t rows, Py_ssize_t n,
                 const Py_ssize_t* taps, Py_ssize_t count, double* sums),
                (g, seen, rows, n, taps, count, sums),
                { all_products(g, seen, rows, n, taps, count, sums); })
TRITORCH_WIDEST(void, add_products,
                (const Lines<double>& g, const Lines<double>& seen, Py_ssize_t rows, Py_ssize_t n,
                 const Py_ssize_t* taps, Py_ssize_t count, double* sums),
                (g, seen, rows, n, taps, count, sums),
                { all_products(g, seen, rows, n, taps, count, sums); })

}  // namespace tritorch::host
