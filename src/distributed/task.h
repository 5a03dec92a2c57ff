// Something that runs, or will: who waits for it learns how it ended.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributed/fork_condition.h"
#include "distributed/waiting.h"

namespace tritorch::distributed {

struct Failure {
  Trouble kind;
  std::string message;
  std::vector<int> absent;  // ranks of the group
};

// What all tasks wait with: a lock for each would be one more to make anew in forked children at
// every call.  Both outlive what runs at exit.
inline ForkMutex& task_lock() {
  static auto* lock = new ForkMutex;
  return *lock;
}
inline ForkCondition& task_changed() {
  static auto* changed = new ForkCondition;
  return *changed;
}

class Task {
 public:
  virtual ~Task() = default;
  bool done() const { return done_.load(std::memory_order_acquire); }
  // Whether it is done by the deadline.
  bool wait(const Deadline& deadline) {
    while (!done()) {
      std::unique_lock<std::mutex> lock(task_lock());
      task_changed()->wait_for(lock, std::chrono::milliseconds(deadline.slice()),
                               [&] { return done(); });
      lock.unlock();
      if (done()) break;
      look_for_interrupts();
      if (deadline.over()) return done();
    }
    return true;
  }
  // Of a task that is done.
  const std::optional<Failure>& failure() const { return failure_; }
  int source = -1;  // who sent what a receive got

  void finish(std::optional<Failure> failure = std::nullopt) {
    std::vector<std::function<void()>> callbacks;
    {
      const std::lock_guard<std::mutex> lock(task_lock());
      if (done()) return;
      failure_ = std::move(failure);
      done_.store(true, std::memory_order_release);
      callbacks = std::move(callbacks_);
      task_changed()->notify_all();
    }
    for (auto& each : callbacks) each();
  }
  // Calls function once this is done, in the thread that ends it; at once if it is done.
  void then(std::function<void()> function) {
    {
      const std::lock_guard<std::mutex> lock(task_lock());
      if (!done()) {
        callbacks_.push_back(std::move(function));
        return;
      }
    }
    function();
  }

 private:
  std::atomic<bool> done_{false};
  std::optional<Failure> failure_;
  std::vector<std::function<void()>> callbacks_;
};

}  // namespace tritorch::distributed
