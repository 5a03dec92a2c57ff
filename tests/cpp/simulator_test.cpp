// The simulated device: what it refuses, what it delays, and that it finds missing synchronisation.
#include "simulator/simulator.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "driver/error.h"
#include "driver/table.h"
#include "simulator/blocks.h"

using namespace tritorch;
using namespace tritorch::cu;
namespace sim = tritorch::cu::simulator;

namespace {

const Driver& d = simulated_driver();

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)
#define FAILS(call, code) CHECK_EQ(call, CUDA_ERROR_##code)

// A fresh world with device 0 current on this thread.
void start(SimulatorOptions options = {}) {
  sim::reset(options);
  OK(d.cuInit(0));
  CUcontext context;
  OK(d.cuDevicePrimaryCtxRetain(&context, 0));
  OK(d.cuCtxSetCurrent(context));
}
void start_seed(std::uint64_t seed) {
  SimulatorOptions options;
  options.seed = seed;
  start(options);
}

CUdeviceptr alloc(std::size_t size) {
  CUdeviceptr p = 0;
  OK(d.cuMemAlloc(&p, size));
  return p;
}
CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream s;
  OK(d.cuStreamCreateWithPriority(&s, flags, 0));
  return s;
}
CUevent event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
  CUevent e;
  OK(d.cuEventCreate(&e, flags));
  return e;
}
// Reads without synchronising more than one fresh stream.
int read(CUdeviceptr p) {
  int value = 0;
  CUstream s = stream();
  OK(d.cuMemcpyDtoHAsync(&value, p, sizeof value, s));
  OK(d.cuStreamDestroy(s));
  return value;
}
void set(CUdeviceptr p, int value, CUstream s) {
  OK(d.cuMemsetD32Async(p, static_cast<unsigned>(value), 1, s));
}
void copy(CUdeviceptr to, CUdeviceptr from, CUstream s) {
  OK(d.cuMemcpyDtoDAsync(to, from, sizeof(int), s));
}
struct Pinned {
  int* p = nullptr;
  explicit Pinned(std::size_t count = 1) {
    OK(d.cuMemHostAlloc(reinterpret_cast<void**>(&p), count * sizeof(int), 0));
  }
};

CUlaunchConfig config(CUstream s, unsigned grid = 1) {
  CUlaunchConfig c{};
  c.gridDimX = grid;
  c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
  c.hStream = s;
  return c;
}

// A kernel: *out = *in + add.
CUresult add_body(void*, const sim::Launch& launch, std::string& error) {
  const auto& params = *launch.params;
  CUdeviceptr out, in;
  int add;
  std::memcpy(&out, params[0], sizeof out);
  std::memcpy(&in, params[1], sizeof in);
  std::memcpy(&add, params[2], sizeof add);
  if (!sim::accessible(out, 4) || !sim::accessible(in, 4)) {
    error = "out of bounds";
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  *reinterpret_cast<int*>(out) = *reinterpret_cast<int*>(in) + add;
  return CUDA_SUCCESS;
}
std::atomic<int> destroyed{0};
CUfunction make_add() {
  return sim::make_function("add", {8, 8, 4}, add_body, nullptr, [](void*) { ++destroyed; });
}
CUresult launch_add(CUfunction f, CUdeviceptr out, CUdeviceptr in, int add, CUstream s) {
  void* params[] = {&out, &in, &add};
  const CUlaunchConfig c = config(s);
  return d.cuLaunchKernelEx(&c, f, params, nullptr);
}

CUstreamCaptureStatus capture_status(CUstream s) {
  CUstreamCaptureStatus status;
  OK(d.cuStreamGetCaptureInfo(s, &status, nullptr, nullptr, nullptr, nullptr));
  return status;
}
// Sets the thread's capture mode for a scope.
struct Mode {
  CUstreamCaptureMode mode;
  explicit Mode(CUstreamCaptureMode wanted) : mode(wanted) {
    OK(d.cuThreadExchangeStreamCaptureMode(&mode));
  }
  ~Mode() { (void)d.cuThreadExchangeStreamCaptureMode(&mode); }
};

constexpr int kNewPoison = static_cast<int>(0xCBCBCBCB);
constexpr int kFreedPoison = static_cast<int>(0xDBDBDBDB);
constexpr std::size_t kMiB = std::size_t{1} << 20, kGiB = std::size_t{1} << 30;

}  // namespace

// ---- Options, initialisation, devices

