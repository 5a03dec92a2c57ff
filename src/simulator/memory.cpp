// Device memory is host memory that the kernel hands out lazily, so a simulated device may have
// more of it than the machine.  Every allocation has pages of its own and an inaccessible page
// behind it.
//
// Poison: new memory holds 0xCB and freed memory 0xDB.  What is freed stays mapped for a while (the
// quarantine), so that a stale read gives a recognisable wrong value instead of a crash.  Poisoned
// pages are private mappings of a small file of poison: one costs nothing until it is touched.  Of
// very large allocations, and of physical memory over 4 MiB, only both ends are poisoned.
#include "simulator/memory.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace tritorch::cu::simulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPoison = std::size_t{8} << 20;  // a file's size
constexpr std::size_t kPoisonWhole = std::size_t{512} << 20;
constexpr std::size_t kPoisonEnds = std::size_t{2} << 20;
constexpr std::size_t kQuarantineBytes = std::size_t{256} << 20;
constexpr std::size_t kQuarantineRanges = 4096;
constexpr unsigned char kNew = 0xCB, kFreed = 0xDB;

void* pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}
CUdeviceptr address_of(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }
bool sane(std::size_t size) { return size > 0 && size < std::size_t{1} << 46; }

void* map_new(std::size_t size, int protection) {
  void* p = mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
std::size_t footprint(std::size_t size) { return round_up(size, kPage) + kPage; }

// Pages with an inaccessible one behind them, or null.
void* map_guarded(std::size_t size) {
  void* p = map_new(footprint(size), PROT_NONE);
  if (p && mprotect(p, footprint(size) - kPage, PROT_READ | PROT_WRITE) != 0) {
    munmap(p, footprint(size));
    return nullptr;
  }
  return p;
}

bool write_all(int file, std::size_t offset, std::size_t size, unsigned char pattern) {
  std::vector<unsigned char> bytes(std::min(size, std::size_t{1} << 20), pattern);
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = pwrite(file, bytes.data(), std::min(bytes.size(), size - done),
                             static_cast<off_t>(offset + done));
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// Not memfd_create(), which older C libraries lack.
int new_file() { return static_cast<int>(syscall(SYS_memfd_create, "tritorch simulator", 1U)); }

int poison_file(unsigned char pattern) {
  static const auto make = [](unsigned char byte) {
    const int file = new_file();
    return file >= 0 && write_all(file, 0, kPoison, byte) ? file : -1;
  };
  static const int fresh = make(kNew), freed = make(kFreed);
  return pattern == kNew ? fresh : freed;
}

// Whole pages of poison in place of what was mapped there.
void map_poison(char* begin, std::size_t size, unsigned char pattern) {
  const int file = poison_file(pattern);
  for (std::size_t done = 0; file >= 0 && done < size; done += kPoison)
    mmap(begin + done, std::min(kPoison, size - done), PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, file, 0);
}

}  // namespace

Memory::~Memory() {
  for (const auto& [address, range] : ranges_)
    if (!range.physical) munmap(pointer(address), footprint(range.size));
  for (const auto& [address, size] : reserved_) munmap(pointer(address), size);
  for (const auto& [address, pinned] : pinned_)
    if (pinned.owned) munmap(pointer(address), footprint(pinned.size));
  for (const Grave& grave : quarantine_) munmap(pointer(grave.address), footprint(grave.size));
  if (file_ >= 0) close(file_);
}

void Memory::poison(void* address, std::size_t size, unsigned char pattern) const {
  if (!poison_) return;
  size = round_up(size, kPage);
  char* begin = static_cast<char*>(address);
  if (size <= kPoisonWhole) {
    map_poison(begin, size, pattern);
  } else {
    map_poison(begin, kPoison, pattern);
    map_poison(begin + size - kPoison, kPoison, pattern);
  }
}

// Ordinary allocations.

CUresult Memory::allocate(CUdeviceptr& address, std::size_t size, int device) {
  void* p = sane(size) ? map_guarded(size) : nullptr;
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  poison(p, size, kNew);
  address = address_of(p);
  ranges_[address] = {.size = size, .device = device};
  return CUDA_SUCCESS;
}

CUresult Memory::free(CUdeviceptr address, std::size_t& size, int& device) {
  auto range = ranges_.find(address);
  if (range == ranges_.end() || range->second.physical || range->second.foreign)
    return CUDA_ERROR_INVALID_VALUE;
  if (range->second.file >= 0) close(range->second.file);
  size = range->second.size;
  device = range->second.device;
  ranges_.erase(range);
  blocks.forget({address, address + size});
  bury(address, size);
  return CUDA_SUCCESS;
}

void Memory::bury(CUdeviceptr address, std::size_t size) {
  if (!poison_) {
    munmap(pointer(address), footprint(size));
    return;
  }
  // The contents go at once; what a stale write touches again is counted as if all were.
  if (size > kPoisonWhole) madvise(pointer(address), round_up(size, kPage), MADV_DONTNEED);
  poison(pointer(address), size, kFreed);
  const std::size_t cost = std::min(round_up(size, kPage), 2 * kPoison);
  quarantine_.push_back({address, size, cost});
  quarantine_cost_ += cost;
  while (quarantine_cost_ > kQuarantineBytes || quarantine_.size() > kQuarantineRanges) {
    const Grave& oldest = quarantine_.front();
    munmap(pointer(oldest.address), footprint(oldest.size));
    quarantine_cost_ -= oldest.cost;
    quarantine_.pop_front();
  }
}

// Virtual memory.  All physical memory is one sparse file: an allocation is a stretch of it that is
// never used again, and releasing punches a hole.  (A file an allocation would run out of files.)

CUresult Memory::reserve(CUdeviceptr& address, std::size_t size, std::size_t alignment) {
  if (!sane(size) || size % kGranularity || (alignment & (alignment - 1)) ||
      alignment > std::size_t{1} << 40)
    return CUDA_ERROR_INVALID_VALUE;
  alignment = std::max(alignment, kGranularity);
  void* p = map_new(size + alignment, PROT_NONE);
  if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUdeviceptr begin = address_of(p), end = begin + size + alignment;
  address = round_up(begin, alignment);
  if (address > begin) munmap(p, address - begin);
  munmap(pointer(address + size), end - (address + size));
  reserved_[address] = size;
  return CUDA_SUCCESS;
}

CUresult Memory::unreserve(CUdeviceptr address, std::size_t size) {
  auto reservation = reserved_.find(address);
  if (reservation == reserved_.end() || reservation->second != size)
    return CUDA_ERROR_INVALID_VALUE;
  auto mapping = ranges_.lower_bound(address);
  if (mapping != ranges_.end() && mapping->first < address + size) return CUDA_ERROR_INVALID_VALUE;
  munmap(pointer(address), size);
  reserved_.erase(reservation);
  return CUDA_SUCCESS;
}

CUresult Memory::create(CUmemGenericAllocationHandle& handle, std::size_t size, int device) {
  if (!sane(size) || size % kGranularity) return CUDA_ERROR_INVALID_VALUE;
  if (file_ < 0) file_ = new_file();
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(file_end_ + size)) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  // Written, which takes half of what faults of mapped pages do, but still too long for all of it.
  const std::size_t end = std::min(size, kPoisonEnds);
  if (poison_ && !(write_all(file_, file_end_, end, kNew) &&
                   write_all(file_, file_end_ + size - end, end, kNew)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  handle = next_handle_++;
  physical_[handle] = {size, file_end_, device, 0, false};
  physical_bytes_[device] += size;
  file_end_ += size;
  return CUDA_SUCCESS;
}

void Memory::drop_if_unused(CUmemGenericAllocationHandle handle) {
  auto found = physical_.find(handle);
  const Physical& memory = found->second;
  if (memory.uses > 0 || memory.retained > 0 || !memory.released) return;
  if (memory.file >= 0) {
    close(memory.file);
    physical_.erase(found);
    return;
  }
  // Without the hole the file only keeps its pages a little longer: as long as it lives, if others
  // may have them mapped.
  if (!memory.exported)
    (void)!fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(memory.offset), static_cast<off_t>(memory.size));
  physical_bytes_[memory.device] -= memory.size;
  physical_.erase(found);
}

CUresult Memory::release(CUmemGenericAllocationHandle handle) {
  auto found = physical_.find(handle);
  if (found == physical_.end()) return CUDA_ERROR_INVALID_VALUE;
  if (found->second.retained > 0) {
    --found->second.retained;
    drop_if_unused(handle);
    return CUDA_SUCCESS;
  }
  if (found->second.released) return CUDA_ERROR_INVALID_VALUE;
  found->second.released = true;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

CUresult Memory::map(CUdeviceptr address, std::size_t size, CUmemGenericAllocationHandle handle) {
  auto memory = physical_.find(handle);
  if (memory == physical_.end() || memory->second.released || !sane(size) || size % kGranularity ||
      address % kGranularity || size > memory->second.size)
    return CUDA_ERROR_INVALID_VALUE;
  auto reservation = reserved_.upper_bound(address);
  if (reservation == reserved_.begin()) return CUDA_ERROR_INVALID_VALUE;
  --reservation;
  if (address + size > reservation->first + reservation->second) return CUDA_ERROR_INVALID_VALUE;
  auto next = ranges_.lower_bound(address);
  if ((next != ranges_.end() && next->first < address + size) ||
      containing(address) != ranges_.end())
    return CUDA_ERROR_INVALID_VALUE;
  const int file = memory->second.file >= 0 ? memory->second.file : file_;
  if (mmap(pointer(address), size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
           static_cast<off_t>(memory->second.offset)) == MAP_FAILED)
    return CUDA_ERROR_MAP_FAILED;
  ++memory->second.uses;
  ranges_[address] = {
      .size = size, .device = memory->second.device, .readable = false, .physical = handle};
  return CUDA_SUCCESS;
}

// True if [address, address + size) is made of whole mappings without a gap.
bool Memory::whole_mappings(CUdeviceptr address, std::size_t size) const {
  const CUdeviceptr end = address + size;
  for (auto range = ranges_.find(address);
       range != ranges_.end() && range->second.physical && range->first == address && address < end;
       ++range)
    address += range->second.size;
  return size > 0 && address == end;
}

CUresult Memory::unmap(CUdeviceptr address, std::size_t size) {
  if (!whole_mappings(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(pointer(address), size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return CUDA_ERROR_UNMAP_FAILED;
  blocks.forget({address, address + size});
  auto range = ranges_.find(address);
  while (range != ranges_.end() && range->first < address + size) {
    const CUmemGenericAllocationHandle handle = range->second.physical;
    range = ranges_.erase(range);
    --physical_.at(handle).uses;
    drop_if_unused(handle);
  }
  return CUDA_SUCCESS;
}

CUresult Memory::set_access(CUdeviceptr address, std::size_t size, bool readable) {
  if (!whole_mappings(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (mprotect(pointer(address), size, readable ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (auto range = ranges_.find(address); range != ranges_.end() && range->first < address + size;
       ++range)
    range->second.readable = readable;
  return CUDA_SUCCESS;
}

// Between processes.  An allocation moves into a file of its own when somebody asks for its handle,
// which names the file by this process and its descriptor.

namespace {
struct Named {
  char magic[8];
  std::uint64_t size;
  int process, file, device;
};
constexpr char kMagic[8] = "sim mem";
static_assert(sizeof(Named) <= sizeof(CUipcMemHandle));
}  // namespace

CUresult Memory::get_handle(CUdeviceptr address, CUipcMemHandle& handle) {
  auto range = ranges_.find(address);
  if (range == ranges_.end() || range->second.physical || range->second.foreign)
    return CUDA_ERROR_INVALID_VALUE;
  Range& memory = range->second;
  if (memory.file < 0) {
    const std::size_t whole = round_up(memory.size, kPage);
    const int file = new_file();
    char* begin = static_cast<char*>(pointer(address));
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    bool moved = ftruncate(file, static_cast<off_t>(whole)) == 0;
    for (std::size_t done = 0; moved && done < whole;) {
      const ssize_t n = pwrite(file, begin + done, whole - done, static_cast<off_t>(done));
      moved = n > 0;
      done += moved ? static_cast<std::size_t>(n) : 0;
    }
    if (!moved ||
        mmap(begin, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
      close(file);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory.file = file;
  }
  Named named{{}, memory.size, getpid(), memory.file, memory.device};
  std::copy_n(kMagic, sizeof kMagic, named.magic);
  handle = {};
  std::memcpy(&handle, &named, sizeof named);
  return CUDA_SUCCESS;
}

CUresult Memory::open_handle(CUdeviceptr& address, const CUipcMemHandle& handle) {
  Named named;
  std::memcpy(&named, &handle, sizeof named);
  // As a driver, which opens no memory of the process itself.
  if (std::memcmp(named.magic, kMagic, sizeof kMagic) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (named.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::string path =
      "/proc/" + std::to_string(named.process) + "/fd/" + std::to_string(named.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_MAP_FAILED;
  void* p = map_new(footprint(named.size), PROT_NONE);
  if (p && mmap(p, round_up(named.size, kPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                file, 0) == MAP_FAILED) {
    munmap(p, footprint(named.size));
    p = nullptr;
  }
  close(file);
  if (!p) return CUDA_ERROR_MAP_FAILED;
  address = address_of(p);
  ranges_[address] = {.size = named.size, .device = named.device, .foreign = true};
  return CUDA_SUCCESS;
}

CUresult Memory::close_handle(CUdeviceptr address) {
  auto range = ranges_.find(address);
  if (range == ranges_.end() || !range->second.foreign) return CUDA_ERROR_INVALID_VALUE;
  munmap(pointer(address), footprint(range->second.size));
  ranges_.erase(range);
  return CUDA_SUCCESS;
}

CUresult Memory::retain(CUmemGenericAllocationHandle& handle, CUdeviceptr address) {
  auto range = containing(address);
  if (range == ranges_.end() || !range->second.physical) return CUDA_ERROR_INVALID_VALUE;
  handle = range->second.physical;
  ++physical_.at(handle).retained;
  return CUDA_SUCCESS;
}

CUresult Memory::export_file(int& file, CUmemGenericAllocationHandle handle) {
  auto found = physical_.find(handle);
  if (found == physical_.end()) return CUDA_ERROR_INVALID_VALUE;
  const int from = found->second.file >= 0 ? found->second.file : file_;
  file = open(("/proc/self/fd/" + std::to_string(from)).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  (void)lseek(file, static_cast<off_t>(found->second.offset), SEEK_SET);
  found->second.exported = true;
  return CUDA_SUCCESS;
}

CUresult Memory::import_file(CUmemGenericAllocationHandle& handle, int file, int device) {
  const off_t offset = lseek(file, 0, SEEK_CUR);
  const int own = offset < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0);
  const off_t end = own < 0 ? -1 : lseek(own, 0, SEEK_END);
  if (end <= offset) return CUDA_ERROR_INVALID_VALUE;
  (void)lseek(own, offset, SEEK_SET);  // both descriptors have one position
  handle = next_handle_++;
  physical_[handle] = {static_cast<std::size_t>(end - offset),
                       static_cast<std::size_t>(offset),
                       device,
                       0,
                       false,
                       own};
  return CUDA_SUCCESS;
}

std::size_t Memory::physical(int device) const {
  auto found = physical_bytes_.find(device);
  return found == physical_bytes_.end() ? 0 : found->second;
}

// Page-locked host memory.

CUresult Memory::pin_new(void*& address, std::size_t size) {
  address = sane(size) ? map_guarded(size) : nullptr;
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  poison(address, size, kNew);
  pinned_[address_of(address)] = {size, true};
  return CUDA_SUCCESS;
}

CUresult Memory::pin_existing(void* address, std::size_t size) {
  if (!address || !sane(size)) return CUDA_ERROR_INVALID_VALUE;
  auto next = pinned_.lower_bound(address_of(address));
  if (next != pinned_.end() && next->first < address_of(address) + size)
    return CUDA_ERROR_INVALID_VALUE;
  if (pinned(address, 1)) return CUDA_ERROR_INVALID_VALUE;
  pinned_[address_of(address)] = {size, false};
  return CUDA_SUCCESS;
}

CUresult Memory::unpin(void* address, bool owned) {
  auto found = pinned_.find(address_of(address));
  if (found == pinned_.end() || found->second.owned != owned) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t size = found->second.size;
  pinned_.erase(found);
  if (owned) bury(address_of(address), size);
  return CUDA_SUCCESS;
}

bool Memory::pinned(const void* address, std::size_t size) const {
  auto after = pinned_.upper_bound(address_of(address));
  if (after == pinned_.begin()) return false;
  --after;
  return address_of(address) + size <= after->first + after->second.size;
}

// Questions.

Memory::Ranges::const_iterator Memory::containing(CUdeviceptr address) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return ranges_.end();
  --after;
  return address - after->first < after->second.size ? after : ranges_.end();
}

// Neighbouring mappings are one stretch, as on the device.  Neighbouring allocations are not: that
// they touch is chance, and running from one into the next is a bug.
Stretch Memory::stretch(CUdeviceptr address) const {
  auto range = containing(address);
  if (range == ranges_.end() || !range->second.readable) return {};
  Stretch result{range->first, range->first + range->second.size};
  if (!range->second.physical) return result;
  for (auto next = std::next(range); next != ranges_.end() && next->first == result.end &&
                                     next->second.physical && next->second.readable;
       ++next)
    result.end += next->second.size;
  for (; range != ranges_.begin(); result.begin = range->first) {
    auto before = std::prev(range);
    if (before->first + before->second.size != result.begin || !before->second.physical ||
        !before->second.readable)
      break;
    range = before;
  }
  return result;
}

void Memory::divide(CUdeviceptr address, std::size_t size) {
  const auto end = ranges_.lower_bound(address + size);
  for (auto range = ranges_.lower_bound(address); range != end; ++range)
    range->second.divided = true;
}

Stretch Memory::touchable(CUdeviceptr address) const {
  const auto range = containing(address);
  if (range != ranges_.end() && range->second.divided) return blocks.around(address);
  return stretch(address);
}

bool Memory::accessible(CUdeviceptr address, std::size_t size) const {
  if (size == 0) return true;
  auto range = containing(address);
  if (range == ranges_.end() || !range->second.readable) return false;
  if (size <= range->first + range->second.size - address) return true;
  const Stretch around = stretch(address);
  return size <= around.end - address;
}

int Memory::device_of(CUdeviceptr address) const {
  auto range = containing(address);
  return range == ranges_.end() ? -1 : range->second.device;
}

std::string Memory::describe(CUdeviceptr address) const {
  auto range = containing(address);
  if (range != ranges_.end())
    return range->second.readable
               ? "the end of an allocation of " + std::to_string(range->second.size) + " bytes"
               : "mapped memory without cuMemSetAccess";
  for (const Grave& grave : quarantine_)
    if (address - grave.address < grave.size)
      return "freed memory (an allocation of " + std::to_string(grave.size) + " bytes)";
  for (const auto& [begin, size] : reserved_)
    if (address - begin < size) return "reserved addresses with nothing mapped";
  if (pinned(pointer(address), 1)) return "host memory";
  return "memory that was never allocated";
}

}  // namespace tritorch::cu::simulator
