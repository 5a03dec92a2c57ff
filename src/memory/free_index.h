// Free blocks by size, with best fit in a handful of instructions: two-level segregated bins. Sizes
// are multiples of 512.  A row of 32 bins covers one power of two (the first row: everything below
// 32 units, one bin a size); two levels of bitmaps find the next bin that is not empty.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tritorch::memory {

// T has `address`, `size`, `list_prev`, `list_next`; a block is in one list at a time.
template <class T>
class FreeIndex {
 public:
  void insert(T* block) noexcept {
    const unsigned bin = bin_of(block->size);
    T*& head = heads_[bin];
    block->list_prev = nullptr;
    block->list_next = head;
    if (head) head->list_prev = block;
    head = block;
    bins_[bin / kColumns] |= 1u << (bin % kColumns);
    rows_ |= std::uint64_t{1} << (bin / kColumns);
  }

  void remove(T* block) noexcept {
    if (block->list_next) block->list_next->list_prev = block->list_prev;
    if (block->list_prev) {
      block->list_prev->list_next = block->list_next;
    } else {
      const unsigned bin = bin_of(block->size), row = bin / kColumns;
      heads_[bin] = block->list_next;
      if (!block->list_next) {
        bins_[row] &= ~(1u << (bin % kColumns));
        if (!bins_[row]) rows_ &= ~(std::uint64_t{1} << row);
      }
    }
    block->list_prev = block->list_next = nullptr;
  }

  // The smallest block of at least `size` that `accept` takes, the lowest address among equals: of
  // the first kScan in the first bin that has any.  Never misses a block that would do.
  template <class Accept>
  T* best_fit(std::size_t size, Accept accept) const {
    const unsigned own = bin_of(size);
    if (T* block = scan(heads_[own], size, kScan, accept)) return block;
    for (unsigned bin = next_bin(own + 1); bin < kBins; bin = next_bin(bin + 1))
      if (T* block = scan(heads_[bin], size, kScan, accept)) return block;
    // Only now look at what lies behind the bound.
    for (unsigned bin = next_bin(own); bin < kBins; bin = next_bin(bin + 1))
      if (T* block = scan(heads_[bin], size, SIZE_MAX, accept)) return block;
    return nullptr;
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (unsigned bin = next_bin(0); bin < kBins; bin = next_bin(bin + 1))
      for (T* block = heads_[bin]; block;) {
        T* next = block->list_next;
        visit(block);
        block = next;
      }
  }

 private:
  static constexpr unsigned kColumns = 32, kRows = 48, kBins = kRows * kColumns;
  static constexpr std::size_t kScan = 8;

  static unsigned bin_of(std::size_t size) noexcept {
    const std::size_t units = size / 512;
    if (units < kColumns) return unsigned(units);
    const unsigned log = unsigned(std::bit_width(units)) - 1;
    return (log - 4) * kColumns + unsigned((units >> (log - 5)) & (kColumns - 1));
  }

  // The first bin from `bin` on that holds a block, or kBins.
  unsigned next_bin(unsigned bin) const noexcept {
    if (bin >= kBins) return kBins;
    const unsigned row = bin / kColumns;
    if (const std::uint32_t here = bins_[row] & (~0u << (bin % kColumns)))
      return row * kColumns + unsigned(std::countr_zero(here));
    const std::uint64_t later = rows_ & ~((std::uint64_t{2} << row) - 1);
    if (!later) return kBins;
    const unsigned next = unsigned(std::countr_zero(later));
    return next * kColumns + unsigned(std::countr_zero(bins_[next]));
  }

  template <class Accept>
  static T* scan(T* block, std::size_t size, std::size_t bound, Accept& accept) {
    T* best = nullptr;
    for (; block && bound; block = block->list_next, --bound) {
      if (block->size < size || !accept(block)) continue;
      if (!best || block->size < best->size ||
          (block->size == best->size && block->address < best->address))
        best = block;
    }
    return best;
  }

  std::uint64_t rows_ = 0;
  std::uint32_t bins_[kRows] = {};
  T* heads_[kBins] = {};
};

}  // namespace tritorch::memory
