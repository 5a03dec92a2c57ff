// Note [Reductions]
// A row is added up in blocks of four or eight strips: numbers at the same place of them are added
// two by two, and these sums go to a lane of their own, of floats in double, of doubles with what
// rounding lost (Knuth's sum); lanes are added two by two in the end.  So of a row of any length
// only the first two or three additions of each number round.  Results hang neither on the width of
// registers nor on threads.  An extreme is NaN where there is one, as NumPy's.
#include "host/chains/reductions.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "joins.h"
#include "widest.h"

namespace tritorch {
namespace {

constexpr int kLanes = 64;  // of floats; half as many of doubles
constexpr int kBlock = 64, kStrips = 4, kStripsOfDoubles = 8;

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

// Knuth's sum: a becomes a + b, and `lost` grows by what that loses.
template <class Value>
[[gnu::always_inline]] inline void add_exactly(Value& a, const Value& b, Value& lost) {
  const Value sum = a + b, back = sum - a;
  lost += (a - (sum - back)) + (b - back);
  a = sum;
}

// A sum with what it lost, which is NaN where numbers are infinite.
[[gnu::always_inline]] inline double with_lost(double sum, double lost) {
  return lost == lost ? sum + lost : sum;
}

// The sum of `Strips` registers that lie apart, added two by two.
template <class Value, int Strips, class T>
[[gnu::always_inline]] inline Value of_strips(const T* x, std::ptrdiff_t apart) {
  if constexpr (Strips == 1) {
    Value found;
    std::memcpy(&found, x, sizeof found);
    return found;
  } else {
    return of_strips<Value, Strips / 2>(x, apart) +
           of_strips<Value, Strips / 2>(x + Strips / 2 * apart, apart);
  }
}

// The lanes of floats' sums.
template <int Bytes>
class Lanes32 {
  static constexpr int each = Bytes / 8, count = kBlock / kStrips / each;
  using Half = typename Wide<float, Bytes / 2>::Value;
  using Value = typename Wide<double, Bytes>::Value;

 public:
  static constexpr std::ptrdiff_t lanes = kBlock / kStrips;

  [[gnu::always_inline]] void add(const float* x) {
    _Pragma("GCC unroll 8") for (int i = 0; i < count; ++i) {
      const Half sum = of_strips<Half, kStrips>(x + i * each, lanes);
      held_[i] += __builtin_convertvector(sum, Value);
    }
  }
  [[gnu::always_inline]] double total() const {
    double sums[lanes];
    std::memcpy(sums, held_, sizeof sums);
    return across<double, lanes>(sums, Add{});
  }

 private:
  Value held_[count] = {};
};

// Those of doubles.
template <int Bytes>
class Lanes64 {
  static constexpr int each = Bytes / 8, count = kBlock / kStripsOfDoubles / each;
  using Value = typename Wide<double, Bytes>::Value;

 public:
  static constexpr std::ptrdiff_t lanes = kBlock / kStripsOfDoubles;

  [[gnu::always_inline]] void add(const double* x) {
    _Pragma("GCC unroll 4") for (int i = 0; i < count; ++i)
        add_exactly(held_[i], of_strips<Value, kStripsOfDoubles>(x + i * each, lanes), lost_[i]);
  }
  [[gnu::always_inline]] double total() const {
    double sums[lanes], lost[lanes];
    std::memcpy(sums, held_, sizeof sums);
    std::memcpy(lost, lost_, sizeof lost);
    for (int width = lanes / 2; width; width /= 2)
      for (int i = 0; i < width; ++i) {
        lost[i] += lost[i + width];
        add_exactly(sums[i], sums[i + width], lost[i]);
      }
    return with_lost(sums[0], lost[0]);
  }

 private:
  Value held_[count] = {}, lost_[count] = {};
};

template <class T, int Bytes>
[[gnu::always_inline]] inline T sum(const T* x, std::ptrdiff_t n) {
  using Sums = std::conditional_t<std::is_same_v<T, float>, Lanes32<Bytes>, Lanes64<Bytes>>;
  if (n < Sums::lanes) {
    double total = 0, lost = 0;
    for (std::ptrdiff_t i = 0; i < n; ++i)
      if constexpr (std::is_same_v<T, float>)
        total += static_cast<double>(x[i]);
      else
        add_exactly(total, x[i], lost);
    return static_cast<T>(with_lost(total, lost));
  }
  Sums sums;
  std::ptrdiff_t at = 0;
  for (; at + kBlock <= n; at += kBlock) sums.add(x + at);
  if (at < n) {
    T rest[kBlock] = {};
    for (std::ptrdiff_t i = at; i < n; ++i) rest[i - at] = x[i];
    sums.add(rest);
  }
  return static_cast<T>(sums.total());
}

template <class T, int Bytes, class Join>
[[gnu::always_inline]] inline void reduce(const char* data, std::ptrdiff_t n, char* out) {
  const T* x = reinterpret_cast<const T*>(data);
  T found;
  if constexpr (std::is_same_v<Join, Add>) {
    found = sum<T, Bytes>(x, n);
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
