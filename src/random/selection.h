// Permutations, and draws by weight.  The generator's mutex is held.
#pragma once

#include "random/samplers.h"

namespace tritorch::random {

// 0 .. n - 1 in random order.
void draw_permutation(Generator& generator, const Target& target);

// `samples` indices for each row of weights, drawn with replacement.  Weights are finite and not
// negative, and a row's are not all 0.
template <class T>
void draw_by_weight(Generator& generator, const T* weights, std::size_t rows,
                    std::size_t categories, std::int64_t* out, std::size_t samples);

// The places of the `samples` largest of each row, the largest first.  Equal ones come in the order
// that the standard library's selection leaves them in, as they do in PyTorch.
template <class T>
void largest(const T* values, std::size_t rows, std::size_t categories, std::int64_t* out,
             std::size_t samples);

}  // namespace tritorch::random
