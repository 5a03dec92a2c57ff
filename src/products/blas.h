// The BLAS that NumPy has loaded, called from our own threads.
//
// Note [Products on our threads]: OpenBLAS's threads look for work for tens of milliseconds after a
// product, and keep the cores busy on which everything between two products could be shared.  So
// each of our products asks it for one thread and is cut into pieces here, which the workers
// take (workers.h): between two products they do the rest.  A piece's place depends on sizes alone:
// the same product has the same bits for any number of threads.  A matrix times its own transpose,
// of which NumPy has OpenBLAS compute a half, is cut as well: pieces above the diagonal are copied.
#pragma once

#include <cstdint>

namespace tritorch::blas {

// Its functions for floats and doubles, as cblas.h declares them, with integers of 64 or 32 bits.
struct Library {
  void* gemm[2] = {};
  void* gemv[2] = {};
  void* dot[2] = {};
  int (*get_threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
  bool wide = false;  // 64 bits
};

void set_library(const Library& found);
bool has_library();

// How many threads a product of NumPy's own has from now on, or now; 0: nobody knows.
void set_threads(int count);
int get_threads();

// Between them a product runs in the thread that asks for it.
void begin_one_thread();
void end_one_thread();

class OneThread {
 public:
  OneThread() { begin_one_thread(); }
  ~OneThread() { end_one_thread(); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

// A matrix of `stride` elements from one row to the next, or from one column to the next.
template <class T>
struct Matrix {
  T* data;
  std::int64_t stride;
  bool across;  // the columns follow each other: element (i, j) is at i + j * stride

  // From one element of a single row, or of a single column, to the next.
  std::int64_t along_row() const { return across ? stride : 1; }
  std::int64_t along_column() const { return across ? 1 : stride; }

  Matrix at(std::int64_t row, std::int64_t column) const {
    return {data + (across ? row + column * stride : row * stride + column), stride, across};
  }
};

// c = a b + onto * c, a of m by k, b of k by n; c's rows follow each other.  A single row or column
// is a matrix and a vector's product.
template <class T>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<const T>& a,
              const Matrix<const T>& b, const Matrix<T>& c, T onto = 0);

// The sum of products of n elements that follow each other, in one thread.
template <class T>
T dot(std::int64_t n, const T* a, const T* b);

}  // namespace tritorch::blas
