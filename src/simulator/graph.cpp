// Stream capture and graphs.
//
// A capturing stream has a tail: the nodes that its next one depends on.  An event recorded there
// carries a copy of the tail; a stream that waits for the event joins the capture and adds those
// nodes to its own tail.  A graph runs in a random topological order, as one operation.
#include <algorithm>
#include <cstdio>

#include "simulator/state.h"

namespace tritorch::cu::simulator {
namespace {

// By cuThreadExchangeStreamCaptureMode: which captures forbid this thread unsafe calls.
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void add_to_tail(Stream& stream, const std::vector<std::size_t>& nodes) {
  stream.tail.insert(stream.tail.end(), nodes.begin(), nodes.end());
  std::sort(stream.tail.begin(), stream.tail.end());
  stream.tail.erase(std::unique(stream.tail.begin(), stream.tail.end()), stream.tail.end());
}

void require_valid(const Capture& capture) {
  require(!capture.invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

void join(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Capture>& capture) {
  stream->capture = capture;
  stream->tail.clear();
  capture->streams.push_back(stream);
}

// True if every node is in the tail or an ancestor of one that is.
bool all_joined(const Graph& graph, const std::vector<std::size_t>& tail) {
  std::vector<bool> seen(graph.nodes.size());
  for (std::size_t index : tail) seen[index] = true;
  for (std::size_t index = graph.nodes.size(); index-- > 0;)  // a node's needs come before it
    if (seen[index])
      for (std::size_t need : graph.nodes[index].needs) seen[need] = true;
  return std::find(seen.begin(), seen.end(), false) == seen.end();
}

}  // namespace

CUgraphNode new_node_handle() {
  static std::atomic<std::uintptr_t> next{0x100};
  return reinterpret_cast<CUgraphNode>(next.fetch_add(0x100));
}

// Its streams run their work again; events still know that they were captured.  Returns the graph,
// which may own kernels: let go of it without the lock.
std::shared_ptr<Graph> end_capture(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (const auto& stream : capture->streams) {
    stream->capture = nullptr;
    stream->tail.clear();
  }
  capture->streams.clear();
  capture->origin = nullptr;
  std::erase(state().world->captures, capture);
  return std::move(capture->graph);
}

void capture_node(Stream& stream, Action action) {
  require_valid(*stream.capture);
  std::vector<Node>& nodes = stream.capture->graph->nodes;
  nodes.push_back({std::move(action), std::move(stream.tail), new_node_handle(), nullptr});
  stream.tail = {nodes.size() - 1};
}

void check_unsafe_in_capture() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  bool forbidden = false;
  for (const auto& capture : state().world->captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool global = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    if (own || (global && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL))
      capture->invalidated = forbidden = true;
  }
  require(!forbidden, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void check_not_capturing(Stream& stream) {
  check_implicit(stream);
  if (!stream.capture) return;
  stream.capture->invalidated = true;
  throw Fail{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED};
}

void check_device_not_capturing(int device) {
  bool forbidden = false;
  for (const auto& capture : state().world->captures)
    for (const auto& stream : capture->streams)
      if (stream->device == device) capture->invalidated = forbidden = true;
  require(!forbidden, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void check_implicit(const Stream& stream) {
  if (!stream.legacy) return;
  bool forbidden = false;
  for (const auto& capture : state().world->captures)
    for (const auto& other : capture->streams)
      if (other->blocking && other->device == stream.device)
        capture->invalidated = forbidden = true;
  require(!forbidden, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

std::vector<std::size_t> random_order(const Graph& graph) {
  const std::size_t count = graph.nodes.size();
  std::vector<std::size_t> missing(count), ready, order;
  std::vector<std::vector<std::size_t>> dependents(count);
  for (std::size_t index = 0; index < count; ++index) {
    missing[index] = graph.nodes[index].needs.size();
    for (std::size_t need : graph.nodes[index].needs) dependents[need].push_back(index);
    if (missing[index] == 0) ready.push_back(index);
  }
  while (!ready.empty()) {
    std::swap(ready[draw(ready.size())], ready.back());
    order.push_back(ready.back());
    ready.pop_back();
    for (std::size_t next : dependents[order.back()])
      if (--missing[next] == 0) ready.push_back(next);
  }
  return order;
}

namespace entry {

void cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  require(mode && *mode >= CU_STREAM_CAPTURE_MODE_GLOBAL &&
          *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
  std::swap(*mode, thread_mode);
}

void cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  Lock lock(state().mutex);
  const auto stream = find_stream(handle);
  require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
  require(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  check_sticky(stream->device);
  require(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
  static std::uint64_t next_id = 1;
  auto capture = std::make_shared<Capture>();
  capture->id = next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->graph = std::make_shared<Graph>();
  capture->graph->handle = state().world->graphs.add(capture->graph);
  capture->origin = stream;
  join(stream, capture);
  state().world->captures.push_back(capture);
}

void cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  std::shared_ptr<Graph> captured, dropped;
  Lock lock(state().mutex);
  require(graph);
  *graph = nullptr;
  const auto stream = find_stream(handle);
  const std::shared_ptr<Capture> capture = stream->capture;
  require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  require(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
              capture->thread == std::this_thread::get_id(),
          CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  if (capture->origin != stream) {
    capture->invalidated = true;
    throw Fail{CUDA_ERROR_STREAM_CAPTURE_UNMATCHED};
  }
  const bool joined = all_joined(*capture->graph, stream->tail);
  captured = end_capture(capture);
  if (!capture->invalidated && joined) {
    *graph = captured->handle;
    return;
  }
  dropped = state().world->graphs.take(captured->handle);
  throw Fail{capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                  : CUDA_ERROR_STREAM_CAPTURE_UNJOINED};
}

void cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                            CUgraph* graph, const CUgraphNode** needs, std::size_t* count) {
  Lock lock(state().mutex);
  require(status);
  const auto stream = find_stream(handle);
  if (stream->legacy)  // asking is refused, but does no harm to the capture
    for (const auto& capture : state().world->captures)
      for (const auto& other : capture->streams)
        require(!other->blocking || other->device != stream->device,
                CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  const Capture* capture = stream->capture.get();
  *status = !capture               ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
  if (id) *id = capture->id;
  if (graph) *graph = capture->graph->handle;
  stream->tail_handles.clear();
  for (std::size_t index : stream->tail)
    stream->tail_handles.push_back(capture->graph->nodes[index].handle);
  if (needs) *needs = stream->tail_handles.data();
  if (count) *count = stream->tail_handles.size();
}

void cuEventRecord(CUevent handle, CUstream stream_handle) {
  Lock lock(state().mutex);
  current_device();
  const auto event = state().world->events.get(handle);
  const auto stream = find_stream(stream_handle);
  require(event->device == stream->device, CUDA_ERROR_INVALID_HANDLE);
  check_sticky(stream->device);
  check_implicit(*stream);
  if (stream->capture) {
    require_valid(*stream->capture);
    event->capture = stream->capture;
    event->nodes = stream->tail;
    return;
  }
  auto record = std::make_shared<Record>();
  enqueue(lock, stream, {"record", {}, false, nullptr}, record);
  event->capture = nullptr;
  event->record = record;
  if (event->shared) drain(lock, {&record->point, 1});
}

void cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  Lock lock(state().mutex);
  const auto stream = find_stream(stream_handle);
  const auto event = state().world->events.get(handle);
  require(flags == 0);
  check_sticky(stream->device);
  const std::shared_ptr<Capture> from = event->capture;
  if (!from && !stream->capture) {
    if (!event->record) return;
    enqueue(lock, stream, {"wait", {}, false, nullptr}, nullptr, {event->record->point});
    return;
  }
  check_implicit(*stream);
  if (!from) {  // the graph would depend on work outside it
    stream->capture->invalidated = true;
    throw Fail{CUDA_ERROR_STREAM_CAPTURE_ISOLATION};
  }
  require(!from->ended, CUDA_ERROR_CAPTURED_EVENT);
  require_valid(*from);
  if (stream->legacy) {
    from->invalidated = true;
    throw Fail{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT};
  }
  if (!stream->capture) join(stream, from);
  if (stream->capture != from) {
    stream->capture->invalidated = from->invalidated = true;
    throw Fail{CUDA_ERROR_STREAM_CAPTURE_MERGE};
  }
  add_to_tail(*stream, event->nodes);
}

void cuGraphInstantiate(CUgraphExec* exec, CUgraph handle, unsigned long long flags) {
  Lock lock(state().mutex);
  current_device();
  check_injected(Call::graph);
  require(exec && flags <= 15);
  const auto graph = state().world->graphs.get(handle);
  for (const auto& capture : state().world->captures) require(capture->graph != graph);
  auto made = std::make_shared<GraphExec>();
  made->graph = std::make_shared<Graph>(*graph);
  made->source = handle;
  *exec = state().world->execs.add(std::move(made));
}

void cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<GraphExec> exec;
  Lock lock(state().mutex);
  check_injected(Call::graph);
  exec = state().world->execs.get(handle);
  const auto stream = find_stream(stream_handle);
  ++device_state(stream->device).counters.graph_launches;
  std::vector<Point> needs;
  if (!stream->capture && exec->last_launch.stream) needs.push_back(exec->last_launch);
  const Point point =
      enqueue(lock, stream, {"graph", {}, false, exec->graph}, nullptr, std::move(needs));
  if (point.stream) exec->last_launch = point;
}

void cuGraphDestroy(CUgraph handle) {
  std::shared_ptr<Graph> doomed;
  Lock lock(state().mutex);
  for (const auto& capture : state().world->captures) require(capture->graph->handle != handle);
  doomed = state().world->graphs.take(handle);
}

void cuGraphExecDestroy(CUgraphExec handle) {
  std::shared_ptr<GraphExec> doomed;
  Lock lock(state().mutex);
  doomed = state().world->execs.take(handle);
}

void cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  Lock lock(state().mutex);
  const auto graph = state().world->graphs.get(handle);
  require(count);
  if (nodes)
    for (std::size_t index = 0; index < *count; ++index)
      nodes[index] = index < graph->nodes.size() ? graph->nodes[index].handle : nullptr;
  *count = nodes ? std::min(*count, graph->nodes.size()) : graph->nodes.size();
}

void cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned) {
  Lock lock(state().mutex);
  const auto graph = state().world->graphs.get(handle);
  require(path);
  std::FILE* file = std::fopen(path, "w");
  require(file, CUDA_ERROR_NOT_FOUND);
  std::fprintf(file, "digraph dot {\n");
  for (std::size_t index = 0; index < graph->nodes.size(); ++index) {
    std::fprintf(file, "  n%zu [label=\"%s\"];\n", index, graph->nodes[index].action.kind);
    for (std::size_t need : graph->nodes[index].needs)
      std::fprintf(file, "  n%zu -> n%zu;\n", need, index);
  }
  std::fprintf(file, "}\n");
  std::fclose(file);
}

}  // namespace entry
}  // namespace tritorch::cu::simulator
