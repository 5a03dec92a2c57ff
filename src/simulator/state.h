// What the simulator's files share: its streams, events and graphs, the queues' order, and the one
// lock.  simulator.cpp tells how they work together.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "driver/fork.h"
#include "driver/table.h"
#include "simulator/memory.h"
#include "simulator/simulator.h"

namespace tritorch::cu::simulator {

inline constexpr int kMaxDevices = 16;

// How the functions below end a driver call early; each entry of the table catches it.
struct Fail {
  CUresult code;
};
inline void require(bool condition, CUresult code = CUDA_ERROR_INVALID_VALUE) {
  if (!condition) throw Fail{code};
}

using Lock = std::unique_lock<std::mutex>;
struct Graph;
struct Function;

struct LaunchCopy;

// Something a stream does.
struct Action {
  const char* kind = "";
  std::function<CUresult(std::string& detail)> work;  // may be empty
  bool calls_out = false;              // `work` runs code that is not ours: not under the lock
  std::shared_ptr<const Graph> graph;  // a graph launch: its nodes instead of `work`
  bool bookkeeping = false;            // is done on a lost device too
  std::function<bool()> ready = {};    // may be empty; until it says so the stream waits
  // What activities tell of it: of a kernel its launch, of copies (cupti.h has their kinds) and
  // fills the bytes; correlation: of the call that asked for it, 0 while nobody collects them.
  std::shared_ptr<const LaunchCopy> launch = {};
  std::uint8_t copies = 0;
  std::uint64_t bytes = 0;
  std::uint32_t correlation = 0;
};

// "The stream has done its first `sequence` operations."
struct Stream;
struct Point {
  std::shared_ptr<Stream> stream;
  std::uint64_t sequence = 0;
};

// One recording of an event: where it stands in its stream, and when that was reached.
struct Record {
  Point point;
  bool done = false;
  std::chrono::steady_clock::time_point time;
};

struct Operation {
  Action action;
  std::vector<Point> needs;  // beside all earlier operations of its stream
  std::shared_ptr<Record> record;
};

// A launch as it was when it was queued: the caller's arrays are his again at once.
struct LaunchCopy {
  LaunchCopy(std::shared_ptr<Function> kernel, const CUlaunchConfig& from, void* const* values);
  LaunchCopy(const LaunchCopy& other, const CUlaunchAttribute& more);
  std::shared_ptr<Function> function;
  CUlaunchConfig config;
  std::vector<CUlaunchAttribute> attributes;
  struct alignas(128) Chunk {
    unsigned char bytes[128];
  };
  std::vector<Chunk> storage;
  std::vector<const void*> params;
  std::string site;
};

// Captures and graphs.

struct Node {
  Action action;
  std::vector<std::size_t> needs;  // indices of earlier nodes
  CUgraphNode handle = nullptr;
  std::shared_ptr<const LaunchCopy> launch;  // of a kernel that was added, not captured
};
struct Graph {
  CUgraph handle = nullptr;
  std::vector<Node> nodes;
};
struct Capture {
  std::uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool invalidated = false, ended = false;
  std::shared_ptr<Graph> graph;
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> streams;  // all that take part
};

struct Stream {
  std::uint64_t id = 0;
  int device = 0;
  int priority = 0;
  bool legacy = false;
  bool blocking = true;    // ordered with the legacy stream
  bool destroyed = false;  // its queue still runs
  std::deque<Operation> queue;
  std::uint64_t done = 0;

  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> tail;  // the nodes that the next captured one depends on
  std::vector<CUgraphNode> tail_handles;

  std::uint64_t enqueued() const { return done + running + queue.size(); }
  bool running = false;  // its front operation is off the queue and under way
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  bool shared = false;  // other processes have it: what they would wait for is done at once
  std::shared_ptr<Record> record;    // null: never recorded
  std::shared_ptr<Capture> capture;  // last recorded in a capturing stream, after these nodes:
  std::vector<std::size_t> nodes;
};

struct GraphExec {
  std::shared_ptr<const Graph> graph;
  CUgraph source = nullptr;  // what it was made of
  Point last_launch;         // launches of one executable graph are ordered
};

struct Function : std::enable_shared_from_this<Function> {
  std::string name;
  std::vector<std::uint32_t> param_sizes;
  KernelBody run = nullptr;
  void* user = nullptr;
  void (*destroy)(void*) = nullptr;
  std::atomic<int> max_dynamic_shared{48 << 10};
  ~Function() {
    if (destroy) destroy(user);
  }
};
struct Module {
  Function* function;  // may be freed by now
};

// Handles are numbers that are never used twice, so that a stale one is always found out.
template <class Handle, class T>
class Handles {
 public:
  Handle add(std::shared_ptr<T> value) {
    static std::atomic<std::uintptr_t> next{0x10000};
    const auto handle = reinterpret_cast<Handle>(next.fetch_add(0x10));
    values_[handle] = std::move(value);
    return handle;
  }
  std::shared_ptr<T> get(Handle handle) const {
    auto found = values_.find(handle);
    require(found != values_.end(), CUDA_ERROR_INVALID_HANDLE);
    return found->second;
  }
  std::shared_ptr<T> take(Handle handle) {
    std::shared_ptr<T> value = get(handle);
    values_.erase(handle);
    return value;
  }
  std::size_t size() const { return values_.size(); }
  std::vector<std::shared_ptr<T>> all() const {
    std::vector<std::shared_ptr<T>> found;
    for (const auto& [handle, value] : values_) found.push_back(value);
    return found;
  }

