// NumPy casts float16 element by element, 2 to 4 ns each; these loops are vectors.  Bits are
// NumPy's
// (`convert` in tritorch/arrays/arrays.py), payloads of NaN included.
#include "host/halves.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tensor/tensor.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr int kHalf = 23, kSingle = 11;      // NumPy's numbers of the types
constexpr std::uint32_t kBias = 0x38000000;  // what exponents differ by

// a or b, by bits: GCC 12 makes branches of some choices.
inline std::uint32_t chosen(bool first, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = -static_cast<std::uint32_t>(first);
  return (a & mask) | (b & ~mask);
}

TRITORCH_WIDEST(void, widen, (const std::uint16_t* from, std::uint32_t* to, Py_ssize_t n),
                (from, to, n), {
                  for (Py_ssize_t i = 0; i < n; ++i) {
                    const std::uint32_t sign = (from[i] & 0x8000U) << 16, rest = from[i] & 0x7fffU;
                    const auto small = std::bit_cast<std::uint32_t>(
                        static_cast<float>(static_cast<int>(rest)) * 0x1p-24F);
                    const std::uint32_t usual =
                        (rest << 13) + kBias + (rest >= 0x7c00U ? kBias : 0);
                    to[i] = sign | (rest < 0x400U ? small : usual);
                  }
                })

TRITORCH_WIDEST(void, narrow, (const std::uint32_t* from, std::uint16_t* to, Py_ssize_t n),
                (from, to, n), {
                  for (Py_ssize_t i = 0; i < n; ++i) {
                    const std::uint32_t sign = (from[i] >> 16) & 0x8000U,
                                        rest = from[i] & 0x7fffffffU;
                    const std::uint32_t shifted = rest - kBias;
                    const std::uint32_t usual = (shifted + 0xfffU + ((shifted >> 13) & 1U)) >> 13;
                    // The sum rounds to what the least bits of float16 are.
                    const std::uint32_t small =
                        std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5F) -
                        0x3f000000U;
                    const std::uint32_t payload = (rest & 0x7fffffU) >> 13;
                    const std::uint32_t nan = 0x7c00U + chosen(payload != 0, payload, 1U);
                    std::uint32_t found = chosen(rest < 0x38800000U, small, usual);
                    found = chosen(rest >= 0x47800000U, 0x7c00U, found);
                    found = chosen(rest > 0x7f800000U, nan, found);
                    to[i] = static_cast<std::uint16_t>(sign | found);
                  }
                })

bool is_native(const NDArray* a, int number) {
  return a->dtype()->number == number && a->dtype()->byteorder == '=';
}

// cast_halves(from, to) -> whether it was done
PyObject* cast_halves_of(PyObject*, PyObject* const* args, Py_ssize_t n) {
  const NDArray *from = n == 2 ? as_ndarray(args[0]) : nullptr,
                *to = from ? as_ndarray(args[1]) : nullptr;
  if (!to) return PyErr_Format(PyExc_TypeError, "cast_halves(from, to)");
  return PyBool_FromLong(cast_halves(from, to));
}

PyMethodDef functions[] = {
    {"cast_halves", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(cast_halves_of)),
     METH_FASTCALL, "Casts a dense array from float16 to float32 or back, if it is one."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool cast_halves(const NDArray* from, const NDArray* to) {
  if (!from->is_contiguous() || !to->is_contiguous() || from->nd != to->nd || !to->is_writeable() ||
      !std::equal(from->dimensions, from->dimensions + from->nd, to->dimensions))
    return false;
  const auto n = static_cast<Py_ssize_t>(from->size());
  if (is_native(from, kHalf) && is_native(to, kSingle))
    widen(reinterpret_cast<const std::uint16_t*>(from->data),
          reinterpret_cast<std::uint32_t*>(to->data), n);
  else if (is_native(from, kSingle) && is_native(to, kHalf))
    narrow(reinterpret_cast<const std::uint32_t*>(from->data),
           reinterpret_cast<std::uint16_t*>(to->data), n);
  else
    return false;
  return true;
}

bool add_halves(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
