#include "memory/nodes.h"

#include <cstring>
#include <optional>

#include "driver/context.h"
#include "memory/event_queues.h"

namespace tritorch {
namespace {

// Where a kernel's parameters lie.  What is made of it must not outlive the node.
class Params {
 public:
  explicit Params(const GraphNode& node) : Params(node, const_cast<unsigned char*>(node.bytes())) {}
  Params(const GraphNode& node, unsigned char* bytes) {
    if (node.offsets.size() > few_.size()) many_.resize(node.offsets.size());
    void** pointers = data();
    for (std::uint32_t offset : node.offsets) *pointers++ = bytes + offset;
  }
  void** data() { return many_.empty() ? few_.data() : many_.data(); }

 private:
  std::array<void*, 48> few_;
  std::vector<void*> many_;
};

cu::CUDA_KERNEL_NODE_PARAMS kernel_of(const GraphNode& node, Params& params) {
  return {node.function, node.grid[0],  node.grid[1], node.grid[2], node.threads, 1, 1,
          node.shared,   params.data(), nullptr,      nullptr,      nullptr};
}

cu::CUDA_MEMSET_NODE_PARAMS fill_of(const GraphNode& node) {
  return {node.address(0), 0, node.value, node.width, node.count, 1};
}

cu::CUDA_MEMCPY3D copy_of(const GraphNode& node) {
  cu::CUDA_MEMCPY3D copy{};
  copy.dstMemoryType = copy.srcMemoryType = cu::CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = node.address(0);
  copy.srcDevice = node.address(1);
  copy.WidthInBytes = node.count;
  copy.Height = copy.Depth = 1;
  return copy;
}

cu::CUdeviceptr address_in(const unsigned char* bytes, std::size_t i) {
  cu::CUdeviceptr found;
  std::memcpy(&found, bytes + 8 * i, sizeof found);
  return found;
}

void launch_alone(const GraphNode& node, unsigned char* bytes, cu::CUstream stream) {
  const cu::Driver& table = driver();
  if (node.kind == GraphNode::copy) {
    CHECK_CU(
        table.cuMemcpyDtoDAsync(address_in(bytes, 0), address_in(bytes, 1), node.count, stream));
  } else if (node.kind == GraphNode::kernel) {
    Params params(node, bytes);
    cu::CUlaunchConfig config{node.grid[0],
                              node.grid[1],
                              node.grid[2],
                              node.threads,
                              1,
                              1,
                              node.shared,
                              stream,
                              const_cast<cu::CUlaunchAttribute*>(node.attributes.data()),
                              static_cast<unsigned>(node.attributes.size())};
    CHECK_CU(table.cuLaunchKernelEx(&config, node.function, params.data(), nullptr));
  } else if (node.width == 1) {
    const auto value = static_cast<unsigned char>(node.value);
    CHECK_CU(table.cuMemsetD8Async(address_in(bytes, 0), value, node.count, stream));
  } else if (node.width == 2) {
    const auto value = static_cast<unsigned short>(node.value);
    CHECK_CU(table.cuMemsetD16Async(address_in(bytes, 0), value, node.count, stream));
  } else {
    CHECK_CU(table.cuMemsetD32Async(address_in(bytes, 0), node.value, node.count, stream));
  }
}

}  // namespace

cu::CUdeviceptr GraphNode::address(std::size_t i) const { return address_in(bytes(), i); }

bool GraphNode::waits_itself() const {
  for (const cu::CUlaunchAttribute& each : attributes)
    if (each.id == cu::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return true;
  return false;
}

void launch_one_by_one(const std::vector<GraphNode>& nodes, cu::CUstream stream) {
  BlockingRegion region;
  for (const GraphNode& node : nodes)
    launch_alone(node, const_cast<unsigned char*>(node.bytes()), stream);
}

void launch_with(const GraphNode& node, unsigned char* bytes, cu::CUstream stream) {
  launch_alone(node, bytes, stream);
}

NodeGraph::NodeGraph(const std::vector<GraphNode>& nodes, int device)
    : context_(context_of(device)) {
  const cu::Driver& table = driver();
  if (!table.cuGraphCreate || !table.cuGraphAddKernelNode || !table.cuGraphAddMemsetNode ||
      !table.cuGraphAddMemcpyNode || !table.cuGraphKernelNodeSetAttribute ||
      !table.cuGraphExecKernelNodeSetParams || !table.cuGraphExecMemsetNodeSetParams ||
      !table.cuGraphExecMemcpyNodeSetParams)
    throw CudaError(cu::CUDA_ERROR_NOT_SUPPORTED, "cuGraphCreate",
                    "the driver builds no graphs node by node");
  BlockingRegion region;
  memory::RelaxedCapture relaxed(table);
  try {
    CHECK_CU(table.cuGraphCreate(&graph_, 0));
    bool after_kernel = false;
    for (const GraphNode& node : nodes) {
      add(node, after_kernel);
      after_kernel = node.kind == GraphNode::kernel;
    }
    CHECK_CU(table.cuGraphInstantiate(&exec_, graph_, 0));
    std::vector<profiling::NodeNote> noted;
    for (const GraphNode& node : nodes) noted.push_back(node.note);
    notes_.set(std::move(noted));
  } catch (...) {
    release();
    throw;
  }
}

// The graph is a chain: that is the order in which they were given to their stream.
void NodeGraph::add(const GraphNode& node, bool after_kernel) {
  const cu::Driver& table = driver();
  const cu::CUgraphNode* before = handles_.empty() ? nullptr : &handles_.back();
  // A kernel that waits for the one before it itself may begin earlier.
  const bool early = node.waits_itself() && after_kernel && table.cuGraphAddDependencies;
  const std::size_t needs = before && !early ? 1 : 0;
  cu::CUgraphNode made = nullptr;
  if (node.kind == GraphNode::fill) {
    const cu::CUDA_MEMSET_NODE_PARAMS fill = fill_of(node);
    CHECK_CU(table.cuGraphAddMemsetNode(&made, graph_, before, needs, &fill, context_));
  } else if (node.kind == GraphNode::copy) {
    const cu::CUDA_MEMCPY3D copy = copy_of(node);
    CHECK_CU(table.cuGraphAddMemcpyNode(&made, graph_, before, needs, &copy, context_));
  } else {
    Params params(node);
    const cu::CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(node, params);
    CHECK_CU(table.cuGraphAddKernelNode(&made, graph_, before, needs, &kernel));
    for (const cu::CUlaunchAttribute& each : node.attributes)
      if (each.id != cu::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)  // an edge's
        CHECK_CU(table.cuGraphKernelNodeSetAttribute(made, each.id, &each.value));
    if (early) {
      cu::CUgraphEdgeData edge{};
      edge.from_port = cu::kGraphKernelNodePortProgrammatic;
      edge.type = cu::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
      if (table.cuGraphAddDependencies(graph_, before, &made, &edge, 1) != cu::CUDA_SUCCESS)
        CHECK_CU(table.cuGraphAddDependencies(graph_, before, &made, nullptr, 1));
    }
  }
  handles_.push_back(made);
}

void NodeGraph::change(std::size_t i, const GraphNode& node) {
  const cu::Driver& table = driver();
  if (node.kind == GraphNode::fill) {
    const cu::CUDA_MEMSET_NODE_PARAMS fill = fill_of(node);
    CHECK_CU(table.cuGraphExecMemsetNodeSetParams(exec_, handles_[i], &fill, context_));
  } else if (node.kind == GraphNode::copy) {
    const cu::CUDA_MEMCPY3D copy = copy_of(node);
    CHECK_CU(table.cuGraphExecMemcpyNodeSetParams(exec_, handles_[i], &copy, context_));
  } else {
    Params params(node);
    const cu::CUDA_KERNEL_NODE_PARAMS kernel = kernel_of(node, params);
    CHECK_CU(table.cuGraphExecKernelNodeSetParams(exec_, handles_[i], &kernel));
  }
}

void NodeGraph::launch(const std::vector<GraphNode>& nodes,
                       const std::vector<std::uint32_t>& changed, cu::CUstream stream) {
  start_what_waits();
  BlockingRegion region;
  for (std::uint32_t i : changed) change(i, nodes[i]);
  std::optional<profiling::LaunchScope> profiled;
  if (profiling::enabled)
    profiled.emplace(profiling::kLaunchGraph, profiling::kLaunchGraph, current_device(), stream,
                     &notes_);
  CHECK_CU(driver().cuGraphLaunch(exec_, stream));
}

void NodeGraph::release() noexcept {
  if (!driver_loaded()) return;  // a forked child: the handles are its parent's
  if (exec_) driver().cuGraphExecDestroy(exec_);
  if (graph_) driver().cuGraphDestroy(graph_);
  exec_ = nullptr;
  graph_ = nullptr;
}

NodeGraph::~NodeGraph() {
  BlockingRegion region;
  release();
}

}  // namespace tritorch
