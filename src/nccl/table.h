// One table of NCCL's entry points, and two ways to fill it: libnccl.so.2 (real.cpp), and
// communicators of the simulated device (simulated.cpp).  Declared here without NCCL's header.
#pragma once

#include <cstddef>
#include <string>

#include "driver/abi.h"

namespace tritorch::nccl {

struct Communicator;
using Comm = Communicator*;
struct UniqueId {
  char internal[128];
};

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
enum ReduceOp : int { kSum = 0, kProduct = 1, kMax = 2, kMin = 3, kAverage = 4 };
enum DataType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};

// ncclConfig_t as of 2.18: newer libraries take it for what its version says.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking;
  int cgaClusterSize, minCTAs, maxCTAs;
  const char* netName = nullptr;
  int splitShare;
};
inline constexpr int kUndefined = -2147483647 - 1;
inline constexpr int kNoColor = -1;

// X(field and symbol, parameter types).  OPTIONAL ones may be null, and their callers check.
#define TRITORCH_NCCL_FUNCTIONS(REQUIRED, OPTIONAL)                                             \
  REQUIRED(ncclGetVersion, (int*))                                                              \
  REQUIRED(ncclGetUniqueId, (UniqueId*))                                                        \
  REQUIRED(ncclCommInitRank, (Comm*, int, UniqueId, int))                                       \
  OPTIONAL(ncclCommInitRankConfig, (Comm*, int, UniqueId, int, Config*))                        \
  OPTIONAL(ncclCommSplit, (Comm, int, int, Comm*, Config*))                                     \
  OPTIONAL(ncclCommFinalize, (Comm))                                                            \
  REQUIRED(ncclCommDestroy, (Comm))                                                             \
  REQUIRED(ncclCommAbort, (Comm))                                                               \
  REQUIRED(ncclCommGetAsyncError, (Comm, Result*))                                              \
  REQUIRED(ncclCommCount, (Comm, int*))                                                         \
  REQUIRED(ncclCommCuDevice, (Comm, int*))                                                      \
  REQUIRED(ncclCommUserRank, (Comm, int*))                                                      \
  REQUIRED(ncclAllReduce,                                                                       \
           (const void*, void*, std::size_t, DataType, ReduceOp, Comm, cu::CUstream))           \
  REQUIRED(ncclReduce,                                                                          \
           (const void*, void*, std::size_t, DataType, ReduceOp, int, Comm, cu::CUstream))      \
  REQUIRED(ncclBroadcast, (const void*, void*, std::size_t, DataType, int, Comm, cu::CUstream)) \
  REQUIRED(ncclAllGather, (const void*, void*, std::size_t, DataType, Comm, cu::CUstream))      \
  REQUIRED(ncclReduceScatter,                                                                   \
           (const void*, void*, std::size_t, DataType, ReduceOp, Comm, cu::CUstream))           \
  REQUIRED(ncclSend, (const void*, std::size_t, DataType, int, Comm, cu::CUstream))             \
  REQUIRED(ncclRecv, (void*, std::size_t, DataType, int, Comm, cu::CUstream))                   \
  REQUIRED(ncclGroupStart, ())                                                                  \
  REQUIRED(ncclGroupEnd, ())

struct Library {
#define TRITORCH_FIELD(name, parameters) Result(*name) parameters = nullptr;
  TRITORCH_NCCL_FUNCTIONS(TRITORCH_FIELD, TRITORCH_FIELD)
#undef TRITORCH_FIELD
  const char* (*ncclGetErrorString)(Result) = nullptr;
  const char* (*ncclGetLastError)(Comm) = nullptr;
};

// Opens a file, or libnccl.so.2 if the path is empty.  False with the problem in words.
bool load_real_library(const std::string& path, Library& table, std::string& problem);
const Library& simulated_library();

}  // namespace tritorch::nccl
