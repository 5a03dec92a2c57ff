// What one number is made of a row of them.
#pragma once
#include <cstddef>
#include <string_view>

namespace tritorch {

// out = the sum, or the largest, or the least of n numbers side by side.
using Reduce = void (*)(const char* data, std::ptrdiff_t n, char* out);

// The reduction by NumPy's function of that name, of a dtype by its character; null if there is
// none.
Reduce reduction(std::string_view name, char kind);

}  // namespace tritorch
