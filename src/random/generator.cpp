#include "random/generator.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tritorch::random {
namespace {

// The memory that PyTorch's get_state copies.
struct State {
  std::uint64_t seed;
  std::int32_t left;
  std::int32_t seeded;
  std::uint64_t position;
  std::uint64_t words[Mt19937::kWords];
  double unused_x;
  double normal;
  double unused_rho;
  std::int32_t has_normal;
  std::int32_t padding;
  float normal32;
  std::uint8_t has_normal32;
  std::uint8_t more_padding[3];
};
static_assert(sizeof(State) == Generator::kStateBytes);

}  // namespace

void Generator::manual_seed(std::uint64_t seed) {
  engine.reseed(seed);
  normal.reset();
  normal32.reset();
}

void Generator::get_state(void* out) const {
  State state{};
  state.seed = engine.seed;
  state.left = engine.left;
  state.seeded = 1;
  state.position = engine.position;
  std::copy(std::begin(engine.state), std::end(engine.state), state.words);
  state.normal = normal.value_or(0);
  state.has_normal = normal.has_value();
  state.normal32 = normal32.value_or(0);
  state.has_normal32 = normal32.has_value();
  std::memcpy(out, &state, sizeof state);
}

void Generator::set_state(const void* bytes) {
  State state;
  std::memcpy(&state, bytes, sizeof state);
  const auto words = static_cast<std::int32_t>(Mt19937::kWords);
  if (state.seeded == 0 || state.left <= 0 || state.left > words ||
      state.position > Mt19937::kWords)
    throw std::invalid_argument("Invalid mt19937 state");
  engine.seed = state.seed;
  engine.left = state.left;
  engine.position = static_cast<std::uint32_t>(state.position);
  std::copy(std::begin(state.words), std::end(state.words), engine.state);
  normal = state.has_normal ? std::optional(state.normal) : std::nullopt;
  normal32 = state.has_normal32 ? std::optional(state.normal32) : std::nullopt;
}

}  // namespace tritorch::random
