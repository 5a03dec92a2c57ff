#include "launch/arena.h"

#include <algorithm>
#include <functional>
#include <map>

namespace tritorch {

std::shared_ptr<Arena> arena_of(int device, cu::CUstream stream, std::size_t bytes) {
  static auto* const arenas = new std::map<std::pair<int, cu::CUstream>, std::weak_ptr<Arena>>;
  std::weak_ptr<Arena>& known = (*arenas)[{device, stream}];
  std::shared_ptr<Arena> arena = known.lock();
  if (!arena || arena->storage->bytes < bytes) {
    arena = std::make_shared<Arena>();
    arena->storage = StorageRef(Storage::allocate(device, bytes, stream));
    known = arena;
  }
  return arena;
}

std::size_t plan_memory(const std::vector<Allocation>& allocations,
                        const std::vector<std::uint32_t>& planned,
                        std::vector<std::size_t>& places) {
  std::vector<std::uint32_t> order = planned, placed;
  std::ranges::stable_sort(order, std::greater{}, [&](auto i) { return allocations[i].bytes; });
  places.assign(allocations.size(), 0);
  std::size_t end = 0;
  for (const std::uint32_t i : order) {
    const Allocation& mine = allocations[i];
    std::size_t place = 0;
    for (const std::uint32_t other : placed) {  // in the order of their places
      const Allocation& known = allocations[other];
      if (known.last < mine.first || mine.last < known.first) continue;
      if (place + rounded(mine.bytes) <= places[other]) break;
      place = std::max(place, places[other] + rounded(known.bytes));
    }
    places[i] = place;
    placed.insert(std::ranges::upper_bound(placed, place, {}, [&](auto j) { return places[j]; }),
                  i);
    end = std::max(end, place + rounded(mine.bytes));
  }
  return end;
}

}  // namespace tritorch