TEST(needs_init_and_a_context) {  // the first test: no later one can see the driver before cuInit
  int count = 0, version = 0;
  CHECK_EQ(d.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  OK(d.cuDriverGetVersion(&version));
  CHECK_EQ(version, 12080);
  OK(d.cuInit(0));
  OK(d.cuDeviceGetCount(&count));
  CHECK_EQ(count, 1);
  CUdeviceptr p;
  CUstream s;
  FAILS(d.cuMemAlloc(&p, 4), INVALID_CONTEXT);
  FAILS(d.cuStreamCreateWithPriority(&s, 0, 0), INVALID_CONTEXT);
  FAILS(d.cuStreamSynchronize(nullptr), INVALID_CONTEXT);
  start();
  CUresult elsewhere = CUDA_SUCCESS;
  std::thread other([&] { elsewhere = d.cuCtxSynchronize(); });
  other.join();
  CHECK_EQ(elsewhere, CUDA_ERROR_INVALID_CONTEXT);
}

TEST(parses_options) {
  CHECK_EQ(parse_simulator_options("1").memory, 16 * kGiB);
  const SimulatorOptions o =
      parse_simulator_options("seed=7,memory=2G,devices=3,poison=0,virtual_memory=0,fail_alloc=5");
  CHECK_EQ(o.seed, 7);
  CHECK_EQ(o.memory, 2 * kGiB);
  CHECK_EQ(o.devices, 3);
  CHECK(!o.poison && !o.virtual_memory && !o.discard_launches);
  CHECK_EQ(o.fail_alloc, 5);
  for (const char* bad :
       {"seed", "memory=2T", "memory=0", "devices=0", "devices=99", "poison=2", "sed=1", "seed=-1",
        "seed=99999999999999999999999", "memory=99999999999G"})
    CHECK_THROWS_WITH(parse_simulator_options(bad), std::invalid_argument, "memory=SIZE");
}

TEST(describes_devices) {
  SimulatorOptions options;
  options.devices = 2;
  options.memory = 3 * kGiB;
  start(options);
  int value;
  char name[64];
  std::size_t total;
  OK(d.cuDeviceGetName(name, sizeof name, 1));
  CHECK_EQ(std::string(name), "tritorch simulated device 1");
  OK(d.cuDeviceTotalMem(&total, 1));
  CHECK_EQ(total, 3 * kGiB);
  OK(d.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  CHECK_EQ(value, 9);
  OK(d.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  CHECK_EQ(value, 227 << 10);
  CUuuid a, b;
  OK(d.cuDeviceGetUuid(&a, 0));
  OK(d.cuDeviceGetUuid(&b, 1));
  CHECK(std::memcmp(&a, &b, sizeof a) != 0);
  CUdevice device;
  FAILS(d.cuDeviceGet(&device, 2), INVALID_DEVICE);
  OK(d.cuDeviceCanAccessPeer(&value, 0, 1));
  CHECK_EQ(value, 1);
  CUcontext other;
  OK(d.cuDevicePrimaryCtxRetain(&other, 1));
  OK(d.cuCtxEnablePeerAccess(other, 0));
  FAILS(d.cuCtxEnablePeerAccess(other, 0), PEER_ACCESS_ALREADY_ENABLED);
  const char* text;
  OK(d.cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
  CHECK_EQ(std::string(text), "CUDA_ERROR_NOT_READY");
}

TEST(options_can_change_and_add_devices) {
  start();
  const CUdeviceptr p = alloc(4);
  SimulatorOptions options;
  options.devices = 2;
  options.memory = kMiB;
  sim::set_options(options);
  int count;
  OK(d.cuDeviceGetCount(&count));
  CHECK_EQ(count, 2);
  CUdeviceptr q;
  FAILS(d.cuMemAlloc(&q, kMiB), OUT_OF_MEMORY);
  OK(d.cuMemFree(p));
  OK(d.cuMemAlloc(&q, kMiB));
  sim::set_options({});
  OK(d.cuDeviceGetCount(&count));
  CHECK_EQ(count, 2);
}

// ---- Memory

TEST(allocates_and_accounts) {
  SimulatorOptions options;
  options.memory = 10 * kGiB;
  start(options);
  const CUdeviceptr big = alloc(8 * kGiB);  // lazily
  CHECK_EQ(big % 512, 0);
  std::size_t free_bytes, total;
  OK(d.cuMemGetInfo(&free_bytes, &total));
  CHECK_EQ(free_bytes, 2 * kGiB);
  CHECK_EQ(total, 10 * kGiB);
  CUdeviceptr p;
  FAILS(d.cuMemAlloc(&p, 2 * kGiB + 1), OUT_OF_MEMORY);
  FAILS(d.cuMemAlloc(&p, SIZE_MAX), OUT_OF_MEMORY);
  FAILS(d.cuMemAlloc(&p, 0), INVALID_VALUE);
  set(big + 5 * kGiB, 42, nullptr);  // offsets past 2^32
  int value = 0;
  OK(d.cuMemcpyDtoHAsync(&value, big + 5 * kGiB, 4, nullptr));
  CHECK_EQ(value, 42);
  CHECK_EQ(sim::counters(0).live_bytes, 8 * kGiB);
  OK(d.cuMemFree(big));
  CHECK_EQ(sim::counters(0).live_bytes, 0);
  CHECK_EQ(sim::counters(0).live_allocations, 0);
  FAILS(d.cuMemFree(big), INVALID_VALUE);
  FAILS(d.cuMemFree(big + 4), INVALID_VALUE);
  OK(d.cuMemFree(0));
}

TEST(poisons_new_and_freed_memory) {
  start();
  const CUdeviceptr p = alloc(100);
  CHECK_EQ(read(p), kNewPoison);
  set(p, 1, nullptr);
  OK(d.cuMemFree(p));
  CHECK_EQ(*reinterpret_cast<int*>(p), kFreedPoison);  // stale, but no segfault
  CHECK(!sim::accessible(p, 4));
  const std::size_t large = 100 * kMiB;
  const CUdeviceptr q = alloc(large);
  CHECK_EQ(read(q), kNewPoison);
  CHECK_EQ(read(q + large - 4), kNewPoison);
  OK(d.cuMemFree(q));
  CHECK_EQ(*reinterpret_cast<int*>(q), kFreedPoison);
  for (int i = 0; i < 2000; ++i) OK(d.cuMemFree(alloc(kMiB)));  // the quarantine is bounded
}

TEST(knows_what_is_accessible) {
  start();
  const CUdeviceptr p = alloc(1000), q = alloc(1000);
  CHECK(sim::accessible(p, 1000));
  CHECK(sim::accessible(p + 999, 1));
  CHECK(sim::accessible(p + 5000000, 0));
  CHECK(!sim::accessible(p, 1001));
  CHECK(!sim::accessible(p + 1000, 1));
  CHECK(!sim::accessible(p - 1, 1));
  CHECK(!sim::accessible(p + 4, SIZE_MAX));
  auto at = [](CUdeviceptr address) { return static_cast<std::int64_t>(address); };
  const std::int64_t addresses[] = {at(p), at(p + 996), at(q), at(p + 997), at(q + 5000)};
  const bool all[] = {true, true, true, true, true}, some[] = {true, true, true, false, false};
  CHECK_EQ(sim::first_inaccessible(addresses, all, 5, 4), 3);
  CHECK_EQ(sim::first_inaccessible(addresses, some, 5, 4), -1);
  CHECK_EQ(sim::first_inaccessible(addresses, nullptr, 0, 4), -1);
  const std::int32_t stored[] = {7, 8, 9, 0, 0};
  CHECK_EQ(sim::store(addresses, all, 5, 4, stored), 3);
  CHECK_EQ(sim::store(addresses, some, 5, 4, stored), -1);
  std::int32_t loaded[] = {0, 0, 0, 5, 5};
  CHECK_EQ(sim::load(addresses, some, 5, 4, loaded), -1);
  CHECK_EQ(loaded[0] + loaded[1] + loaded[2] + loaded[3], 29);
}

TEST(maps_virtual_memory) {
  SimulatorOptions options;
  options.memory = 64 * kMiB;
  start(options);
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  std::size_t unit = 0;
  OK(d.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK_EQ(unit, 2 * kMiB);
  CUdeviceptr base;
  FAILS(d.cuMemAddressReserve(&base, unit + 1, 0, 0, 0), INVALID_VALUE);
  FAILS(d.cuMemAddressReserve(&base, unit, 3 * unit, 0, 0), INVALID_VALUE);
  OK(d.cuMemAddressReserve(&base, 64 * kGiB, 4 * unit, 0, 0));
  CHECK_EQ(base % (4 * unit), 0);
  CUmemGenericAllocationHandle a, b, c;
  FAILS(d.cuMemCreate(&a, unit + 4096, &prop, 0), INVALID_VALUE);
  OK(d.cuMemCreate(&a, unit, &prop, 0));
  OK(d.cuMemCreate(&b, unit, &prop, 0));
  FAILS(d.cuMemCreate(&c, 64 * kMiB, &prop, 0), OUT_OF_MEMORY);
  OK(d.cuMemMap(base, unit, 0, a, 0));
  FAILS(d.cuMemMap(base, unit, 0, b, 0), INVALID_VALUE);  // taken
  FAILS(d.cuMemMap(base + 1, unit, 0, b, 0), INVALID_VALUE);
  FAILS(d.cuMemMap(base + 64 * kGiB, unit, 0, b, 0), INVALID_VALUE);  // not reserved
  OK(d.cuMemMap(base + unit, unit, 0, b, 0));
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(!sim::accessible(base, 1));
  FAILS(d.cuMemSetAccess(base, 3 * unit, &access, 1), INVALID_VALUE);
  OK(d.cuMemSetAccess(base, unit, &access, 1));
  CHECK(sim::accessible(base, unit));
  CHECK(!sim::accessible(base, unit + 1));
  OK(d.cuMemSetAccess(base, 2 * unit, &access, 1));
  CHECK(sim::accessible(base + 1, 2 * unit - 1));  // neighbouring mappings are one
  CHECK_EQ(read(base), kNewPoison);
  const std::int64_t across[] = {static_cast<std::int64_t>(base + unit - 2),
                                 static_cast<std::int64_t>(base + 2 * unit - 2)};
  const bool mask[] = {true, true};
  CHECK_EQ(sim::first_inaccessible(across, mask, 2, 4), 1);
  set(base + unit, 5, nullptr);
  OK(d.cuCtxSynchronize());
  FAILS(d.cuMemAddressFree(base, 64 * kGiB), INVALID_VALUE);  // still mapped
  FAILS(d.cuMemUnmap(base, 4096), INVALID_VALUE);
  OK(d.cuMemUnmap(base, 2 * unit));
  CHECK(!sim::accessible(base, 1));
  OK(d.cuMemMap(base + 8 * unit, unit, 0, b, 0));  // physical memory keeps its contents
  OK(d.cuMemRelease(b));                           // and lives while it is mapped
  FAILS(d.cuMemRelease(b), INVALID_VALUE);
  OK(d.cuMemSetAccess(base + 8 * unit, unit, &access, 1));
  CHECK_EQ(read(base + 8 * unit), 5);
  CHECK_EQ(sim::counters(0).live_bytes, 2 * unit);
  OK(d.cuMemUnmap(base + 8 * unit, unit));
  CHECK_EQ(sim::counters(0).live_bytes, unit);
  OK(d.cuMemRelease(a));
  CHECK_EQ(sim::counters(0).live_bytes, 0);
  OK(d.cuMemAddressFree(base, 64 * kGiB));
  options.virtual_memory = false;
  sim::set_options(options);
  FAILS(d.cuMemCreate(&a, unit, &prop, 0), NOT_SUPPORTED);
}

TEST(many_mappings_need_few_files) {
  start();
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  SimulatorOptions options;
  options.poison = false;
  sim::set_options(options);
  CUdeviceptr base;
  const std::size_t unit = 2 * kMiB, count = 3000;
  OK(d.cuMemAddressReserve(&base, count * unit, 0, 0, 0));
  for (std::size_t i = 0; i < count; ++i) {
    CUmemGenericAllocationHandle handle;
    OK(d.cuMemCreate(&handle, unit, &prop, 0));
    OK(d.cuMemMap(base + i * unit, unit, 0, handle, 0));
    OK(d.cuMemRelease(handle));
  }
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(d.cuMemSetAccess(base, count * unit, &access, 1));
  CHECK(sim::accessible(base, count * unit));
  OK(d.cuMemUnmap(base, count * unit));
  OK(d.cuMemAddressFree(base, count * unit));
}

TEST(physical_memory_goes_by_a_file) {
  start();
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const std::size_t unit = 2 * kMiB;
  const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr base;
  CUmemGenericAllocationHandle first, own, retained, imported;
  OK(d.cuMemAddressReserve(&base, 3 * unit, 0, 0, 0));
  OK(d.cuMemCreate(&first, unit, &prop, 0));
  OK(d.cuMemCreate(&own, unit, &prop, 0));  // not the first of the simulator's file
  OK(d.cuMemMap(base, unit, 0, own, 0));
  OK(d.cuMemSetAccess(base, unit, &access, 1));
  OK(d.cuMemRelease(own));
  FAILS(d.cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(base + unit)),
        INVALID_VALUE);
  OK(d.cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(base + 5)));
  int file = -1;
  OK(d.cuMemExportToShareableHandle(&file, retained, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  OK(d.cuMemRelease(retained));
  set(base, 7, nullptr);
  OK(d.cuCtxSynchronize());
  OK(d.cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(std::intptr_t{file}),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  OK(d.cuMemMap(base + unit, unit, 0, imported, 0));
  OK(d.cuMemRelease(imported));
  OK(d.cuMemSetAccess(base + unit, unit, &access, 1));
  CHECK_EQ(read(base + unit), 7);
  set(base + unit, 8, nullptr);
  OK(d.cuCtxSynchronize());
  CHECK_EQ(read(base), 8);
  CHECK_EQ(sim::counters(0).live_bytes, 2 * unit);  // what is imported is another's
  OK(d.cuMemUnmap(base, unit));
  CHECK_EQ(read(base + unit), 8);  // it lives as long as it is mapped anywhere
  OK(d.cuMemUnmap(base + unit, unit));
  OK(d.cuMemRelease(first));
  CHECK_EQ(sim::counters(0).live_bytes, 0);
  OK(d.cuMemAddressFree(base, 3 * unit));
}

TEST(other_processes_open_allocations_and_events) {
  start();
  const CUdeviceptr p = alloc(1000);
  set(p, 7, nullptr);
  CUipcMemHandle handle, again;
  FAILS(d.cuIpcGetMemHandle(&handle, p + 1), INVALID_VALUE);
  OK(d.cuIpcGetMemHandle(&handle, p));
  CHECK_EQ(read(p), 7);  // what was queued is done before the memory moves
  OK(d.cuIpcGetMemHandle(&again, p));
  CHECK(std::memcmp(&handle, &again, sizeof handle) == 0);
  CUdeviceptr mine = 0;
  FAILS(d.cuIpcOpenMemHandle(&mine, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), INVALID_CONTEXT);
  CUipcEventHandle event_handle;
  FAILS(d.cuIpcGetEventHandle(&event_handle, event()), INVALID_VALUE);
  const CUevent shared = event(CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
  OK(d.cuIpcGetEventHandle(&event_handle, shared));
  set(p + 4, 6, nullptr);
  OK(d.cuEventRecord(shared, nullptr));
  CHECK_EQ(read(p + 4), 6);  // others cannot make this process work
  const pid_t child = fork();
  if (child == 0) {
    start();
    CUevent theirs;
    bool good = d.cuIpcOpenMemHandle(&mine, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == 0 &&
                read(mine) == 7 && d.cuIpcOpenEventHandle(&theirs, event_handle) == 0 &&
                d.cuStreamWaitEvent(nullptr, theirs, 0) == 0 && d.cuEventQuery(theirs) == 0;
    set(mine + 8, 5, nullptr);
    good &= d.cuCtxSynchronize() == 0 && d.cuMemFree(mine) == CUDA_ERROR_INVALID_VALUE &&
            d.cuIpcCloseMemHandle(mine) == 0 && !sim::accessible(mine, 1);
    _exit(good ? 0 : 1);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
  CHECK_EQ(read(p + 8), 5);
  OK(d.cuMemFree(p));
}

TEST(knows_pointers) {
  start();
  const CUdeviceptr p = alloc(8);
  unsigned type = 0;
  int ordinal = -1;
  OK(d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 4));
  CHECK_EQ(type, unsigned(CU_MEMORYTYPE_DEVICE));
  OK(d.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
  CHECK_EQ(ordinal, 0);
  Pinned pinned;
  const auto host = reinterpret_cast<CUdeviceptr>(pinned.p);
  OK(d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host));
  CHECK_EQ(type, unsigned(CU_MEMORYTYPE_HOST));
  int local = 0;
  const auto pageable = reinterpret_cast<CUdeviceptr>(&local);
  FAILS(d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pageable), INVALID_VALUE);
  OK(d.cuMemHostRegister(&local, sizeof local, 0));
  FAILS(d.cuMemHostRegister(&local, sizeof local, 0), INVALID_VALUE);
  OK(d.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pageable));
  OK(d.cuMemHostUnregister(&local));
  FAILS(d.cuMemFreeHost(&local), INVALID_VALUE);
  OK(d.cuMemFreeHost(pinned.p));
}

// ---- Order

// Producer on one stream, consumer on another; returns what the consumer saw.
static int produce_and_consume(std::uint64_t seed, bool with_wait) {
  start_seed(seed);
  const CUdeviceptr x = alloc(4), y = alloc(4);
  CUstream a = stream(), b = stream();
  CUevent e = event();
  set(x, 7, a);
  OK(d.cuEventRecord(e, a));
  if (with_wait) OK(d.cuStreamWaitEvent(b, e, 0));
  copy(y, x, b);
  int value = 0;
  OK(d.cuMemcpyDtoHAsync(&value, y, 4, b));
  return value;
}

// A reader on one stream, and a writer that must come after it; returns what the reader saw.
static int read_then_overwrite(std::uint64_t seed, bool with_wait) {
  start_seed(seed);
  const CUdeviceptr x = alloc(4), y = alloc(4);
  CUstream a = stream(), b = stream();
  CUevent e = event();
  set(x, 7, a);
  OK(d.cuStreamSynchronize(a));
  copy(y, x, a);
  OK(d.cuEventRecord(e, a));
  if (with_wait) OK(d.cuStreamWaitEvent(b, e, 0));
  set(x, 8, b);
  OK(d.cuStreamSynchronize(a));
  return read(y);
}

TEST(finds_a_missing_wait_and_accepts_a_right_one) {
  auto wrong = [](auto program) {
    int count = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) count += program(seed, false) != 7;
    return count;
  };
  CHECK(wrong(produce_and_consume) > 0);
  CHECK(wrong(read_then_overwrite) > 0);
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    CHECK_EQ(produce_and_consume(seed, true), 7);
    CHECK_EQ(read_then_overwrite(seed, true), 7);
  }
}

TEST(both_late_and_early_orders_occur) {
  bool early = false, late = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const int value = read_then_overwrite(seed, false);
    early |= value == 8;
    late |= value == 7;
  }
  CHECK(early && late);
}

TEST(a_seed_gives_one_order) {
  auto order = [](std::uint64_t seed) {
    start_seed(seed);
    const CUdeviceptr log = alloc(4);
    std::vector<int> seen;
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 8; ++i) set(log, i, stream());
      OK(d.cuCtxSynchronize());
      seen.push_back(read(log));
    }
    return seen;
  };
  CHECK(order(3) == order(3));
  CHECK(order(4) == order(4));
  bool differ = false;
  for (std::uint64_t seed = 0; seed < 10; ++seed) differ |= order(seed) != order(seed + 1);
  CHECK(differ);
}

TEST(nothing_runs_when_queued_but_a_long_queue_does) {
  start();
  Pinned out;
  *out.p = 0;
  const CUdeviceptr x = alloc(4);
  CUstream s = stream();
  set(x, 3, s);
  OK(d.cuMemcpyDtoHAsync(out.p, x, 4, s));
  CHECK_EQ(*out.p, 0);
  for (int i = 0; i < 5000; ++i) set(x, i, s);
  CHECK_EQ(*out.p, 3);
}

TEST(an_event_is_its_last_record_and_a_wait_is_a_snapshot) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    start_seed(seed);
    const CUdeviceptr x = alloc(4), y = alloc(4);
    CUstream a = stream(), b = stream();
    CUevent e = event();
    OK(d.cuStreamWaitEvent(b, e, 0));  // never recorded: no wait
    OK(d.cuEventSynchronize(e));
    OK(d.cuEventQuery(e));
    set(x, 1, a);
    OK(d.cuEventRecord(e, a));
    OK(d.cuStreamWaitEvent(b, e, 0));
    copy(y, x, b);
    OK(d.cuEventRecord(e, b));  // the wait above still means the first record
    OK(d.cuEventSynchronize(e));
    OK(d.cuEventDestroy(e));
    FAILS(d.cuEventQuery(e), INVALID_HANDLE);
    CHECK_EQ(read(y), 1);
  }
}

