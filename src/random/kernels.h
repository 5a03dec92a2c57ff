// Note [Two builds of one formula]: what is done to whole blocks of numbers is written once, in
// kernels_body.h, and compiled twice: for processors with AVX2 and fused multiply-adds, and for all
// others.  Products and sums that PyTorch's AVX2 build fuses are fused by name there, and nothing
// else is (-ffp-contract=off), so both builds give the same bits; without the instruction the C
// library computes a fused multiply-add exactly, slowly.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tritorch::random {

// What a float result is rounded to before it is compared with its bounds.
enum class Narrow { none, float16, bfloat16 };

struct Kernels {
  // The next round of the Mersenne Twister's state.
  void (*twist)(std::uint32_t* state);
  // The numbers that words of the state stand for.
  void (*temper)(const std::uint32_t* state, std::uint32_t* out, std::size_t n);

  // In [low, high): 24 bits of a word each; 53 bits of two words each.
  void (*uniform32)(const std::uint32_t* words, float* out, std::size_t n, float low, float high,
                    Narrow narrow);
  void (*uniform64)(const std::uint32_t* words, double* out, std::size_t n, double low,
                    double high);
  // Whether 53 bits of two words, as a fraction, are below a threshold of 2^-53s.
  void (*below)(const std::uint32_t* words, std::uint8_t* out, std::size_t n,
                std::uint64_t threshold);
  // base + (a word, or two, modulo range).
  void (*modulo32)(const std::uint32_t* words, std::int64_t* out, std::size_t n,
                   std::uint64_t range, std::uint64_t base);
  void (*modulo64)(const std::uint32_t* words, std::int64_t* out, std::size_t n,
                   std::uint64_t range, std::uint64_t base);

  // Box and Muller's normal numbers of groups of 16 uniform ones, in place: a radius from each of
  // the first eight, an angle from each of the others.
  void (*box_muller)(float* values, std::size_t groups, float mean, float std);

  // The sine and the cosine of angles from 0 to 2 pi, to 0.51 of a unit in the last place.  They
  // are the C library's (glibc's, whose are good to 0.55) where their doubt is 0.
  void (*turn)(const double* angles, double* sines, double* cosines, double* sine_doubt,
               double* cosine_doubt, std::size_t n);
  // log(1 - u) of u in [0, 1), to a few units in the last place.
  void (*log_rest)(const double* u, double* out, std::size_t n);
  // values * scale + offset, rounded once.
  void (*affine)(double* values, std::size_t n, double scale, double offset);

  // Rounded to the nearest, ties to even.
  void (*to_float16)(const float* in, std::uint16_t* out, std::size_t n);
  void (*to_bfloat16)(const float* in, std::uint16_t* out, std::size_t n);
};

const Kernels& kernels();

namespace fused {
extern const Kernels kernels;
}
namespace plain {
extern const Kernels kernels;
}

}  // namespace tritorch::random
