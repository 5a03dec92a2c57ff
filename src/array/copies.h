// Copies of dense memory between the host and devices.
#pragma once

#include <span>

#include "array/array.h"

namespace tritorch {

// non_blocking: the copy may still be under way when the call returns.
void copy_from_host(const Array& to, std::span<const std::byte> from, cu::CUstream stream,
                    bool non_blocking);
void copy_to_host(const Array& from, std::span<std::byte> to, cu::CUstream stream,
                  bool non_blocking);
void copy_dense(const Array& to, const Array& from, cu::CUstream stream);
// Fills dense memory with a pattern of one, two or four bytes.
void fill_dense(const Array& array, std::span<const char> pattern, cu::CUstream stream);

}  // namespace tritorch
