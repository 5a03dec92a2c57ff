// How the counters of allocator.h change.
#pragma once

#include <string>

#include "memory/allocator.h"
#include "memory/pinned.h"

namespace tritorch::memory {

inline void increase(Stat& stat, std::int64_t amount) {
  stat.current += amount;
  stat.allocated += amount;
  if (stat.current > stat.peak) stat.peak = stat.current;
}
inline void decrease(Stat& stat, std::int64_t amount) {
  stat.current -= amount;
  stat.freed += amount;
}
inline Stat& of_kind(StatBySize& stats, PoolKind kind) {
  return kind == kSmallPool ? stats.small_pool : stats.large_pool;
}
inline void increase(StatBySize& stats, PoolKind kind, std::size_t amount) {
  increase(stats.all, std::int64_t(amount));
  increase(of_kind(stats, kind), std::int64_t(amount));
}
inline void decrease(StatBySize& stats, PoolKind kind, std::size_t amount) {
  decrease(stats.all, std::int64_t(amount));
  decrease(of_kind(stats, kind), std::int64_t(amount));
}
inline void change(StatBySize& stats, PoolKind kind, std::int64_t amount) {
  if (amount > 0) increase(stats, kind, std::size_t(amount));
  if (amount < 0) decrease(stats, kind, std::size_t(-amount));
}

// visit(PyTorch's name, Stat&) for each.
template <class S, class Visit>
void for_each_stat(S& s, Visit visit) {
  const auto by_size = [&](const std::string& name, auto& stats) {
    visit(name + ".all", stats.all);
    visit(name + ".small_pool", stats.small_pool);
    visit(name + ".large_pool", stats.large_pool);
  };
  by_size("allocation", s.allocation);
  by_size("segment", s.segment);
  by_size("active", s.active);
  by_size("inactive_split", s.inactive_split);
  by_size("allocated_bytes", s.allocated_bytes);
  by_size("reserved_bytes", s.reserved_bytes);
  by_size("active_bytes", s.active_bytes);
  by_size("inactive_split_bytes", s.inactive_split_bytes);
  by_size("requested_bytes", s.requested_bytes);
  visit("oversize_allocations", s.oversize_allocations);
  visit("oversize_segments", s.oversize_segments);
}

// The same for page-locked host memory.
template <class S, class Visit>
void for_each_host_stat(S& s, Visit visit) {
  visit("allocations", s.allocations);
  visit("allocated_bytes", s.allocated_bytes);
  visit("active_requests", s.active_requests);
  visit("active_bytes", s.active_bytes);
}

}  // namespace tritorch::memory
