// Which freed blocks wait for which streams: one event a (block, stream), one FIFO a stream, so that
// polling looks at each stream's oldest event only.
#pragma once

#include <deque>
#include <vector>

#include "driver/blocking.h"
#include "driver/table.h"

namespace tritorch::memory {

// Note [Frees from within the driver]: the simulated device runs kernels, hence Python, hence
// destructors, on whichever thread waits for it, and that may be a thread that called it from
// within an allocator.  A DriverSection says so; a free() inside one must not take a lock.
inline thread_local int inside_driver_section = 0;

class DriverSection {
 public:
  DriverSection() { ++inside_driver_section; }
  ~DriverSection() { --inside_driver_section; }

 private:
  BlockingRegion waiting_;
};

// Lets this thread make calls that a stream capture underway would forbid (allocation, waiting).
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const cu::Driver& driver) : driver_(driver) { exchange(); }
  ~RelaxedCapture() { exchange(); }

 private:
  void exchange() { (void)driver_.cuThreadExchangeStreamCaptureMode(&mode_); }
  const cu::Driver& driver_;
  DriverSection section_;
  cu::CUstreamCaptureMode mode_ = cu::CU_STREAM_CAPTURE_MODE_RELAXED;
};

template <class T>
class EventQueues {
 public:
  explicit EventQueues(const cu::Driver& driver) : driver_(driver) {}
  ~EventQueues() {
    for (cu::CUevent event : idle_) (void)driver_.cuEventDestroy(event);
    for (Queue& queue : queues_)
      for (Entry& entry : queue.entries) (void)driver_.cuEventDestroy(entry.event);
  }
  EventQueues(const EventQueues&) = delete;

  bool empty() const { return pending_ == 0; }

  // `owner` waits for what `stream` has been given so far.
  cu::CUresult record(cu::CUstream stream, T* owner) {
    cu::CUevent event = nullptr;
    if (!idle_.empty()) {
      event = idle_.back();
      idle_.pop_back();
    } else if (auto code = driver_.cuEventCreate(&event, cu::CU_EVENT_DISABLE_TIMING)) {
      return code;
    }
    if (auto code = driver_.cuEventRecord(event, stream)) {
      idle_.push_back(event);
      return code;
    }
    queue_of(stream).entries.push_back({event, owner});
    ++pending_;
    return cu::CUDA_SUCCESS;
  }

  // Calls done(owner) for each event that has completed.  An event that fails (the device has) stays.
  template <class Done>
  cu::CUresult poll(Done done) {
    return drain(done, [this](cu::CUevent event) { return driver_.cuEventQuery(event); });
  }
  template <class Done>
  cu::CUresult wait(Done done) {
    return drain(done, [this](cu::CUevent event) { return driver_.cuEventSynchronize(event); });
  }

 private:
  struct Entry {
    cu::CUevent event;
    T* owner;
  };
  struct Queue {
    cu::CUstream stream;
    std::deque<Entry> entries;
  };

  Queue& queue_of(cu::CUstream stream) {
    for (Queue& queue : queues_)
      if (queue.stream == stream) return queue;
    return queues_.emplace_back(Queue{stream, {}});
  }

  template <class Done, class Ask>
  cu::CUresult drain(Done& done, Ask ask) {
    for (Queue& queue : queues_) {
      while (!queue.entries.empty()) {
        const Entry entry = queue.entries.front();
        const cu::CUresult code = ask(entry.event);
        if (code == cu::CUDA_ERROR_NOT_READY) break;
        if (code != cu::CUDA_SUCCESS) return code;
        queue.entries.pop_front();
        idle_.push_back(entry.event);
        --pending_;
        done(entry.owner);
      }
    }
    return cu::CUDA_SUCCESS;
  }

  const cu::Driver& driver_;
  std::size_t pending_ = 0;
  std::vector<Queue> queues_;
  std::vector<cu::CUevent> idle_;
};

}  // namespace tritorch::memory
