// Samplers that draw until a number is accepted: how many words they take is not known beforehand.
//
// As in PyTorch, parameters are of the result's type and all else is float64; where a formula has a
// float32 constant or rounds to float32 on the way, this one does.  The generator's mutex is held.
#pragma once

#include <cstddef>

#include "random/generator.h"

namespace tritorch::random {

// Throws std::invalid_argument for a negative rate or NaN.
void draw_poisson(Generator& generator, const double* rates, double* out, std::size_t n);
// Of rate 1; at least the least normal number.
template <class T>
void draw_gamma(Generator& generator, const T* shapes, T* out, std::size_t n);
template <class T>
void draw_binomial(Generator& generator, const T* counts, const T* chances, T* out, std::size_t n);

}  // namespace tritorch::random
