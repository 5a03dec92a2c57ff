#include "memory/graph.h"

#include <optional>

#include "driver/context.h"
#include "memory/registry.h"

namespace tritorch {

Graph::~Graph() { release(); }

void Graph::capture_begin(int device, cu::CUstream stream, memory::PoolId pool, int mode) {
  if (capturing_ || graph_ || exec_)
    throw std::runtime_error(
        "This CUDAGraph already holds a capture: call reset() first, or capture into a new one.");
  if (!stream)
    throw std::runtime_error(
        "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to "
        "replay them on the default stream.)");
  memory::DeviceAllocator& allocator = memory::device_allocator(device);
  if (pool) allocator.retain_pool(pool);
  pool_ = pool ? pool : allocator.create_pool();
  device_ = device;
  stream_ = stream;
  allocator.begin_capture_to_pool(pool_, stream);
  try {
    DRIVE(cuStreamBeginCapture(stream, static_cast<cu::CUstreamCaptureMode>(mode)));
  } catch (...) {
    allocator.end_capture_to_pool(pool_, stream);
    allocator.release_pool(pool_);
    pool_ = 0;
    throw;
  }
  capturing_ = true;
  cu::CUstreamCaptureStatus status;
  cu::cuuint64_t id = 0;
  driver().cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
  capture_id_ = id;
  notes = {};
}

int exchange_capture_mode(int mode) {
  auto exchanged = static_cast<cu::CUstreamCaptureMode>(mode);
  DRIVE(cuThreadExchangeStreamCaptureMode(&exchanged));
  return exchanged;
}

void Graph::capture_end() {
  if (!capturing_)
    throw std::runtime_error("capture_end() was called on a CUDAGraph that is not capturing");
  capturing_ = false;
  cu::CUresult result;
  {
    BlockingRegion region;
    result = driver().cuStreamEndCapture(stream_, &graph_);
  }
  memory::device_allocator(device_).end_capture_to_pool(pool_, stream_);
  check(result, "cuStreamEndCapture(stream_, &graph_)");
  if (!graph_)
    throw CudaError(cu::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamEndCapture",
                    "an operation that capture does not permit was called meanwhile");
  if (!keep_) instantiate();
}

void Graph::instantiate() {
  if (!graph_)
    throw std::runtime_error("instantiate() needs a captured graph (made with keep_graph=True)");
  bind(device_);
  cu::CUgraphExec exec;
  DRIVE(cuGraphInstantiate(&exec, graph_, 0));
  if (exec_) driver().cuGraphExecDestroy(exec_);
  exec_ = exec;
}

std::uintptr_t Graph::raw_graph() const {
  if (!keep_)
    throw std::runtime_error(
        "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with "
        "keep_graph=true");
  if (!graph_)
    throw std::runtime_error(
        "You cannot access the raw cudaGraph_t instance until capture_end() has been called");
  return reinterpret_cast<std::uintptr_t>(graph_);
}

std::uintptr_t Graph::raw_exec() const {
  if (!exec_)
    throw std::runtime_error(
        "You cannot access the raw cudaGraphExec_t instance until instantiate() has been called");
  return reinterpret_cast<std::uintptr_t>(exec_);
}

void Graph::replay(cu::CUstream stream) {
  if (!exec_) {
    if (!graph_)
      throw std::runtime_error("Called CUDAGraph::replay without a preceding successful capture.");
    instantiate();
  }
  DeviceScope scope(device_);
  std::optional<profiling::LaunchScope> profiled;
  if (profiling::enabled)
    profiled.emplace(profiling::kLaunchGraph, profiling::kLaunchGraph, device_, stream, &notes);
  DRIVE(cuGraphLaunch(exec_, stream));
}

void Graph::reset() {
  if (capturing_)
    throw std::runtime_error("reset() was called on a CUDAGraph while it is capturing");
  release();
}

std::size_t Graph::node_count() const {
  std::size_t count = 0;
  if (graph_) DRIVE(cuGraphGetNodes(graph_, nullptr, &count));
  return count;
}

void Graph::debug_dump(const std::string& path) const {
  if (!graph_) throw std::runtime_error("debug_dump() needs a captured graph");
  DRIVE(cuGraphDebugDotPrint(graph_, path.c_str(), 0));
}

void Graph::release() noexcept {
  if (!driver_loaded()) return;  // a forked child: the handles are its parent's
  try {
    if (capturing_) {  // abandoned halfway: end the capture so that the stream is usable again
      {
        BlockingRegion region;
        driver().cuStreamEndCapture(stream_, &graph_);
      }
      memory::device_allocator(device_).end_capture_to_pool(pool_, stream_);
      capturing_ = false;
    }
    BlockingRegion region;
    if (exec_) driver().cuGraphExecDestroy(exec_);
    if (graph_) driver().cuGraphDestroy(graph_);
    exec_ = nullptr;
    graph_ = nullptr;
    if (pool_) memory::device_allocator(device_).release_pool(pool_);
    pool_ = 0;
  } catch (...) {  // destructors never throw
  }
}

}  // namespace tritorch
