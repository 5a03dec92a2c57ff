// Compiled kernels: modules, their limits, tensor maps.
#include "bindings/convert.h"
#include "launch/binary.h"
#include "launch/tensormap.h"
#include "launch/waiting.h"

namespace tritorch {

void bind_kernels(nb::module_& m) {
  m.def("launches_wait", launches_wait, "Whether launches wait for their kernels.");
  m.def("start_what_waits", start_what_waits, "Launches what waits, when its kernels are there.");
  m.def("forget_what_waits", forget_what_waits, "Launches that wait will not be made.");
  m.def(
      "load_binary",
      [](const std::string& name, nb::bytes image, int shared, int device) {
        const Binary b = load_binary(name, image.c_str(), shared, device);
        return nb::make_tuple(handle_of(b.module), handle_of(b.function), b.registers,
                              b.spilled_words, b.threads);
      },
      "name"_a, "image"_a, "shared"_a, "device"_a);
  m.def(
      "unload_module",
      [](std::uint64_t module, int device) {
        unload_module(reinterpret_cast<cu::CUmodule>(module), device);
      },
      "module"_a, "device"_a = -1);
  m.def(
      "set_printf_fifo_size",
      [](std::size_t size) {
        bind(current_device());
        DRIVE(cuCtxSetLimit(cu::CU_LIMIT_PRINTF_FIFO_SIZE, size));
      },
      "size"_a);
  m.def(
      "max_active_clusters",
      [](std::uint64_t function, unsigned shared, unsigned num_ctas, unsigned num_warps) {
        return max_active_clusters(reinterpret_cast<cu::CUfunction>(function), shared, num_ctas,
                                   num_warps);
      },
      "function"_a, "shared"_a, "num_ctas"_a, "num_warps"_a);
  m.def(
      "encode_tensor_map",
      [](std::uint64_t address, int swizzle, int element_bytes, int element_type,
         const std::vector<std::uint32_t>& box, const std::vector<std::uint64_t>& shape,
         const std::vector<std::int64_t>& strides, bool fill_nan) {
        TensorMapRequest request;
        request.address = address;
        request.swizzle = swizzle;
        request.element_bytes = element_bytes;
        request.element_type = element_type;
        request.fill_nan = fill_nan;
        request.set_geometry(box, shape, strides);
        cu::CUtensorMap map = tensor_map(request);
        return nb::bytes(&map, sizeof map);
      },
      "address"_a, "swizzle"_a, "element_bytes"_a, "element_type"_a, "box"_a, "shape"_a,
      "strides"_a, "fill_nan"_a);
}

}  // namespace tritorch