TEST(waits_are_transitive_and_survive_destroyed_streams_and_events) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    start_seed(seed);
    const CUdeviceptr x = alloc(4);
    set(x, 0, nullptr);
    OK(d.cuCtxSynchronize());
    CUstream last = nullptr;
    const CUfunction f = make_add();
    for (int i = 0; i < 10; ++i) {
      CUstream next = stream();
      if (last) {
        CUevent e = event();
        OK(d.cuEventRecord(e, last));
        OK(d.cuStreamWaitEvent(next, e, 0));
        OK(d.cuEventDestroy(e));
        OK(d.cuStreamDestroy(last));
      }
      OK(launch_add(f, x, x, 1, next));
      last = next;
    }
    OK(d.cuStreamSynchronize(last));
    CHECK_EQ(*reinterpret_cast<int*>(x), 10);
    sim::free_function(f);
  }
}

TEST(a_destroyed_stream_still_runs) {
  start();
  const CUdeviceptr x = alloc(4);
  CUstream s = stream();
  set(x, 9, s);
  OK(d.cuStreamDestroy(s));
  FAILS(d.cuStreamSynchronize(s), INVALID_HANDLE);
  FAILS(d.cuStreamDestroy(s), INVALID_HANDLE);
  CHECK_EQ(sim::counters(0).live_streams, 0);
  OK(d.cuCtxSynchronize());
  CHECK_EQ(read(x), 9);
}

