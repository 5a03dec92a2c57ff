// Graphs that are built node by node: what the simulated device takes of them, and NodeGraph.
#include "memory/nodes.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "check.h"
#include "driver/context.h"
#include "simulator/simulator.h"

using namespace tritorch;
using namespace tritorch::cu;
namespace sim = tritorch::cu::simulator;

namespace {

const Driver& d = simulated_driver();

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)
#define FAILS(call, code) CHECK_EQ(call, CUDA_ERROR_##code)

const bool kSimulated = setenv("TRITORCH_SIMULATE_CUDA", "1", 1) == 0;  // before the first call

struct Seen {
  std::vector<int> attributes;
  unsigned grid = 0;
};
Seen seen;

// A kernel: *x = 10 * *x + digit.
CUresult append_body(void*, const sim::Launch& launch, std::string&) {
  CUdeviceptr x;
  int digit;
  std::memcpy(&x, (*launch.params)[0], sizeof x);
  std::memcpy(&digit, (*launch.params)[1], sizeof digit);
  auto& value = *reinterpret_cast<unsigned*>(x);  // before it was filled, memory holds anything
  value = 10 * value + static_cast<unsigned>(digit);
  seen.grid = launch.config->gridDimX;
  seen.attributes.clear();
  for (unsigned i = 0; i < launch.config->numAttrs; ++i)
    seen.attributes.push_back(launch.config->attrs[i].id);
  return CUDA_SUCCESS;
}

CUlaunchAttribute attribute(CUlaunchAttributeID id, unsigned value) {
  CUlaunchAttribute made{};
  made.id = id;
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
    made.value.clusterDim = {value, 1, 1};
  else
    made.value.cooperative = static_cast<int>(value);
  return made;
}

GraphNode append(CUfunction f, CUdeviceptr x, int digit,
                 std::vector<CUlaunchAttribute> attributes = {}) {
  GraphNode node;
  node.function = f;
  node.grid = {4, 1, 1};
  node.threads = 32;
  node.attributes = std::move(attributes);
  node.chunks.resize(1);
  node.offsets = {0, 8};
  std::memcpy(node.bytes(), &x, sizeof x);
  std::memcpy(node.bytes() + 8, &digit, sizeof digit);
  return node;
}
GraphNode fill(CUdeviceptr x, unsigned value) {
  GraphNode node;
  node.kind = GraphNode::fill;
  node.chunks.resize(1);
  node.value = value;
  node.width = 4;
  node.count = 1;
  std::memcpy(node.bytes(), &x, sizeof x);
  return node;
}
GraphNode copy(CUdeviceptr to, CUdeviceptr from) {
  GraphNode node;
  node.kind = GraphNode::copy;
  node.chunks.resize(1);
  node.count = sizeof(int);
  std::memcpy(node.bytes(), &to, sizeof to);
  std::memcpy(node.bytes() + 8, &from, sizeof from);
  return node;
}

struct World {
  CUfunction f = nullptr;
  CUdeviceptr x = 0, y = 0;
  CUstream s = nullptr;
  explicit World(std::uint64_t seed) {
    SimulatorOptions options;
    options.seed = seed;
    CHECK(kSimulated && driver().simulated);
    sim::reset(options);
    OK(d.cuInit(0));
    CUcontext context;
    OK(d.cuDevicePrimaryCtxRetain(&context, 0));
    OK(d.cuCtxSetCurrent(context));
    OK(d.cuMemAlloc(&x, 4));
    OK(d.cuMemAlloc(&y, 4));
    OK(d.cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, 0));
    f = sim::make_function("append", {8, 4}, append_body, nullptr, nullptr);
  }
  ~World() { sim::free_function(f); }
  int at(CUdeviceptr p) {
    int value = 0;
    OK(d.cuMemcpyDtoHAsync(&value, p, sizeof value, s));
    return value;
  }
};

}  // namespace

TEST(nodes_run_in_their_order_and_with_their_attributes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    World w(seed);
    const CUlaunchAttribute early =
        attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1);
    const CUlaunchAttribute cluster = attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2);
    const std::vector<GraphNode> nodes = {
        append(w.f, w.x, 9, {early}),  // first: there is nothing to wait for
        fill(w.x, 0),
        append(w.f, w.x, 1, {early}),  // after what is no kernel
        append(w.f, w.x, 2),
        append(w.f, w.x, 3, {early, cluster}),
        copy(w.y, w.x),
        append(w.f, w.x, 4, {attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)}),
    };
    NodeGraph graph(nodes, 0);
    for (int i = 0; i < 2; ++i) {
      graph.launch(nodes, {}, w.s);
      CHECK_EQ(w.at(w.x), 1234);
      CHECK_EQ(w.at(w.y), 123);
      CHECK_EQ(seen.attributes.size(), 1);
      CHECK_EQ(seen.attributes[0], CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    }
    launch_one_by_one(nodes, w.s);
    CHECK_EQ(w.at(w.x), 1234);
    NodeGraph alone({append(w.f, w.x, 5, {early, cluster})}, 0);
    alone.launch({}, {}, w.s);
    CHECK_EQ(w.at(w.x), 12345);
    CHECK_EQ(seen.grid, 4);
    CHECK_EQ(seen.attributes.size(), 1);  // the other is an edge's
    CHECK_EQ(seen.attributes[0], CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  }
}

