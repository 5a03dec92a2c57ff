// One table of CUPTI's activity API, and two ways to fill it: NVIDIA's library (cupti.cpp), which
// Triton's wheel and every toolkit bring, and the simulated device's (simulator/activities.cpp).
//
// Declared here without its headers.  A record of a newer library is longer; what we read of it has
// stood at the same places since CUDA 12.0, and abi_test compares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tritorch::cupti {

using Result = int;
constexpr Result kSuccess = 0, kNoMoreRecords = 12;

enum Kind : std::uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriverCall = 4,
  kKernel = 10,
  kExternalCorrelation = 39
};
// Whose numbers we give to calls: of a kind that is free for programs.
constexpr int kOurs = 3;
constexpr std::uint8_t kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 8;
constexpr std::uint32_t kFlushForced = 1;

struct Record {
  Kind kind;
};

struct Kernel {
  Kind kind;
  std::uint8_t caches[2];
  std::uint16_t registers;
  std::uint8_t partitions[8];
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared, dynamic_shared;
  std::uint32_t local, all_local, correlation;
  std::int64_t grid_id;
  const char* name;
  std::uint8_t launching[32];
  std::uint64_t node;  // of a graph; 0: launched alone
  std::uint32_t limits, graph;
};

// A copy; and a fill, whose value stands where the copy's kind does.
struct Transfer {
  Kind kind;
  std::uint32_t what;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream, correlation;
  std::uint8_t between[16];
  std::uint64_t node;
  std::uint32_t graph, more;
};

// Stands before the record of a call that was made under a number of ours.
struct External {
  Kind kind;
  std::uint32_t whose;
  std::uint64_t number;
  std::uint32_t correlation, unused;
};

using Requested = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
using Completed = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                           std::size_t size, std::size_t valid);

#define TRITORCH_CUPTI_FUNCTIONS(X)                                                               \
  X(cuptiGetTimestamp, (std::uint64_t*))                                                          \
  X(cuptiActivityRegisterCallbacks, (::tritorch::cupti::Requested, ::tritorch::cupti::Completed)) \
  X(cuptiActivityEnable, (::tritorch::cupti::Kind))                                               \
  X(cuptiActivityDisable, (::tritorch::cupti::Kind))                                              \
  X(cuptiActivityFlushAll, (std::uint32_t))                                                       \
  X(cuptiActivityGetNextRecord, (std::uint8_t*, std::size_t, ::tritorch::cupti::Record**))        \
  X(cuptiActivityPushExternalCorrelationId, (int, std::uint64_t))                                 \
  X(cuptiActivityPopExternalCorrelationId, (int, std::uint64_t*))

struct Library {
#define TRITORCH_FIELD(name, parameters) Result(*name) parameters = nullptr;
  TRITORCH_CUPTI_FUNCTIONS(TRITORCH_FIELD)
#undef TRITORCH_FIELD
};

// Opens a file.  False with the problem in words.
bool load_real_library(const std::string& path, Library& table, std::string& problem);
const Library& simulated_library();

}  // namespace tritorch::cupti
