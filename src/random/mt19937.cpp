#include "random/mt19937.h"

#include <algorithm>

#include "random/kernels.h"

namespace tritorch::random {

void Mt19937::reseed(std::uint64_t value) {
  seed = value;
  state[0] = static_cast<std::uint32_t>(value);
  for (std::uint32_t i = 1; i < kWords; ++i)
    state[i] = 1812433253u * (state[i - 1] ^ state[i - 1] >> 30) + i;
  left = 1;
  position = 0;
}

void Mt19937::next_round() {
  kernels().twist(state);
  left = kWords + 1;
  position = 0;
}

void Mt19937::fill(std::uint32_t* out, std::size_t n) {
  const Kernels& k = kernels();
  while (n > 0) {
    const std::size_t count = std::min(n, available());
    k.temper(state + position, out, count);
    position += static_cast<std::uint32_t>(count);
    left -= static_cast<std::int32_t>(count);
    out += count;
    n -= count;
  }
}

void Mt19937::discard(std::size_t n) {
  while (n > 0) {
    const std::size_t count = std::min(n, available());
    position += static_cast<std::uint32_t>(count);
    left -= static_cast<std::int32_t>(count);
    n -= count;
  }
}

}  // namespace tritorch::random
