// The table's entries for memory: allocations, virtual memory, copies.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "profiling/cupti.h"
#include "simulator/state.h"

namespace tritorch::cu::simulator {
namespace {

std::string hex(CUdeviceptr address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", address);
  return text;
}

// For work on device memory, when it runs.
bool check_access(const char* what, CUdeviceptr address, std::size_t size, std::string& detail) {
  const Memory& memory = state().world->memory;
  if (memory.accessible(address, size)) return true;
  const CUdeviceptr end = memory.stretch(address).end;  // 0 if not even the first byte is good
  detail = std::string(what) + " of " + std::to_string(size) + " bytes at " + hex(address) +
           " touches " + memory.describe(address);
  if (end) detail += " (" + std::to_string(address + size - end) + " bytes beyond it)";
  return false;
}

template <class T>
T* host(CUdeviceptr address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

Action copying(std::uint8_t kind, std::size_t size, std::function<CUresult(std::string&)> work) {
  Action action{"memcpy", std::move(work), false, nullptr};
  action.copies = kind;
  action.bytes = size;
  return action;
}

void queue_copy(Lock& lock, const std::shared_ptr<Stream>& stream, std::uint8_t kind,
                std::size_t size, std::function<CUresult(std::string&)> work,
                Point* point = nullptr) {
  const Point queued = enqueue(lock, stream, copying(kind, size, std::move(work)));
  ++device_state(stream->device).counters.copies;
  if (point) *point = queued;
}

// Pageable host memory is the caller's again when the call returns, which no graph can promise.
void refuse_pageable_in_capture(Stream& stream) {
  if (stream.capture) check_not_capturing(stream);
}

void copy_between_devices(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream handle) {
  Lock lock(state().mutex);
  const auto stream = find_stream(handle);
  check_sticky(stream->device);
  check_injected(Call::copy);
  if (size == 0) return;
  queue_copy(lock, stream, cupti::kDeviceToDevice, size, copy_action(to, from, size).work);
}

// Whether a fill or a copy within a device is left out as launches are: where kernels compute
// nothing, only a few numbers (a flag, a count) may decide what a program does next.
bool is_discarded(std::size_t bytes) {
  return bytes > (std::size_t{1} << 20) && state().discard_launches;
}

template <class T>
Action fill_with(CUdeviceptr to, T value, std::size_t count) {
  require(to % sizeof(T) == 0 && count < std::size_t{1} << 46);
  auto work = [=](std::string& detail) {
    if (!check_access("a memset", to, count * sizeof(T), detail)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!is_discarded(count * sizeof(T))) std::fill_n(host<T>(to), count, value);
    return CUDA_SUCCESS;
  };
  Action action{"memset", std::move(work), false, nullptr};
  action.bytes = count * sizeof(T);
  return action;
}

template <class T>
void queue_memset(CUdeviceptr to, T value, std::size_t count, CUstream handle) {
  Lock lock(state().mutex);
  const auto stream = find_stream(handle);
  check_sticky(stream->device);
  Action fill = fill_with(to, value, count);
  if (count == 0) return;
  enqueue(lock, stream, std::move(fill));
  ++device_state(stream->device).counters.memsets;
}

bool fits(int device, std::size_t size) {
  const State& s = state();
  const std::size_t used = device_state(device).allocated + s.world->memory.physical(device);
  return used <= s.options.memory && size <= s.options.memory - used;
}

void require_result(CUresult result) { require(result == CUDA_SUCCESS, result); }

}  // namespace

Action copy_action(CUdeviceptr to, CUdeviceptr from, std::size_t size) {
  auto work = [=](std::string& detail) {
    if (!check_access("a copy's read", from, size, detail) ||
        !check_access("a copy's write", to, size, detail))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!is_discarded(size)) std::memmove(host<void>(to), host<void>(from), size);
    return CUDA_SUCCESS;
  };
  return copying(cupti::kDeviceToDevice, size, std::move(work));
}

Action fill_action(CUdeviceptr to, unsigned value, unsigned width, std::size_t count) {
  if (width == 1) return fill_with(to, static_cast<unsigned char>(value), count);
  if (width == 2) return fill_with(to, static_cast<unsigned short>(value), count);
  require(width == 4);
  return fill_with(to, value, count);
}

namespace entry {

void cuMemAlloc(CUdeviceptr* address, std::size_t size) {
  Lock lock(state().mutex);
  const int number = current_device();
  Device& device = device_state(number);
  check_unsafe_in_capture();
  require(address && size > 0);
  check_sticky(number);
  check_injected(Call::alloc);
  require(fits(number, size), CUDA_ERROR_OUT_OF_MEMORY);
  require_result(state().world->memory.allocate(*address, size, number));
  device.allocated += size;
  ++device.counters.allocations;
  ++device.counters.live_allocations;
}

void cuMemFree(CUdeviceptr address) {
  Lock lock(state().mutex);
  device_state(current_device());
  check_unsafe_in_capture();
  if (address == 0) return;
  const int owner = state().world->memory.device_of(address);
  require(owner >= 0);
  check_sticky(owner);
  drain_device(lock, owner);
  check_sticky(owner);
  std::size_t size = 0;
  int number = 0;
  require_result(state().world->memory.free(address, size, number));
  Device& device = device_state(number);
  device.allocated -= size;
  ++device.counters.frees;
  --device.counters.live_allocations;
}

void cuMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  Lock lock(state().mutex);
  const int number = current_device();
  const State& s = state();
  const std::size_t used = device_state(number).allocated + s.world->memory.physical(number);
  if (free_bytes) *free_bytes = s.options.memory - std::min(s.options.memory, used);
  if (total) *total = s.options.memory;
}

void cuMemHostAlloc(void** address, std::size_t size, unsigned flags) {
  Lock lock(state().mutex);
  check_sticky(current_device());
  check_unsafe_in_capture();
  require(address && size > 0 && flags < 8);
  require_result(state().world->memory.pin_new(*address, size));
}

void cuMemFreeHost(void* address) {
  Lock lock(state().mutex);
  current_device();
  check_unsafe_in_capture();
  drain_all(lock);  // queued copies may read or write it
  require_result(state().world->memory.unpin(address, true));
}

void cuMemHostRegister(void* address, std::size_t size, unsigned flags) {
  Lock lock(state().mutex);
  check_sticky(current_device());
  check_unsafe_in_capture();
  require(flags < 16);
  require_result(state().world->memory.pin_existing(address, size));
}

void cuMemHostUnregister(void* address) {
  Lock lock(state().mutex);
  current_device();
  check_unsafe_in_capture();
  drain_all(lock);
  require_result(state().world->memory.unpin(address, false));
}

void cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  Lock lock(state().mutex);
  const Memory& memory = state().world->memory;
  const int calling = current_device();
  require(value != nullptr);
  const int device = memory.device_of(address);
  require(device >= 0 || memory.pinned(host<void>(address), 1));
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    const unsigned type = device >= 0 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    std::memcpy(value, &type, sizeof type);
  } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {
    std::memcpy(value, &address, sizeof address);
  } else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    const int ordinal = device >= 0 ? device : calling;
    std::memcpy(value, &ordinal, sizeof ordinal);
  } else {
    throw Fail{CUDA_ERROR_INVALID_VALUE};
  }
}

