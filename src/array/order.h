// In which order a new result's dims lie in memory: PyTorch's rule (TensorIterator's), in one
// place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tritorch {

// How an operand lies: strides in units of any size, `unit` of them an element.
struct Lie {
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;
  std::int64_t unit = 1;
};

// Strides, in elements, of what an elementwise operator makes of operands that broadcast to
// `shape`. numbers: there are Python numbers, or tensors without dims, among the operands.
//
// Operands of one shape that are all dense in the same order give that order.  Otherwise dims are
// sorted by the strides of the first operand that tells two of them apart, the innermost first; a
// broadcast dim tells nothing.
std::vector<std::int64_t> result_strides(std::span<const std::int64_t> shape,
                                         std::span<const Lie> operands, bool numbers);

// Dense strides in the memory format that operands suggest, those with as many dims as the result:
// PyTorch's channels_last where the strides of all of them (one: of any) look like it, in any unit,
// else row-major.
std::vector<std::int64_t> format_strides(std::span<const std::int64_t> shape,
                                         std::span<const Lie> operands, bool one = false);

// Strides of row-major batches of column-major matrices.
std::vector<std::int64_t> column_major_strides(std::span<const std::int64_t> shape);

// Strides of a copy: the original's where it is dense without overlap, else dense in its order.
std::vector<std::int64_t> copy_strides(const Lie& original);

// Whether an array is dense in row-major order to the stride, dims of size one included.
bool strictly_row_major(const Lie& x);

}  // namespace tritorch
