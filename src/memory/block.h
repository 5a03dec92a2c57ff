// What the device allocator's memory is made of: segments (address ranges obtained from the
// driver), cut into blocks that are kept in address order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver/table.h"
#include "memory/allocator.h"
#include "memory/free_index.h"

namespace tritorch::memory {

struct BlockPool;
struct Segment;

enum class BlockState : std::uint8_t {
  unused,    // in the slab
  unmapped,  // a hole in an expandable segment: addresses without memory
  free,
  allocated,
  awaiting,  // freed by its owner, other streams may still use it
};

// The first cache line holds what allocation and free touch.
struct alignas(64) Block {
  cu::CUdeviceptr address = 0;
  std::size_t size = 0;
  Block* prev = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  Block* list_prev = nullptr;  // in the free index, or among the segment's holes
  Block* list_next = nullptr;
  Segment* segment = nullptr;
  std::size_t requested = 0;

  BlockState state = BlockState::unused;
  bool guarded = false;   // has red zones
  bool poisoned = false;  // free, and every byte is poison
  unsigned pending_events = 0;
  TraceId trace = 0;
  TraceId free_trace = 0;
  std::uint64_t free_clock = 0;       // its pool's clock when it was freed
  std::vector<cu::CUstream> streams;  // recorded by record_stream
};

struct Segment {
  cu::CUdeviceptr base = 0;
  std::size_t size = 0;  // plain: bytes allocated; expandable: bytes of addresses reserved
  std::size_t mapped = 0;
  std::size_t chunk = 0;  // of physical memory; 0 for a plain segment
  bool oversize = false;  // counted as such
  BlockPool* pool = nullptr;
  Block* first = nullptr;
  Block* holes = nullptr;

  bool expandable() const { return chunk != 0; }
};

struct Lane;

// The free blocks of one (private pool, stream, kind).
struct BlockPool {
  Lane* lane = nullptr;
  PoolKind kind = kSmallPool;
  FreeIndex<Block> free;
  std::uint64_t clock = 0;  // requests served: what a cached block's age is measured in
  std::vector<std::unique_ptr<Segment>> segments;
};

struct Lane {
  Lane(PoolId pool_id, cu::CUstream stream_) : pool(pool_id), stream(stream_) {
    for (int kind : {kSmallPool, kLargePool}) {
      pools[kind].lane = this;
      pools[kind].kind = PoolKind(kind);
    }
  }
  PoolId pool;
  cu::CUstream stream;
  BlockPool pools[2];
};

// Blocks without malloc on the hot path.  What is never given back to the slab is its memory.
class BlockSlab {
 public:
  // After this, the next `count` calls of get() cannot fail.
  void reserve(std::size_t count) {
    while (available_ < count) grow();
  }
  Block* get() {
    if (!head_) grow();
    Block* block = head_;
    head_ = block->next;
    --available_;
    block->next = nullptr;
    return block;
  }
  void put(Block* block) noexcept {
    block->streams.clear();
    block->state = BlockState::unused;
    block->guarded = block->poisoned = false;
    block->pending_events = 0;
    block->prev = block->list_prev = block->list_next = nullptr;
    block->next = head_;
    head_ = block;
    ++available_;
  }

 private:
  static constexpr std::size_t kBlocks = 128;
  void grow() {
    chunks_.push_back(std::make_unique<Block[]>(kBlocks));
    for (std::size_t i = kBlocks; i-- > 0;) {
      chunks_.back()[i].next = head_;
      head_ = &chunks_.back()[i];
    }
    available_ += kBlocks;
  }
  Block* head_ = nullptr;
  std::size_t available_ = 0;
  std::vector<std::unique_ptr<Block[]>> chunks_;
};

}  // namespace tritorch::memory
