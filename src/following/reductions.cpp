// Note [Reductions]
// A row is added up in strips: of each, every kLanes-th number goes to the same partial sum, and
// those are added two by two.  What strips give is added in double.  So rounding grows with the
// logarithm of a row's length, about, and hangs neither on the width of registers nor on threads.
// An extreme is NaN where there is one, as NumPy's.
#include "following/reductions.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "joins.h"
#include "widest.h"

namespace tritorch {
namespace {

constexpr int kLanes = 64;  // of floats; half as many of doubles
constexpr std::ptrdiff_t kStrip = 1024;

// Numbers that one register holds.
template <class T, int Bytes>
struct Wide {
  typedef T Value __attribute__((vector_size(Bytes)));
  static constexpr int lanes = Bytes / sizeof(T), count = kLanes * 4 / Bytes;
};

// What is made of a register's numbers, those of its halves joined first.
template <class T, int Lanes, class Join>
[[gnu::always_inline]] inline T across(const T* x, Join join) {
  T held[Lanes];
  std::memcpy(held, x, sizeof held);
  for (int width = Lanes / 2; width; width /= 2)
    for (int i = 0; i < width; ++i) held[i] = join(held[i], held[i + width]);
  return held[0];
}

// Fewer numbers than registers hold, the others being `nothing`: without the calls that copying so
// few bytes would be.
template <class T, int Bytes>
[[gnu::always_inline]] inline void read_some(typename Wide<T, Bytes>::Value* held, const T* x,
                                             std::ptrdiff_t n, T nothing) {
  using Kind = Wide<T, Bytes>;
  T rest[Kind::lanes];
  for (T& number : rest) number = nothing;
  _Pragma("GCC unroll 16") for (int i = 0; i < Kind::count; ++i)
      std::memcpy(&held[i], rest, sizeof held[i]);
  const std::ptrdiff_t whole = n / Kind::lanes;
  for (std::ptrdiff_t i = 0; i < whole; ++i)
    std::memcpy(&held[i], x + i * Kind::lanes, sizeof held[i]);
  if (whole * Kind::lanes == n) return;
  for (std::ptrdiff_t i = whole * Kind::lanes; i < n; ++i) rest[i - whole * Kind::lanes] = x[i];
  std::memcpy(&held[whole], rest, sizeof held[whole]);
}

// What is made of n numbers: those kLanes * 4 bytes apart first, then the rest, then lanes.
template <class T, int Bytes, class Join>
[[gnu::always_inline]] inline T folded(const T* x, std::ptrdiff_t n, Join join, T nothing) {
  using Kind = Wide<T, Bytes>;
  constexpr int lanes = Kind::lanes * Kind::count;
  if (n < lanes / 4) {
    T found = nothing;
    for (std::ptrdiff_t i = 0; i < n; ++i) found = join(found, x[i]);
    return found;
  }
  typename Kind::Value held[Kind::count], next;
  const std::ptrdiff_t whole = n / lanes * lanes;
  if (whole) {
    std::memcpy(held, x, sizeof held);
  } else {
    read_some<T, Bytes>(held, x, n, nothing);
  }
  for (std::ptrdiff_t at = lanes; at < whole; at += lanes)
    _Pragma("GCC unroll 16") for (int i = 0; i < Kind::count; ++i) {
      std::memcpy(&next, x + at + i * Kind::lanes, sizeof next);
      held[i] = join(held[i], next);
    }
  if (whole && whole < n) {
    typename Kind::Value rest[Kind::count];
    read_some<T, Bytes>(rest, x + whole, n - whole, nothing);
    _Pragma("GCC unroll 16") for (int i = 0; i < Kind::count; ++i) held[i] = join(held[i], rest[i]);
  }
  for (int width = Kind::count / 2; width; width /= 2)
    _Pragma("GCC unroll 8") for (int i = 0; i < width; ++i) held[i] =
        join(held[i], held[i + width]);
  T last[Kind::lanes];
  std::memcpy(last, held, sizeof last);
  return across<T, Kind::lanes>(last, join);
}

template <class T, int Bytes, class Join>
[[gnu::always_inline]] inline void reduce(const char* data, std::ptrdiff_t n, char* out) {
  const T* x = reinterpret_cast<const T*>(data);
  T found;
  if constexpr (std::is_same_v<Join, Add>) {
    double total = 0;
    if (n <= kStrip) {
      found = folded<T, Bytes>(x, n, Join{}, T{0});
    } else {
      for (std::ptrdiff_t at = 0; at < n; at += kStrip)
        total += folded<T, Bytes>(x + at, std::min(kStrip, n - at), Join{}, T{0});
      found = static_cast<T>(total);
    }
  } else {
    constexpr T top = std::numeric_limits<T>::infinity();
    constexpr T nothing = std::is_same_v<Join, Multiply> ? T{1}
                          : std::is_same_v<Join, Less>   ? top
                                                         : -top;
    found = folded<T, Bytes>(x, n, Join{}, nothing);
  }
  std::memcpy(out, &found, sizeof found);
}

template <class T, class Join>
void plain(const char* data, std::ptrdiff_t n, char* out) {
  reduce<T, 16, Join>(data, n, out);
}
#if defined(__x86_64__) && defined(__GNUC__)
template <class T, class Join>
[[gnu::target("avx2")]] void wider(const char* data, std::ptrdiff_t n, char* out) {
  reduce<T, 32, Join>(data, n, out);
}
template <class T, class Join>
[[gnu::target("avx512f")]] void widest(const char* data, std::ptrdiff_t n, char* out) {
  reduce<T, 64, Join>(data, n, out);
}
// GCC 12 makes a branch a lane of `a < b ? b : a` on vectors of 64 bytes: extremes take 32.
template <class Join>
constexpr bool chooses = std::is_same_v<Join, Larger> || std::is_same_v<Join, Less>;
template <class T, class Join>
Reduce chosen() {
  if constexpr (!chooses<Join>)
    if (chosen_cpu == Cpu::avx512) return widest<T, Join>;
  return chosen_cpu >= Cpu::avx2 ? wider<T, Join> : plain<T, Join>;
}
#else
template <class T, class Join>
Reduce chosen() {
  return plain<T, Join>;
}
#endif

template <class T>
Reduce of(std::string_view name) {
  if (name == "add") return chosen<T, Add>();
  if (name == "multiply") return chosen<T, Multiply>();
  if (name == "maximum") return chosen<T, Larger>();
  if (name == "minimum") return chosen<T, Less>();
  return nullptr;
}

}  // namespace

Reduce reduction(std::string_view name, char kind) {
  return kind == 'f' ? of<float>(name) : kind == 'd' ? of<double>(name) : nullptr;
}

}  // namespace tritorch
