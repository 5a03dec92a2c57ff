// How the counters of allocator.h change.
#pragma once

#include "memory/allocator.h"

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

template <class Visit>
void for_each_stat(Statistics& s, Visit visit) {
  for (StatBySize* by_size :
       {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
        &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
    for (Stat* stat : {&by_size->all, &by_size->small_pool, &by_size->large_pool}) visit(*stat);
  visit(s.oversize_allocations);
  visit(s.oversize_segments);
}

}  // namespace tritorch::memory
