// Sums and the like of several buffers, always in the order of the buffers: so that results repeat
// to the bit, whoever computes them and however they are cut into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include "array/dtype.h"

namespace tritorch::distributed {

#define TRITORCH_REDUCE_OPS(X) X(sum) X(avg) X(product) X(min) X(max) X(band) X(bor) X(bxor)
#define TRITORCH_ENUMERATOR(name) name,
enum class ReduceOp : std::uint8_t { TRITORCH_REDUCE_OPS(TRITORCH_ENUMERATOR) count };
#undef TRITORCH_ENUMERATOR

// Why an operation cannot be computed for elements of a type; null if it can.
const char* refuses(ReduceOp op, DType dtype);

// out[i] = inputs[0][i] op inputs[1][i] op ...; halves are added in float32 and rounded once.  out
// may be one of the inputs.  avg divides by `divisor`; the others ignore it.
void reduce(ReduceOp op, DType dtype, void* out, const void* const* inputs, int n,
            std::size_t count, int divisor);

}  // namespace tritorch::distributed
