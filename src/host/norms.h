// Sums of what is normalised: in vectors' lanes over pieces, which are added in double, with what
// rounding loses (Knuth's sum); and what norms are given.
#pragma once

#include "host/functions.h"
#include "host/vectors.h"

namespace tritorch::host {

template <class T>
constexpr Py_ssize_t kPiece = sizeof(T) == sizeof(double) ? 256 : 1024;  // elements added in T

// Whether what sums and means of T lose is made good: it is small beside the rounding of floats.
template <class T>
constexpr bool kMeansLack = sizeof(T) == sizeof(double);

// What adds up to one sum, or two: at element i, so many of them.
template <class T, class Each>
[[gnu::always_inline]] inline void sum_pieces(Py_ssize_t n, double* total, const Each& each) {
  using V = Vector<T>;
  constexpr Py_ssize_t w = V::kWidth, piece = kPiece<T>;
  double lost[2] = {};
  for (Py_ssize_t low = 0; low < n; low += piece) {
    const Py_ssize_t high = std::min(n, low + piece);
    V sums[4] = {V(T{}), V(T{}), V(T{}), V(T{})};
    Py_ssize_t i = low;
    for (; i + 2 * w <= high; i += 2 * w)
      each(i, w, sums[0], sums[1]), each(i + w, w, sums[2], sums[3]);
    for (; i < high; i += w) each(i, std::min(w, high - i), sums[0], sums[1]);
    for (int k = 0; k < 2; ++k) {
      const double more = sums[k].sum() + sums[k + 2].sum(), sum = total[k] + more;
      if (low && kMeansLack<T>) {
        const double back = sum - total[k];
        lost[k] += (total[k] - (sum - back)) + (more - back);
      }
      total[k] = sum;
    }
  }
  for (int k = 0; k < 2; ++k)
    if (lost[k] == lost[k]) total[k] += lost[k];  // infinities lose NaN
}

// Some elements, the rest of which are those of `beyond`.
template <class T>
[[gnu::always_inline]] inline Vector<T> some(const T* from, Py_ssize_t n, T beyond = T{}) {
  constexpr Py_ssize_t w = Vector<T>::kWidth;
  if (n == w) return Vector<T>(from);
  T whole[w];
  for (Py_ssize_t i = 0; i < w; ++i) whole[i] = i < n ? from[i] : beyond;
  return Vector<T>(whole);
}

template <class T>
[[gnu::always_inline]] inline double sum_of(const T* x, Py_ssize_t n) {
  double total[2] = {};
  sum_pieces<T>(n, total, [&](Py_ssize_t i, Py_ssize_t some_of, Vector<T>& sum, Vector<T>&) {
    sum.lanes += some(x + i, some_of).lanes;
  });
  return total[0];
}

// Of distances from the mean the squares and, if that is made good, what the mean lacks, n times.
template <class T>
[[gnu::always_inline]] inline void squares_of(const T* x, T mean, Py_ssize_t n, double* total) {
  sum_pieces<T>(n, total, [&](Py_ssize_t i, Py_ssize_t some_of, Vector<T>& sum, Vector<T>& off) {
    const auto centred = some(x + i, some_of, mean).lanes - mean;
    sum.lanes += centred * centred;
    if constexpr (kMeansLack<T>) off.lanes += centred;
  });
}

template <class T>
[[gnu::always_inline]] inline void sums_of(const T* g, const T* x, T mean, Py_ssize_t n,
                                           double* total) {
  sum_pieces<T>(n, total, [&](Py_ssize_t i, Py_ssize_t some_of, Vector<T>& sum, Vector<T>& other) {
    const auto grad = some(g + i, some_of).lanes;
    sum.lanes += grad;
    other.lanes += grad * (some(x + i, some_of, mean).lanes - mean);
  });
}

// The numbers of an array, of whatever type they are wanted.
struct Numbers {
  char* data = nullptr;

  template <class T>
  operator T*() const {
    return reinterpret_cast<T*>(data);
  }
};

// Dense arrays of some dtype, some of which may be None; not `good` with a Python error set.
struct Given {
  bool good = true;

  Numbers operator()(PyObject* array, Py_ssize_t size, const char* what) {
    if (!good || array == Py_None) return {};
    const NDArray* found = dense(array, size, what);
    good = found;
    return {found ? found->data : nullptr};
  }
};

}  // namespace tritorch::host
