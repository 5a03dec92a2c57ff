// Which bytes of memory that an allocator divides among its callers are somebody's.
#pragma once

#include <map>

#include "driver/abi.h"

namespace tritorch::cu::simulator {

// [begin, end); empty if there is none.
struct Stretch {
  CUdeviceptr begin = 0, end = 0;
};

// Blocks may overlap: one that is taken back stays until its stream has got there, and what is
// given of the same memory meanwhile is there beside it.  So the bytes between two keys of the map
// have a count, how many blocks they are in.
class Blocks {
 public:
  void add(Stretch block) {
    change(block, [](int count) { return count + 1; });
  }
  void remove(Stretch block) {
    change(block, [](int count) { return count > 0 ? count - 1 : 0; });
  }
  void forget(Stretch memory) {
    change(memory, [](int) { return 0; });
  }

  // The bytes without a gap around an address that are in some block.
  Stretch around(CUdeviceptr address) const {
    auto next = counts_.upper_bound(address);
    if (next == counts_.begin() || std::prev(next)->second == 0) return {};
    auto first = std::prev(next);
    while (first != counts_.begin() && std::prev(first)->second > 0) --first;
    while (next->second > 0) ++next;
    return {first->first, next->first};
  }

 private:
  template <class Change>
  void change(Stretch bytes, Change change) {
    if (bytes.begin >= bytes.end) return;
    const auto first = boundary(bytes.begin), last = boundary(bytes.end);
    for (auto entry = first; entry != last; ++entry) entry->second = change(entry->second);
    // The boundaries stay where counts differ; the last count of the map is 0.
    for (auto entry = first; true;) {
      const int before = entry == counts_.begin() ? 0 : std::prev(entry)->second;
      const bool at_end = entry == last;
      entry = entry->second == before ? counts_.erase(entry) : std::next(entry);
      if (at_end) return;
    }
  }
  std::map<CUdeviceptr, int>::iterator boundary(CUdeviceptr address) {
    const auto next = counts_.upper_bound(address);
    const int count = next == counts_.begin() ? 0 : std::prev(next)->second;
    return counts_.try_emplace(address, count).first;
  }

  std::map<CUdeviceptr, int> counts_;
};

}  // namespace tritorch::cu::simulator
