// Tensor maps (TMA descriptors), encoded on the host and cached: encoding one costs microseconds,
// and a training step builds the same few again and again.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "driver/table.h"

namespace tritorch {

// Everything that a tensor map depends on; innermost dimension first, strides in bytes.
struct TensorMapRequest {
  cu::CUdeviceptr address = 0;
  int element_type = 0;  // CUtensorMapDataType
  int element_bytes = 0;
  int swizzle = 0;
  int rank = 0;
  bool fill_nan = false;
  bool im2col = false;
  std::array<std::uint64_t, 5> shape{};
  std::array<std::uint64_t, 5> strides{};
  std::array<std::uint32_t, 5> box{};  // im2col: channels, pixels
  std::array<std::uint32_t, 5> element_strides{1, 1, 1, 1, 1};
  std::array<int, 5> lower{}, upper{};  // im2col: corners of the pixel box
  // From sizes with the outermost dimension first, and strides in elements.
  void set_geometry(std::span<const std::uint32_t> box_sizes, std::span<const std::uint64_t> sizes,
                    std::span<const std::int64_t> steps);
  bool operator==(const TensorMapRequest&) const = default;
};

// Throws CudaError with the request's numbers in it when the driver refuses them.
cu::CUtensorMap tensor_map(const TensorMapRequest& request);

}  // namespace tritorch
