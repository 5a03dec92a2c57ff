#include "launch/tensormap.h"

#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "driver/context.h"
#include "driver/fork.h"

namespace tritorch {
namespace {

struct Hash {
  std::size_t operator()(const TensorMapRequest& r) const {
    std::uint64_t h = r.address;
    auto mix = [&h](std::uint64_t v) { h = (h ^ v) * 0x9E3779B97F4A7C15u, h ^= h >> 29; };
    mix(r.element_type | r.swizzle << 8 | r.rank << 16 | r.fill_nan << 24 | r.im2col << 25);
    for (int i = 0; i < r.rank; ++i) mix(r.shape[i]), mix(r.strides[i]), mix(r.box[i]);
    return h;
  }
};

constexpr std::size_t kCacheLimit = 4096;
ForkMutex cache_mutex;
std::unordered_map<TensorMapRequest, cu::CUtensorMap, Hash> cache;

template <class Values>
std::string list(const Values& values, int count) {
  std::string out = "[";
  for (int i = 0; i < count; ++i) out += (i ? ", " : "") + std::to_string(values[i]);
  return out + "]";
}

cu::CUtensorMap encode(const TensorMapRequest& r) {
  const cu::Driver& table = driver();
  auto type = static_cast<cu::CUtensorMapDataType>(r.element_type);
  auto swizzle = static_cast<cu::CUtensorMapSwizzle>(r.swizzle);
  auto fill = r.fill_nan ? cu::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                         : cu::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  auto* address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(r.address));
  const char* call = r.im2col ? "cuTensorMapEncodeIm2col" : "cuTensorMapEncodeTiled";
  if (r.im2col ? !table.cuTensorMapEncodeIm2col : !table.cuTensorMapEncodeTiled)
    throw CudaError(cu::CUDA_ERROR_NOT_SUPPORTED, call,
                    "the driver has no tensor maps: they need CUDA 12.0 or newer and sm_90");
  cu::CUtensorMap map{};
  cu::CUresult result =
      r.im2col ? table.cuTensorMapEncodeIm2col(&map, type, r.rank, address, r.shape.data(),
                                               r.strides.data(), r.lower.data(), r.upper.data(),
                                               r.box[0], r.box[1], r.element_strides.data(),
                                               cu::CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                               cu::CU_TENSOR_MAP_L2_PROMOTION_L2_128B, fill)
               : table.cuTensorMapEncodeTiled(
                     &map, type, r.rank, address, r.shape.data(), r.strides.data(), r.box.data(),
                     r.element_strides.data(), cu::CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                     cu::CU_TENSOR_MAP_L2_PROMOTION_L2_128B, fill);
  if (result != cu::CUDA_SUCCESS)
    throw CudaError(
        result, call,
        "a tensor map needs a 16-byte aligned address, strides that are multiples of 16 bytes "
        "and boxes of at most 256; innermost dimension first it got shape " +
            list(r.shape, r.rank) + ", byte strides " + list(r.strides, r.rank - 1) + ", box " +
            list(r.box, r.im2col ? 2 : r.rank) + ", element type " +
            std::to_string(r.element_type) + ", swizzle " + std::to_string(r.swizzle));
  // Drivers up to CUDA 13.1 encode tensors under 128 KiB in a form that some kernels hang on;
  // clearing this bit, as CUTLASS and Triton do, chooses the general form.
  int version = 0;
  CHECK_CU(table.cuDriverGetVersion(&version));
  if (!r.im2col && !table.simulated && version <= 13010) {
    std::uint64_t last = 0;
    for (int i = 0; i < r.rank; ++i)
      last += (r.shape[i] - 1) * (i == 0 ? r.element_bytes : r.strides[i - 1]);
    if (last + 1 < 128 * 1024) map.opaque[1] &= ~(std::uint64_t{1} << 21);
  }
  return map;
}

}  // namespace

void TensorMapRequest::set_geometry(std::span<const std::uint32_t> box_sizes,
                                    std::span<const std::uint64_t> sizes,
                                    std::span<const std::int64_t> steps) {
  rank = static_cast<int>(sizes.size());
  if (rank < 1 || rank > 5 || steps.size() != sizes.size() || box_sizes.size() != sizes.size())
    throw std::domain_error("a tensor map needs 1 to 5 sizes and as many strides and box sizes");
  for (int i = 0; i < rank; ++i) {
    shape[i] = sizes[rank - 1 - i];
    box[i] = box_sizes[rank - 1 - i];
    if (i + 1 < rank) strides[i] = steps[rank - 2 - i] * element_bytes;
  }
  strides[rank - 1] = shape[rank - 1] * (rank == 1 ? element_bytes : strides[rank - 2]);
}

cu::CUtensorMap tensor_map(const TensorMapRequest& request) {
  std::unique_lock lock = lock_politely(cache_mutex);
  auto found = cache.find(request);
  if (found != cache.end()) return found->second;
  if (cache.size() >= kCacheLimit) cache.clear();
  return cache.emplace(request, encode(request)).first->second;
}

}  // namespace tritorch
