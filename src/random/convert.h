// What samplers make, in the dtype that is wanted.
#pragma once

#include <cstddef>

#include "array/array.h"

namespace tritorch::random {

// out[i] = in[i] as PyTorch casts it: to what is narrower than float32 by way of float32.  From
// float, double, std::uint8_t, std::int32_t and std::int64_t.
// Throws std::invalid_argument for a dtype that has no random numbers.
template <class From>
void convert(const From* in, DType dtype, void* out, std::size_t n);

}  // namespace tritorch::random
