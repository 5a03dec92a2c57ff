// The kernels, for whichever processor the including file is compiled: see kernels.h.
//
// It uses no function of a header, which might be compiled for the wrong processor and then be
// shared by the linker.
#include "random/kernels.h"

namespace tritorch::random {
namespace {

constexpr int kState = 624, kLag = 397;

std::uint32_t twisted(std::uint32_t a, std::uint32_t b) {
  return ((a & 0x80000000u) | (b & 0x7fffffffu)) >> 1 ^ (b & 1 ? 0x9908b0dfu : 0u);
}

void twist(std::uint32_t* state) {
  for (int i = 0; i < kState - kLag; ++i)
    state[i] = state[i + kLag] ^ twisted(state[i], state[i + 1]);
  for (int i = kState - kLag; i < kState - 1; ++i)
    state[i] = state[i + kLag - kState] ^ twisted(state[i], state[i + 1]);
  state[kState - 1] = state[kLag - 1] ^ twisted(state[kState - 1], state[0]);
}

void temper(const std::uint32_t* __restrict state, std::uint32_t* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t word = state[i];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    word ^= word >> 18;
    out[i] = word;
  }
}

float as_float(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
std::uint32_t as_bits(float value) { return __builtin_bit_cast(std::uint32_t, value); }

// ---- rounding -----------------------------------------------------------------------------------

std::uint16_t float16_of(float value) {
  const std::uint32_t bits = as_bits(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  // Adding 1/2 leaves the bits of a subnormal result at the bottom, rounded.
  const std::uint32_t subnormal = as_bits(as_float(size) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
  const std::uint32_t large = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
  std::uint32_t out = size < 0x38800000u ? subnormal : normal;
  out = size >= 0x477ff000u ? large : out;
  return static_cast<std::uint16_t>(sign | out);
}

float float16_as_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, size = half & 0x7fffu;
  const std::uint32_t subnormal = as_bits(static_cast<float>(size) * 0x1p-24f);
  const std::uint32_t normal = (size << 13) + (size < 0x7c00u ? 0x38000000u : 0x70000000u);
  return as_float(sign | (size < 0x400u ? subnormal : normal));
}

std::uint16_t bfloat16_of(float value) {
  const std::uint32_t bits = as_bits(value);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

float bfloat16_as_float(std::uint16_t half) {
  return as_float(static_cast<std::uint32_t>(half) << 16);
}

void to_float16(const float* __restrict in, std::uint16_t* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = float16_of(in[i]);
}

void to_bfloat16(const float* __restrict in, std::uint16_t* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = bfloat16_of(in[i]);
}

// ---- uniform numbers ----------------------------------------------------------------------------

float fraction32(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word & 0xffffffu)) * 0x1p-24f;
}

// A number that would round up to the upper bound becomes the lower one.
template <class Round>
void uniform32_to(const std::uint32_t* __restrict words, float* __restrict out, std::size_t n,
                  float low, float high, Round round) {
  const float width = high - low, first = round(low), last = round(high);
  for (std::size_t i = 0; i < n; ++i) {
    const float value = round(__builtin_fmaf(fraction32(words[i]), width, low));
    out[i] = value == last ? first : value;
  }
}

void uniform32(const std::uint32_t* words, float* out, std::size_t n, float low, float high,
               Narrow narrow) {
  if (narrow == Narrow::float16)
    uniform32_to(words, out, n, low, high, [](float x) { return float16_as_float(float16_of(x)); });
  else if (narrow == Narrow::bfloat16)
    uniform32_to(words, out, n, low, high,
                 [](float x) { return bfloat16_as_float(bfloat16_of(x)); });
  else if (low == 0.0f && high == 1.0f)
    for (std::size_t i = 0; i < n; ++i) out[i] = fraction32(words[i]);
  else
    uniform32_to(words, out, n, low, high, [](float x) { return x; });
}

// 2^-53 times 53 bits of two words, of which the first is the higher one.
double fraction64(std::uint32_t high, std::uint32_t low) {
  const double above = static_cast<std::int32_t>(high & 0x1fffffu);
  const double below = static_cast<double>(static_cast<std::int32_t>(low ^ 0x80000000u)) + 0x1p31;
  return (above * 0x1p32 + below) * 0x1p-53;
}

void uniform64(const std::uint32_t* __restrict words, double* __restrict out, std::size_t n,
               double low, double high) {
  const double width = high - low;
  if (low == 0.0 && high == 1.0) {
    for (std::size_t i = 0; i < n; ++i) out[i] = fraction64(words[2 * i], words[2 * i + 1]);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double value = __builtin_fma(fraction64(words[2 * i], words[2 * i + 1]), width, low);
    out[i] = value == high ? low : value;
  }
}

void below(const std::uint32_t* __restrict words, std::uint8_t* __restrict out, std::size_t n,
           std::uint64_t threshold) {
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 53) - 1;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t word = static_cast<std::uint64_t>(words[2 * i]) << 32 | words[2 * i + 1];
    out[i] = (word & kFraction) < threshold;
  }
}

// ---- integers -----------------------------------------------------------------------------------

// value % divisor by a product with the reciprocal, which gives a quotient too small by 1 at most.
std::uint64_t remainder_of(std::uint64_t value, std::uint64_t divisor, std::uint64_t reciprocal) {
  const auto quotient =
      static_cast<std::uint64_t>(static_cast<unsigned __int128>(value) * reciprocal >> 64);
  const std::uint64_t rest = value - quotient * divisor;
  return rest >= divisor ? rest - divisor : rest;
}

