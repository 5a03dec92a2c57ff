// In which order, and how late, queued work runs.
//
// Nothing runs when it is queued.  A synchronisation runs what it transitively needs, drawing the
// next operation at random among the streams whose front one is ready.  Even seeds do no more than
// that: work waits as long as the program lets it, which exposes reads that come too early.  Odd
// seeds also draw, with a probability that the seed fixes, from all other streams: that exposes
// writes that come before a reader on another stream is done.
#include <algorithm>
#include <utility>

#include "driver/blocking.h"
#include "simulator/state.h"

namespace tritorch::cu::simulator {
namespace {

constexpr std::size_t kLongestQueue = 4096;

// True on a thread that runs a kernel's body or a host function.  Such code may queue work (a
// garbage collection in it may free tensors), but waiting there for the queue would never end.
thread_local bool in_body = false;

// Streams by id, so that a seed gives the same order in every run.
using Needed = std::map<std::uint64_t, Point>;

Needed closure(std::span<const Point> targets) {
  Needed needed;
  std::vector<Point> open(targets.begin(), targets.end());
  while (!open.empty()) {
    const Point point = std::move(open.back());
    open.pop_back();
    const Stream& stream = *point.stream;
    auto [entry, added] = needed.try_emplace(stream.id, Point{point.stream, stream.done});
    const std::uint64_t from = entry->second.sequence;
    if (point.sequence <= from) continue;
    entry->second.sequence = point.sequence;
    // Operation number n (from 1) is the queue's entry n - 1 - done, one less while one runs.
    const std::uint64_t popped = stream.done + stream.running;
    for (std::uint64_t n = std::max(from, popped); n < point.sequence; ++n)
      for (const Point& need : stream.queue[n - popped].needs) open.push_back(need);
  }
  return needed;
}

bool ready(const Stream& stream) {
  if (stream.running || stream.queue.empty()) return false;
  const Operation& front = stream.queue.front();
  if (front.action.ready && !front.action.ready()) return false;
  const std::vector<Point>& needs = front.needs;
  return std::all_of(needs.begin(), needs.end(), reached);
}

// Null only if nothing of `needed` can run now.
std::shared_ptr<Stream> choose(const Needed& needed) {
  std::vector<std::shared_ptr<Stream>> candidates;
  const std::uint64_t seed = state().options.seed;
  const bool mixed = seed % 2 == 1;
  if (mixed && draw(4) <= seed / 2 % 3) {
    for (const Device& device : state().world->devices)
      for (const auto& stream : device.streams)
        if (ready(*stream)) candidates.push_back(stream);
  } else {
    for (const auto& [id, point] : needed)
      if (!reached(point) && ready(*point.stream)) candidates.push_back(point.stream);
  }
  return candidates.empty() ? nullptr : candidates[draw(candidates.size())];
}

CUresult work(Lock& lock, const Action& action, std::string& detail) {
  if (!action.work) return CUDA_SUCCESS;
  if (!action.calls_out) return action.work(detail);
  CUresult result;
  lock.unlock();
  in_body = true;
  try {
    result = action.work(detail);
  } catch (...) {
    result = CUDA_ERROR_LAUNCH_FAILED;
  }
  in_body = false;
  lock.lock();
  return result;
}

// Runs an action, or the nodes of a graph, which may be graphs again.  Profiles know all of it by
// the number of the call that enqueued it.
CUresult run(Lock& lock, const Stream& stream, const Action& action, std::uint32_t correlation,
             CUgraphNode node, std::string& detail) {
  if (!action.graph) {
    const auto begin = std::chrono::steady_clock::now();
    const CUresult result = work(lock, action, detail);
    if (correlation) note_activity(action, stream, correlation, node, begin);
    return result;
  }
  for (std::size_t index : random_order(*action.graph)) {
    const Node& inner = action.graph->nodes[index];
    const CUresult result = run(lock, stream, inner.action, correlation, inner.handle, detail);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// Runs the front operation, which is ready.  No other thread is in one.
void execute(Lock& lock, const std::shared_ptr<Stream>& stream) {
  State& s = state();
  Operation operation = std::move(stream->queue.front());
  stream->queue.pop_front();
  stream->running = true;
  s.executing = true;
  std::atomic<int>& sticky = s.sticky[static_cast<std::size_t>(stream->device)];
  CUresult result = CUDA_SUCCESS;
  const bool lost = sticky != CUDA_SUCCESS;  // the context, and its work with it
  if (!lost || operation.action.bookkeeping) {
    std::string detail;
    const Action& action = operation.action;
    result = run(lock, *stream, action, action.correlation, nullptr, detail);
    if (result != CUDA_SUCCESS && result != kInterrupted) {
      sticky = result;
      s.world->detail = detail;
    }
  }
  if (operation.record) {
    operation.record->done = true;
    operation.record->time = std::chrono::steady_clock::now();
  }
  // May release the last reference to a kernel, and with it what its owner keeps there.
  lock.unlock();
  in_body = true;
  operation = {};
  in_body = false;
  lock.lock();
  stream->running = false;
  ++stream->done;
  s.executing = false;
  if (stream->destroyed && stream->queue.empty())
    std::erase(s.world->devices[static_cast<std::size_t>(stream->device)].streams, stream);
  s.changed.notify_all();
  s.interrupted |= result == kInterrupted;
}

}  // namespace

void wait_for_executor(Lock& lock) {
  while (state().executing) {
    {
      // The body that runs may want the interpreter lock, which our caller may hold; and we must
      // not take that back with our own lock in hand.
      BlockingRegion waiting;
      state().changed.wait(lock, [] { return !state().executing; });
      lock.unlock();
    }
    lock.lock();
  }
}

bool reached(const Point& point) { return !point.stream || point.stream->done >= point.sequence; }

void run_until(Lock& lock, std::span<const Point> targets);

Point last_point(const std::shared_ptr<Stream>& stream) { return {stream, stream->enqueued()}; }

Point enqueue(Lock& lock, const std::shared_ptr<Stream>& stream, Action action,
              std::shared_ptr<Record> record, std::vector<Point> needs) {
  check_sticky(stream->device);
  check_implicit(*stream);
  if (stream->capture) {
    capture_node(*stream, std::move(action));
    return {};
  }
  const Point point = append(stream, std::move(action), std::move(record), std::move(needs));
  if (stream->queue.size() > kLongestQueue && !in_body && !state().executing) {
    const Point half{stream, stream->done + kLongestQueue / 2};
    run_until(lock, {&half, 1});
  }
  return point;
}

Point append(const std::shared_ptr<Stream>& stream, Action action, std::shared_ptr<Record> record,
             std::vector<Point> needs) {
  Device& device = device_state(stream->device);
  auto need = [&](const std::shared_ptr<Stream>& other) {
    if (other != stream && other->done < other->enqueued()) needs.push_back(last_point(other));
  };
  if (stream->legacy) {
    for (const auto& other : device.streams)
      if (other->blocking) need(other);
  } else if (stream->blocking) {
    need(device.legacy);
  }
  action.correlation = correlate();
  const Point point{stream, stream->enqueued() + 1};
  if (record) record->point = point;
  stream->queue.push_back({std::move(action), std::move(needs), std::move(record)});
  return point;
}

// What is needed waits for another process.
void wait_for_others(Lock& lock) {
  {
    BlockingRegion waiting;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  lock.lock();
}

void tell_of_interruption() { require(!std::exchange(state().interrupted, false), kInterrupted); }

void run_until(Lock& lock, std::span<const Point> targets) {
  auto all_reached = [&] { return std::all_of(targets.begin(), targets.end(), reached); };
  if (all_reached()) return;
  require(!in_body, CUDA_ERROR_NOT_PERMITTED);
  const Needed needed = closure(targets);
  while (!all_reached()) {
    wait_for_executor(lock);
    if (all_reached()) return;
    if (std::shared_ptr<Stream> stream = choose(needed))
      execute(lock, stream);
    else
      wait_for_others(lock);
  }
}

void drain(Lock& lock, std::span<const Point> targets) {
  run_until(lock, targets);
  tell_of_interruption();
}

void drain_device(Lock& lock, int device) {
  std::vector<Point> targets;
  for (const auto& stream : device_state(device).streams) targets.push_back(last_point(stream));
  drain(lock, targets);
}

void drain_all(Lock& lock) {
  std::vector<Point> targets;
  for (const Device& device : state().world->devices)
    for (const auto& stream : device.streams) targets.push_back(last_point(stream));
  drain(lock, targets);
}

void progress(Lock& lock, const Point& target) {
  if (in_body) return;
  const Needed needed = closure({&target, 1});
  for (std::uint64_t n = draw(4); n > 0 && !reached(target) && !state().executing; --n)
    if (std::shared_ptr<Stream> stream = choose(needed)) execute(lock, stream);
  tell_of_interruption();
}

}  // namespace tritorch::cu::simulator
