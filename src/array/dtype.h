// The element types, once: what C++, Python (tritorch/core/dtype.py) and DLPack call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace tritorch {

// X(ours, PyTorch's name, bytes, kind, DLPack's code).  Kinds: b(ool), u(nsigned), i(nteger),
// f(loat), c(omplex).
#define TRITORCH_DTYPES(X)                      \
  X(boolean, "bool", 1, 'b', 6)                 \
  X(uint8, "uint8", 1, 'u', 1)                  \
  X(int8, "int8", 1, 'i', 0)                    \
  X(uint16, "uint16", 2, 'u', 1)                \
  X(int16, "int16", 2, 'i', 0)                  \
  X(uint32, "uint32", 4, 'u', 1)                \
  X(int32, "int32", 4, 'i', 0)                  \
  X(uint64, "uint64", 8, 'u', 1)                \
  X(int64, "int64", 8, 'i', 0)                  \
  X(float16, "float16", 2, 'f', 2)              \
  X(bfloat16, "bfloat16", 2, 'f', 4)            \
  X(float32, "float32", 4, 'f', 2)              \
  X(float64, "float64", 8, 'f', 2)              \
  X(float8_e4m3fn, "float8_e4m3fn", 1, 'f', 10) \
  X(float8_e5m2, "float8_e5m2", 1, 'f', 12)     \
  X(complex64, "complex64", 8, 'c', 5)          \
  X(complex128, "complex128", 16, 'c', 5)

#define TRITORCH_ENUMERATOR(ours, name, bytes, kind, dlpack) ours,
enum class DType : std::uint8_t { TRITORCH_DTYPES(TRITORCH_ENUMERATOR) };
#undef TRITORCH_ENUMERATOR

struct DTypeInfo {
  const char* name;
  std::uint8_t bytes;
  char kind;
  std::uint8_t dlpack;
};
#define TRITORCH_ROW(ours, name, bytes, kind, dlpack) {name, bytes, kind, dlpack},
inline constexpr DTypeInfo kDTypeTable[] = {TRITORCH_DTYPES(TRITORCH_ROW)};
#undef TRITORCH_ROW
inline constexpr int kDTypes = std::size(kDTypeTable);
inline constexpr std::size_t item_size(DType dtype) {
  return kDTypeTable[static_cast<int>(dtype)].bytes;
}

}  // namespace tritorch