// Virtual memory.

static void check_prop(const CUmemAllocationProp* prop) {
  require(state().options.virtual_memory, CUDA_ERROR_NOT_SUPPORTED);
  require(prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
          prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  check_device(prop->location.id);
}

void cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* prop,
                                   CUmemAllocationGranularity_flags) {
  Lock lock(state().mutex);
  check_prop(prop);
  require(granularity != nullptr);
  *granularity = kGranularity;
}

void cuMemAddressReserve(CUdeviceptr* address, std::size_t size, std::size_t alignment, CUdeviceptr,
                         unsigned long long flags) {
  Lock lock(state().mutex);
  require(state().options.virtual_memory, CUDA_ERROR_NOT_SUPPORTED);
  check_unsafe_in_capture();
  require(address && flags == 0);
  require_result(state().world->memory.reserve(*address, size, alignment));
}

void cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  Lock lock(state().mutex);
  check_unsafe_in_capture();
  require_result(state().world->memory.unreserve(address, size));
}

void cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                 const CUmemAllocationProp* prop, unsigned long long flags) {
  Lock lock(state().mutex);
  check_prop(prop);
  check_unsafe_in_capture();
  require(handle && flags == 0);
  const int device = prop->location.id;
  check_sticky(device);
  check_injected(Call::alloc);
  require(fits(device, size), CUDA_ERROR_OUT_OF_MEMORY);
  require_result(state().world->memory.create(*handle, size, device));
  ++device_state(device).counters.allocations;
}

void cuMemRelease(CUmemGenericAllocationHandle handle) {
  Lock lock(state().mutex);
  check_unsafe_in_capture();
  require_result(state().world->memory.release(handle));
}

void cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
              CUmemGenericAllocationHandle handle, unsigned long long flags) {
  Lock lock(state().mutex);
  check_unsafe_in_capture();
  require(offset == 0 && flags == 0);
  require_result(state().world->memory.map(address, size, handle));
}

void cuMemUnmap(CUdeviceptr address, std::size_t size) {
  Lock lock(state().mutex);
  check_unsafe_in_capture();
  const int device = state().world->memory.device_of(address);
  require(device >= 0);
  drain_device(lock, device);
  require_result(state().world->memory.unmap(address, size));
  ++device_state(device).counters.frees;
}

void cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access,
                    std::size_t count) {
  Lock lock(state().mutex);
  check_unsafe_in_capture();
  require(access && count > 0);
  bool readable = false;
  for (std::size_t i = 0; i < count; ++i) {
    check_device(access[i].location.id);
    readable |= access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  require_result(state().world->memory.set_access(address, size, readable));
}

// Between processes.

void cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  Lock lock(state().mutex);
  require(handle != nullptr);
  const auto where = reinterpret_cast<std::uintptr_t>(address);
  require_result(state().world->memory.retain(*handle, where));
}

void cuMemExportToShareableHandle(void* file, CUmemGenericAllocationHandle handle,
                                  CUmemAllocationHandleType type, unsigned long long flags) {
  Lock lock(state().mutex);
  require(file && flags == 0 && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  require_result(state().world->memory.export_file(*static_cast<int*>(file), handle));
}

void cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* file,
                                    CUmemAllocationHandleType type) {
  Lock lock(state().mutex);
  const int device = current_device();
  require(handle && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const int number = static_cast<int>(reinterpret_cast<std::intptr_t>(file));
  require_result(state().world->memory.import_file(*handle, number, device));
}

void cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  Lock lock(state().mutex);
  const int device = state().world->memory.device_of(address);
  require(handle && device >= 0);
  drain_device(lock, device);  // what is queued must not write while the memory moves into a file
  require_result(state().world->memory.get_handle(address, *handle));
}

void cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
  Lock lock(state().mutex);
  current_device();
  require(address && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  require_result(state().world->memory.open_handle(*address, handle));
}

void cuIpcCloseMemHandle(CUdeviceptr address) {
  Lock lock(state().mutex);
  const int device = state().world->memory.device_of(address);
  require(device >= 0);
  drain_device(lock, device);
  require_result(state().world->memory.close_handle(address));
}

// Copies.

void cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t size, CUstream handle) {
  Lock lock(state().mutex);
  const auto stream = find_stream(handle);
  const Memory& memory = state().world->memory;
  check_sticky(stream->device);
  check_injected(Call::copy);
  if (size == 0) return;
  require(from && memory.device_of(reinterpret_cast<std::uintptr_t>(from)) < 0);
  std::vector<char> staged;
  if (memory.pinned(from, size)) {
    queue_copy(lock, stream, cupti::kHostToDevice, size, [=](std::string& detail) {
      if (!state().world->memory.pinned(from, size)) {
        detail = "a copy reads host memory that is no longer page-locked";
        return CUDA_ERROR_ILLEGAL_ADDRESS;
      }
      if (!check_access("a copy's write", to, size, detail)) return CUDA_ERROR_ILLEGAL_ADDRESS;
      std::memcpy(host<void>(to), from, size);
      return CUDA_SUCCESS;
    });
    return;
  }
  refuse_pageable_in_capture(*stream);
  const char* bytes = static_cast<const char*>(from);
  staged.assign(bytes, bytes + size);
  auto work = [to, size, staged = std::move(staged)](std::string& detail) {
    if (!check_access("a copy's write", to, size, detail)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    std::memcpy(host<void>(to), staged.data(), size);
    return CUDA_SUCCESS;
  };
  queue_copy(lock, stream, cupti::kHostToDevice, size, std::move(work));
}

void cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t size, CUstream handle) {
  Lock lock(state().mutex);
  const auto stream = find_stream(handle);
  const Memory& memory = state().world->memory;
  check_sticky(stream->device);
  check_injected(Call::copy);
  if (size == 0) return;
  require(to && memory.device_of(reinterpret_cast<std::uintptr_t>(to)) < 0);
  const bool pinned = memory.pinned(to, size);
  if (!pinned) refuse_pageable_in_capture(*stream);
  Point point;
  queue_copy(
      lock, stream, cupti::kDeviceToHost, size,
      [=](std::string& detail) {
        if (pinned && !state().world->memory.pinned(to, size)) {
          detail = "a copy writes host memory that is no longer page-locked";
          return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        if (!check_access("a copy's read", from, size, detail)) return CUDA_ERROR_ILLEGAL_ADDRESS;
        std::memcpy(to, host<void>(from), size);
        return CUDA_SUCCESS;
      },
      &point);
  if (pinned) return;
  drain(lock, {&point, 1});
  check_sticky(stream->device);
}

void cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  copy_between_devices(to, from, size, stream);
}
void cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                       CUcontext from_context, std::size_t size, CUstream stream) {
  device_of(to_context);
  device_of(from_context);
  copy_between_devices(to, from, size, stream);
}
void cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  queue_memset(to, value, count, stream);
}
void cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
  queue_memset(to, value, count, stream);
}
void cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  queue_memset(to, value, count, stream);
}

}  // namespace entry
}  // namespace tritorch::cu::simulator
