// Arithmetic of floats, several steps at once: see Note [Accumulator].
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace tritorch {

// What happens to the accumulator, with an operand in memory: on its right, or (kMinus, kOver) on
// its left.
enum class Act {
  kLoad,
  kStore,
  kAdd,
  kSubtract,
  kMinus,
  kMultiply,
  kDivide,
  kOver,
  kNegative,
  kSquare,
  kAbsolute,
  kRoot,
};

struct Move {
  Act act;
  char* data = nullptr;
  bool walked = true;  // else one number, kLanes times in a row
};

constexpr std::size_t kLanes = 16;

// The act of NumPy's function of that name, where the accumulator has the left operand, or the
// right one; of two NaNs the left one is the result, so that matters for sums, too.
std::optional<Act> act_of(std::string_view name, bool right);

// Runs the moves for n floats.
void accumulate(const Move* moves, const Move* end, std::ptrdiff_t n);

}  // namespace tritorch
