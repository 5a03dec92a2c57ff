#include "launch/binary.h"

#include <string_view>

#include "driver/context.h"
#include "memory/event_queues.h"

namespace tritorch {
namespace {

constexpr int kAbiOfCuda13 = 8;  // of machine code by ptxas 13; by ptxas 12 it is 7

// What the header of machine code, an ELF file, says of a driver that refuses it; "" for nothing.
std::string why_refused(const char* image) {
  constexpr int kAbiVersion = 8;  // its place in the header
  if (std::string_view(image, 4) !=
      "\x7f"
      "ELF")
    return "";
  const int abi = static_cast<unsigned char>(image[kAbiVersion]);
  int version = 0;
  DRIVE(cuDriverGetVersion(&version));
  if (abi < kAbiOfCuda13 || version >= 13000) return "";
  const std::string own =
      std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  return "its ABI version is " + std::to_string(abi) + ", that of ptxas 13, which drivers before " +
         "CUDA 13 refuse, and this one is of CUDA " + own +
         ": install driver 580 or newer, or set " +
         "TRITON_PTXAS_PATH (TRITON_PTXAS_BLACKWELL_PATH) to a ptxas of CUDA 12";
}

}  // namespace

Binary load_binary(const std::string& name, const char* image, int shared, int device) {
  DeviceScope scope(device);
  cu::CUmodule module;
  cu::CUfunction function;
  {
    memory::RelaxedCapture relaxed(driver());  // a graph's first launch loads its kernels
    const cu::CUresult loaded = driver().cuModuleLoadData(&module, image);
    if (loaded == cu::CUDA_ERROR_INVALID_IMAGE || loaded == cu::CUDA_ERROR_NO_BINARY_FOR_GPU)
      if (const std::string why = why_refused(image); !why.empty())
        throw CudaError(loaded, "cuModuleLoadData(&module, image)", why);
    check(loaded, "cuModuleLoadData(&module, image)");
    const cu::CUresult found = driver().cuModuleGetFunction(&function, module, name.c_str());
    if (found != cu::CUDA_SUCCESS) (void)driver().cuModuleUnload(module);
    check(found, "cuModuleGetFunction(&function, module, name)");
  }
  auto read = [&](cu::CUfunction_attribute attribute) {
    int value = 0;
    DRIVE(cuFuncGetAttribute(&value, attribute, function));
    return value;
  };
  int limit = device_properties(device).shared_memory_per_block_optin;
  constexpr int kWithoutAsking = 48 * 1024;
  if (shared > kWithoutAsking && limit > kWithoutAsking) {
    DRIVE(cuFuncSetCacheConfig(function, cu::CU_FUNC_CACHE_PREFER_SHARED));
    DRIVE(cuFuncSetAttribute(function, cu::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             limit - read(cu::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)));
  }
  return {module, function, read(cu::CU_FUNC_ATTRIBUTE_NUM_REGS),
          read(cu::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) / 4,
          read(cu::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)};
}

void unload_module(cu::CUmodule module, int device) {
  if (!driver_loaded()) return;
  DeviceScope scope(device < 0 ? current_device() : device);
  memory::RelaxedCapture relaxed(driver());
  check(driver().cuModuleUnload(module), "cuModuleUnload(module)");
}

int max_active_clusters(cu::CUfunction function, unsigned shared, unsigned num_ctas,
                        unsigned num_warps) {
  if (!driver().cuOccupancyMaxActiveClusters)
    throw CudaError(cu::CUDA_ERROR_NOT_SUPPORTED, "cuOccupancyMaxActiveClusters");
  cu::CUlaunchAttribute attribute{};
  attribute.id = cu::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {num_ctas, 1, 1};
  cu::CUlaunchConfig config{num_ctas, 1, 1, 32 * num_warps, 1, 1, shared, nullptr, &attribute, 1};
  int clusters = 0;
  bind(current_device());
  DRIVE(cuOccupancyMaxActiveClusters(&clusters, function, &config));
  return clusters;
}

}  // namespace tritorch