void modulo32(const std::uint32_t* __restrict words, std::int64_t* __restrict out, std::size_t n,
              std::uint64_t range, std::uint64_t base) {
  const std::uint64_t reciprocal = ~std::uint64_t{0} / range;
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<std::int64_t>(remainder_of(words[i], range, reciprocal) + base);
}

void modulo64(const std::uint32_t* __restrict words, std::int64_t* __restrict out, std::size_t n,
              std::uint64_t range, std::uint64_t base) {
  const std::uint64_t reciprocal = ~std::uint64_t{0} / range;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t word = static_cast<std::uint64_t>(words[2 * i]) << 32 | words[2 * i + 1];
    out[i] = static_cast<std::int64_t>(remainder_of(word, range, reciprocal) + base);
  }
}

// ---- normal numbers -----------------------------------------------------------------------------

float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// Cephes' logarithm of a positive float: of x = 2^e m, m in [1/2, 1), a polynomial in m - 1 or,
// where m is below sqrt(1/2), in 2m - 1.
float log_of(float x) {
  x = x > 0x1p-126f ? x : 0x1p-126f;
  const std::uint32_t bits = as_bits(x);
  const float m = as_float((bits & 0x807fffffu) | 0x3f000000u);
  const bool small = m < 0.707106781186547524f;
  const float e = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 127) + 1.0f -
                  (small ? 1.0f : 0.0f);
  const float r = (m - 1.0f) + (small ? m : 0.0f);
  const float square = r * r;
  float p = 7.0376836292e-2f;
  p = fma(p, r, -1.1514610310e-1f);
  p = fma(p, r, 1.1676998740e-1f);
  p = fma(p, r, -1.2420140846e-1f);
  p = fma(p, r, 1.4249322787e-1f);
  p = fma(p, r, -1.6668057665e-1f);
  p = fma(p, r, 2.0000714765e-1f);
  p = fma(p, r, -2.4999993993e-1f);
  p = fma(p, r, 3.3333331174e-1f);
  p = fma(p * r, square, e * -2.12194440e-4f);
  p = fma(-square, 0.5f, p);
  return fma(e, 0.693359375f, r + p);
}

struct SineAndCosine {
  float sine, cosine;
};

// Cephes' sine and cosine of an angle that is not negative: polynomials of what is left of it after
// the nearest even multiple of pi / 4.
SineAndCosine sine_and_cosine(float x) {
  const std::int32_t octant = (static_cast<std::int32_t>(x * 1.27323954473516f) + 1) & ~1;
  const float y = static_cast<float>(octant);
  float r = fma(y, -0.78515625f, x);
  r = fma(y, -2.4187564849853515625e-4f, r);
  r = fma(y, -3.77489497744594108e-8f, r);
  const float square = r * r;
  float c = 2.443315711809948e-5f;
  c = fma(c, square, -1.388731625493765e-3f);
  c = fma(c, square, 4.166664568298827e-2f);
  c = fma(c * square, square, -(square * 0.5f)) + 1.0f;
  float s = -1.9515295891e-4f;
  s = fma(s, square, 8.3321608736e-3f);
  s = fma(s, square, -1.6666654611e-1f);
  s = fma(s * square, r, r);
  const bool swapped = (octant & 2) != 0;
  const std::uint32_t turned = static_cast<std::uint32_t>(octant);
  const std::uint32_t sine_sign = (turned & 4) << 29, cosine_sign = (~(turned - 2) & 4) << 29;
  return {as_float(as_bits(swapped ? c : s) ^ sine_sign),
          as_float(as_bits(swapped ? s : c) ^ cosine_sign)};
}

// Groups are taken apart, several at a time, because a loop over eight alone would be unrolled and
// not become vectors.
void box_muller(float* values, std::size_t groups, float mean, float std) {
  constexpr float kTurn = 6.283185307179586f;
  constexpr std::size_t kGroups = 16;
  float first[8 * kGroups], second[8 * kGroups];
  while (groups > 0) {
    const std::size_t count = groups < kGroups ? groups : kGroups;
    for (std::size_t group = 0; group < count; ++group) {
      __builtin_memcpy(first + 8 * group, values + 16 * group, 8 * sizeof(float));
      __builtin_memcpy(second + 8 * group, values + 16 * group + 8, 8 * sizeof(float));
    }
    for (std::size_t i = 0; i < 8 * count; ++i) {
      const float radius = __builtin_sqrtf(-2.0f * log_of(1.0f - first[i]));
      const SineAndCosine at = sine_and_cosine(kTurn * second[i]);
      first[i] = fma(radius * at.cosine, std, mean);
      second[i] = fma(radius * at.sine, std, mean);
    }
    for (std::size_t group = 0; group < count; ++group) {
      __builtin_memcpy(values + 16 * group, first + 8 * group, 8 * sizeof(float));
      __builtin_memcpy(values + 16 * group + 8, second + 8 * group, 8 * sizeof(float));
    }
    values += 16 * count;
    groups -= count;
  }
}

}  // namespace

namespace TRITORCH_KERNELS {
extern const Kernels kernels;
const Kernels kernels = {twist,    temper,   uniform32,  uniform64,  below,
                         modulo32, modulo64, box_muller, to_float16, to_bfloat16};
}  // namespace TRITORCH_KERNELS

}  // namespace tritorch::random
