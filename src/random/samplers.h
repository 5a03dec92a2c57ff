// Filling memory with random numbers, each from a fixed number of words of the generator's stream.
//
// Everything here expects that the generator's mutex is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "array/array.h"
#include "random/generator.h"

namespace tritorch::random {

// Dense memory, which is filled from its start to its end.
struct Target {
  void* data;
  DType dtype;
  std::size_t size;
  int threads = 1;  // at most; what is drawn does not depend on it
};

// Draws by name (Note [The samplers] in samplers.cpp), with its two parameters.
// Throws std::invalid_argument for a name or a dtype that there is not.
void draw(Generator& generator, std::string_view name, const Target& target, double p, double q);

// base + (a word modulo range), or of two words if `wide`.  A range of 0 is one of 2^64.
void draw_integers(Generator& generator, const Target& target, std::uint64_t range,
                   std::uint64_t base, bool wide);

// 1 with the probabilities given, which are float64 (two words each) or float32 (one).
void draw_bernoulli(Generator& generator, const Target& target, const double* probabilities);
void draw_bernoulli(Generator& generator, const Target& target, const float* probabilities);

// Slopes of what is not above 0, uniform in [low, high); 1, and nothing drawn, for all else.
void draw_slopes(Generator& generator, const double* x, double* out, std::size_t n, double low,
                 double high);
void draw_slopes(Generator& generator, const float* x, float* out, std::size_t n, double low,
                 double high);

double uniform(Generator& generator);  // in [0, 1), of 53 bits
double normal(Generator& generator);   // of mean 0 and deviation 1

}  // namespace tritorch::random