TEST(the_legacy_stream_orders_blocking_streams_only) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (CUstream legacy : {CUstream(nullptr), reinterpret_cast<CUstream>(1)}) {
      start_seed(seed);
      const CUdeviceptr x = alloc(4), y = alloc(4), z = alloc(4);
      CUstream a = stream(CU_STREAM_DEFAULT), b = stream(CU_STREAM_DEFAULT), c = stream();
      set(x, 1, a);
      copy(y, x, legacy);  // after a
      copy(z, y, b);       // after the legacy stream
      OK(d.cuStreamSynchronize(b));
      CHECK_EQ(*reinterpret_cast<int*>(z), 1);
      set(x, 2, a);
      copy(z, x, reinterpret_cast<CUstream>(2));  // blocking, but no order with a
      set(y, 3, legacy);
      copy(z, y, c);
      OK(d.cuStreamSynchronize(c));
      wrong += *reinterpret_cast<int*>(z) != 3;
    }
  }
  CHECK(wrong > 0);
}

TEST(events_need_a_current_context) {
  start();
  const CUevent a = event(0), b = event(0);
  OK(d.cuEventRecord(a, nullptr));
  OK(d.cuEventRecord(b, nullptr));
  OK(d.cuCtxSynchronize());
  std::vector<CUresult> got;
  std::thread([&] {
    float ms;
    got = {d.cuEventRecord(a, nullptr), d.cuEventQuery(a), d.cuEventSynchronize(a),
           d.cuEventElapsedTime(&ms, a, b), d.cuEventDestroy(a)};
  }).join();
  for (const CUresult code : got) CHECK_EQ(code, CUDA_ERROR_INVALID_CONTEXT);
}

TEST(polling_makes_progress) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    start_seed(seed);
    const CUdeviceptr x = alloc(4);
    CUstream s = stream();
    CUevent e = event();
    for (int i = 0; i < 10; ++i) set(x, i, s);
    OK(d.cuEventRecord(e, s));
    int polls = 0;
    for (CUresult r; (r = d.cuEventQuery(e)) != CUDA_SUCCESS; ++polls) {
      CHECK_EQ(r, CUDA_ERROR_NOT_READY);
      CHECK(polls < 10000);
    }
    set(x, 1, s);
    for (CUresult r; (r = d.cuStreamQuery(s)) != CUDA_SUCCESS; ++polls) {
      CHECK_EQ(r, CUDA_ERROR_NOT_READY);
      CHECK(polls < 10000);
    }
    CHECK_EQ(*reinterpret_cast<int*>(x), 1);
  }
}

TEST(measures_time_between_records) {
  start();
  CUevent a = event(0), b = event(0), never = event(0), untimed = event();
  CUstream s = stream();
  float ms = -1;
  FAILS(d.cuEventElapsedTime(&ms, a, b), INVALID_HANDLE);
  OK(d.cuEventRecord(a, s));
  OK(d.cuLaunchHostFunc(
      s, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr));
  OK(d.cuEventRecord(b, s));
  OK(d.cuEventRecord(untimed, s));
  FAILS(d.cuEventElapsedTime(&ms, a, b), NOT_READY);
  OK(d.cuStreamSynchronize(s));
  OK(d.cuEventElapsedTime(&ms, a, b));
  CHECK(ms >= 4.9f && ms < 5000);
  FAILS(d.cuEventElapsedTime(&ms, a, never), INVALID_HANDLE);
  FAILS(d.cuEventElapsedTime(&ms, a, untimed), INVALID_HANDLE);
}

// ---- Copies

TEST(pageable_sources_are_staged_and_pinned_ones_read_late) {
  start();
  const CUdeviceptr x = alloc(4), y = alloc(4);
  CUstream s = stream();
  int pageable = 1;
  Pinned pinned;
  *pinned.p = 1;
  OK(d.cuMemcpyHtoDAsync(x, &pageable, 4, s));
  OK(d.cuMemcpyHtoDAsync(y, pinned.p, 4, s));
  pageable = *pinned.p = 2;
  OK(d.cuStreamSynchronize(s));
  CHECK_EQ(read(x), 1);
  CHECK_EQ(read(y), 2);  // the program changed it too early
  OK(d.cuMemHostRegister(&pageable, sizeof pageable, 0));
  OK(d.cuMemcpyHtoDAsync(x, &pageable, 4, s));
  pageable = 3;
  OK(d.cuStreamSynchronize(s));
  CHECK_EQ(read(x), 3);
  OK(d.cuMemcpyHtoDAsync(x, &pageable, 4, s));
  OK(d.cuMemHostUnregister(&pageable));  // waits
  pageable = 4;
  CHECK_EQ(read(x), 3);
}

TEST(pageable_destinations_are_complete_and_pinned_ones_late) {
  start();
  const CUdeviceptr x = alloc(4);
  CUstream s = stream();
  set(x, 5, s);
  Pinned pinned;
  *pinned.p = 0;
  OK(d.cuMemcpyDtoHAsync(pinned.p, x, 4, s));
  CHECK_EQ(*pinned.p, 0);
  int pageable = 0;
  OK(d.cuMemcpyDtoHAsync(&pageable, x, 4, s));
  CHECK_EQ(pageable, 5);
  CHECK_EQ(*pinned.p, 5);
  FAILS(d.cuMemcpyDtoHAsync(reinterpret_cast<void*>(x), x, 4, s), INVALID_VALUE);
}

TEST(sets_memory_in_three_widths) {
  start();
  const CUdeviceptr x = alloc(64);
  CUstream s = stream();
  OK(d.cuMemsetD8Async(x, 1, 64, s));
  OK(d.cuMemsetD16Async(x + 2, 0x203, 3, s));
  OK(d.cuMemsetD32Async(x + 8, 0x4050607, 2, s));
  FAILS(d.cuMemsetD32Async(x + 2, 0, 1, s), INVALID_VALUE);
  unsigned char got[20];
  OK(d.cuMemcpyDtoHAsync(got, x, sizeof got, s));
  const unsigned char want[20] = {1, 1, 3, 2, 3, 2, 3, 2, 7, 6, 5, 4, 7, 6, 5, 4, 1, 1, 1, 1};
  CHECK(std::memcmp(got, want, sizeof got) == 0);
  CHECK_EQ(sim::counters(0).memsets, 3);
  CHECK_EQ(sim::counters(0).copies, 1);
}

TEST(copies_between_devices) {
  SimulatorOptions options;
  options.devices = 2;
  start(options);
  CUcontext zero, one;
  OK(d.cuDevicePrimaryCtxRetain(&zero, 0));
  OK(d.cuDevicePrimaryCtxRetain(&one, 1));
  const CUdeviceptr x = alloc(4);
  CUstream s = stream();
  CUevent e = event();
  set(x, 6, s);
  OK(d.cuEventRecord(e, s));
  OK(d.cuCtxSetCurrent(one));
  const CUdeviceptr y = alloc(4);
  CUstream t = stream();
  OK(d.cuStreamWaitEvent(t, e, 0));
  OK(d.cuMemcpyPeerAsync(y, one, x, zero, 4, t));
  OK(d.cuStreamSynchronize(t));
  CHECK_EQ(read(y), 6);
  int ordinal;
  OK(d.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, y));
  CHECK_EQ(ordinal, 1);
  FAILS(d.cuEventRecord(e, t), INVALID_HANDLE);  // an event of the other device
  const CUfunction f = make_add();
  FAILS(launch_add(f, x, x, 1, s), INVALID_HANDLE);  // a stream of the other device
  sim::free_function(f);
  OK(d.cuCtxSetCurrent(zero));
}

TEST(freeing_waits_for_the_device) {
  start();
  const CUdeviceptr x = alloc(4), y = alloc(4);
  set(x, 4, stream());
  copy(y, x, stream());
  OK(d.cuMemFree(x));
  OK(d.cuCtxSynchronize());  // no illegal address
}

