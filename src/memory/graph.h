// Capturing a stream's work into a graph whose memory comes from a private pool, and replaying it.
#pragma once

#include <string>

#include "memory/allocator.h"
#include "profiling/device.h"

namespace tritorch {

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  ~Graph();

  // `pool`: a pool to share (0: a new one).
  void capture_begin(int device, cu::CUstream stream, memory::PoolId pool, int mode);
  void capture_end();
  void instantiate();
  void replay(cu::CUstream stream);
  void reset();
  memory::PoolId pool() const { return pool_; }
  std::size_t node_count() const;
  void debug_dump(const std::string& path) const;
  void keep_graph(bool keep) { keep_ = keep; }
  std::uintptr_t raw_graph() const;
  std::uintptr_t raw_exec() const;
  int device() const { return device_; }
  std::uint64_t capture_id() const { return capture_id_; }  // of the last capture
  profiling::GraphNotes notes;

 private:
  void release() noexcept;
  int device_ = 0;
  cu::CUstream stream_ = nullptr;
  memory::PoolId pool_ = 0;
  std::uint64_t capture_id_ = 0;
  bool capturing_ = false, keep_ = false;
  cu::CUgraph graph_ = nullptr;
  cu::CUgraphExec exec_ = nullptr;
};

// Which captures of other threads forbid this thread calls that they may not have: 0 those in
// global mode, 1 none but its own, 2 none.  Gives what it was.
int exchange_capture_mode(int mode);

}  // namespace tritorch
