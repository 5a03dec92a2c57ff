// Which freed blocks wait for which streams: one event a (block, stream), one FIFO a stream, so
// that polling looks at each stream's oldest event only.
#pragma once

#include <deque>
#include <vector>

#include "driver/blocking.h"
#include "driver/table.h"

namespace tritorch::memory {

// Note [Frees that must not wait]: the simulated device runs kernels, hence Python, hence
// destructors, on whichever thread waits for it.  That may be a thread that called the driver from
// within an allocator, whose lock it holds (a DriverSection says so); or the lock may be held by a
// thread that waits for the very kernel that is freeing.  So a free() that cannot have the lock at
// once leaves its block in a list, which the next thread that takes the lock works off first.
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
    for (Queue& queue : queues_) {
      for (cu::CUevent event : queue.idle) (void)driver_.cuEventDestroy(event);
      for (Entry& entry : queue.entries) (void)driver_.cuEventDestroy(entry.event);
    }
  }
  EventQueues(const EventQueues&) = delete;

  bool empty() const { return pending_ == 0; }

  // `owner` waits for what `stream` has been given so far.  An event serves one context only, so an
  // owner that deals with several names the one that is current, which is the stream's.
  cu::CUresult record(cu::CUstream stream, T* owner, cu::CUcontext context = nullptr) {
    Queue& queue = queue_of(stream, context);
    cu::CUevent event = nullptr;
    if (!queue.idle.empty()) {
      event = queue.idle.back();
      queue.idle.pop_back();
    } else if (auto code = driver_.cuEventCreate(&event, cu::CU_EVENT_DISABLE_TIMING)) {
      return code;
    }
    if (auto code = driver_.cuEventRecord(event, stream)) {
      queue.idle.push_back(event);
      return code;
    }
    queue.entries.push_back({event, owner});
    ++pending_;
    return cu::CUDA_SUCCESS;
  }

  // Calls done(owner) for each event that has completed.  An event that fails (the device has)
  // stays.
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
    cu::CUcontext context;
    std::deque<Entry> entries;
    std::vector<cu::CUevent> idle;
  };

  Queue& queue_of(cu::CUstream stream, cu::CUcontext context) {
    for (Queue& queue : queues_)
      if (queue.stream == stream && queue.context == context) return queue;
    return queues_.emplace_back(Queue{stream, context, {}, {}});
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
        queue.idle.push_back(entry.event);
        --pending_;
        done(entry.owner);
      }
    }
    return cu::CUDA_SUCCESS;
  }

  const cu::Driver& driver_;
  std::size_t pending_ = 0;
  std::vector<Queue> queues_;
};

}  // namespace tritorch::memory
