#include "products/blas.h"

#include <mutex>
#include <type_traits>

#include "driver/fork.h"

namespace tritorch::blas {
namespace {

Library library;

// OpenBLAS has one number of threads for all who call it.
struct Threads {
  ForkMutex mutex;
  int inside = 0;  // those who have begun and not ended
  int before = 1;  // what they go back to
};

Threads& threads() {
  static Threads* made = [] {
    auto* all = new Threads;  // never freed: threads outlast the process's end
    in_forked_child(          // where the other threads that were inside are not
        [](void* self) {
          auto* all = static_cast<Threads*>(self);
          if (all->inside && library.set_threads) library.set_threads(all->before);
          all->inside = 0;
        },
        all);
    return all;
  }();
  return *made;
}

constexpr int kRows = 101, kColumns = 102, kPlain = 111, kTransposed = 112;  // as in cblas.h

template <class T, class Int>
using Gemm = void (*)(int, int, int, Int, Int, Int, T, const T*, Int, const T*, Int, T, T*, Int);
template <class T, class Int>
using Gemv = void (*)(int, int, Int, Int, T, const T*, Int, const T*, Int, T, T*, Int);
template <class T, class Int>
using Dot = T (*)(Int, const T*, Int, const T*, Int);

template <class T, class Int>
void call(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<const T>& a,
          const Matrix<const T>& b, const Matrix<T>& c, T onto) {
  constexpr int which = std::is_same_v<T, double>;
  const auto by_vector = [&](const Matrix<const T>& x, bool turned, std::int64_t rows,
                             std::int64_t columns, const T* vector, std::int64_t step, T* out,
                             std::int64_t out_step) {
    reinterpret_cast<Gemv<T, Int>>(library.gemv[which])(
        x.across ? kColumns : kRows, turned ? kTransposed : kPlain, static_cast<Int>(rows),
        static_cast<Int>(columns), T{1}, x.data, static_cast<Int>(x.stride), vector,
        static_cast<Int>(step), onto, out, static_cast<Int>(out_step));
  };
  if (n == 1) return by_vector(a, false, m, k, b.data, b.along_column(), c.data, c.along_column());
  if (m == 1) return by_vector(b, true, k, n, a.data, a.along_row(), c.data, c.along_row());
  reinterpret_cast<Gemm<T, Int>>(library.gemm[which])(
      kRows, a.across ? kTransposed : kPlain, b.across ? kTransposed : kPlain, static_cast<Int>(m),
      static_cast<Int>(n), static_cast<Int>(k), T{1}, a.data, static_cast<Int>(a.stride), b.data,
      static_cast<Int>(b.stride), onto, c.data, static_cast<Int>(c.stride));
}

}  // namespace

void set_library(const Library& found) { library = found; }
bool has_library() { return library.gemm[0] != nullptr; }

void set_threads(int count) {
  Threads& all = threads();
  std::lock_guard lock(all.mutex);
  if (all.inside)
    all.before = count;
  else if (library.set_threads)
    library.set_threads(count);
}

int get_threads() { return library.get_threads ? library.get_threads() : 0; }

void begin_one_thread() {
  Threads& all = threads();
  std::lock_guard lock(all.mutex);
  if (all.inside++ || !library.set_threads) return;
  all.before = library.get_threads();
  library.set_threads(1);
}

void end_one_thread() {
  Threads& all = threads();
  std::lock_guard lock(all.mutex);
  if (!all.inside || --all.inside || !library.set_threads) return;
  library.set_threads(all.before);
}

template <class T>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<const T>& a,
              const Matrix<const T>& b, const Matrix<T>& c, T onto) {
  if (library.wide)
    call<T, std::int64_t>(m, n, k, a, b, c, onto);
  else
    call<T, int>(m, n, k, a, b, c, onto);
}

template <class T>
T dot(std::int64_t n, const T* a, const T* b) {
  const OneThread alone;
  void* function = library.dot[std::is_same_v<T, double>];
  return library.wide ? reinterpret_cast<Dot<T, std::int64_t>>(function)(n, a, 1, b, 1)
                      : reinterpret_cast<Dot<T, int>>(function)(static_cast<int>(n), a, 1, b, 1);
}

template float dot(std::int64_t, const float*, const float*);
template double dot(std::int64_t, const double*, const double*);
template void multiply(std::int64_t, std::int64_t, std::int64_t, const Matrix<const float>&,
                       const Matrix<const float>&, const Matrix<float>&, float);
template void multiply(std::int64_t, std::int64_t, std::int64_t, const Matrix<const double>&,
                       const Matrix<const double>&, const Matrix<double>&, double);

}  // namespace tritorch::blas
