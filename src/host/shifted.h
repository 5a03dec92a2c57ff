// Rows of what shifted rows add up to.
#pragma once

#include <Python.h>

namespace tritorch::host {

// out[i] = sum of weights[k] * seen[taps[k] + i], one after the other.  Whole vectors of 32 bytes
// are read and written.
void add_shifted(const float* seen, const Py_ssize_t* taps, const float* weights, Py_ssize_t count,
                 float* out, Py_ssize_t n);
void add_shifted(const double* seen, const Py_ssize_t* taps, const double* weights,
                 Py_ssize_t count, double* out, Py_ssize_t n);

// Rows of numbers, so far from each other.
template <class T>
struct Lines {
  const T* data;
  Py_ssize_t apart;
};

// sums[k] += sum of g[i] * seen[taps[k] + i] over rows of n elements.
void add_products(const Lines<float>& g, const Lines<float>& seen, Py_ssize_t rows, Py_ssize_t n,
                  const Py_ssize_t* taps, Py_ssize_t count, double* sums);
void add_products(const Lines<double>& g, const Lines<double>& seen, Py_ssize_t rows, Py_ssize_t n,
                  const Py_ssize_t* taps, Py_ssize_t count, double* sums);

}  // namespace tritorch::host
