// Device memory of other processes, and what they need to map ours.
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "bindings/convert.h"
#include "driver/context.h"
#include "memory/registry.h"

namespace tritorch {
namespace {

template <class F>
F required(F function) {
  if (!function) throw std::runtime_error("the driver shares no memory between processes");
  return function;
}

// A descriptor of the physical memory that is mapped at an address.
int export_chunk(int device, cu::CUdeviceptr address) {
  DeviceScope scope(device);
  required(driver().cuMemRetainAllocationHandle);
  required(driver().cuMemExportToShareableHandle);
  cu::CUmemGenericAllocationHandle handle = 0;
  DRIVE(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)));
  int file = -1;
  const cu::CUresult code = driver().cuMemExportToShareableHandle(
      &file, handle, cu::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  DRIVE(cuMemRelease(handle));
  check(code, "cuMemExportToShareableHandle(&file, handle, POSIX_FILE_DESCRIPTOR, 0)");
  return file;
}

// Maps such memory of another process, piece after piece; all or nothing.
cu::CUdeviceptr import_chunks(int device, const std::vector<int>& files, std::size_t chunk) {
  DeviceScope scope(device);
  required(driver().cuMemImportFromShareableHandle);
  const std::size_t size = files.size() * chunk;
  cu::CUdeviceptr base = 0;
  DRIVE(cuMemAddressReserve(&base, size, 0, 0, 0));
  std::size_t done = 0;
  cu::CUresult code = cu::CUDA_SUCCESS;
  for (const int file : files) {
    cu::CUmemGenericAllocationHandle handle = 0;
    code = driver().cuMemImportFromShareableHandle(
        &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
        cu::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (code) break;
    code = driver().cuMemMap(base + done, chunk, 0, handle, 0);
    (void)driver().cuMemRelease(handle);  // the mapping keeps it
    if (code) break;
    done += chunk;
  }
  if (!code) {
    const cu::CUmemAccessDesc access{{cu::CU_MEM_LOCATION_TYPE_DEVICE, device},
                                     cu::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    code = driver().cuMemSetAccess(base, size, &access, 1);
  }
  if (code) {
    if (done) (void)driver().cuMemUnmap(base, done);
    (void)driver().cuMemAddressFree(base, size);
    check(code, "mapping the memory of another process");
  }
  return base;
}

}  // namespace

void bind_sharing(nb::module_& m) {
  m.def(
      "ipc_place",
      [](int device, cu::CUdeviceptr address) {
        const auto place = memory::device_allocator(device).place(address);
        return nb::make_tuple(place.base, place.size, place.chunk);
      },
      "device"_a, "address"_a);
  m.def("export_chunk", &export_chunk, "device"_a, "address"_a);
  m.def("import_chunks", &import_chunks, "device"_a, "files"_a, "chunk"_a);
  m.def(
      "unmap_chunks",
      [](int device, cu::CUdeviceptr base, std::size_t size) {
        DeviceScope scope(device);
        DRIVE(cuMemUnmap(base, size));
        DRIVE(cuMemAddressFree(base, size));
      },
      "device"_a, "base"_a, "size"_a);
  m.def(
      "ipc_handle",
      [](int device, cu::CUdeviceptr base) {
        DeviceScope scope(device);
        required(driver().cuIpcGetMemHandle);
        cu::CUipcMemHandle handle{};
        DRIVE(cuIpcGetMemHandle(&handle, base));
        return nb::bytes(handle.reserved, sizeof handle.reserved);
      },
      "device"_a, "base"_a);
  m.def(
      "ipc_open",
      [](int device, nb::bytes bytes) {
        cu::CUipcMemHandle handle{};
        if (bytes.size() != sizeof handle.reserved)
          throw std::invalid_argument("a memory handle has 64 bytes");
        std::memcpy(handle.reserved, bytes.c_str(), bytes.size());
        DeviceScope scope(device);
        required(driver().cuIpcOpenMemHandle);
        cu::CUdeviceptr base = 0;
        DRIVE(cuIpcOpenMemHandle(&base, handle, cu::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        return base;
      },
      "device"_a, "handle"_a);
  m.def(
      "ipc_close",
      [](int device, cu::CUdeviceptr base) {
        DeviceScope scope(device);
        required(driver().cuIpcCloseMemHandle);
        DRIVE(cuIpcCloseMemHandle(base));
      },
      "device"_a, "base"_a);
  // A number in host memory that several processes count in.
  m.def(
      "shared_add",
      [](std::uintptr_t address, std::int64_t change) {
        return std::atomic_ref<std::int64_t>(*reinterpret_cast<std::int64_t*>(address))
                   .fetch_add(change, std::memory_order_acq_rel) +
               change;
      },
      "address"_a, "change"_a);
}

}  // namespace tritorch
