#include "distributed/reduce.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

namespace tritorch::distributed {
namespace {

// Elements that are computed at once: they stay in the nearest cache.
constexpr std::size_t kBlock = 1024;

struct Bool {
  std::uint8_t value;
};
struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

float widen(BFloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }

BFloat16 narrow_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return {static_cast<std::uint16_t>(nan ? (bits >> 16 | 0x40) : rounded)};
}

float widen(Float16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16;
  const std::uint32_t rest = x.bits & 0x7fffu;
  // Scaled by a power of two, subnormals become what they are; infinities and NaNs need their own.
  const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
  const std::uint32_t bits =
      rest >= 0x7c00 ? (rest << 13 | 0x7f800000u) : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(bits | sign);
}

Float16 narrow_float16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t rest = bits & 0x7fffffff;
  std::uint32_t out;
  if (rest > 0x7f800000) {
    out = 0x7e00;
  } else if (rest >= 0x477ff000) {  // rounds to more than the largest
    out = 0x7c00;
  } else if (rest < 0x38800000) {  // subnormal: the addition rounds at the right place
    out = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000u;
  } else {
    out = (rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13;
  }
  return {static_cast<std::uint16_t>(out | sign)};
}

// What an element is computed in, and how it gets there and back.
template <class T>
struct Computed {
  using Type = T;
  static Type in(T x) { return x; }
  static T out(Type x) { return x; }
};
template <>
struct Computed<BFloat16> {
  using Type = float;
  static Type in(BFloat16 x) { return widen(x); }
  static BFloat16 out(float x) { return narrow_bfloat16(x); }
};
template <>
struct Computed<Float16> {
  using Type = float;
  static Type in(Float16 x) { return widen(x); }
  static Float16 out(float x) { return narrow_float16(x); }
};
template <>
struct Computed<Bool> {
  using Type = std::uint8_t;
  static Type in(Bool x) { return x.value != 0; }
  static Bool out(Type x) { return {static_cast<std::uint8_t>(x != 0)}; }
};

template <class C>
constexpr bool kIsComplex = !std::is_arithmetic_v<C>;

// Signed overflow wraps.
template <class C, class F>
C wrapping(C a, C b, F f) {
  if constexpr (std::is_integral_v<C>) {
    using U = std::conditional_t<(sizeof(C) < 4), std::uint32_t, std::make_unsigned_t<C>>;
    return static_cast<C>(f(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return f(a, b);
  }
}

template <ReduceOp op, class C>
C combine(C a, C b) {
  if constexpr (op == ReduceOp::sum || op == ReduceOp::avg) {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  } else if constexpr (op == ReduceOp::product) {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  } else if constexpr (kIsComplex<C>) {
    return a;
  } else if constexpr (op == ReduceOp::min || op == ReduceOp::max) {
    const bool second = op == ReduceOp::min ? b < a : b > a;
    if constexpr (std::is_floating_point_v<C>) return second || b != b ? (a != a ? a : b) : a;
    return second ? b : a;
  } else if constexpr (std::is_integral_v<C>) {
    return op == ReduceOp::band  ? static_cast<C>(a & b)
           : op == ReduceOp::bor ? static_cast<C>(a | b)
                                 : static_cast<C>(a ^ b);
  } else {
    return a;
  }
}

template <ReduceOp op, class T>
void run(T* out, const T* const* inputs, int n, std::size_t count, int divisor) {
  using As = Computed<T>;
  using C = typename As::Type;
  C block[kBlock];
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t size = std::min(kBlock, count - start);
    const T* first = inputs[0] + start;
    for (std::size_t i = 0; i < size; ++i) block[i] = As::in(first[i]);
    for (int k = 1; k < n; ++k) {
      const T* next = inputs[k] + start;
      for (std::size_t i = 0; i < size; ++i) {
        // A sum of bools is whether one is true.
        if constexpr (std::is_same_v<T, Bool> && (op == ReduceOp::sum || op == ReduceOp::avg))
          block[i] |= As::in(next[i]);
        else
          block[i] = combine<op, C>(block[i], As::in(next[i]));
      }
    }
    if constexpr (op == ReduceOp::avg && !std::is_same_v<T, Bool>) {
      if constexpr (kIsComplex<C>) {
        for (std::size_t i = 0; i < size; ++i)
          block[i] /= static_cast<typename C::value_type>(divisor);
      } else if constexpr (std::is_integral_v<C>) {
        for (std::size_t i = 0; i < size; ++i)
          block[i] = static_cast<C>(static_cast<std::common_type_t<C, std::int32_t>>(block[i]) /
                                    static_cast<std::common_type_t<C, std::int32_t>>(divisor));
      } else {
        for (std::size_t i = 0; i < size; ++i) block[i] /= static_cast<C>(divisor);
      }
    }
    for (std::size_t i = 0; i < size; ++i) out[start + i] = As::out(block[i]);
  }
}

template <class T>
void choose(ReduceOp op, void* out, const void* const* inputs, int n, std::size_t count,
            int divisor) {
  const auto go = [&]<ReduceOp which>() {
    run<which, T>(static_cast<T*>(out), reinterpret_cast<const T* const*>(inputs), n, count,
                  divisor);
  };
  switch (op) {
#define TRITORCH_CASE(name) \
  case ReduceOp::name:      \
    return go.template operator()<ReduceOp::name>();
    TRITORCH_REDUCE_OPS(TRITORCH_CASE)
#undef TRITORCH_CASE
    default:
      return;
  }
}

}  // namespace

const char* refuses(ReduceOp op, DType dtype) {
  const DTypeInfo& info = kDTypeTable[static_cast<int>(dtype)];
  if (dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2)
    return "numbers of 8 bits are not added up: convert them";
  const bool bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  if (bits && (info.kind == 'f' || info.kind == 'c'))
    return "operations on bits need integers or bools";
  if ((op == ReduceOp::min || op == ReduceOp::max) && info.kind == 'c')
    return "complex numbers have no order";
  return nullptr;
}

void reduce(ReduceOp op, DType dtype, void* out, const void* const* inputs, int n,
            std::size_t count, int divisor) {
  switch (dtype) {
    case DType::boolean:
      return choose<Bool>(op, out, inputs, n, count, divisor);
    case DType::uint8:
      return choose<std::uint8_t>(op, out, inputs, n, count, divisor);
    case DType::int8:
      return choose<std::int8_t>(op, out, inputs, n, count, divisor);
    case DType::uint16:
      return choose<std::uint16_t>(op, out, inputs, n, count, divisor);
    case DType::int16:
      return choose<std::int16_t>(op, out, inputs, n, count, divisor);
    case DType::uint32:
      return choose<std::uint32_t>(op, out, inputs, n, count, divisor);
    case DType::int32:
      return choose<std::int32_t>(op, out, inputs, n, count, divisor);
    case DType::uint64:
      return choose<std::uint64_t>(op, out, inputs, n, count, divisor);
    case DType::int64:
      return choose<std::int64_t>(op, out, inputs, n, count, divisor);
    case DType::float16:
      return choose<Float16>(op, out, inputs, n, count, divisor);
    case DType::bfloat16:
      return choose<BFloat16>(op, out, inputs, n, count, divisor);
    case DType::float32:
      return choose<float>(op, out, inputs, n, count, divisor);
    case DType::float64:
      return choose<double>(op, out, inputs, n, count, divisor);
    case DType::complex64:
      return choose<std::complex<float>>(op, out, inputs, n, count, divisor);
    case DType::complex128:
      return choose<std::complex<double>>(op, out, inputs, n, count, divisor);
    default:
      return;
  }
}

}  // namespace tritorch::distributed
