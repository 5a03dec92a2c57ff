// One collective operation, as a member of a group calls it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "distributed/reduce.h"

namespace tritorch::distributed {

// Which pieces there are: in, what is contributed; out, what is received.  n: one for each member.
//   broadcast 0 -> 1 (the root's is sent), all_reduce 1 -> 1, reduce 1 -> 1 (at the root),
//   all_gather 1 -> n, gather 1 -> n (at the root), scatter n (at the root) -> 1,
//   reduce_scatter n -> 1, all_to_all n -> n (of any sizes), barrier 0 -> 0.
#define TRITORCH_COLLECTIVES(X) \
  X(broadcast)                  \
  X(all_reduce)                 \
  X(reduce) X(all_gather) X(gather) X(scatter) X(reduce_scatter) X(all_to_all) X(barrier)
#define TRITORCH_ENUMERATOR(name) name,
enum class Kind : std::uint8_t { TRITORCH_COLLECTIVES(TRITORCH_ENUMERATOR) count };
#undef TRITORCH_ENUMERATOR

struct Piece {
  char* data = nullptr;
  std::size_t size = 0;
};

struct Operation {
  Kind kind = Kind::barrier;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::uint8;
  int root = 0;
  std::vector<Piece> in, out;
  std::chrono::milliseconds timeout{};
  std::uint64_t call = 0;      // hash of what else all members must agree on
  std::shared_ptr<void> held;  // the owner of the pieces' memory

  // The size that all members must have in common; 0 where each may have its own.
  std::size_t common() const {
    if (kind == Kind::all_to_all || kind == Kind::barrier) return 0;
    return out.empty() ? in[0].size : out[0].size;
  }
  std::uint64_t hash() const {
    std::uint64_t h = call;
    for (const std::uint64_t part : {std::uint64_t(kind), std::uint64_t(op), std::uint64_t(dtype),
                                     std::uint64_t(root), std::uint64_t(common())}) {
      h = (h ^ part) * 0x9e3779b97f4a7c15;
      h ^= h >> 29;
    }
    return h;
  }
};

// Who computes operations: over shared memory, or over sockets.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void run(const Operation& operation, std::uint64_t sequence) = 0;
  // Makes the other members' waiting end.
  virtual void give_up() = 0;
  // Whether another member has.
  virtual bool given_up() const = 0;
  // Who is waited for, when a run has failed.
  virtual std::vector<int> absent() const = 0;
};

// Cut number `index` of `count` elements into `parts`: [begin, end).
struct Range {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};
inline Range cut(std::size_t count, int parts, int index) {
  const auto p = static_cast<std::size_t>(parts), i = static_cast<std::size_t>(index);
  return {count / p * i + std::min(count % p, i), count / p * (i + 1) + std::min(count % p, i + 1)};
}

}  // namespace tritorch::distributed
