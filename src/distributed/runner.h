// A thread that its owner may leave behind.  Groups run Python's functions in theirs, and a thread
// that is in one when Python ends never comes back (Note [Threads at exit], interpreter.h): whoever
// joined it would wait for ever.
#pragma once

#include <unistd.h>

#include <memory>
#include <thread>

#include "distributed/fork_condition.h"
#include "distributed/waiting.h"

namespace tritorch::distributed {

class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  ~Runner() { leave(); }
  bool started() const { return thread_.joinable(); }

  // body: keeps alive all that it uses.
  template <class Body>
  void start(Body body) {
    end_ = std::make_shared<End>();
    thread_ = std::thread([end = end_, body = std::move(body)] {
      body();
      const std::lock_guard<std::mutex> lock(end->mutex);
      end->reached = true;
      end->changed->notify_all();
    });
  }

  // Waits for its end, open to Ctrl-C; not in the thread itself, nor in a forked child, which does
  // not have it.
  void join() {
    if (!started()) return;
    if (process_ != getpid() || thread_.get_id() == std::this_thread::get_id()) return leave();
    while (!ended()) look_for_interrupts();
    thread_.join();
  }
  void leave() {
    if (started()) thread_.detach();
  }

 private:
  struct End {
    ForkMutex mutex;
    ForkCondition changed;
    bool reached = false;
  };
  bool ended() {
    std::unique_lock<std::mutex> lock(end_->mutex);
    return end_->changed->wait_for(lock, std::chrono::milliseconds(100),
                                   [&] { return end_->reached; });
  }

  std::shared_ptr<End> end_;
  std::thread thread_;
  int process_ = getpid();
};

}  // namespace tritorch::distributed
