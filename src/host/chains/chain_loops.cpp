#include "host/chains/chain_loops.h"

#include <algorithm>
#include <cstdint>

#include "widest.h"

namespace tritorch {
namespace {

// By bits: masks that follow no pattern would make a branch miss every other time.
template <class T, int StepA, int StepB>
void select_dense(const std::uint8_t* mask, const T* a, const T* b, T* out, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    const T chosen = static_cast<T>(-static_cast<T>(mask[i] != 0));
    const T one = a[i * StepA], other = b[i * StepB];
    out[i] = static_cast<T>(other ^ ((one ^ other) & chosen));
  }
}

template <class T>
void select(char* const* p, const Py_ssize_t* by, Py_ssize_t n) {
  const auto* mask = reinterpret_cast<const std::uint8_t*>(p[0]);
  const auto *a = reinterpret_cast<const T*>(p[1]), *b = reinterpret_cast<const T*>(p[2]);
  auto* out = reinterpret_cast<T*>(p[3]);
  if (!by[0]) {  // one mask for all
    const T* chosen = *mask ? a : b;
    const Py_ssize_t step = by[*mask ? 1 : 2] ? 1 : 0;
    for (Py_ssize_t i = 0; i < n; ++i) out[i] = chosen[i * step];
  } else if (by[1] && by[2]) {
    select_dense<T, 1, 1>(mask, a, b, out, n);
  } else if (by[1]) {
    select_dense<T, 1, 0>(mask, a, b, out, n);
  } else if (by[2]) {
    select_dense<T, 0, 1>(mask, a, b, out, n);
  } else {
    select_dense<T, 0, 0>(mask, a, b, out, n);
  }
}

}  // namespace

bool select_any(Py_ssize_t itemsize, char* const* p, const Py_ssize_t* by, Py_ssize_t n) {
  switch (itemsize) {
    case 1:
      return select<std::uint8_t>(p, by, n), true;
    case 2:
      return select<std::uint16_t>(p, by, n), true;
    case 4:
      return select<std::uint32_t>(p, by, n), true;
    case 8:
      return select<std::uint64_t>(p, by, n), true;
    default:
      return false;
  }
}

namespace {

template <class From, class To>
void convert(char* const* p, const Py_ssize_t* by, Py_ssize_t n) {
  const auto* from = reinterpret_cast<const From*>(p[0]);
  auto* to = reinterpret_cast<To*>(p[1]);
  const Py_ssize_t step = by[0] ? 1 : 0;
  for (Py_ssize_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i * step]);
}

// bfloat16: the upper half of a float32, rounded to even; a NaN keeps its sign alone.
[[gnu::always_inline]] inline std::uint32_t wide_of(std::uint16_t x) {
  return static_cast<std::uint32_t>(x) << 16;
}
[[gnu::always_inline]] inline std::uint16_t narrow_of(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  const std::uint32_t lost = -static_cast<std::uint32_t>((bits & 0x7fffffffu) > 0x7f800000u);
  return static_cast<std::uint16_t>((rounded & ~lost) |
                                    (((bits >> 16 & 0x8000u) | 0x7fc0u) & lost));
}

template <class From, class To, To (*Of)(From)>
[[gnu::always_inline]] inline void recode(char* const* p, const Py_ssize_t* by, Py_ssize_t n) {
  const auto* from = reinterpret_cast<const From*>(p[0]);
  auto* to = reinterpret_cast<To*>(p[1]);
  if (by[0])
    for (Py_ssize_t i = 0; i < n; ++i) to[i] = Of(from[i]);
  else
    std::fill_n(to, n, Of(*from));
}

TRITORCH_WIDEST(void, widen, (char* const* p, const Py_ssize_t* by, Py_ssize_t n), (p, by, n),
                { recode<std::uint16_t, std::uint32_t, wide_of>(p, by, n); })
TRITORCH_WIDEST(void, narrow, (char* const* p, const Py_ssize_t* by, Py_ssize_t n), (p, by, n),
                { recode<std::uint32_t, std::uint16_t, narrow_of>(p, by, n); })

template <class From>
Convert converter_from(char to) {
  switch (to) {
    case 'f':
      return convert<From, float>;
    case 'd':
      return convert<From, double>;
    case 'i':
      return convert<From, std::int32_t>;
    case 'l':
      return convert<From, std::int64_t>;
    default:
      return nullptr;
  }
}

}  // namespace

Convert converter(char from, char to) {
  if (from == to && (from == '?' || from == 'b' || from == 'B'))
    return convert<std::uint8_t, std::uint8_t>;
  if (from == 'E' || to == 'E')
    return from == 'E' && to == 'f' ? widen : from == 'f' && to == 'E' ? narrow : nullptr;
  const bool to_float = to == 'f' || to == 'd';
  switch (from) {
    case '?':
    case 'B':
      return converter_from<std::uint8_t>(to);
    case 'b':
      return converter_from<std::int8_t>(to);
    case 'h':
      return converter_from<std::int16_t>(to);
    case 'i':
      return converter_from<std::int32_t>(to);
    case 'l':
      return converter_from<std::int64_t>(to);
    case 'f':
      return to_float ? converter_from<float>(to) : nullptr;
    case 'd':
      return to_float ? converter_from<double>(to) : nullptr;
    default:
      return nullptr;
  }
}

namespace {

// Whether all numbers are finite: their exponents are not full.
template <class Bits>
bool all_finite(const char* data, Py_ssize_t n, Bits full) {
  const auto* bits = reinterpret_cast<const Bits*>(data);
  Bits found = 0;
  for (Py_ssize_t i = 0; i < n; ++i) found |= (bits[i] & full) == full;
  return !found;
}

}  // namespace

bool is_finite(Py_ssize_t itemsize, const char* data, Py_ssize_t n) {
  if (itemsize == 4) return all_finite<std::uint32_t>(data, n, 0x7f800000u);
  return all_finite<std::uint64_t>(data, n, 0x7ff0000000000000u);
}

}  // namespace tritorch
