// Arithmetic of doubles with what they lack, for loops that compilers make vectors of: without
// fused products, so that bits are the same on every machine.
#pragma once

#include <bit>
#include <cstdint>

namespace tritorch::host {

#define TRITORCH_INLINE [[gnu::always_inline]] static inline

TRITORCH_INLINE double as_double(std::uint64_t x) { return std::bit_cast<double>(x); }
TRITORCH_INLINE std::uint64_t as_bits(double x) { return std::bit_cast<std::uint64_t>(x); }

// The first coefficient is that of the highest power; even and odd ones side by side.
template <class... More>
TRITORCH_INLINE double polynomial(double x, double first, double second, More... more) {
  const double square = x * x;
  double total[] = {first, second};
  int i = 0;
  ((total[i] = total[i] * square + more, i ^= 1), ...);
  return total[i] * x + total[i ^ 1];
}

// A number and what it lacks.
struct Pair {
  double high, low;
};

// a b, exactly (Dekker's product).
TRITORCH_INLINE Pair product(double a, double b) {
  constexpr double kSplit = 134217729.0;  // 2^27 + 1
  const double a_split = a * kSplit, b_split = b * kSplit;
  const double a1 = a_split - (a_split - a), a2 = a - a1;
  const double b1 = b_split - (b_split - b), b2 = b - b1, high = a * b;
  return {high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2};
}

// a + b, a being the larger one.
TRITORCH_INLINE Pair sum(double a, double b) {
  const double high = a + b;
  return {high, (a - high) + b};
}

// a + b (Knuth's sum).
TRITORCH_INLINE Pair any_sum(double a, double b) {
  const double high = a + b, back = high - a;
  return {high, (a - (high - back)) + (b - back)};
}

// -log(x), of a positive normal number.
TRITORCH_INLINE Pair minus_log(double x) {
  constexpr std::uint64_t kRoot = 0x3fe6a09e667f3bcdu;  // of 1/2
  const std::uint64_t from_root = as_bits(x) - kRoot + (std::uint64_t{1024} << 52);
  const double n = as_double(0x4330000000000000u | from_root >> 52) - (0x1p52 + 1024.0);
  const double f = as_double((from_root & 0x000fffffffffffffu) + kRoot) - 1.0;
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  const double r =
      z * polynomial(z, 1.479819860511658591e-01, 1.531383769920937332e-01,
                     1.818357216161805012e-01, 2.222219843214978396e-01, 2.857142874366239149e-01,
                     3.999999999940941908e-01, 6.666666666666735130e-01);
  const Pair most = sum(n * 6.93147180369123816490e-01, f);  // the first factor's product is exact
  const double rest = most.low + (n * 1.90821492927058770002e-10 - (half - s * (half + r)));
  const Pair y = sum(most.high, rest);
  return {-y.high, -y.low};
}

}  // namespace tritorch::host
