// Graphs that are built node by node, and nodes of executable ones that are changed.
//
// A launch that is queued keeps the graph as it was: a change copies it.
#include <algorithm>
#include <string_view>
#include <utility>

#include "simulator/state.h"

namespace tritorch::cu::simulator {
namespace {

void check_nodes_are_there() {
  require(state().options.graph_nodes, CUDA_ERROR_NOT_SUPPORTED);
  check_injected(Call::graph);
}

std::size_t index_of(const Graph& graph, CUgraphNode handle) {
  const auto found = std::ranges::find(graph.nodes, handle, &Node::handle);
  require(found != graph.nodes.end());
  return static_cast<std::size_t>(found - graph.nodes.begin());
}

void add_node(CUgraphNode* node, CUgraph handle, const CUgraphNode* needs, std::size_t count,
              Action action, std::shared_ptr<const LaunchCopy> launch = nullptr) {
  require(node && (needs || count == 0));
  const auto graph = state().world->graphs.get(handle);
  for (const auto& capture : state().world->captures) require(capture->graph != graph);
  Node added{std::move(action), {}, new_node_handle(), std::move(launch)};
  for (std::size_t i = 0; i < count; ++i) added.needs.push_back(index_of(*graph, needs[i]));
  *node = added.handle;
  graph->nodes.push_back(std::move(added));
}

// Where a node is among those of any graph that is alive.
std::pair<std::shared_ptr<Graph>, std::size_t> find_node(CUgraphNode handle) {
  for (const auto& graph : state().world->graphs.all()) {
    const auto found = std::ranges::find(graph->nodes, handle, &Node::handle);
    if (found != graph->nodes.end())
      return {graph, static_cast<std::size_t>(found - graph->nodes.begin())};
  }
  throw Fail{CUDA_ERROR_INVALID_HANDLE};
}

// Returns the graph as it was, which may own kernels: let go of it without the lock.
[[nodiscard]] std::shared_ptr<const Graph> change(
    CUgraphExec handle, CUgraphNode node, const char* kind, Action action,
    std::shared_ptr<const LaunchCopy> launch = nullptr) {
  const auto exec = state().world->execs.get(handle);
  state().world->graphs.get(exec->source);  // nodes are known by the graph that they were made in
  const std::size_t index = index_of(*exec->graph, node);
  require(std::string_view(exec->graph->nodes[index].action.kind) == kind);
  auto changed = std::make_shared<Graph>(*exec->graph);
  changed->nodes[index].action = std::move(action);
  changed->nodes[index].launch = std::move(launch);
  ++device_state(current_device()).counters.node_changes;
  return std::exchange(exec->graph, std::move(changed));
}

CUlaunchConfig config_of(const CUDA_KERNEL_NODE_PARAMS& params) {
  return {
      params.gridDimX,  params.gridDimY,       params.gridDimZ, params.blockDimX, params.blockDimY,
      params.blockDimZ, params.sharedMemBytes, nullptr,         nullptr,          0};
}

std::shared_ptr<const LaunchCopy> launch_of(const CUDA_KERNEL_NODE_PARAMS* params) {
  require(params && !params->extra);
  return checked_launch(config_of(*params), params->func, params->kernelParams);
}

Action copy_of(const CUDA_MEMCPY3D* params) {
  require(params && params->srcMemoryType == CU_MEMORYTYPE_DEVICE &&
          params->dstMemoryType == CU_MEMORYTYPE_DEVICE);
  require(params->WidthInBytes && params->Height == 1 && params->Depth == 1);
  require(!params->reserved0 && !params->reserved1);
  return copy_action(params->dstDevice + params->dstXInBytes,
                     params->srcDevice + params->srcXInBytes, params->WidthInBytes);
}

Action fill_of(const CUDA_MEMSET_NODE_PARAMS* params) {
  require(params && params->width && params->height == 1);
  return fill_action(params->dst, params->value, params->elementSize, params->width);
}

}  // namespace

namespace entry {

void cuGraphCreate(CUgraph* handle, unsigned flags) {
  Lock lock(state().mutex);
  check_nodes_are_there();
  require(handle && flags == 0);
  auto graph = std::make_shared<Graph>();
  *handle = graph->handle = state().world->graphs.add(graph);
}

void cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs,
                          std::size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  auto launch = launch_of(params);
  Lock lock(state().mutex);
  check_nodes_are_there();
  add_node(node, graph, needs, count, kernel_action(launch), launch);
}

void cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs,
                          std::size_t count, const CUDA_MEMSET_NODE_PARAMS* params,
                          CUcontext context) {
  Lock lock(state().mutex);
  check_nodes_are_there();
  device_of(context);
  add_node(node, graph, needs, count, fill_of(params));
}

void cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* needs,
                          std::size_t count, const CUDA_MEMCPY3D* params, CUcontext context) {
  Lock lock(state().mutex);
  check_nodes_are_there();
  device_of(context);
  add_node(node, graph, needs, count, copy_of(params));
}

// A programmatic edge lets a kernel begin early and wait itself: here it waits outside.
void cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                            const CUgraphEdgeData* data, std::size_t count) {
  Lock lock(state().mutex);
  check_nodes_are_there();
  const auto graph = state().world->graphs.get(handle);
  require(from && to);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t before = index_of(*graph, from[i]), after = index_of(*graph, to[i]);
    require(before < after);
    if (data && data[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
      require(data[i].from_port == kGraphKernelNodePortProgrammatic &&
              graph->nodes[before].launch && graph->nodes[after].launch);
    else
      require(!data || (data[i].from_port == 0 && data[i].type == 0));
    require(!data || data[i].to_port == 0);
    std::vector<std::size_t>& needs = graph->nodes[after].needs;
    require(std::ranges::find(needs, before) == needs.end());
    needs.push_back(before);
  }
}

void cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUlaunchAttributeID id,
                                   const CUlaunchAttributeValue* value) {
  std::shared_ptr<const LaunchCopy> before;
  Lock lock(state().mutex);
  check_nodes_are_there();
  const auto [graph, index] = find_node(handle);
  Node& node = graph->nodes[index];
  require(value && node.launch);
  require(id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE || id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION ||
          id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE);
  CUlaunchAttribute attribute{id, {}, *value};
  auto changed = std::make_shared<LaunchCopy>(*node.launch, attribute);
  validate_launch(changed->config, *changed->function);
  before = std::move(node.launch);
  node.launch = changed;
  node.action = kernel_action(changed);
}

// Attributes stay what they are.
void cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                    const CUDA_KERNEL_NODE_PARAMS* params) {
  auto launch = launch_of(params);
  std::shared_ptr<const Graph> doomed;
  Lock lock(state().mutex);
  check_nodes_are_there();
  const auto known = state().world->execs.get(exec)->graph;
  const auto& before = known->nodes[index_of(*known, node)].launch;
  require(before != nullptr);
  for (const CUlaunchAttribute& each : before->attributes)
    launch = std::make_shared<LaunchCopy>(*launch, each);
  doomed = change(exec, node, "kernel", kernel_action(launch), launch);
}

void cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                    const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  std::shared_ptr<const Graph> doomed;
  Lock lock(state().mutex);
  check_nodes_are_there();
  device_of(context);
  doomed = change(exec, node, "memset", fill_of(params));
}

void cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* params,
                                    CUcontext context) {
  std::shared_ptr<const Graph> doomed;
  Lock lock(state().mutex);
  check_nodes_are_there();
  device_of(context);
  doomed = change(exec, node, "memcpy", copy_of(params));
}

}  // namespace entry
}  // namespace tritorch::cu::simulator
