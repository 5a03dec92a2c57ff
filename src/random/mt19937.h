// The Mersenne Twister with the seeding of Matsumoto and Nishimura's `init_genrand`: the stream of
// 32-bit words from which PyTorch's CPU generator makes its numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tritorch::random {

class Mt19937 {
 public:
  static constexpr std::uint32_t kWords = 624;

  explicit Mt19937(std::uint64_t seed) { reseed(seed); }

  void reseed(std::uint64_t seed);

  std::uint32_t next() {
    available();
    --left;
    std::uint32_t word = state[position++];
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680u;
    word ^= word << 15 & 0xefc60000u;
    return word ^ word >> 18;
  }
  // Of two words the first is the higher one.
  std::uint64_t next64() {
    const std::uint64_t high = next();
    return high << 32 | next();
  }
  void fill(std::uint32_t* out, std::size_t n);
  void discard(std::size_t n);

  // The fields that PyTorch stores.  `left` counts down to the next round from 1 + what is left of
  // this one; `position` is the next word of the round, and 0 also before the first.
  std::uint64_t seed;
  std::int32_t left;
  std::uint32_t position;
  std::uint32_t state[kWords];

 private:
  // How many words can be taken before the next round, at least one.
  std::size_t available() {
    // A child forked while another thread drew may find any position: it stays within the state.
    if (left <= 1 || position >= kWords) next_round();
    const std::uint32_t here = kWords - position, left_over = static_cast<std::uint32_t>(left - 1);
    return here < left_over ? here : left_over;
  }
  void next_round();
};

}  // namespace tritorch::random
