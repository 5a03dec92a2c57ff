// One table of driver entry points, and two ways to fill it: libcuda.so.1
// (real.cpp), and a simulated device in host memory (src/simulator).  All code
// above this file calls the driver through the table and cannot tell which.
#pragma once

#include <string>

#include "driver/abi.h"

namespace tritorch::cu {

// X(field, exported symbol, parameter types).  Symbols carry the version suffix
// that cuda.h's macros would add.  REQUIRED ones are in every driver since CUDA
// 12.0; OPTIONAL ones may be null, and their callers check.
#define TRITORCH_DRIVER_FUNCTIONS(REQUIRED, OPTIONAL)                                              \
  REQUIRED(cuInit, "cuInit", (unsigned))                                                           \
  REQUIRED(cuDriverGetVersion, "cuDriverGetVersion", (int*))                                       \
  REQUIRED(cuGetErrorName, "cuGetErrorName", (CUresult, const char**))                             \
  REQUIRED(cuGetErrorString, "cuGetErrorString", (CUresult, const char**))                         \
  REQUIRED(cuDeviceGet, "cuDeviceGet", (CUdevice*, int))                                           \
  REQUIRED(cuDeviceGetCount, "cuDeviceGetCount", (int*))                                           \
  REQUIRED(cuDeviceGetName, "cuDeviceGetName", (char*, int, CUdevice))                             \
  REQUIRED(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (std::size_t*, CUdevice))                      \
  REQUIRED(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int*, CUdevice_attribute, CUdevice))     \
  REQUIRED(cuDeviceGetUuid, "cuDeviceGetUuid_v2", (CUuuid*, CUdevice))                             \
  REQUIRED(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int*, CUdevice, CUdevice))             \
  REQUIRED(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))           \
  REQUIRED(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                        \
  REQUIRED(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext*))                                       \
  REQUIRED(cuCtxSynchronize, "cuCtxSynchronize", ())                                               \
  REQUIRED(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (CUcontext, unsigned))                  \
  REQUIRED(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int*, int*))               \
  REQUIRED(cuCtxSetLimit, "cuCtxSetLimit", (CUlimit, std::size_t))                                 \
  REQUIRED(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr*, std::size_t))                               \
  REQUIRED(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                               \
  REQUIRED(cuMemGetInfo, "cuMemGetInfo_v2", (std::size_t*, std::size_t*))                          \
  REQUIRED(cuMemHostAlloc, "cuMemHostAlloc", (void**, std::size_t, unsigned))                      \
  REQUIRED(cuMemFreeHost, "cuMemFreeHost", (void*))                                                \
  REQUIRED(cuMemHostRegister, "cuMemHostRegister_v2", (void*, std::size_t, unsigned))              \
  REQUIRED(cuMemHostUnregister, "cuMemHostUnregister", (void*))                                    \
  REQUIRED(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                              \
           (CUdeviceptr, const void*, std::size_t, CUstream))                                      \
  REQUIRED(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, std::size_t, CUstream)) \
  REQUIRED(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                              \
           (CUdeviceptr, CUdeviceptr, std::size_t, CUstream))                                      \
  REQUIRED(cuMemcpyPeerAsync, "cuMemcpyPeerAsync",                                                 \
           (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, std::size_t, CUstream))                \
  REQUIRED(cuMemsetD8Async, "cuMemsetD8Async",                                                     \
           (CUdeviceptr, unsigned char, std::size_t, CUstream))                                    \
  REQUIRED(cuMemsetD16Async, "cuMemsetD16Async",                                                   \
           (CUdeviceptr, unsigned short, std::size_t, CUstream))                                   \
  REQUIRED(cuMemsetD32Async, "cuMemsetD32Async", (CUdeviceptr, unsigned, std::size_t, CUstream))   \
  REQUIRED(cuPointerGetAttribute, "cuPointerGetAttribute",                                         \
           (void*, CUpointer_attribute, CUdeviceptr))                                              \
  REQUIRED(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity",                         \
           (std::size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags))           \
  REQUIRED(cuMemAddressReserve, "cuMemAddressReserve",                                             \
           (CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, unsigned long long))              \
  REQUIRED(cuMemAddressFree, "cuMemAddressFree", (CUdeviceptr, std::size_t))                       \
  REQUIRED(cuMemCreate, "cuMemCreate",                                                             \
           (CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,                \
            unsigned long long))                                                                   \
  REQUIRED(cuMemRelease, "cuMemRelease", (CUmemGenericAllocationHandle))                           \
  REQUIRED(                                                                                        \
      cuMemMap, "cuMemMap",                                                                        \
      (CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long))   \
  REQUIRED(cuMemUnmap, "cuMemUnmap", (CUdeviceptr, std::size_t))                                   \
  REQUIRED(cuMemSetAccess, "cuMemSetAccess",                                                       \
           (CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t))                        \
  REQUIRED(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream*, unsigned, int))   \
  REQUIRED(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                      \
  REQUIRED(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                 \
  REQUIRED(cuStreamQuery, "cuStreamQuery", (CUstream))                                             \
  REQUIRED(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                  \
  REQUIRED(cuStreamGetPriority, "cuStreamGetPriority", (CUstream, int*))                           \
  REQUIRED(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, CUstreamCaptureMode))       \
  REQUIRED(cuStreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph*))                         \
  REQUIRED(cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                                    \
           (CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,          \
            std::size_t*))                                                                         \
  REQUIRED(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",                 \
           (CUstreamCaptureMode*))                                                                 \
  REQUIRED(cuLaunchHostFunc, "cuLaunchHostFunc", (CUstream, CUhostFn, void*))                      \
  REQUIRED(cuEventCreate, "cuEventCreate", (CUevent*, unsigned))                                   \
  REQUIRED(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                                         \
  REQUIRED(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                                    \
  REQUIRED(cuEventQuery, "cuEventQuery", (CUevent))                                                \
  REQUIRED(cuEventSynchronize, "cuEventSynchronize", (CUevent))                                    \
  REQUIRED(cuEventElapsedTime, "cuEventElapsedTime", (float*, CUevent, CUevent))                   \
  REQUIRED(cuGraphInstantiate, "cuGraphInstantiateWithFlags",                                      \
           (CUgraphExec*, CUgraph, unsigned long long))                                            \
  REQUIRED(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                \
  REQUIRED(cuGraphDestroy, "cuGraphDestroy", (CUgraph))                                            \
  REQUIRED(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                \
  REQUIRED(cuGraphGetNodes, "cuGraphGetNodes", (CUgraph, CUgraphNode*, std::size_t*))              \
  REQUIRED(cuGraphDebugDotPrint, "cuGraphDebugDotPrint", (CUgraph, const char*, unsigned))         \
  REQUIRED(cuModuleLoadData, "cuModuleLoadData", (CUmodule*, const void*))                         \
  REQUIRED(cuModuleUnload, "cuModuleUnload", (CUmodule))                                           \
  REQUIRED(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))       \
  REQUIRED(cuFuncGetAttribute, "cuFuncGetAttribute", (int*, CUfunction_attribute, CUfunction))     \
  REQUIRED(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction, CUfunction_attribute, int))      \
  REQUIRED(cuFuncSetCacheConfig, "cuFuncSetCacheConfig", (CUfunction, CUfunc_cache))               \
  REQUIRED(cuLaunchKernelEx, "cuLaunchKernelEx",                                                   \
           (const CUlaunchConfig*, CUfunction, void**, void**))                                    \
  OPTIONAL(cuGraphCreate, "cuGraphCreate", (CUgraph*, unsigned))                                   \
  OPTIONAL(                                                                                        \
      cuGraphAddKernelNode, "cuGraphAddKernelNode_v2",                                             \
      (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const CUDA_KERNEL_NODE_PARAMS*))    \
  OPTIONAL(cuGraphAddMemsetNode, "cuGraphAddMemsetNode",                                           \
           (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t,                                \
            const CUDA_MEMSET_NODE_PARAMS*, CUcontext))                                            \
  OPTIONAL(                                                                                        \
      cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode",                                                \
      (CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, const CUDA_MEMCPY3D*, CUcontext))   \
  OPTIONAL(cuGraphAddDependencies, "cuGraphAddDependencies_v2",                                    \
           (CUgraph, const CUgraphNode*, const CUgraphNode*, const CUgraphEdgeData*, std::size_t)) \
  OPTIONAL(cuGraphKernelNodeSetAttribute, "cuGraphKernelNodeSetAttribute",                         \
           (CUgraphNode, CUlaunchAttributeID, const CUlaunchAttributeValue*))                      \
  OPTIONAL(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                    \
           (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*))                             \
  OPTIONAL(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams",                       \
           (CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS*, CUcontext))                  \
  OPTIONAL(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams",                       \
           (CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D*, CUcontext))                            \
  OPTIONAL(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle",                             \
           (CUmemGenericAllocationHandle*, void*))                                                 \
  OPTIONAL(cuMemExportToShareableHandle, "cuMemExportToShareableHandle",                           \
           (void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long))   \
  OPTIONAL(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle",                       \
           (CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType))                      \
  OPTIONAL(cuIpcGetMemHandle, "cuIpcGetMemHandle", (CUipcMemHandle*, CUdeviceptr))                 \
  OPTIONAL(cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (CUdeviceptr*, CUipcMemHandle, unsigned))  \
  OPTIONAL(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", (CUdeviceptr))                              \
  OPTIONAL(cuIpcGetEventHandle, "cuIpcGetEventHandle", (CUipcEventHandle*, CUevent))               \
  OPTIONAL(cuIpcOpenEventHandle, "cuIpcOpenEventHandle", (CUevent*, CUipcEventHandle))             \
  OPTIONAL(cuOccupancyMaxActiveClusters, "cuOccupancyMaxActiveClusters",                           \
           (int*, CUfunction, const CUlaunchConfig*))                                              \
  OPTIONAL(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                       \
           (CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,               \
            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,        \
            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))                  \
  OPTIONAL(                                                                                        \
      cuTensorMapEncodeIm2col, "cuTensorMapEncodeIm2col",                                          \
      (CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, \
       const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,   \
       CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill))

struct Driver {
  bool simulated = false;
#define TRITORCH_FIELD(field, symbol, params) CUresult(*field) params = nullptr;
  TRITORCH_DRIVER_FUNCTIONS(TRITORCH_FIELD, TRITORCH_FIELD)
#undef TRITORCH_FIELD
};

// Opens libcuda.so.1 and fills a table.  On failure returns false, and `problem`
// says in one sentence what is missing and what to do about it.
bool load_real_driver(Driver& table, std::string& problem);

// The table of the simulated device (see simulator.h for its controls).
const Driver& simulated_driver();

}  // namespace tritorch::cu
