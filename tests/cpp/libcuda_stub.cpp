// A libcuda.so.1 for tests, compiled against NVIDIA's cuda.h, whose prototypes its functions
// repeat: they forward to the simulated device.  What loads it (TRITORCH_LIBCUDA) takes the way of
// a real driver, from dlopen to launches of machine code; kernels' names, sizes and opt-ins are
// checked, their bytes are noted, and nothing runs.
//
// TRITORCH_STUB_LOG names a file that gets one line a launch:
//     name grid block dynamic-shared parameters (in hexadecimal, comma separated)
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "driver/table.h"
#include "simulator/simulator.h"

#define __CUDA_API_VERSION_INTERNAL  // all versions of functions under their own names
#include <cuda.h>

namespace {

using tritorch::cu::Driver;
namespace sim = tritorch::cu::simulator;

template <class Ours, class Theirs>
Ours converted(Theirs value) {
  static_assert(sizeof(Ours) == sizeof(Theirs));
  static_assert(std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>);
  static_assert(std::is_enum_v<Ours> == std::is_enum_v<Theirs>);
  if constexpr (std::is_pointer_v<Ours>) {
    return reinterpret_cast<Ours>(value);
  } else {
    return static_cast<Ours>(value);
  }
}

template <class... Ours, class... Theirs>
CUresult forward(tritorch::cu::CUresult (*Driver::*field)(Ours...), Theirs... values) {
  static_assert(sizeof...(Ours) == sizeof...(Theirs));
  return static_cast<CUresult>(
      (tritorch::cu::simulated_driver().*field)(converted<Ours>(values)...));
}

// ---- machine code
// --------------------------------------------------------------------------------

struct Section {
  std::string name;
  const unsigned char* data;
  std::size_t size;
};

template <class T>
T read(const unsigned char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::vector<Section> sections(const unsigned char* elf) {
  const unsigned char* table = elf + read<std::uint64_t>(elf + 0x28);
  const auto size = read<std::uint16_t>(elf + 0x3A), count = read<std::uint16_t>(elf + 0x3C);
  const auto offset = [&](int i) { return read<std::uint64_t>(table + i * size + 0x18); };
  const unsigned char* names = elf + offset(read<std::uint16_t>(elf + 0x3E));
  std::vector<Section> found;
  for (int i = 0; i < count; ++i) {
    const unsigned char* header = table + i * size;
    found.push_back({reinterpret_cast<const char*>(names + read<std::uint32_t>(header)),
                     elf + offset(i), read<std::uint64_t>(header + 0x20)});
  }
  return found;
}

// By the table that the driver itself reads: the sizes of the kernel's parameters in their order.
std::vector<std::uint32_t> parameter_sizes(const Section& info) {
  constexpr unsigned kParameter = 0x17, kWithData = 4;
  std::map<unsigned, std::uint32_t> sizes;
  for (std::size_t at = 0; at + 4 <= info.size;) {
    const unsigned form = info.data[at], attribute = info.data[at + 1];
    const auto length = read<std::uint16_t>(info.data + at + 2);
    at += 4;
    if (form != kWithData) continue;
    if (attribute == kParameter)
      sizes[read<std::uint16_t>(info.data + at + 4)] =
          read<std::uint32_t>(info.data + at + 8) >> 18;
    at += length;
  }
  std::vector<std::uint32_t> out;
  for (const auto& [ordinal, size] : sizes) out.push_back(size);
  return out;
}

tritorch::cu::CUresult note(void* user, const sim::Launch& launch, std::string&) {
  static std::mutex mutex;
  const char* path = std::getenv("TRITORCH_STUB_LOG");
  if (!path) return tritorch::cu::CUDA_SUCCESS;
  std::lock_guard lock(mutex);
  std::FILE* file = std::fopen(path, "a");
  if (!file) return tritorch::cu::CUDA_ERROR_UNKNOWN;
  const auto& [name, sizes] = *static_cast<std::pair<std::string, std::vector<unsigned>>*>(user);
  const auto& c = *launch.config;
  std::fprintf(file, "%s %u,%u,%u %u,%u,%u %u ", name.c_str(), c.gridDimX, c.gridDimY, c.gridDimZ,
               c.blockDimX, c.blockDimY, c.blockDimZ, c.sharedMemBytes);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i) std::fputc(',', file);
    const auto* bytes = static_cast<const unsigned char*>((*launch.params)[i]);
    for (unsigned k = 0; k < sizes[i]; ++k) std::fprintf(file, "%02x", bytes[k]);
  }
  std::fputc('\n', file);
  std::fclose(file);
  return tritorch::cu::CUDA_SUCCESS;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

CUresult CUDAAPI cuInit(unsigned int a) {
  if (const char* devices = std::getenv("TRITORCH_STUB_DEVICES"); devices && *devices == '0')
    return CUDA_ERROR_NO_DEVICE;
  return forward(&Driver::cuInit, a);
}

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  const auto* elf = static_cast<const unsigned char*>(image);
  if (!elf || std::memcmp(elf,
                          "\x7f"
                          "ELF",
                          4) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  const std::string prefix = ".nv.info.";
  for (const Section& section : sections(elf)) {
    if (section.name.rfind(prefix, 0) != 0) continue;
    const std::string name = section.name.substr(prefix.size());
    const auto sizes = parameter_sizes(section);
    auto* user = new std::pair<std::string, std::vector<unsigned>>(name, sizes);
    const auto function = sim::make_function(name, sizes, note, user, [](void* p) {
      delete static_cast<std::pair<std::string, std::vector<unsigned>>*>(p);
    });
    const std::string known = sim::image_of(function);
    return forward(&Driver::cuModuleLoadData, module, static_cast<const void*>(known.c_str()));
  }
  return CUDA_ERROR_INVALID_IMAGE;
}

CUresult CUDAAPI cuDriverGetVersion(int* a) { return forward(&Driver::cuDriverGetVersion, a); }
CUresult CUDAAPI cuGetErrorName(CUresult a, const char** b) {
  return forward(&Driver::cuGetErrorName, a, b);
}
CUresult CUDAAPI cuGetErrorString(CUresult a, const char** b) {
  return forward(&Driver::cuGetErrorString, a, b);
}
CUresult CUDAAPI cuDeviceGet(CUdevice* a, int b) { return forward(&Driver::cuDeviceGet, a, b); }
CUresult CUDAAPI cuDeviceGetCount(int* a) { return forward(&Driver::cuDeviceGetCount, a); }
CUresult CUDAAPI cuDeviceGetName(char* a, int b, CUdevice c) {
  return forward(&Driver::cuDeviceGetName, a, b, c);
}
CUresult CUDAAPI cuDeviceTotalMem_v2(size_t* a, CUdevice b) {
  return forward(&Driver::cuDeviceTotalMem, a, b);
}
CUresult CUDAAPI cuDeviceGetAttribute(int* a, CUdevice_attribute b, CUdevice c) {
  return forward(&Driver::cuDeviceGetAttribute, a, b, c);
}
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* a, CUdevice b) {
  return forward(&Driver::cuDeviceGetUuid, a, b);
}
CUresult CUDAAPI cuDeviceCanAccessPeer(int* a, CUdevice b, CUdevice c) {
  return forward(&Driver::cuDeviceCanAccessPeer, a, b, c);
}
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* a, CUdevice b) {
  return forward(&Driver::cuDevicePrimaryCtxRetain, a, b);
}
CUresult CUDAAPI cuCtxSetCurrent(CUcontext a) { return forward(&Driver::cuCtxSetCurrent, a); }
CUresult CUDAAPI cuCtxGetCurrent(CUcontext* a) { return forward(&Driver::cuCtxGetCurrent, a); }
CUresult CUDAAPI cuCtxSynchronize() { return forward(&Driver::cuCtxSynchronize); }
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext a, unsigned int b) {
  return forward(&Driver::cuCtxEnablePeerAccess, a, b);
}
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* a, int* b) {
  return forward(&Driver::cuCtxGetStreamPriorityRange, a, b);
}
CUresult CUDAAPI cuCtxSetLimit(CUlimit a, size_t b) {
  return forward(&Driver::cuCtxSetLimit, a, b);
}
CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* a, size_t b) {
  return forward(&Driver::cuMemAlloc, a, b);
}
CUresult CUDAAPI cuMemFree_v2(CUdeviceptr a) { return forward(&Driver::cuMemFree, a); }
CUresult CUDAAPI cuMemGetInfo_v2(size_t* a, size_t* b) {
  return forward(&Driver::cuMemGetInfo, a, b);
}
CUresult CUDAAPI cuMemHostAlloc(void** a, size_t b, unsigned int c) {
  return forward(&Driver::cuMemHostAlloc, a, b, c);
}
CUresult CUDAAPI cuMemFreeHost(void* a) { return forward(&Driver::cuMemFreeHost, a); }
CUresult CUDAAPI cuMemHostRegister_v2(void* a, size_t b, unsigned int c) {
  return forward(&Driver::cuMemHostRegister, a, b, c);
}
CUresult CUDAAPI cuMemHostUnregister(void* a) { return forward(&Driver::cuMemHostUnregister, a); }
CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr a, const void* b, size_t c, CUstream d) {
  return forward(&Driver::cuMemcpyHtoDAsync, a, b, c, d);
}
CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void* a, CUdeviceptr b, size_t c, CUstream d) {
  return forward(&Driver::cuMemcpyDtoHAsync, a, b, c, d);
}
CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d) {
  return forward(&Driver::cuMemcpyDtoDAsync, a, b, c, d);
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e,
                                   CUstream f) {
  return forward(&Driver::cuMemcpyPeerAsync, a, b, c, d, e, f);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr a, unsigned char b, size_t c, CUstream d) {
  return forward(&Driver::cuMemsetD8Async, a, b, c, d);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr a, unsigned short b, size_t c, CUstream d) {
  return forward(&Driver::cuMemsetD16Async, a, b, c, d);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr a, unsigned int b, size_t c, CUstream d) {
  return forward(&Driver::cuMemsetD32Async, a, b, c, d);
}
CUresult CUDAAPI cuPointerGetAttribute(void* a, CUpointer_attribute b, CUdeviceptr c) {
  return forward(&Driver::cuPointerGetAttribute, a, b, c);
}
CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* a, const CUmemAllocationProp* b,
                                               CUmemAllocationGranularity_flags c) {
  return forward(&Driver::cuMemGetAllocationGranularity, a, b, c);
}
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* a, size_t b, size_t c, CUdeviceptr d,
                                     unsigned long long e) {
  return forward(&Driver::cuMemAddressReserve, a, b, c, d, e);
}
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr a, size_t b) {
  return forward(&Driver::cuMemAddressFree, a, b);
}
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* a, size_t b,
                             const CUmemAllocationProp* c, unsigned long long d) {
  return forward(&Driver::cuMemCreate, a, b, c, d);
}
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle a) {
  return forward(&Driver::cuMemRelease, a);
}
CUresult CUDAAPI cuMemMap(CUdeviceptr a, size_t b, size_t c, CUmemGenericAllocationHandle d,
                          unsigned long long e) {
  return forward(&Driver::cuMemMap, a, b, c, d, e);
}
CUresult CUDAAPI cuMemUnmap(CUdeviceptr a, size_t b) { return forward(&Driver::cuMemUnmap, a, b); }
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr a, size_t b, const CUmemAccessDesc* c, size_t d) {
  return forward(&Driver::cuMemSetAccess, a, b, c, d);
}
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* a, unsigned int b, int c) {
  return forward(&Driver::cuStreamCreateWithPriority, a, b, c);
}
CUresult CUDAAPI cuStreamDestroy_v2(CUstream a) { return forward(&Driver::cuStreamDestroy, a); }
CUresult CUDAAPI cuStreamSynchronize(CUstream a) {
  return forward(&Driver::cuStreamSynchronize, a);
}
CUresult CUDAAPI cuStreamQuery(CUstream a) { return forward(&Driver::cuStreamQuery, a); }
CUresult CUDAAPI cuStreamWaitEvent(CUstream a, CUevent b, unsigned int c) {
  return forward(&Driver::cuStreamWaitEvent, a, b, c);
}
CUresult CUDAAPI cuStreamGetPriority(CUstream a, int* b) {
  return forward(&Driver::cuStreamGetPriority, a, b);
}
CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream a, CUstreamCaptureMode b) {
  return forward(&Driver::cuStreamBeginCapture, a, b);
}
CUresult CUDAAPI cuStreamEndCapture(CUstream a, CUgraph* b) {
  return forward(&Driver::cuStreamEndCapture, a, b);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream a, CUstreamCaptureStatus* b, cuuint64_t* c,
                                           CUgraph* d, const CUgraphNode** e, size_t* f) {
  return forward(&Driver::cuStreamGetCaptureInfo, a, b, c, d, e, f);
}
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* a) {
  return forward(&Driver::cuThreadExchangeStreamCaptureMode, a);
}
CUresult CUDAAPI cuLaunchHostFunc(CUstream a, CUhostFn b, void* c) {
  return forward(&Driver::cuLaunchHostFunc, a, b, c);
}
CUresult CUDAAPI cuEventCreate(CUevent* a, unsigned int b) {
  return forward(&Driver::cuEventCreate, a, b);
}
CUresult CUDAAPI cuEventDestroy_v2(CUevent a) { return forward(&Driver::cuEventDestroy, a); }
CUresult CUDAAPI cuEventRecord(CUevent a, CUstream b) {
  return forward(&Driver::cuEventRecord, a, b);
}
CUresult CUDAAPI cuEventQuery(CUevent a) { return forward(&Driver::cuEventQuery, a); }
CUresult CUDAAPI cuEventSynchronize(CUevent a) { return forward(&Driver::cuEventSynchronize, a); }
CUresult CUDAAPI cuEventElapsedTime(float* a, CUevent b, CUevent c) {
  return forward(&Driver::cuEventElapsedTime, a, b, c);
}
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* a, CUgraph b, unsigned long long c) {
  return forward(&Driver::cuGraphInstantiate, a, b, c);
}
CUresult CUDAAPI cuGraphLaunch(CUgraphExec a, CUstream b) {
  return forward(&Driver::cuGraphLaunch, a, b);
}
CUresult CUDAAPI cuGraphDestroy(CUgraph a) { return forward(&Driver::cuGraphDestroy, a); }
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec a) {
  return forward(&Driver::cuGraphExecDestroy, a);
}
CUresult CUDAAPI cuGraphGetNodes(CUgraph a, CUgraphNode* b, size_t* c) {
  return forward(&Driver::cuGraphGetNodes, a, b, c);
}
CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph a, const char* b, unsigned int c) {
  return forward(&Driver::cuGraphDebugDotPrint, a, b, c);
}
CUresult CUDAAPI cuGraphCreate(CUgraph* a, unsigned int b) {
  return forward(&Driver::cuGraphCreate, a, b);
}
CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode* a, CUgraph b, const CUgraphNode* c, size_t d,
                                         const CUDA_KERNEL_NODE_PARAMS_v2* e) {
  return forward(&Driver::cuGraphAddKernelNode, a, b, c, d, e);
}
CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* a, CUgraph b, const CUgraphNode* c, size_t d,
                                      const CUDA_MEMSET_NODE_PARAMS* e, CUcontext f) {
  return forward(&Driver::cuGraphAddMemsetNode, a, b, c, d, e, f);
}
CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* a, CUgraph b, const CUgraphNode* c, size_t d,
                                      const CUDA_MEMCPY3D* e, CUcontext f) {
  return forward(&Driver::cuGraphAddMemcpyNode, a, b, c, d, e, f);
}
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph a, const CUgraphNode* b, const CUgraphNode* c,
                                           const CUgraphEdgeData* d, size_t e) {
  return forward(&Driver::cuGraphAddDependencies, a, b, c, d, e);
}
CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode a, CUkernelNodeAttrID b,
                                               const CUkernelNodeAttrValue* c) {
  return forward(&Driver::cuGraphKernelNodeSetAttribute, a, b, c);
}
CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec a, CUgraphNode b,
                                                   const CUDA_KERNEL_NODE_PARAMS_v2* c) {
  return forward(&Driver::cuGraphExecKernelNodeSetParams, a, b, c);
}
CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec a, CUgraphNode b,
                                                const CUDA_MEMSET_NODE_PARAMS* c, CUcontext d) {
  return forward(&Driver::cuGraphExecMemsetNodeSetParams, a, b, c, d);
}
CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec a, CUgraphNode b,
                                                const CUDA_MEMCPY3D* c, CUcontext d) {
  return forward(&Driver::cuGraphExecMemcpyNodeSetParams, a, b, c, d);
}
CUresult CUDAAPI cuModuleUnload(CUmodule a) { return forward(&Driver::cuModuleUnload, a); }
CUresult CUDAAPI cuModuleGetFunction(CUfunction* a, CUmodule b, const char* c) {
  return forward(&Driver::cuModuleGetFunction, a, b, c);
}
CUresult CUDAAPI cuFuncGetAttribute(int* a, CUfunction_attribute b, CUfunction c) {
  return forward(&Driver::cuFuncGetAttribute, a, b, c);
}
CUresult CUDAAPI cuFuncSetAttribute(CUfunction a, CUfunction_attribute b, int c) {
  return forward(&Driver::cuFuncSetAttribute, a, b, c);
}
CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction a, CUfunc_cache b) {
  return forward(&Driver::cuFuncSetCacheConfig, a, b);
}
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* a, CUfunction b, void** c, void** d) {
  return forward(&Driver::cuLaunchKernelEx, a, b, c, d);
}
CUresult CUDAAPI cuOccupancyMaxActiveClusters(int* a, CUfunction b, const CUlaunchConfig* c) {
  return forward(&Driver::cuOccupancyMaxActiveClusters, a, b, c);
}
CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* a, CUtensorMapDataType b, cuuint32_t c,
                                        void* d, const cuuint64_t* e, const cuuint64_t* f,
                                        const cuuint32_t* g, const cuuint32_t* h,
                                        CUtensorMapInterleave i, CUtensorMapSwizzle j,
                                        CUtensorMapL2promotion k, CUtensorMapFloatOOBfill l) {
  return forward(&Driver::cuTensorMapEncodeTiled, a, b, c, d, e, f, g, h, i, j, k, l);
}
CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap* a, CUtensorMapDataType b, cuuint32_t c,
                                         void* d, const cuuint64_t* e, const cuuint64_t* f,
                                         const int* g, const int* h, cuuint32_t i, cuuint32_t j,
                                         const cuuint32_t* k, CUtensorMapInterleave l,
                                         CUtensorMapSwizzle m, CUtensorMapL2promotion n,
                                         CUtensorMapFloatOOBfill o) {
  return forward(&Driver::cuTensorMapEncodeIm2col, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
}

#pragma GCC visibility pop
}
