// Our declarations of the driver's interface against cuda.h, wherever a copy of it is at hand:
// compile with -DTRITORCH_CUDA_H and its folder as an include path.  Nearly all checks are
// the compiler's.
#include "driver/abi.h"

#include <cstddef>
#include <cstdio>
#include <string_view>
#include <type_traits>

#include "check.h"
#include "driver/table.h"
#include "profiling/cupti.h"

// Every enumerator of abi.h but one whose name there is not the driver's (compared below).
// clang-format off: one a line
#define ENUMERATORS(X) \
  X(CUDA_SUCCESS) \
  X(CUDA_ERROR_INVALID_VALUE) \
  X(CUDA_ERROR_OUT_OF_MEMORY) \
  X(CUDA_ERROR_NOT_INITIALIZED) \
  X(CUDA_ERROR_DEINITIALIZED) \
  X(CUDA_ERROR_STUB_LIBRARY) \
  X(CUDA_ERROR_NO_DEVICE) \
  X(CUDA_ERROR_INVALID_DEVICE) \
  X(CUDA_ERROR_INVALID_IMAGE) \
  X(CUDA_ERROR_INVALID_CONTEXT) \
  X(CUDA_ERROR_MAP_FAILED) \
  X(CUDA_ERROR_UNMAP_FAILED) \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU) \
  X(CUDA_ERROR_ECC_UNCORRECTABLE) \
  X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED) \
  X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION) \
  X(CUDA_ERROR_INVALID_HANDLE) \
  X(CUDA_ERROR_ILLEGAL_STATE) \
  X(CUDA_ERROR_NOT_FOUND) \
  X(CUDA_ERROR_NOT_READY) \
  X(CUDA_ERROR_ILLEGAL_ADDRESS) \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) \
  X(CUDA_ERROR_LAUNCH_TIMEOUT) \
  X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) \
  X(CUDA_ERROR_ASSERT) \
  X(CUDA_ERROR_HARDWARE_STACK_ERROR) \
  X(CUDA_ERROR_ILLEGAL_INSTRUCTION) \
  X(CUDA_ERROR_MISALIGNED_ADDRESS) \
  X(CUDA_ERROR_INVALID_PC) \
  X(CUDA_ERROR_LAUNCH_FAILED) \
  X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) \
  X(CUDA_ERROR_NOT_PERMITTED) \
  X(CUDA_ERROR_NOT_SUPPORTED) \
  X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) \
  X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) \
  X(CUDA_ERROR_STREAM_CAPTURE_MERGE) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED) \
  X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION) \
  X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) \
  X(CUDA_ERROR_CAPTURED_EVENT) \
  X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) \
  X(CUDA_ERROR_UNKNOWN) \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) \
  X(CU_DEVICE_ATTRIBUTE_WARP_SIZE) \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK) \
  X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) \
  X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) \
  X(CU_DEVICE_ATTRIBUTE_INTEGRATED) \
  X(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) \
  X(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID) \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) \
  X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) \
  X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) \
  X(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) \
  X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) \
  X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) \
  X(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) \
  X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) \
  X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) \
  X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) \
  X(CU_FUNC_ATTRIBUTE_NUM_REGS) \
  X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) \
  X(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) \
  X(CU_FUNC_CACHE_PREFER_SHARED) \
  X(CU_LIMIT_PRINTF_FIFO_SIZE) \
  X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE) \
  X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER) \
  X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) \
  X(CU_MEMORYTYPE_HOST) \
  X(CU_MEMORYTYPE_DEVICE) \
  X(CU_STREAM_DEFAULT) \
  X(CU_STREAM_NON_BLOCKING) \
  X(CU_EVENT_DEFAULT) \
  X(CU_EVENT_BLOCKING_SYNC) \
  X(CU_EVENT_DISABLE_TIMING) \
  X(CU_EVENT_INTERPROCESS) \
  X(CU_MEMHOSTALLOC_PORTABLE) \
  X(CU_STREAM_CAPTURE_STATUS_NONE) \
  X(CU_STREAM_CAPTURE_STATUS_ACTIVE) \
  X(CU_STREAM_CAPTURE_STATUS_INVALIDATED) \
  X(CU_STREAM_CAPTURE_MODE_GLOBAL) \
  X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) \
  X(CU_STREAM_CAPTURE_MODE_RELAXED) \
  X(CU_MEM_ALLOCATION_TYPE_PINNED) \
  X(CU_MEM_HANDLE_TYPE_NONE) \
  X(CU_MEM_LOCATION_TYPE_DEVICE) \
  X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE) \
  X(CU_MEM_ALLOC_GRANULARITY_MINIMUM) \
  X(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) \
  X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE) \
  X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) \
  X(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE) \
  X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) \
  X(CU_CLUSTER_SCHEDULING_POLICY_SPREAD) \
  X(CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) \
  X(CU_TENSOR_MAP_DATA_TYPE_UINT8) \
  X(CU_TENSOR_MAP_DATA_TYPE_UINT16) \
  X(CU_TENSOR_MAP_DATA_TYPE_UINT32) \
  X(CU_TENSOR_MAP_DATA_TYPE_INT32) \
  X(CU_TENSOR_MAP_DATA_TYPE_UINT64) \
  X(CU_TENSOR_MAP_DATA_TYPE_INT64) \
  X(CU_TENSOR_MAP_DATA_TYPE_FLOAT16) \
  X(CU_TENSOR_MAP_DATA_TYPE_FLOAT32) \
  X(CU_TENSOR_MAP_DATA_TYPE_FLOAT64) \
  X(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16) \
  X(CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ) \
  X(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32) \
  X(CU_TENSOR_MAP_INTERLEAVE_NONE) \
  X(CU_TENSOR_MAP_SWIZZLE_NONE) \
  X(CU_TENSOR_MAP_L2_PROMOTION_NONE) \
  X(CU_TENSOR_MAP_L2_PROMOTION_L2_128B) \
  X(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) \
  X(CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
// clang-format on

// Taken before cuda.h is read, which has macros of some of these names.
namespace ours {
#define TAKE(name) constexpr long long name##_value = tritorch::cu::name;
ENUMERATORS(TAKE)
#undef TAKE
}  // namespace ours

#ifdef TRITORCH_CUDA_H
#include <cuda.h>

#define SAME_VALUE(name) \
  static_assert(ours::name##_value == static_cast<long long>(name), #name " differs");
ENUMERATORS(SAME_VALUE)

static_assert(static_cast<int>(tritorch::cu::CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD) ==
              static_cast<int>(CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD));

#define SAME_TYPE(type)                                                          \
  static_assert(sizeof(tritorch::cu::type) == sizeof(::type), #type " differs"); \
  static_assert(alignof(tritorch::cu::type) >= alignof(::type), #type " is less aligned");
SAME_TYPE(CUdevice)
SAME_TYPE(CUdeviceptr)
SAME_TYPE(CUmemGenericAllocationHandle)
SAME_TYPE(cuuint32_t)
SAME_TYPE(cuuint64_t)
SAME_TYPE(CUcontext)
SAME_TYPE(CUmodule)
SAME_TYPE(CUfunction)
SAME_TYPE(CUstream)
SAME_TYPE(CUevent)
SAME_TYPE(CUgraph)
SAME_TYPE(CUgraphNode)
SAME_TYPE(CUgraphExec)
SAME_TYPE(CUhostFn)
SAME_TYPE(CUuuid)
SAME_TYPE(CUresult)
SAME_TYPE(CUmemLocation)
SAME_TYPE(CUmemAllocationProp)
SAME_TYPE(CUmemAccessDesc)
SAME_TYPE(CUlaunchConfig)
SAME_TYPE(CUtensorMap)
SAME_TYPE(CUDA_KERNEL_NODE_PARAMS)
SAME_TYPE(CUDA_MEMSET_NODE_PARAMS)
SAME_TYPE(CUDA_MEMCPY3D)
SAME_TYPE(CUgraphEdgeData)
static_assert(tritorch::cu::kGraphKernelNodePortProgrammatic ==
              CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);

// The driver's hold pointers, which ours leave out, so that ours are aligned to 4 bytes and theirs
// to 8: that changes no offset, and the processors at hand read unaligned words.
static_assert(sizeof(tritorch::cu::CUlaunchAttributeValue) == sizeof(::CUlaunchAttributeValue));
static_assert(sizeof(tritorch::cu::CUlaunchAttribute) == sizeof(::CUlaunchAttribute));

#define SAME_FIELD(type, field)                                                   \
  static_assert(offsetof(tritorch::cu::type, field) == offsetof(::type, field) && \
                    sizeof(tritorch::cu::type::field) == sizeof(::type::field),   \
                #type "." #field " differs");
SAME_FIELD(CUmemLocation, type)
SAME_FIELD(CUmemLocation, id)
SAME_FIELD(CUmemAllocationProp, type)
SAME_FIELD(CUmemAllocationProp, requestedHandleTypes)
SAME_FIELD(CUmemAllocationProp, location)
SAME_FIELD(CUmemAllocationProp, win32HandleMetaData)
SAME_FIELD(CUmemAllocationProp, allocFlags)
SAME_FIELD(CUmemAllocationProp, allocFlags.compressionType)
SAME_FIELD(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
SAME_FIELD(CUmemAllocationProp, allocFlags.usage)
SAME_FIELD(CUmemAccessDesc, location)
SAME_FIELD(CUmemAccessDesc, flags)
SAME_FIELD(CUlaunchAttributeValue, cooperative)
SAME_FIELD(CUlaunchAttributeValue, clusterDim)
SAME_FIELD(CUlaunchAttributeValue, clusterDim.x)
SAME_FIELD(CUlaunchAttributeValue, clusterDim.y)
SAME_FIELD(CUlaunchAttributeValue, clusterDim.z)
SAME_FIELD(CUlaunchAttributeValue, clusterSchedulingPolicyPreference)
SAME_FIELD(CUlaunchAttributeValue, programmaticStreamSerializationAllowed)
SAME_FIELD(CUlaunchAttribute, id)
SAME_FIELD(CUlaunchAttribute, value)
SAME_FIELD(CUlaunchConfig, gridDimX)
SAME_FIELD(CUlaunchConfig, gridDimY)
SAME_FIELD(CUlaunchConfig, gridDimZ)
SAME_FIELD(CUlaunchConfig, blockDimX)
SAME_FIELD(CUlaunchConfig, blockDimY)
SAME_FIELD(CUlaunchConfig, blockDimZ)
SAME_FIELD(CUlaunchConfig, sharedMemBytes)
SAME_FIELD(CUlaunchConfig, hStream)
SAME_FIELD(CUlaunchConfig, attrs)
SAME_FIELD(CUlaunchConfig, numAttrs)
SAME_FIELD(CUtensorMap, opaque)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, func)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimX)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimY)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, gridDimZ)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimX)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimY)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, blockDimZ)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, kernelParams)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, extra)
SAME_FIELD(CUDA_KERNEL_NODE_PARAMS, ctx)
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, dst)
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, pitch)
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, value)
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, elementSize)
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, width)
SAME_FIELD(CUDA_MEMSET_NODE_PARAMS, height)
SAME_FIELD(CUDA_MEMCPY3D, srcXInBytes)
SAME_FIELD(CUDA_MEMCPY3D, srcMemoryType)
SAME_FIELD(CUDA_MEMCPY3D, srcHost)
SAME_FIELD(CUDA_MEMCPY3D, srcDevice)
SAME_FIELD(CUDA_MEMCPY3D, srcArray)
SAME_FIELD(CUDA_MEMCPY3D, reserved0)
SAME_FIELD(CUDA_MEMCPY3D, srcPitch)
SAME_FIELD(CUDA_MEMCPY3D, srcHeight)
SAME_FIELD(CUDA_MEMCPY3D, dstXInBytes)
SAME_FIELD(CUDA_MEMCPY3D, dstMemoryType)
SAME_FIELD(CUDA_MEMCPY3D, dstHost)
SAME_FIELD(CUDA_MEMCPY3D, dstDevice)
SAME_FIELD(CUDA_MEMCPY3D, dstArray)
SAME_FIELD(CUDA_MEMCPY3D, reserved1)
SAME_FIELD(CUDA_MEMCPY3D, dstPitch)
SAME_FIELD(CUDA_MEMCPY3D, dstHeight)
SAME_FIELD(CUDA_MEMCPY3D, WidthInBytes)
SAME_FIELD(CUDA_MEMCPY3D, Height)
SAME_FIELD(CUDA_MEMCPY3D, Depth)
SAME_FIELD(CUgraphEdgeData, from_port)
SAME_FIELD(CUgraphEdgeData, to_port)
SAME_FIELD(CUgraphEdgeData, type)

