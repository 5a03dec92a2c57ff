// The members of a group as one of them sees it: collectives in order, and messages beside them.
//
// A collective that its caller waits for runs in the caller's thread when nothing is queued, which
// saves two changes of threads; others run in a thread of the group's own.  One that fails ends the
// group: its members are at different places of it, and all later ones say why.
#pragma once

#include <deque>
#include <memory>
#include <thread>

#include "distributed/fork_condition.h"
#include "distributed/messages.h"
#include "distributed/operation.h"
#include "distributed/task.h"

namespace tritorch::distributed {

class Group {
 public:
  Group(int rank, int size, std::unique_ptr<Engine> engine, std::unique_ptr<Messages> messages);
  ~Group();
  Group(const Group&) = delete;

  // Runs it, now or behind what is queued.
  std::shared_ptr<Task> submit(Operation operation, std::uint64_t sequence, bool wait);
  Messages& messages();
  // Ends all that runs or waits, here and at the other members.
  void give_up(const std::string& reason);
  // Ends the group once what is queued has run.
  void stop();
  std::optional<Failure> failure();
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  struct Queued {
    Operation operation;
    std::uint64_t sequence;
    std::shared_ptr<Task> task;
  };
  void work();
  void run(const Operation& operation, std::uint64_t sequence, Task& task);
  std::optional<Failure> attempt(const Operation& operation, std::uint64_t sequence);

  int rank_, size_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Messages> messages_;
  ForkMutex mutex_;
  ForkCondition changed_;
  std::deque<Queued> queue_;
  bool running_ = false, stopped_ = false;
  std::optional<Failure> failure_;
  std::thread thread_;
  int process_;
};

}  // namespace tritorch::distributed
