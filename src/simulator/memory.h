// The simulated devices' memory: which addresses are whose, and what lies in freed ones.
// Not thread-safe: the simulator's one mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "driver/abi.h"
#include "simulator/blocks.h"

namespace tritorch::cu::simulator {

inline constexpr std::size_t kGranularity = std::size_t{2} << 20;  // of virtual memory calls

class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void set_poison(bool poison) { poison_ = poison; }

  // Each returns CUDA_SUCCESS or the code that the driver call returns.  Accounting against a
  // device's total is the caller's.
  CUresult allocate(CUdeviceptr& address, std::size_t size, int device);
  CUresult free(CUdeviceptr address, std::size_t& size, int& device);

  CUresult reserve(CUdeviceptr& address, std::size_t size, std::size_t alignment);
  CUresult unreserve(CUdeviceptr address, std::size_t size);
  CUresult create(CUmemGenericAllocationHandle& handle, std::size_t size, int device);
  CUresult release(CUmemGenericAllocationHandle handle);
  CUresult map(CUdeviceptr address, std::size_t size, CUmemGenericAllocationHandle handle);
  CUresult unmap(CUdeviceptr address, std::size_t size);
  // What other processes open: an allocation as the place of a file, physical memory as a file
  // whose position says where in it the memory begins.
  CUresult get_handle(CUdeviceptr address, CUipcMemHandle& handle);
  CUresult open_handle(CUdeviceptr& address, const CUipcMemHandle& handle);
  CUresult close_handle(CUdeviceptr address);
  CUresult retain(CUmemGenericAllocationHandle& handle, CUdeviceptr address);
  CUresult export_file(int& file, CUmemGenericAllocationHandle handle);
  CUresult import_file(CUmemGenericAllocationHandle& handle, int file, int device);
  CUresult set_access(CUdeviceptr address, std::size_t size, bool readable);
  // What physical memory a device has handed out through create and not got back.
  std::size_t physical(int device) const;

  CUresult pin_new(void*& address, std::size_t size);
  CUresult pin_existing(void* address, std::size_t size);
  CUresult unpin(void* address, bool owned);
  bool pinned(const void* address, std::size_t size) const;

  bool accessible(CUdeviceptr address, std::size_t size) const;
  Stretch stretch(CUdeviceptr address) const;  // the accessible one around an address
  // What of the memory around an address a kernel may touch.
  Stretch touchable(CUdeviceptr address) const;
  // Of whole ranges: from now on a kernel may touch the blocks in them only.
  void divide(CUdeviceptr address, std::size_t size);
  Blocks blocks;
  int device_of(CUdeviceptr address) const;         // -1 if it is no device memory
  std::string describe(CUdeviceptr address) const;  // for messages: "freed memory", ...

 private:
  struct Range {
    std::size_t size = 0;
    int device = 0;
    bool readable = true;
    bool divided = false;                       // into blocks
    CUmemGenericAllocationHandle physical = 0;  // 0: an ordinary allocation
    int file = -1;                              // of an ordinary allocation that others may open
    bool foreign = false;                       // opened, another process's
  };
  struct Physical {
    std::size_t size, offset;
    int device;
    int uses;       // mappings
    bool released;  // by cuMemRelease; the memory goes with its last mapping
    int file = -1;  // imported: another process's
    bool exported = false;
    int retained = 0;
  };
  struct Pinned {
    std::size_t size;
    bool owned;
  };
  struct Grave {
    CUdeviceptr address;
    std::size_t size, cost;
  };
  using Ranges = std::map<CUdeviceptr, Range>;

  Ranges::const_iterator containing(CUdeviceptr address) const;
  bool whole_mappings(CUdeviceptr address, std::size_t size) const;
  void drop_if_unused(CUmemGenericAllocationHandle handle);
  void poison(void* address, std::size_t size, unsigned char pattern) const;
  void bury(CUdeviceptr address, std::size_t size);

  bool poison_ = true;
  Ranges ranges_;                                // allocations and mappings, by address
  std::map<CUdeviceptr, std::size_t> reserved_;  // address reservations
  std::map<CUmemGenericAllocationHandle, Physical> physical_;
  std::map<int, std::size_t> physical_bytes_;  // by device
  std::map<std::uintptr_t, Pinned> pinned_;
  std::deque<Grave> quarantine_;  // freed, poisoned and still mapped; oldest first
  std::size_t quarantine_cost_ = 0;
  CUmemGenericAllocationHandle next_handle_ = 1;
  int file_ = -1;  // one sparse file in memory holds all physical allocations
  std::size_t file_end_ = 0;
};

}  // namespace tritorch::cu::simulator