// ---- Failures

TEST(touching_bad_memory_is_a_sticky_error) {
  start();
  const CUdeviceptr x = alloc(100), y = alloc(4);
  CUstream s = stream();
  copy(y, x + 98, s);
  OK(d.cuStreamSynchronize(stream()));  // not run yet
  FAILS(d.cuStreamSynchronize(s), ILLEGAL_ADDRESS);
  CHECK(sim::last_error_detail().find("allocation of 100 bytes (2 bytes beyond") !=
        std::string::npos);
  CUdeviceptr p;
  FAILS(d.cuMemAlloc(&p, 4), ILLEGAL_ADDRESS);
  FAILS(d.cuMemsetD8Async(x, 0, 1, s), ILLEGAL_ADDRESS);
  FAILS(d.cuCtxSynchronize(), ILLEGAL_ADDRESS);
  try {
    CHECK_CU(d.cuCtxSynchronize());
    CHECK(false);
  } catch (const CudaError& error) {
    const std::string what = error.what();
    CHECK_EQ(error.code, CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(what.find("CUDA_ERROR_ILLEGAL_ADDRESS (700) in cuCtxSynchronize(): ") == 0);
    CHECK(what.find("2 bytes beyond") != std::string::npos);
  }
  sim::clear_error();
  CHECK_EQ(sim::last_error_detail(), "");
  OK(d.cuMemFree(x));
  set(x, 1, s);
  FAILS(d.cuCtxSynchronize(), ILLEGAL_ADDRESS);
  CHECK(sim::last_error_detail().find("freed memory") != std::string::npos);
}

TEST(errors_of_one_device_leave_the_other) {
  SimulatorOptions options;
  options.devices = 2;
  start(options);
  set(alloc(4) + 64, 0, nullptr);
  FAILS(d.cuCtxSynchronize(), ILLEGAL_ADDRESS);
  CUcontext one;
  OK(d.cuDevicePrimaryCtxRetain(&one, 1));
  OK(d.cuCtxSetCurrent(one));
  OK(d.cuCtxSynchronize());
}

TEST(injects_failures_once) {
  start();
  const CUdeviceptr x = alloc(4);
  const CUfunction f = make_add();
  CUdeviceptr p;
  sim::fail(sim::Call::alloc, 2, CUDA_ERROR_OUT_OF_MEMORY);
  OK(d.cuMemAlloc(&p, 4));
  FAILS(d.cuMemAlloc(&p, 4), OUT_OF_MEMORY);
  OK(d.cuMemAlloc(&p, 4));
  sim::fail(sim::Call::launch, 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  FAILS(launch_add(f, x, x, 1, nullptr), LAUNCH_OUT_OF_RESOURCES);
  OK(launch_add(f, x, x, 1, nullptr));
  sim::fail(sim::Call::copy, 1, CUDA_ERROR_UNKNOWN);
  FAILS(d.cuMemcpyDtoDAsync(p, x, 4, nullptr), UNKNOWN);
  OK(d.cuMemcpyDtoDAsync(p, x, 4, nullptr));
  sim::fail(sim::Call::copy, 1, CUDA_ERROR_UNKNOWN);
  sim::fail(sim::Call::copy, 0, CUDA_ERROR_UNKNOWN);
  OK(d.cuMemcpyDtoDAsync(p, x, 4, nullptr));
  sim::set_options(parse_simulator_options("fail_alloc=1"));
  FAILS(d.cuMemAlloc(&p, 4), OUT_OF_MEMORY);
  CHECK_EQ(sim::options().fail_alloc, 0);
  OK(d.cuCtxSynchronize());
  sim::free_function(f);
}

TEST(error_texts_name_the_call) {
  auto text = [](const char* call) {
    try {
      throw_cuda_error(CUDA_ERROR_OUT_OF_MEMORY, call);
    } catch (const CudaError& error) {
      return std::string(error.what());
    }
  };
  start();
  CHECK(text("driver().cuMemAlloc(&p, cuts)").find("(2) in cuMemAlloc(&p, cuts): the device") !=
        std::string::npos);
  CHECK(text("current->cuda.cuInit(0)").find(" in cuInit(0): ") != std::string::npos);
  CHECK_EQ(std::string(error_name(CUDA_ERROR_CAPTURED_EVENT)), "CUDA_ERROR_CAPTURED_EVENT");
  CHECK(error_meaning(static_cast<CUresult>(12345)) != nullptr);
}

TEST(a_missing_driver_is_one_sentence) {
  Driver table;
  std::string problem;
  setenv("TRITORCH_LIBCUDA", "/nowhere/libcuda.so.1", 1);
  CHECK(!load_real_driver(table, problem));
  CHECK(problem.find("TRITORCH_LIBCUDA names /nowhere/libcuda.so.1") == 0);
  setenv("TRITORCH_LIBCUDA", "libc.so.6", 1);  // a library without the symbols
  CHECK(!load_real_driver(table, problem));
  CHECK(problem.find("too old for tritorch: it has no cuInit; install driver 525") !=
        std::string::npos);
  CHECK(!table.cuInit);
  unsetenv("TRITORCH_LIBCUDA");
}

// ---- Kernels

TEST(launches_copy_their_parameters) {
  start();
  const CUdeviceptr x = alloc(4), y = alloc(4);
  set(x, 40, nullptr);
  destroyed = 0;
  const CUfunction f = make_add();
  OK(launch_add(f, y, x, 2, nullptr));  // its parameters are gone when the kernel runs
  sim::free_function(f);                // as is its function's handle
  CHECK_EQ(destroyed, 0);
  int value = 0;
  OK(d.cuMemcpyDtoHAsync(&value, y, 4, nullptr));
  CHECK_EQ(value, 42);
  CHECK_EQ(destroyed, 1);
  CHECK_EQ(sim::counters(0).launches, 1);
}

TEST(kernel_failures_are_sticky) {
  start();
  const CUfunction f = make_add();
  const CUdeviceptr x = alloc(4);
  OK(launch_add(f, x + 4096, x, 1, nullptr));
  FAILS(d.cuStreamSynchronize(nullptr), ILLEGAL_ADDRESS);
  CHECK_EQ(sim::last_error_detail(), "kernel add: out of bounds");
  FAILS(launch_add(f, x, x, 1, nullptr), ILLEGAL_ADDRESS);
  sim::clear_error();
  const CUfunction g = sim::make_function(
      "bad", {},
      [](void*, const sim::Launch&, std::string&) -> CUresult {
        throw std::runtime_error("thrown");
      },
      nullptr, nullptr);
  const CUlaunchConfig c = config(nullptr);
  OK(d.cuLaunchKernelEx(&c, g, nullptr, nullptr));
  FAILS(d.cuCtxSynchronize(), LAUNCH_FAILED);
  CHECK_EQ(sim::last_error_detail(), "kernel bad: thrown");
  sim::clear_error();
  sim::free_function(f);
  sim::free_function(g);
}

TEST(failures_can_be_told_once) {
  SimulatorOptions options;
  options.sticky = false;
  start(options);
  const CUfunction f = make_add();
  const CUdeviceptr x = alloc(4);
  OK(launch_add(f, x + 4096, x, 1, nullptr));
  FAILS(d.cuStreamSynchronize(nullptr), ILLEGAL_ADDRESS);
  OK(launch_add(f, x, x, 1, nullptr));
  OK(d.cuStreamSynchronize(nullptr));
  sim::free_function(f);
}

TEST(refuses_bad_launches) {
  start();
  const CUfunction f = sim::make_function("nothing", {}, nullptr, nullptr, nullptr);
  auto launch = [&](auto change) {
    CUlaunchConfig c = config(nullptr);
    change(c);
    return d.cuLaunchKernelEx(&c, f, nullptr, nullptr);
  };
  OK(launch([](CUlaunchConfig&) {}));
  FAILS(launch([](CUlaunchConfig& c) { c.gridDimX = 0; }), INVALID_VALUE);
  FAILS(launch([](CUlaunchConfig& c) { c.gridDimX = 0x80000000U; }), INVALID_VALUE);
  FAILS(launch([](CUlaunchConfig& c) { c.gridDimY = 65536; }), INVALID_VALUE);
  FAILS(launch([](CUlaunchConfig& c) { c.gridDimZ = 65536; }), INVALID_VALUE);
  FAILS(launch([](CUlaunchConfig& c) { c.blockDimX = 1025; }), INVALID_VALUE);
  FAILS(launch([](CUlaunchConfig& c) { c.blockDimX = c.blockDimY = 64; }), INVALID_VALUE);
  FAILS(launch([](CUlaunchConfig& c) { c.sharedMemBytes = 228 << 10; }), INVALID_VALUE);
  auto hundred = [](CUlaunchConfig& c) { c.sharedMemBytes = 100 << 10; };
  FAILS(launch(hundred), INVALID_VALUE);  // not asked for
  const auto shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  FAILS(d.cuFuncSetAttribute(f, shared, 228 << 10), INVALID_VALUE);
  OK(d.cuFuncSetAttribute(f, shared, 227 << 10));
  OK(launch(hundred));
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {2, 1, 1};
  auto clustered = [&](unsigned grid) {
    return launch([&](CUlaunchConfig& c) {
      c.gridDimX = grid;
      c.attrs = &cluster;
      c.numAttrs = 1;
    });
  };
  OK(clustered(4));
  FAILS(clustered(3), INVALID_VALUE);
  FAILS(d.cuLaunchKernelEx(nullptr, f, nullptr, nullptr), INVALID_VALUE);
  CUmodule module;
  FAILS(d.cuModuleLoadData(&module, "x"), INVALID_IMAGE);
  int value;
  OK(d.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
  CHECK(value > 0);
  sim::free_function(f);
}

TEST(discarded_launches_do_nothing) {
  SimulatorOptions options;
  options.discard_launches = true;
  start(options);
  const CUdeviceptr x = alloc(4);
  set(x, 1, nullptr);
  const CUfunction f = make_add();
  OK(launch_add(f, x, x, 1, nullptr));
  CUlaunchConfig bad = config(nullptr, 0);
  FAILS(d.cuLaunchKernelEx(&bad, f, nullptr, nullptr), INVALID_VALUE);
  sim::fail(sim::Call::launch, 1, CUDA_ERROR_LAUNCH_FAILED);
  FAILS(launch_add(f, x, x, 1, nullptr), LAUNCH_FAILED);
  OK(launch_add(f, x, x, 1, nullptr));
  OK(d.cuCtxSynchronize());
  CHECK_EQ(read(x), 1);
  const CUdeviceptr large = alloc(2 << 20);
  OK(d.cuMemsetD8Async(large, 1, 2 << 20, nullptr));
  OK(d.cuMemcpyDtoDAsync(x, large, 4, nullptr));  // small ones are made
  OK(d.cuCtxSynchronize());
  CHECK(read(x) != 1 && read(x) != 0x01010101);
  sim::free_function(f);
}

TEST(bodies_may_queue_but_not_wait) {
  start();
  static CUdeviceptr x;
  static CUresult queued, waited, freed, polled;
  x = alloc(4);
  static CUevent e;
  e = event();
  OK(d.cuLaunchHostFunc(
      nullptr,
      [](void*) {
        queued = d.cuMemsetD32Async(x, 3, 1, nullptr);
        (void)d.cuEventRecord(e, nullptr);
        polled = d.cuEventQuery(e);
        waited = d.cuStreamSynchronize(nullptr);
        freed = d.cuMemFree(x);
      },
      nullptr));
  OK(d.cuCtxSynchronize());
  CHECK_EQ(queued, CUDA_SUCCESS);
  CHECK_EQ(polled, CUDA_ERROR_NOT_READY);
  CHECK_EQ(waited, CUDA_ERROR_NOT_PERMITTED);
  CHECK_EQ(freed, CUDA_ERROR_NOT_PERMITTED);
  OK(d.cuCtxSynchronize());
  CHECK_EQ(read(x), 3);
}

// ---- Capture and graphs

TEST(captures_and_replays) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    start_seed(seed);
    const CUdeviceptr x = alloc(4), y = alloc(4), z = alloc(4);
    set(x, 0, nullptr);
    OK(d.cuCtxSynchronize());
    destroyed = 0;
    const CUfunction f = make_add();
    CUstream a = stream(), b = stream();
    CUevent fork = event(), join = event();
    OK(d.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(launch_add(f, x, x, 1, a));
    OK(d.cuEventRecord(fork, a));
    OK(d.cuStreamWaitEvent(b, fork, 0));
    CHECK_EQ(capture_status(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(launch_add(f, y, x, 10, b));
    OK(d.cuEventRecord(join, b));
    OK(launch_add(f, z, x, 100, a));
    OK(d.cuStreamWaitEvent(a, join, 0));
    OK(launch_add(f, z, y, 1000, a));
    cuuint64_t id = 0;
    CUstreamCaptureStatus status;
    CUgraph graph, info_graph;
    const CUgraphNode* needs;
    std::size_t count;
    OK(d.cuStreamGetCaptureInfo(a, &status, &id, &info_graph, &needs, &count));
    CHECK(id != 0);
    CHECK_EQ(count, 1);
    OK(d.cuStreamEndCapture(a, &graph));
    CHECK(graph == info_graph);
    CHECK_EQ(capture_status(b), CU_STREAM_CAPTURE_STATUS_NONE);
    OK(d.cuGraphGetNodes(graph, nullptr, &count));
    CHECK_EQ(count, 4);
    OK(d.cuCtxSynchronize());
    CHECK_EQ(*reinterpret_cast<int*>(x), 0);  // nothing ran
    CUgraphExec exec;
    OK(d.cuGraphInstantiate(&exec, graph, 0));
    OK(d.cuGraphDestroy(graph));
    sim::free_function(f);
    for (int i = 0; i < 3; ++i) OK(d.cuGraphLaunch(exec, i % 2 ? a : b));  // launches are ordered
    OK(d.cuGraphExecDestroy(exec));
    FAILS(d.cuGraphLaunch(exec, a), INVALID_HANDLE);
    OK(d.cuCtxSynchronize());
    CHECK_EQ(read(x), 3);
    CHECK_EQ(read(y), 13);
    CHECK_EQ(read(z), 1013);
    CHECK_EQ(destroyed, 1);
  }
}

TEST(independent_nodes_run_in_any_order) {
  start();
  const CUdeviceptr x = alloc(4);
  CUstream a = stream(), b = stream();
  CUevent fork = event(), join = event();
  OK(d.cuStreamBeginCapture(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(d.cuEventRecord(fork, a));
  OK(d.cuStreamWaitEvent(b, fork, 0));
  set(x, 1, a);
  set(x, 2, b);  // a race
  OK(d.cuEventRecord(join, b));
  OK(d.cuStreamWaitEvent(a, join, 0));
  CUgraph graph;
  OK(d.cuStreamEndCapture(a, &graph));
  const std::string path = "/tmp/tritorch_simulator_test_" + std::to_string(getpid()) + ".dot";
  OK(d.cuGraphDebugDotPrint(graph, path.c_str(), 0));
  std::ifstream file(path);
  std::string first;
  std::getline(file, first);
  CHECK_EQ(first, "digraph dot {");
  std::remove(path.c_str());
  CUgraphExec exec;
  OK(d.cuGraphInstantiate(&exec, graph, 0));
  int seen[3] = {};
  for (int i = 0; i < 50; ++i) {
    OK(d.cuGraphLaunch(exec, a));
    OK(d.cuStreamSynchronize(a));
    ++seen[*reinterpret_cast<int*>(x)];
  }
  CHECK(seen[1] > 0 && seen[2] > 0);
}

TEST(a_graph_can_be_captured_into_another) {
  start();
  const CUdeviceptr x = alloc(4);
  set(x, 0, nullptr);
  OK(d.cuCtxSynchronize());
  const CUfunction f = make_add();
  CUstream s = stream();
  CUgraph inner, outer;
  CUgraphExec inner_exec, outer_exec;
  OK(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(launch_add(f, x, x, 1, s));
  OK(d.cuStreamEndCapture(s, &inner));
  OK(d.cuGraphInstantiate(&inner_exec, inner, 0));
  OK(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(d.cuGraphLaunch(inner_exec, s));
  OK(d.cuGraphLaunch(inner_exec, s));
  OK(d.cuStreamEndCapture(s, &outer));
  OK(d.cuGraphInstantiate(&outer_exec, outer, 0));
  OK(d.cuGraphLaunch(outer_exec, s));
  OK(d.cuStreamSynchronize(s));
  CHECK_EQ(read(x), 2);
  sim::free_function(f);
}

// Begins a capture, runs `spoil`, and returns how the capture ends.
template <class F>
static CUresult end_after(F spoil, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL,
                          unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream s = stream(flags);
  OK(d.cuStreamBeginCapture(s, mode));
  spoil(s);
  CUgraph graph = reinterpret_cast<CUgraph>(1);
  const CUresult result = d.cuStreamEndCapture(s, &graph);
  CHECK_EQ(graph != nullptr, result == CUDA_SUCCESS);
  CHECK_EQ(capture_status(s), CU_STREAM_CAPTURE_STATUS_NONE);
  return result;
}

TEST(capture_refuses_what_the_driver_refuses) {
  start();
  const CUdeviceptr x = alloc(64);
  static int pageable = 0;
  OK(end_after([](CUstream) {}));
  FAILS(end_after([](CUstream s) { FAILS(d.cuStreamSynchronize(s), STREAM_CAPTURE_UNSUPPORTED); }),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([](CUstream s) { FAILS(d.cuStreamQuery(s), STREAM_CAPTURE_UNSUPPORTED); }),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([&](CUstream s) {
          FAILS(d.cuMemcpyDtoHAsync(&pageable, x, 4, s), STREAM_CAPTURE_UNSUPPORTED);
          FAILS(d.cuMemsetD8Async(x, 0, 1, s), STREAM_CAPTURE_INVALIDATED);
          CHECK_EQ(capture_status(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        }),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([&](CUstream s) {
          FAILS(d.cuMemcpyHtoDAsync(x, &pageable, 4, s), STREAM_CAPTURE_UNSUPPORTED);
        }),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([](CUstream) { FAILS(d.cuCtxSynchronize(), STREAM_CAPTURE_UNSUPPORTED); }),
        STREAM_CAPTURE_INVALIDATED);
  CUdeviceptr p;
  FAILS(end_after([&](CUstream) { FAILS(d.cuMemAlloc(&p, 4), STREAM_CAPTURE_UNSUPPORTED); }),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([&](CUstream) { FAILS(d.cuMemFree(x), STREAM_CAPTURE_UNSUPPORTED); }),
        STREAM_CAPTURE_INVALIDATED);
  CUevent e = event();
  FAILS(end_after([&](CUstream) { FAILS(d.cuEventQuery(e), STREAM_CAPTURE_UNSUPPORTED); }),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([](CUstream s) {
          FAILS(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL), ILLEGAL_STATE);
          OK(d.cuStreamDestroy(stream()));
          FAILS(d.cuStreamSynchronize(s), STREAM_CAPTURE_UNSUPPORTED);
        }),
        STREAM_CAPTURE_INVALIDATED);
  CUgraph graph;
  FAILS(d.cuStreamEndCapture(stream(), &graph), ILLEGAL_STATE);
  FAILS(d.cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL), STREAM_CAPTURE_UNSUPPORTED);
  OK(d.cuMemAlloc(&p, 4));  // all is well afterwards
  OK(d.cuCtxSynchronize());
}

TEST(modules_are_loaded_and_unloaded) {
  start();
  const CUdeviceptr x = alloc(4);
  const CUfunction hosted = make_add();
  const std::string image = sim::image_of(hosted);
  CUmodule module;
  CUfunction f;
  FAILS(d.cuModuleLoadData(&module, "nonsense"), INVALID_IMAGE);
  FAILS(d.cuModuleLoadData(&module,
                           "\x7f"
                           "ELF\2\1\1"),
        NOT_SUPPORTED);
  OK(d.cuModuleLoadData(&module, image.c_str()));
  FAILS(d.cuModuleGetFunction(&f, module, "subtract"), NOT_FOUND);
  OK(d.cuModuleGetFunction(&f, module, "add"));
  set(x, 1, nullptr);
  OK(launch_add(f, x, x, 2, nullptr));
  OK(d.cuCtxSynchronize());
  CHECK_EQ(*reinterpret_cast<int*>(x), 3);
  OK(d.cuModuleUnload(module));
  FAILS(d.cuModuleUnload(module), INVALID_HANDLE);
  FAILS(d.cuModuleGetFunction(&f, module, "add"), INVALID_HANDLE);

  // Neither is allowed in a capture, unless this thread says that it knows what it does.
  FAILS(end_after([&](CUstream) {
          FAILS(d.cuModuleLoadData(&module, image.c_str()), STREAM_CAPTURE_UNSUPPORTED);
        }),
        STREAM_CAPTURE_INVALIDATED);
  OK(end_after([&](CUstream) {
    Mode mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(d.cuModuleLoadData(&module, image.c_str()));
  }));
  FAILS(end_after([&](CUstream) { FAILS(d.cuModuleUnload(module), STREAM_CAPTURE_UNSUPPORTED); }),
        STREAM_CAPTURE_INVALIDATED);
  OK(d.cuModuleUnload(module));
  sim::free_function(hosted);
  FAILS(d.cuModuleLoadData(&module, image.c_str()), INVALID_IMAGE);
}

TEST(capture_modes) {
  start();
  CUdeviceptr p;
  const auto relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  const auto local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  OK(end_after([&](CUstream) {
    Mode mode(relaxed);
    OK(d.cuMemAlloc(&p, 4));
    OK(d.cuMemFree(p));
  }));
  OK(end_after([&](CUstream) { OK(d.cuMemAlloc(&p, 4)); }, relaxed));
  FAILS(end_after([&](CUstream) { FAILS(d.cuMemAlloc(&p, 4), STREAM_CAPTURE_UNSUPPORTED); }, local),
        STREAM_CAPTURE_INVALIDATED);
  auto on_another_thread = [](auto body) {
    std::exception_ptr failure;
    std::thread thread([&] {
      try {
        CUcontext context;
        OK(d.cuDevicePrimaryCtxRetain(&context, 0));
        OK(d.cuCtxSetCurrent(context));
        body();
      } catch (...) {
        failure = std::current_exception();
      }
    });
    thread.join();
    if (failure) std::rethrow_exception(failure);
  };
  OK(end_after([&](CUstream) { on_another_thread([&] { OK(d.cuMemAlloc(&p, 4)); }); }, local));
  FAILS(end_after([&](CUstream) {
          on_another_thread([&] { FAILS(d.cuMemAlloc(&p, 4), STREAM_CAPTURE_UNSUPPORTED); });
        }),
        STREAM_CAPTURE_INVALIDATED);
  OK(end_after([&](CUstream) {
    on_another_thread([&] {
      Mode mode(local);
      OK(d.cuMemAlloc(&p, 4));
    });
  }));
  OK(end_after([&](CUstream s) {
    on_another_thread([&] {
      CUgraph graph;
      FAILS(d.cuStreamEndCapture(s, &graph), STREAM_CAPTURE_WRONG_THREAD);
    });
  }));
}

TEST(capture_forks_joins_and_isolation) {
  start();
  const CUdeviceptr x = alloc(4);
  CUstream side = stream();
  CUevent e = event(), outside = event();
  OK(d.cuEventRecord(outside, stream()));
  FAILS(end_after([&](CUstream s) {  // forked and not joined
          OK(d.cuEventRecord(e, s));
          OK(d.cuStreamWaitEvent(side, e, 0));
          set(x, 1, side);
        }),
        STREAM_CAPTURE_UNJOINED);
  CHECK_EQ(capture_status(side), CU_STREAM_CAPTURE_STATUS_NONE);
  FAILS(d.cuEventQuery(e), CAPTURED_EVENT);
  FAILS(d.cuEventSynchronize(e), CAPTURED_EVENT);
  FAILS(d.cuStreamWaitEvent(side, e, 0), CAPTURED_EVENT);
  OK(d.cuEventRecord(e, side));
  OK(d.cuEventSynchronize(e));
  FAILS(end_after([&](CUstream s) {  // depends on work outside
          FAILS(d.cuStreamWaitEvent(s, outside, 0), STREAM_CAPTURE_ISOLATION);
        }),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([&](CUstream s) {  // ended on the side stream
          OK(d.cuEventRecord(e, s));
          OK(d.cuStreamWaitEvent(side, e, 0));
          CUgraph graph;
          FAILS(d.cuStreamEndCapture(side, &graph), STREAM_CAPTURE_UNMATCHED);
        }),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([&](CUstream s) {  // two captures
          FAILS(end_after([&](CUstream t) {
                  OK(d.cuEventRecord(e, s));
                  FAILS(d.cuStreamWaitEvent(t, e, 0), STREAM_CAPTURE_MERGE);
                }),
                STREAM_CAPTURE_INVALIDATED);
        }),
        STREAM_CAPTURE_INVALIDATED);
  CUstream doomed = stream();
  OK(d.cuStreamBeginCapture(doomed, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(d.cuStreamDestroy(doomed));
  OK(d.cuMemFree(x));  // no capture is left over
}

TEST(capture_and_the_legacy_stream) {
  start();
  const CUdeviceptr x = alloc(4);
  CUevent e = event();
  OK(end_after([&](CUstream) { set(x, 1, nullptr); }));  // non-blocking: no relation
  const auto mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  FAILS(end_after(
            [&](CUstream) { FAILS(d.cuMemsetD8Async(x, 1, 1, nullptr), STREAM_CAPTURE_IMPLICIT); },
            mode, CU_STREAM_DEFAULT),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([&](CUstream) { FAILS(d.cuStreamSynchronize(nullptr), STREAM_CAPTURE_IMPLICIT); },
                  mode, CU_STREAM_DEFAULT),
        STREAM_CAPTURE_INVALIDATED);
  FAILS(end_after([&](CUstream s) {
          OK(d.cuEventRecord(e, s));
          FAILS(d.cuStreamWaitEvent(nullptr, e, 0), STREAM_CAPTURE_IMPLICIT);
        }),
        STREAM_CAPTURE_INVALIDATED);
  OK(end_after(
      [&](CUstream) {
        CUstreamCaptureStatus status;
        CHECK_EQ(d.cuStreamGetCaptureInfo(nullptr, &status, nullptr, nullptr, nullptr, nullptr),
                 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
      },
      mode, CU_STREAM_DEFAULT));
}

TEST(graphs_read_pinned_memory_at_each_launch) {
  start();
  const CUdeviceptr x = alloc(4);
  Pinned in, out;
  CUstream s = stream();
  OK(d.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(d.cuMemcpyHtoDAsync(x, in.p, 4, s));
  OK(d.cuMemcpyDtoHAsync(out.p, x, 4, s));
  CUgraph graph;
  OK(d.cuStreamEndCapture(s, &graph));
  CUgraphExec exec;
  OK(d.cuGraphInstantiate(&exec, graph, 0));
  for (int i = 1; i < 4; ++i) {
    *in.p = i;
    OK(d.cuGraphLaunch(exec, s));
    OK(d.cuStreamSynchronize(s));
    CHECK_EQ(*out.p, i);
  }
  OK(d.cuMemFreeHost(in.p));
  OK(d.cuGraphLaunch(exec, s));
  FAILS(d.cuStreamSynchronize(s), ILLEGAL_ADDRESS);
  sim::clear_error();
}

// ---- Tensor maps

TEST(encodes_tensor_maps) {
  start();
  CUtensorMap map;
  struct Args {
    cuuint32_t rank = 2;
    std::uintptr_t address = 4096;
    std::array<cuuint64_t, 5> dims{128, 64, 1, 1, 1};
    std::array<cuuint64_t, 4> strides{256, 0, 0, 0};
    std::array<cuuint32_t, 5> box{64, 16, 1, 1, 1};
    std::array<cuuint32_t, 5> steps{1, 1, 1, 1, 1};
    int swizzle = 3;
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  };
  auto encode = [&](auto change) {
    Args a;
    change(a);
    return d.cuTensorMapEncodeTiled(
        &map, a.type, a.rank, reinterpret_cast<void*>(a.address), a.dims.data(), a.strides.data(),
        a.box.data(), a.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
        static_cast<CUtensorMapSwizzle>(a.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  OK(encode([](Args&) {}));
  CHECK_EQ(map.opaque[0], 4096);
  OK(encode([](Args& a) { a.dims[1] = std::uint64_t{1} << 32; }));
  FAILS(encode([](Args& a) { a.address = 4104; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.rank = 0; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.rank = 6; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.dims[1] = 0; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.dims[1] = (std::uint64_t{1} << 32) + 1; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.strides[0] = 264; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.strides[0] = std::uint64_t{1} << 40; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.box[1] = 0; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.box[1] = 257; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.box[0] = 4; }), INVALID_VALUE);    // 8 bytes
  FAILS(encode([](Args& a) { a.box[0] = 128; }), INVALID_VALUE);  // 256 bytes under a 128B swizzle
  FAILS(encode([](Args& a) { a.swizzle = 1; }), INVALID_VALUE);
  FAILS(encode([](Args& a) { a.steps[1] = 9; }), INVALID_VALUE);
  const cuuint64_t dims[] = {64, 8, 8, 2}, strides[] = {128, 1024, 8192};
  const int lower[] = {-1, -1}, upper[] = {1, 1}, far[] = {200, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  auto im2col = [&](const int* corner, cuuint32_t pixels) {
    return d.cuTensorMapEncodeIm2col(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 4, reinterpret_cast<void*>(4096), dims, strides,
        lower, corner, 64, pixels, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  OK(im2col(upper, 64));
  FAILS(im2col(far, 64), INVALID_VALUE);
  FAILS(im2col(upper, 1025), INVALID_VALUE);
}

// ---- Threads

TEST(blocks_may_overlap_while_one_is_taken_back) {
  sim::Blocks blocks;
  std::array<int, 64> counts{};  // of each byte
  std::vector<sim::Stretch> given;
  std::mt19937 random(7);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  for (int step = 0; step < 3000; ++step) {
    if (given.size() < 5 || below(2)) {
      const unsigned begin = below(60);
      const sim::Stretch block{begin, begin + 1 + below(64 - begin)};
      given.push_back(block);
      blocks.add(block);
      for (auto i = block.begin; i < block.end; ++i) ++counts[i];
    } else {
      const auto which = given.begin() + below(static_cast<unsigned>(given.size()));
      blocks.remove(*which);
      for (auto i = which->begin; i < which->end; ++i) --counts[i];
      given.erase(which);
    }
    if (step % 100 == 99) {
      blocks.forget({0, 64});
      counts = {};
      given.clear();
    }
    for (unsigned at = 0; at < 64; ++at) {
      sim::Stretch want{at, at};
      while (want.begin > 0 && counts[at] && counts[want.begin - 1]) --want.begin;
      while (want.end < 64 && counts[want.end]) ++want.end;
      if (!counts[at]) want = {};
      const sim::Stretch got = blocks.around(at);
      CHECK(got.begin == want.begin && got.end == want.end);
    }
  }
}

TEST(a_kernel_may_touch_what_was_given_until_its_stream_is_past_the_end_of_that) {
  start();
  CUdeviceptr x = 0;
  OK(d.cuMemAlloc(&x, 4096));
  sim::divide(x, 4096);
  const auto touched = [&](CUdeviceptr at) {
    const auto address = static_cast<std::int64_t>(at);
    return sim::first_inaccessible(&address, nullptr, 1, 4) < 0;
  };
  CHECK(!touched(x) && sim::accessible(x, 4096));  // copies may
  sim::give(x, 10);
  CHECK(touched(x) && touched(x + 6) && !touched(x + 8));
  CUstream a = nullptr;
  OK(d.cuStreamCreateWithPriority(&a, CU_STREAM_NON_BLOCKING, 0));
  OK(d.cuMemsetD8Async(x, 1, 4096, a));
  sim::take_back(x, 10, a);
  sim::give(x + 4, 100);
  CHECK(touched(x) && touched(x + 8) && touched(x + 100) && !touched(x + 104));
  OK(d.cuStreamSynchronize(a));
  CHECK(!touched(x) && touched(x + 4));
  OK(d.cuMemFree(x));
  CHECK(!touched(x + 4));
  OK(d.cuStreamDestroy(a));
}

TEST(threads_share_the_device) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    start_seed(seed);
    const CUfunction f = make_add();
    static std::atomic<int> inside, most;
    inside = most = 0;
    const CUfunction lonely = sim::make_function(
        "lonely", {},
        [](void*, const sim::Launch&, std::string&) {
          most = std::max(most.load(), ++inside);
          std::this_thread::yield();
          --inside;
          return CUDA_SUCCESS;
        },
        nullptr, nullptr);
    std::atomic<int> wrong{0};
    auto work = [&] {
      try {
        CUcontext context;
        OK(d.cuDevicePrimaryCtxRetain(&context, 0));
        OK(d.cuCtxSetCurrent(context));
        CUstream a = stream(), b = stream();
        CUevent e = event();
        const CUlaunchConfig c = config(b);
        for (int round = 0; round < 20; ++round) {
          const CUdeviceptr x = alloc(4);
          set(x, 0, a);
          for (int i = 0; i < 10; ++i) {
            OK(launch_add(f, x, x, 1, a));
            OK(d.cuLaunchKernelEx(&c, lonely, nullptr, nullptr));
            OK(d.cuEventRecord(e, a));
            OK(d.cuStreamWaitEvent(b, e, 0));
            OK(launch_add(f, x, x, 1, b));
            OK(d.cuEventRecord(e, b));
            OK(d.cuStreamWaitEvent(a, e, 0));
            (void)d.cuEventQuery(e);
          }
          int value = 0;
          OK(d.cuMemcpyDtoHAsync(&value, x, 4, a));
          wrong += value != 20;
          OK(d.cuMemFree(x));
        }
        OK(d.cuStreamDestroy(a));
        OK(d.cuStreamDestroy(b));
        OK(d.cuEventDestroy(e));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ++wrong;
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(wrong, 0);
    CHECK_EQ(most, 1);
    CHECK_EQ(sim::counters(0).live_events, 0);
    CHECK_EQ(sim::counters(0).live_allocations, 0);
    OK(d.cuCtxSynchronize());
    sim::free_function(f);
    sim::free_function(lonely);
  }
}
