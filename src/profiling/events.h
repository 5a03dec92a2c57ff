// What a profiled program does, as events: each thread writes into a buffer of its own.
//
// While nothing is profiled a caller pays one test of `enabled`.  An event that is open when the
// profile ends is left as it is: its end stays 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tritorch::profiling {

enum class Kind : std::uint8_t {
  op,          // a public function
  annotation,  // record_function
  node,        // a node of a backward pass
  module,      // a module's call; sequence: the module's address
  memory,      // sequence: bytes, negative when freed; detail: their address; extra: the device
  launch,      // a kernel is launched; detail: its stream; extra: the number of its name;
               // shapes: of a graph, its number; sequence: the capture that the launch is part of
  wait,        // the host waits for a device
  work,        // a collective or a message is under way, beside what its thread does
  role,        // what memory is for: sequence says it, detail is its address
  function,    // of Python; detail: the line of the call in the function that called it
  builtin,     // a function that is not written in Python, called by one that is
  record,      // a record's call has ended, within the call of a public function of another name
  state,       // an optimizer, whose address is in sequence, says its parameters and their state
};

// Python reads arrays of these: profiler/_events.py has the same fields.
struct Event {
  std::int64_t begin = 0, end = 0;  // nanoseconds of the steady clock
  std::int64_t sequence = -1;       // the place of the node of a call, or of this node
  std::int64_t detail = 0;  // of a call by its name, what Python calls the function, plus one
  std::uint32_t name = 0;
  std::uint32_t shapes = 0;  // where the arguments are in the thread's words, plus one
  std::uint32_t stack = 0;   // of Python: a trace's id
  std::uint32_t extra = 0;   // of a call: where its result is in the thread's words, plus one
  std::uint32_t parent = 0;  // the place of what was open in its thread, plus one
  Kind kind = Kind::op;
  bool captured = false;  // a launch into a graph that is being captured
  std::uint8_t unused[2] = {};
};
static_assert(sizeof(Event) == 56);

struct Options {
  bool shapes = false, stacks = false, memory = false, modules = false, device = false;
  bool functions = false;  // of Python: they are events, and modules say their parameters
  bool captures = false;   // launches are told apart by whether they are captured
  std::size_t most = 0;    // events of a thread, after which nothing more is written; 0: any number
};

// What one thread wrote.
struct Thread {
  std::uint64_t id = 0;  // the system's
  bool is_main = false;
  std::vector<std::unique_ptr<Event[]>> chunks;
  std::size_t count = 0;
  std::uint32_t open = 0;           // the place of the innermost event that is open, plus one
  std::vector<std::int64_t> words;  // of arguments

  static constexpr std::size_t kChunk = 4096;
  Event& at(std::size_t i) { return chunks[i / kChunk][i % kChunk]; }
  const Event& at(std::size_t i) const { return chunks[i / kChunk][i % kChunk]; }
  void close(const Event* event);  // with whatever is open inside of it
};

extern constinit bool enabled;
extern constinit Options options;
extern constinit std::uint64_t generation;  // of profiles: what it wrote is read until the next one

// The number of this thread's Python stack, for events that no call with one is around; null where
// nobody has any.
using TraceOfNow = std::uint32_t (*)();
extern constinit TraceOfNow trace_of_now;

std::int64_t now();

// A new event of this thread, begun now; it stays where it is until the next profile starts.
Event* begin(Thread& thread, Kind kind, std::uint32_t name);
Thread& here();
// Gives an event the stack of now, where it is asked for and what is around has none.
void find_trace(Thread& thread, Event& event);

// Throws away what was written, and writes from now on.
void start(const Options& options);
void stop();
const std::vector<std::shared_ptr<Thread>>& threads();

// Something of that many bytes was allocated, or, negative, freed; total: what is there by now.
void note_memory(std::int64_t bytes, std::uint64_t address, int device, std::int64_t total);

// An event while it is in scope.
class Scope {
 public:
  Scope(Kind kind, std::uint32_t name)
      : thread(here()), event(begin(thread, kind, name)), generation_(generation) {
    thread.open = static_cast<std::uint32_t>(thread.count);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    if (!lasts()) return;
    event->end = now();
    thread.open = event->parent;
  }
  Thread& thread;
  Event* const event;
  bool lasts() const { return generation_ == generation; }  // no other profile has started

 private:
  const std::uint64_t generation_;
};

}  // namespace tritorch::profiling
