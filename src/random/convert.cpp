#include "random/convert.h"

#include <algorithm>
#include <stdexcept>
#include <type_traits>

#include "random/kernels.h"

namespace tritorch::random {
namespace {

constexpr std::size_t kBlock = 1024;

template <class To, class From>
void cast(const From* in, void* out, std::size_t n) {
  To* const to = static_cast<To*>(out);
  for (std::size_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
      to[i] = static_cast<To>(static_cast<std::int64_t>(in[i]));
    else
      to[i] = static_cast<To>(in[i]);
  }
}

}  // namespace

template <class From>
void convert(const From* in, DType dtype, void* out, std::size_t n) {
  switch (dtype) {
    case DType::boolean: {
      auto* to = static_cast<std::uint8_t*>(out);
      for (std::size_t i = 0; i < n; ++i) to[i] = in[i] != From{0};
      return;
    }
    case DType::uint8:
      return cast<std::uint8_t>(in, out, n);
    case DType::int8:
      return cast<std::int8_t>(in, out, n);
    case DType::uint16:
      return cast<std::uint16_t>(in, out, n);
    case DType::int16:
      return cast<std::int16_t>(in, out, n);
    case DType::uint32:
      return cast<std::uint32_t>(in, out, n);
    case DType::int32:
      return cast<std::int32_t>(in, out, n);
    case DType::uint64:
      return cast<std::uint64_t>(in, out, n);
    case DType::int64:
      return cast<std::int64_t>(in, out, n);
    case DType::float32:
      return cast<float>(in, out, n);
    case DType::float64:
      return cast<double>(in, out, n);
    case DType::float16:
    case DType::bfloat16: {
      const auto round = dtype == DType::float16 ? kernels().to_float16 : kernels().to_bfloat16;
      auto* to = static_cast<std::uint16_t*>(out);
      if constexpr (std::is_same_v<From, float>) return round(in, to, n);
      float values[kBlock];
      for (std::size_t low = 0; low < n; low += kBlock) {
        const std::size_t count = std::min(kBlock, n - low);
        cast<float>(in + low, values, count);
        round(values, to + low, count);
      }
      return;
    }
    default:
      throw std::invalid_argument("random numbers of this dtype cannot be drawn");
  }
}

template void convert(const float*, DType, void*, std::size_t);
template void convert(const double*, DType, void*, std::size_t);
template void convert(const std::uint8_t*, DType, void*, std::size_t);
template void convert(const std::int32_t*, DType, void*, std::size_t);
template void convert(const std::int64_t*, DType, void*, std::size_t);

}  // namespace tritorch::random