TEST(what_is_changed_is_changed_from_the_next_launch_on) {
  World w(1);
  std::vector<GraphNode> nodes = {fill(w.x, 1), append(w.f, w.x, 2), copy(w.y, w.x)};
  NodeGraph graph(nodes, 0);
  CUdeviceptr z = 0;
  OK(d.cuMemAlloc(&z, 4));
  graph.launch(nodes, {}, w.s);  // queued, with the nodes as they are now
  nodes = {fill(z, 7), append(w.f, z, 8), copy(w.x, z)};
  graph.launch(nodes, {0, 1, 2}, w.s);
  CHECK_EQ(w.at(w.y), 12);
  CHECK_EQ(w.at(z), 78);
  CHECK_EQ(w.at(w.x), 78);
  graph.launch(nodes, {}, w.s);
  CHECK_EQ(w.at(w.x), 78);
  CHECK_EQ(sim::counters(0).node_changes, 3);
  CHECK_EQ(sim::counters(0).graph_launches, 3);
}

TEST(refuses_what_the_driver_refuses_of_nodes) {
  World w(0);
  CUgraph graph, other;
  OK(d.cuGraphCreate(&graph, 0));
  OK(d.cuGraphCreate(&other, 0));
  CUdeviceptr x = w.x;
  int digit = 1;
  void* params[] = {&x, &digit};
  CUDA_KERNEL_NODE_PARAMS kernel{w.f, 3, 1, 1, 32, 1, 1, 0, params, nullptr, nullptr, nullptr};
  CUgraphNode one, two, filled;
  OK(d.cuGraphAddKernelNode(&one, graph, nullptr, 0, &kernel));
  FAILS(d.cuGraphAddKernelNode(&two, other, &one, 1, &kernel), INVALID_VALUE);
  OK(d.cuGraphAddKernelNode(&two, graph, nullptr, 0, &kernel));
  CUcontext context;
  OK(d.cuDevicePrimaryCtxRetain(&context, 0));
  CUDA_MEMSET_NODE_PARAMS fill{w.x, 0, 0, 3, 1, 1};
  FAILS(d.cuGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill, context), INVALID_VALUE);
  fill.elementSize = 4;
  OK(d.cuGraphAddMemsetNode(&filled, graph, &two, 1, &fill, context));
  CUDA_MEMCPY3D copy{};
  CUgraphNode copied;
  FAILS(d.cuGraphAddMemcpyNode(&copied, graph, nullptr, 0, &copy, context), INVALID_VALUE);
  const auto early = attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1);
  FAILS(d.cuGraphKernelNodeSetAttribute(one, early.id, &early.value), INVALID_VALUE);
  const auto cluster = attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 2);  // of three blocks
  FAILS(d.cuGraphKernelNodeSetAttribute(one, cluster.id, &cluster.value), INVALID_VALUE);
  FAILS(d.cuGraphKernelNodeSetAttribute(filled, cluster.id, &cluster.value), INVALID_VALUE);
  CUgraphEdgeData edge{};
  edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  FAILS(d.cuGraphAddDependencies(graph, &one, &two, &edge, 1), INVALID_VALUE);
  edge.from_port = kGraphKernelNodePortProgrammatic;
  FAILS(d.cuGraphAddDependencies(graph, &one, &filled, &edge, 1), INVALID_VALUE);
  OK(d.cuGraphAddDependencies(graph, &one, &two, &edge, 1));
  FAILS(d.cuGraphAddDependencies(graph, &one, &two, &edge, 1), INVALID_VALUE);
  CUgraphExec exec;
  OK(d.cuGraphInstantiate(&exec, graph, 0));
  FAILS(d.cuGraphExecMemsetNodeSetParams(exec, one, &fill, context), INVALID_VALUE);
  OK(d.cuGraphExecKernelNodeSetParams(exec, one, &kernel));
  OK(d.cuGraphDestroy(graph));
  FAILS(d.cuGraphExecKernelNodeSetParams(exec, one, &kernel), INVALID_HANDLE);
}

TEST(what_fails_leaves_nothing_behind) {
  World w(0);
  const std::vector<GraphNode> nodes = {fill(w.x, 1), append(w.f, w.x, 2), copy(w.y, w.x)};
  for (std::uint64_t nth = 1; nth <= 5; ++nth) {  // created, three nodes, instantiated
    sim::fail(sim::Call::graph, nth, CUDA_ERROR_UNKNOWN);
    bool thrown = false;
    try {
      NodeGraph graph(nodes, 0);
    } catch (const CudaError& error) {
      thrown = error.code == CUDA_ERROR_UNKNOWN;
    }
    CHECK(thrown);
  }
  SimulatorOptions options;
  options.graph_nodes = false;
  sim::set_options(options);
  bool thrown = false;
  try {
    NodeGraph graph(nodes, 0);
  } catch (const CudaError& error) {
    thrown = error.code == CUDA_ERROR_NOT_SUPPORTED;
  }
  CHECK(thrown);
}