 private:
  std::unordered_map<Handle, std::shared_ptr<T>> values_;
};

struct Device {
  std::shared_ptr<Stream> legacy, per_thread;
  std::vector<std::shared_ptr<Stream>> streams;  // all, also destroyed ones that still have work
  std::size_t allocated = 0;                     // by cuMemAlloc; Memory knows of the rest
  std::vector<int> peers;
  Counters counters;
};

// All that reset() forgets.
struct World {
  explicit World(const SimulatorOptions& options);
  ~World();
  void add_devices(int count);  // until there are `count`

  Memory memory;
  std::vector<Device> devices;
  Handles<CUstream, Stream> streams;
  Handles<CUevent, Event> events;
  Handles<CUgraph, Graph> graphs;
  Handles<CUgraphExec, GraphExec> execs;
  std::vector<std::shared_ptr<Capture>> captures;  // begun and not ended
  std::uint64_t next_stream_id = 0;
  std::string detail;  // of the last asynchronous failure
};

struct State {
  ForkMutex mutex;
  std::condition_variable changed;  // an operation ended
  bool executing = false;           // some thread is in one: there is one at a time
  bool interrupted = false;         // a kernel was, and no call has said so yet
  SimulatorOptions options;
  std::uint64_t random = 0;
  std::unique_ptr<World> world;
  std::map<Function*, std::shared_ptr<Function>> functions;
  std::map<std::string, Function*, std::less<>> images;  // what can be loaded
  Handles<CUmodule, Module> modules;

  // Read without the lock by a launch that is to be discarded.
  std::atomic<bool> initialized{false}, discard_launches{false}, keep_errors{true};
  std::array<std::atomic<int>, kMaxDevices>
      sticky{};  // CUresult of a device's asynchronous failure
  std::array<std::atomic<std::uint64_t>, 4> fail_in{};  // by Call; 0: no injection
  std::array<std::atomic<int>, 4> fail_code{};
};
State& state();
std::uint64_t draw(std::uint64_t below);  // the next random number in [0, below)

// The calling thread's current context.
int current_device();  // throws INVALID_CONTEXT
Device& device_state(int device);
int device_of(CUcontext context);
void check_device(int device);  // throws INVALID_DEVICE
std::shared_ptr<Stream> find_stream(CUstream handle);
std::shared_ptr<Stream> make_stream(World& world, int device);
void check_sticky(int device);
void check_injected(Call call);

// queue.cpp
Point last_point(const std::shared_ptr<Stream>& stream);
// Queues it (or, on a capturing stream, adds a node).  Returns where it stands.
Point enqueue(Lock& lock, const std::shared_ptr<Stream>& stream, Action action,
              std::shared_ptr<Record> record = nullptr, std::vector<Point> needs = {});
// Queues it whatever the device's state, and on a capturing stream too.
Point append(const std::shared_ptr<Stream>& stream, Action action,
             std::shared_ptr<Record> record = nullptr, std::vector<Point> needs = {});
bool reached(const Point& point);
// Runs what these points need, and by the seed's choice more, until they are reached.  The lock is
// free while kernels run, so look up anew afterwards what may have changed.  Throws kInterrupted at
// the end if a kernel was: what this call has queued must not use its caller's memory later.
void drain(Lock& lock, std::span<const Point> targets);
void drain_device(Lock& lock, int device);
void drain_all(Lock& lock);
// For polling: runs a few operations, maybe none.
void progress(Lock& lock, const Point& target);
void wait_for_executor(Lock& lock);

// activities.cpp
// The number of a call that queues work; 0 while nobody collects activities.
std::uint32_t correlate();
// A stream has done it, alone or as a node of what has that correlation.
void note_activity(const Action& action, const Stream& stream, std::uint32_t correlation,
                   CUgraphNode node, std::chrono::steady_clock::time_point begin);

// graph.cpp
// For calls that no capture in reach of this thread allows, and for streams' own.
void check_unsafe_in_capture();
void check_not_capturing(Stream& stream);  // synchronising a capturing stream invalidates
void check_device_not_capturing(int device);
void check_implicit(const Stream& stream);  // the legacy stream while a blocking one captures
void capture_node(Stream& stream, Action action);
std::shared_ptr<Graph> end_capture(const std::shared_ptr<Capture>& capture);
std::vector<std::size_t> random_order(const Graph& graph);
CUgraphNode new_node_handle();

// launch.cpp and memory_calls.cpp: what nodes do.
std::shared_ptr<const LaunchCopy> checked_launch(const CUlaunchConfig& config, CUfunction function,
                                                 void* const* params);
void validate_launch(const CUlaunchConfig& config, const Function& function);
Action kernel_action(std::shared_ptr<const LaunchCopy> launch);
Action copy_action(CUdeviceptr to, CUdeviceptr from, std::size_t size);
Action fill_action(CUdeviceptr to, unsigned value, unsigned width, std::size_t count);

// The entries of the table, under their own names.  They throw Fail.
namespace entry {
#define TRITORCH_DECLARE(field, symbol, params) void field params;
TRITORCH_DRIVER_FUNCTIONS(TRITORCH_DECLARE, TRITORCH_DECLARE)
#undef TRITORCH_DECLARE
}  // namespace entry

}  // namespace tritorch::cu::simulator
