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

// ---- functions of float64 -----------------------------------------------------------------------

double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
double as_double(std::uint64_t bits) { return __builtin_bit_cast(double, bits); }
std::uint64_t as_bits(double value) { return __builtin_bit_cast(std::uint64_t, value); }

// A number and what it lacks of another.
struct Twofold {
  double high, low;
};

inline Twofold sum(double a, double b) {
  const double high = a + b, of_b = high - a;
  return {high, (a - (high - of_b)) + (b - of_b)};
}

// sin(pi i / 32), from which those of all of a turn follow.
constexpr Twofold kQuarter[17] = {
    {0x0.0p+0, 0x0.0p+0},
    {0x1.917a6bc29b42cp-4, -0x1.e2718d26ed688p-60},
    {0x1.8f8b83c69a60bp-3, -0x1.26d19b9ff8d82p-57},
    {0x1.294062ed59f06p-2, -0x1.5d28da2c4612dp-56},
    {0x1.87de2a6aea963p-2, -0x1.72cedd3d5a610p-57},
    {0x1.e2b5d3806f63bp-2, 0x1.e0d891d3c6841p-58},
    {0x1.1c73b39ae68c8p-1, 0x1.b25dd267f6600p-55},
    {0x1.44cf325091dd6p-1, 0x1.8076a2cfdc6b3p-57},
    {0x1.6a09e667f3bcdp-1, -0x1.bdd3413b26456p-55},
    {0x1.8bc806b151741p-1, -0x1.2c5e12ed1336dp-55},
    {0x1.a9b66290ea1a3p-1, 0x1.9f630e8b6dac8p-60},
    {0x1.c38b2f180bdb1p-1, -0x1.6e0b1757c8d07p-56},
    {0x1.d906bcf328d46p-1, 0x1.457e610231ac2p-56},
    {0x1.e9f4156c62ddap-1, 0x1.760b1e2e3f81ep-55},
    {0x1.f6297cff75cb0p-1, 0x1.562172a361fd3p-56},
    {0x1.fd88da3d12526p-1, -0x1.87df6378811c7p-55},
    {0x1.0000000000000p+0, 0x0.0p+0},
};

struct Turn {
  Twofold sines[81];  // of pi i / 32, i from 0 to 64 and a quarter more for cosines
  constexpr Twofold operator[](std::int32_t i) const { return sines[i]; }
};

constexpr Turn whole_turn() {
  Turn turn{};
  for (int i = 0; i < 81; ++i) {
    const Twofold of = kQuarter[i % 32 <= 16 ? i % 32 : 32 - i % 32];
    const double sign = i % 64 < 32 ? 1.0 : -1.0;
    turn.sines[i] = {sign * of.high, sign * of.low};
  }
  return turn;
}

constexpr Turn kWholeTurn = whole_turn();

// a + b x, plus what a and b lack, plus b times what `more` has beyond x, plus a times `less`: the
// sine or cosine at a near angle.  Rounded; in doubt where another's last bit might differ.
struct Near {
  double value, doubt;
};

inline Near near(Twofold a, Twofold b, Twofold x, double more, double less) {
  const double product = b.high * x.high, lost = fma(b.high, x.high, -product);
  const Twofold total = sum(a.high, product);
  const double rest =
      total.low + (lost + (fma(a.high, less, b.high * (more + x.low)) + fma(b.low, x.high, a.low)));
  const double out = total.high + rest, over = rest - (out - total.high);
  const double unit = as_double(as_bits(out) & 0x7ff0000000000000u) * 0x1p-52;
  const double above = out + (over + 0.057 * unit), under = out + (over - 0.057 * unit);
  return {out, above - under};
}

// In three loops, because one with a table in its midst does not become vectors.
void turn(const double* __restrict angles, double* __restrict sines, double* __restrict cosines,
          double* __restrict sine_doubt, double* __restrict cosine_doubt, std::size_t n) {
  constexpr std::size_t kChunk = 128;
  std::int32_t places[kChunk];
  Twofold sine[kChunk], cosine[kChunk];
  double near_high[kChunk], near_low[kChunk];
  for (; n > 0; angles += kChunk, sines += kChunk, cosines += kChunk, sine_doubt += kChunk,
                cosine_doubt += kChunk) {
    const std::size_t count = n < kChunk ? n : kChunk;
    n -= count;
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = static_cast<std::int32_t>(angles[i] * 0x1.45f306dc9c883p+3 + 0.5);
      const double k = places[i];
      // The angle less k pi / 32, which is taken in three parts: k times two of them is exact.
      const Twofold x = sum(fma(k, -0x1.921fb54442c00p-4, angles[i]), k * -0x1.18469898cc400p-48);
      near_high[i] = x.high;
      near_low[i] = fma(k, -0x1.1701b839a2520p-92, x.low);
    }
    for (std::size_t i = 0; i < count; ++i) {
      sine[i] = kWholeTurn[places[i]];
      cosine[i] = kWholeTurn[places[i] + 16];
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Twofold x = {near_high[i], near_low[i]}, s = sine[i], c = cosine[i];
      const double z = x.high * x.high;
      double p = 1.0 / 362880, q = 1.0 / 40320;
      p = fma(p, z, -1.0 / 5040);
      p = fma(p, z, 1.0 / 120);
      p = fma(p, z, -1.0 / 6);
      q = fma(q, z, -1.0 / 720);
      q = fma(q, z, 1.0 / 24);
      q = fma(q, z, -0.5);
      const Near first = near(s, c, x, p * z * x.high, q * z);
      const Near second = near(c, {-s.high, -s.low}, x, p * z * x.high, q * z);
      sines[i] = first.value;
      cosines[i] = second.value;
      sine_doubt[i] = first.doubt;
      cosine_doubt[i] = second.doubt;
    }
  }
}

void log_rest(const double* __restrict u, double* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = as_bits(1.0 - u[i]);
    const double m = as_double((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    const double e = as_double(bits >> 52 | 0x4330000000000000u) - (0x1p52 + 1023);
    const bool large = m > 1.4142135623730951;
    const double exponent = large ? e + 1.0 : e, f = (large ? 0.5 * m : m) - 1.0;
    const double s = f / (2.0 + f), z = s * s;
    double p = 2.0 / 23;
    p = fma(p, z, 2.0 / 21);
    p = fma(p, z, 2.0 / 19);
    p = fma(p, z, 2.0 / 17);
    p = fma(p, z, 2.0 / 15);
    p = fma(p, z, 2.0 / 13);
    p = fma(p, z, 2.0 / 11);
    p = fma(p, z, 2.0 / 9);
    p = fma(p, z, 2.0 / 7);
    p = fma(p, z, 2.0 / 5);
    p = fma(p, z, 2.0 / 3);
    const double log = fma(p * z, s, fma(exponent, 0x1.ef35793c76730p-45, 2.0 * s));
    out[i] = fma(exponent, 0x1.62e42fefa3800p-1, log);
  }
}

void affine(double* values, std::size_t n, double scale, double offset) {
  for (std::size_t i = 0; i < n; ++i) values[i] = fma(values[i], scale, offset);
}

}  // namespace

namespace TRITORCH_KERNELS {
extern const Kernels kernels;
const Kernels kernels = {twist,      temper, uniform32, uniform64, below,      modulo32,   modulo64,
                         box_muller, turn,   log_rest,  affine,    to_float16, to_bfloat16};
}  // namespace TRITORCH_KERNELS

}  // namespace tritorch::random
