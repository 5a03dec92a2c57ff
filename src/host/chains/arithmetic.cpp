// Note [Accumulator]
// NumPy's loop for a product of two arrays loads both and stores the result, and the sum that
// follows does so again.  Rows of such steps are computed tile by tile with the last result in
// registers: what the next step reads never goes through memory.  Sums, products and quotients of
// floats have one correct rounding, so bits are NumPy's.
#include "host/chains/arithmetic.h"

#include <cstdint>
#include <cstring>

#include "widest.h"

namespace tritorch {
namespace {

constexpr int kTile = 12, kSmall = 4;  // vectors in registers, of which the least have 16

// Numbers side by side, in one register, and how they are read, written, negated and stripped of
// their sign.  A vector that no register holds would live in memory.
template <std::size_t Lanes>
struct Wide {
  typedef float Value __attribute__((vector_size(4 * Lanes)));
  typedef std::uint32_t Bits __attribute__((vector_size(4 * Lanes)));
  static constexpr std::ptrdiff_t bytes = 4 * Lanes;
  [[gnu::always_inline]] static void take_root(Value& x) {
    float numbers[Lanes];
    std::memcpy(numbers, &x, sizeof x);
    for (float& number : numbers) number = __builtin_sqrtf(number);
    std::memcpy(&x, numbers, sizeof x);
  }
};
struct Single {
  typedef float Value;
  typedef std::uint32_t Bits;
  static constexpr std::ptrdiff_t bytes = 4;
  [[gnu::always_inline]] static void take_root(Value& x) { x = __builtin_sqrtf(x); }
};

// One tile of `Count` of them, at a distance in bytes.
template <class Kind, int Count>
[[gnu::always_inline]] inline void tile(const Move* move, const Move* end, std::ptrdiff_t at) {
  typename Kind::Value x[Count] = {}, y;
  typename Kind::Bits bits;
  for (; move != end; ++move) {
    char* from = move->data + (move->walked ? at : std::ptrdiff_t{0});
    const std::ptrdiff_t by = move->walked ? Kind::bytes : 0;
#define TRITORCH_ACT(name, change)                                       \
  case Act::name:                                                        \
    _Pragma("GCC unroll 12") for (int i = 0; i < Count; ++i) { change; } \
    break;
#define TRITORCH_READ std::memcpy(&y, from + i * by, sizeof y)
#define TRITORCH_BITS(change)          \
  std::memcpy(&bits, &x[i], sizeof y); \
  bits = bits change;                  \
  std::memcpy(&x[i], &bits, sizeof y)
    switch (move->act) {
      TRITORCH_ACT(kLoad, TRITORCH_READ; x[i] = y)
      TRITORCH_ACT(kAdd, TRITORCH_READ; x[i] = x[i] + y)
      TRITORCH_ACT(kSubtract, TRITORCH_READ; x[i] = x[i] - y)
      TRITORCH_ACT(kMinus, TRITORCH_READ; x[i] = y - x[i])
      TRITORCH_ACT(kMultiply, TRITORCH_READ; x[i] = x[i] * y)
      TRITORCH_ACT(kDivide, TRITORCH_READ; x[i] = x[i] / y)
      TRITORCH_ACT(kOver, TRITORCH_READ; x[i] = y / x[i])
      TRITORCH_ACT(kSquare, x[i] = x[i] * x[i])
      TRITORCH_ACT(kRoot, Kind::take_root(x[i]))
      TRITORCH_ACT(kNegative, TRITORCH_BITS(^0x80000000u))
      TRITORCH_ACT(kAbsolute, TRITORCH_BITS(&0x7fffffffu))
      TRITORCH_ACT(kStore, std::memcpy(from + i * by, &x[i], sizeof y))
    }
#undef TRITORCH_ACT
#undef TRITORCH_READ
#undef TRITORCH_BITS
  }
}

template <std::size_t Lanes>
[[gnu::always_inline]] inline void run(const Move* moves, const Move* end, std::ptrdiff_t n) {
  using Kind = Wide<Lanes>;
  const std::ptrdiff_t bytes = n * Single::bytes;
  std::ptrdiff_t at = 0;
  for (; at + kTile * Kind::bytes <= bytes; at += kTile * Kind::bytes)
    tile<Kind, kTile>(moves, end, at);
  for (; at + kSmall * Kind::bytes <= bytes; at += kSmall * Kind::bytes)
    tile<Kind, kSmall>(moves, end, at);
  for (; at + Kind::bytes <= bytes; at += Kind::bytes) tile<Kind, 1>(moves, end, at);
  for (; at < bytes; at += Single::bytes) tile<Single, 1>(moves, end, at);
}

using Run = void (*)(const Move*, const Move*, std::ptrdiff_t);

void run_plain(const Move* moves, const Move* end, std::ptrdiff_t n) { run<4>(moves, end, n); }

#if defined(__x86_64__) && defined(__GNUC__)
[[gnu::target("avx2")]] void run_avx2(const Move* moves, const Move* end, std::ptrdiff_t n) {
  run<8>(moves, end, n);
}
[[gnu::target("avx512f")]] void run_avx512(const Move* moves, const Move* end, std::ptrdiff_t n) {
  run<16>(moves, end, n);
}
Run widest() {
  if (chosen_cpu == Cpu::avx512) return run_avx512;
  return chosen_cpu == Cpu::avx2 ? run_avx2 : run_plain;
}
#else
Run widest() { return run_plain; }
#endif

}  // namespace

void accumulate(const Move* moves, const Move* end, std::ptrdiff_t n) {
  static const Run found = widest();
  found(moves, end, n);
}

std::optional<Act> act_of(std::string_view name, bool right) {
  if (name == "subtract") return right ? Act::kMinus : Act::kSubtract;
  if (name == "divide" || name == "true_divide") return right ? Act::kOver : Act::kDivide;
  if (right) return std::nullopt;  // the compiler would not keep the order
  if (name == "add") return Act::kAdd;
  if (name == "multiply") return Act::kMultiply;
  if (name == "negative") return Act::kNegative;
  if (name == "square") return Act::kSquare;
  if (name == "sqrt") return Act::kRoot;
  if (name == "absolute") return Act::kAbsolute;
  return std::nullopt;
}

}  // namespace tritorch
