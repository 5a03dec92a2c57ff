// Vectors of 32 bytes, which any machine computes with the same bits, and functions that are
// compiled for the widest that there are.
#pragma once

#include <Python.h>

#include <cstring>

#include "widest.h"

namespace tritorch::host {

template <class T>
struct Vector {
  static constexpr Py_ssize_t kWidth = 32 / static_cast<Py_ssize_t>(sizeof(T));
  typedef T Lanes __attribute__((vector_size(32)));
  Lanes lanes;

  [[gnu::always_inline]] explicit Vector(T x) : lanes(Lanes{} + x) {}
  [[gnu::always_inline]] explicit Vector(const T* from) { std::memcpy(&lanes, from, 32); }
  [[gnu::always_inline]] Vector(const T* from, Py_ssize_t n) : lanes{} {
    std::memcpy(&lanes, from, static_cast<std::size_t>(n) * sizeof(T));
  }
  [[gnu::always_inline]] void add(const Vector& a, const Vector& b) { lanes += a.lanes * b.lanes; }
  [[gnu::always_inline]] void put(T* to) const { std::memcpy(to, &lanes, 32); }
  [[gnu::always_inline]] double sum() const {
    double total = 0;
    for (Py_ssize_t i = 0; i < kWidth; ++i) total += static_cast<double>(lanes[i]);
    return total;
  }
};

}  // namespace tritorch::host
