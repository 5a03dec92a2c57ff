// Memory of graphs: what lies there is used between a launch's kernels, and gone by its end.
#pragma once

#include <memory>
#include <vector>

#include "array/array.h"
#include "driver/fork.h"
#include "launch/recording.h"

namespace tritorch {

struct Arena {
  StorageRef storage;
  ForkMutex launching;  // what one launch writes there, the next must not before it is through
};

// The one of a stream, whose graphs follow each other; a larger one takes its place when that is
// needed.
std::shared_ptr<Arena> arena_of(int device, cu::CUstream stream, std::size_t bytes);

// Bytes as they are given out.
inline std::size_t rounded(std::size_t bytes) { return (bytes + 511) / 512 * 512; }

// Places for what is used from one node to another, such that what is used at one time lies apart:
// the largest first, each at the lowest place that is free.  Returns the bytes of all.
std::size_t plan_memory(const std::vector<Allocation>& allocations,
                        const std::vector<std::uint32_t>& planned,
                        std::vector<std::size_t>& places);

}  // namespace tritorch