#if __has_include(<cupti.h>)
#include <cupti.h>

#define SAME_PLACE(type, field, theirs, their_field)                                       \
  static_assert(offsetof(tritorch::cupti::type, field) == offsetof(theirs, their_field) && \
                    sizeof(tritorch::cupti::type::field) == sizeof(theirs::their_field),   \
                #type "." #field " differs");
SAME_PLACE(Kernel, kind, CUpti_ActivityKernel9, kind)
SAME_PLACE(Kernel, registers, CUpti_ActivityKernel9, registersPerThread)
SAME_PLACE(Kernel, start, CUpti_ActivityKernel9, start)
SAME_PLACE(Kernel, end, CUpti_ActivityKernel9, end)
SAME_PLACE(Kernel, device, CUpti_ActivityKernel9, deviceId)
SAME_PLACE(Kernel, stream, CUpti_ActivityKernel9, streamId)
SAME_PLACE(Kernel, static_shared, CUpti_ActivityKernel9, staticSharedMemory)
SAME_PLACE(Kernel, dynamic_shared, CUpti_ActivityKernel9, dynamicSharedMemory)
SAME_PLACE(Kernel, correlation, CUpti_ActivityKernel9, correlationId)
SAME_PLACE(Kernel, name, CUpti_ActivityKernel9, name)
SAME_PLACE(Kernel, node, CUpti_ActivityKernel9, graphNodeId)
SAME_PLACE(Kernel, graph, CUpti_ActivityKernel9, graphId)
static_assert(offsetof(tritorch::cupti::Kernel, grid) == offsetof(CUpti_ActivityKernel9, gridX));
static_assert(offsetof(tritorch::cupti::Kernel, block) == offsetof(CUpti_ActivityKernel9, blockX));
SAME_PLACE(Transfer, bytes, CUpti_ActivityMemcpy6, bytes)
SAME_PLACE(Transfer, start, CUpti_ActivityMemcpy6, start)
SAME_PLACE(Transfer, end, CUpti_ActivityMemcpy6, end)
SAME_PLACE(Transfer, device, CUpti_ActivityMemcpy6, deviceId)
SAME_PLACE(Transfer, stream, CUpti_ActivityMemcpy6, streamId)
SAME_PLACE(Transfer, correlation, CUpti_ActivityMemcpy6, correlationId)
SAME_PLACE(Transfer, node, CUpti_ActivityMemcpy6, graphNodeId)
static_assert(offsetof(tritorch::cupti::Transfer, what) ==
              offsetof(CUpti_ActivityMemcpy6, copyKind));
SAME_PLACE(Transfer, bytes, CUpti_ActivityMemset4, bytes)
SAME_PLACE(Transfer, start, CUpti_ActivityMemset4, start)
SAME_PLACE(Transfer, end, CUpti_ActivityMemset4, end)
SAME_PLACE(Transfer, device, CUpti_ActivityMemset4, deviceId)
SAME_PLACE(Transfer, stream, CUpti_ActivityMemset4, streamId)
SAME_PLACE(Transfer, correlation, CUpti_ActivityMemset4, correlationId)
SAME_PLACE(Transfer, node, CUpti_ActivityMemset4, graphNodeId)
SAME_PLACE(External, number, CUpti_ActivityExternalCorrelation, externalId)
SAME_PLACE(External, correlation, CUpti_ActivityExternalCorrelation, correlationId)
static_assert(tritorch::cupti::kMemcpy == int{CUPTI_ACTIVITY_KIND_MEMCPY});
static_assert(tritorch::cupti::kMemset == int{CUPTI_ACTIVITY_KIND_MEMSET});
static_assert(tritorch::cupti::kDriverCall == int{CUPTI_ACTIVITY_KIND_DRIVER});
static_assert(tritorch::cupti::kKernel == int{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
static_assert(tritorch::cupti::kExternalCorrelation ==
              int{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION});
static_assert(tritorch::cupti::kOurs == int{CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0});
static_assert(tritorch::cupti::kNoMoreRecords == int{CUPTI_ERROR_MAX_LIMIT_REACHED});
static_assert(tritorch::cupti::kHostToDevice == int{CUPTI_ACTIVITY_MEMCPY_KIND_HTOD});
static_assert(tritorch::cupti::kDeviceToHost == int{CUPTI_ACTIVITY_MEMCPY_KIND_DTOH});
static_assert(tritorch::cupti::kFlushForced == unsigned{CUPTI_ACTIVITY_FLAG_FLUSH_FORCED});
#endif

// Signatures.  cuda.h names the current version of each function through a macro; where that is
// not the version that the table loads, this cannot compare, and says so.
template <class A, class B>
constexpr bool same_argument =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
    std::is_integral_v<A> == std::is_integral_v<B> && std::is_enum_v<A> == std::is_enum_v<B>;

template <bool comparable, class Ours, class Theirs>
struct Signature {
  static constexpr bool same = true;
};
template <class... Ours, class... Theirs>
struct Signature<true, tritorch::cu::CUresult (*)(Ours...), CUresult (*)(Theirs...)> {
  static constexpr bool same = [] {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs)) {
      return (same_argument<Ours, Theirs> && ... && true);
    } else {
      return false;
    }
  }();
};

#define TEXT_OF(text) #text
#define EXPANDED_TEXT_OF(name) TEXT_OF(name)
#define COMPARABLE(field, symbol) (std::string_view(EXPANDED_TEXT_OF(field)) == symbol)

namespace tritorch::cu {
#define SAME_SIGNATURE(field, symbol, params)                                             \
  static_assert(                                                                          \
      Signature<COMPARABLE(field, symbol), CUresult(*) params, decltype(&::field)>::same, \
      symbol " differs");
TRITORCH_DRIVER_FUNCTIONS(SAME_SIGNATURE, SAME_SIGNATURE)
}  // namespace tritorch::cu

TEST(agrees_with_cuda_h) {
  int compared = 0;
#define REPORT(field, symbol, params)                                     \
  if (COMPARABLE(field, symbol)) {                                        \
    ++compared;                                                           \
  } else {                                                                \
    std::printf("not compared: %s, as this cuda.h declares %s\n", symbol, \
                EXPANDED_TEXT_OF(field));                                 \
  }
  TRITORCH_DRIVER_FUNCTIONS(REPORT, REPORT)
  std::printf("cuda.h %d: %d signatures agree\n", CUDA_VERSION, compared);
  CHECK(compared > 60);
}
#else
TEST(agrees_with_cuda_h) { std::printf("no cuda.h at hand: nothing compared\n"); }
#endif

TEST(the_simulated_table_is_complete) {
  const tritorch::cu::Driver& table = tritorch::cu::simulated_driver();
  CHECK(table.simulated);
  // All fields after the flag are function pointers.
  constexpr std::size_t first = sizeof(void*);
  for (std::size_t at = first; at < sizeof table; at += sizeof(void*)) {
    void* function;
    std::memcpy(&function, reinterpret_cast<const char*>(&table) + at, sizeof function);
    CHECK(function != nullptr);
  }
}
