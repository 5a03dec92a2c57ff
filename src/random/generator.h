// The CPU's generator: PyTorch's, number for number, and its state in PyTorch's format.
#pragma once

#include <optional>

#include "driver/fork.h"
#include "random/mt19937.h"

namespace tritorch::random {

class Generator {
 public:
  static constexpr std::size_t kStateBytes = 5056;

  explicit Generator(std::uint64_t seed) : engine(seed) {}

  void manual_seed(std::uint64_t seed);
  void get_state(void* out) const;
  // Throws std::invalid_argument where the bytes are no state.
  void set_state(const void* bytes);

  Mt19937 engine;
  // The second normal number of a pair, until it is asked for.  Nothing here makes one in float32,
  // but states that hold one keep it.
  std::optional<double> normal;
  std::optional<float> normal32;
  // Held by whoever draws or looks at the state.
  ForkMutex mutex;
};

}  // namespace tritorch::random
