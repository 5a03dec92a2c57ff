// What all bindings share: conversions between Python's objects and ours, and who binds what.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "array/array.h"
#include "driver/context.h"

namespace tritorch {

namespace nb = nanobind;
using namespace nb::literals;

inline cu::CUstream stream_of(std::uint64_t handle) {
  return reinterpret_cast<cu::CUstream>(handle);
}
inline std::uint64_t handle_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

DType dtype_of(nb::handle object);
nb::object dtype_object(DType dtype);
std::vector<std::int64_t> ints(nb::handle sequence);  // or one integer
nb::tuple tuple_of(Sizes sizes);
nb::object wrap(Array&& array);

// Makes what was thrown the Python error that is set, if it is ours; else throws it on.
void rethrow_as_python(std::exception_ptr pointer);

void bind_errors(nb::module_& m);
void bind_dtypes(nb::module_& m);
void bind_device(nb::module_& m);
void bind_distributed(nb::module_& m);
void bind_nccl(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_streams(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_sharing(nb::module_& m);
void bind_arrays(nb::module_& m);
void bind_random(nb::module_& m);
void bind_simulator(nb::module_& m);

}  // namespace tritorch
