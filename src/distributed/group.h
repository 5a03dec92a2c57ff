// The members of a group as one of them sees it: collectives in order, and messages beside them.
//
// A collective that its caller waits for runs in the caller's thread when nothing is queued, which
// saves two changes of threads; others run in a thread of the group's own.  One that fails ends the
// group: its members are at different places of it, and all later ones say why.
#pragma once

#include <deque>
#include <memory>

#include "distributed/fork_condition.h"
#include "distributed/messages.h"
#include "distributed/operation.h"
#include "distributed/runner.h"
#include "distributed/task.h"

namespace tritorch::distributed {

class Group : public std::enable_shared_from_this<Group> {
 public:
  // held: what must live as long as the group.
  Group(int rank, int size, std::unique_ptr<Engine> engine, std::shared_ptr<Messages> messages,
        std::shared_ptr<void> held = {});
  Group(const Group&) = delete;

  // Runs it, now or behind what is queued.
  std::shared_ptr<Task> submit(Operation operation, std::uint64_t sequence, bool wait);
  Messages& messages();
  // Ends all that runs or waits, here and at the other members.
  void give_up(const std::string& reason);
  // Ends the group once what is queued has run; waits for that.
  void stop();
  // The same, without waiting.
  void leave();
  // Whether nothing runs in the group's thread, or waits to, and all messages are sent.
  bool idle();
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
  std::shared_ptr<Messages> messages_;
  std::shared_ptr<void> held_;
  ForkMutex mutex_;
  ForkCondition changed_;
  std::deque<Queued> queue_;
  bool running_ = false, busy_ = false, stopped_ = false;  // busy: the thread runs something
  std::optional<Failure> failure_;
  Runner thread_;
  int process_;
};

// Notes a group for `leave_groups`.
void register_group(const std::shared_ptr<Group>& group);
// For the end of a process: waits until all its groups are idle, but not longer than that, and
// leaves them.  Threads that still run keep what they use.
void leave_groups(const Deadline& deadline);

// True in a thread that still runs when another has left the groups, because Python ends.
bool is_left_behind();

}  // namespace tritorch::distributed
