// What a device was asked to do, as nodes: each can be given to a stream again, or all of them as
// one CUDA graph, whose nodes are changed one by one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "driver/table.h"
#include "profiling/device.h"

namespace tritorch {

struct GraphNode {
  enum Kind : std::uint8_t { kernel, fill, copy } kind = kernel;
  // A kernel's parameters, each at its offset; a fill's target; a copy's target and source.
  struct alignas(128) Chunk {
    unsigned char bytes[128];
  };
  std::vector<Chunk> chunks;
  std::vector<std::uint32_t> offsets;

  cu::CUfunction function = nullptr;
  std::array<unsigned, 3> grid{};
  unsigned threads = 0, shared = 0;
  std::vector<cu::CUlaunchAttribute> attributes;

  unsigned value = 0, width = 0;  // of a fill
  std::size_t count = 0;          // of a fill's elements, or of a copy's bytes
  profiling::NodeNote note;

  unsigned char* bytes() { return chunks[0].bytes; }
  const unsigned char* bytes() const { return chunks[0].bytes; }
  cu::CUdeviceptr address(std::size_t i) const;
  bool waits_itself() const;  // programmatic dependent launch
};

// Gives the nodes to a stream, one after the other.
void launch_one_by_one(const std::vector<GraphNode>& nodes, cu::CUstream stream);

// One of them, with other bytes in place of its own.
void launch_with(const GraphNode& node, unsigned char* bytes, cu::CUstream stream);

// The nodes as a graph that runs them in their order.
class NodeGraph {
 public:
  // Throws CudaError, also where the driver has no entries for this.
  NodeGraph(const std::vector<GraphNode>& nodes, int device);
  ~NodeGraph();
  NodeGraph(const NodeGraph&) = delete;

  // Takes over what has changed of nodes, by their numbers, and runs.
  void launch(const std::vector<GraphNode>& nodes, const std::vector<std::uint32_t>& changed,
              cu::CUstream stream);

 private:
  void add(const GraphNode& node, bool after_kernel);
  void change(std::size_t i, const GraphNode& node);
  void release() noexcept;

  cu::CUcontext context_;
  cu::CUgraph graph_ = nullptr;  // kept: its nodes name those of exec_
  cu::CUgraphExec exec_ = nullptr;
  std::vector<cu::CUgraphNode> handles_;
  profiling::GraphNotes notes_;
};

}  // namespace tritorch
