#include "distributed/group.h"

#include <unistd.h>

#include <cstring>

namespace tritorch::distributed {
namespace {

// The only member's part.
void alone(const Operation& operation) {
  for (std::size_t i = 0; i < operation.in.size() && i < operation.out.size(); ++i)
    if (operation.in[i].size && operation.in[i].data != operation.out[i].data)
      std::memmove(operation.out[i].data, operation.in[i].data, operation.in[i].size);
}

}  // namespace

Group::Group(int rank, int size, std::unique_ptr<Engine> engine, std::unique_ptr<Messages> messages)
    : rank_(rank),
      size_(size),
      engine_(std::move(engine)),
      messages_(std::move(messages)),
      process_(getpid()) {}

Group::~Group() { stop(); }

Messages& Group::messages() {
  if (!messages_) throw Error(Trouble::backend, "a group of one has nobody to send to");
  return *messages_;
}

std::optional<Failure> Group::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<Failure> Group::attempt(const Operation& operation, std::uint64_t sequence) {
  if (auto before = failure()) return before;
  try {
    if (size_ == 1)
      alone(operation);
    else
      engine_->run(operation, sequence);
    return std::nullopt;
  } catch (const Error& error) {
    std::string what = error.what();
    if (error.kind == Trouble::timeout)
      what += " within the timeout of " + std::to_string(operation.timeout.count()) + " ms";
    return Failure{error.kind, what, engine_->absent()};
  } catch (const std::exception& error) {
    return Failure{Trouble::backend, error.what(), {}};
  }
}

void Group::run(const Operation& operation, std::uint64_t sequence, Task& task) {
  std::optional<Failure> failed;
  bool stop = false;
  try {
    failed = attempt(operation, sequence);
  } catch (const Interrupted&) {
    failed = Failure{Trouble::backend, "the program was interrupted in a collective", {}};
    stop = true;
  }
  if (failed) {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_ = failed;
      if (engine_) engine_->give_up();
    }
  }
  task.finish(std::move(failed));
  if (stop) throw Interrupted{};
}

std::shared_ptr<Task> Group::submit(Operation operation, std::uint64_t sequence, bool wait) {
  auto task = std::make_shared<Task>();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (stopped_ || process_ != getpid()) {
      task->finish(Failure{Trouble::backend, "the group was ended", {}});
      return task;
    }
    if (!wait || running_ || !queue_.empty()) {
      queue_.push_back({std::move(operation), sequence, task});
      if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
      const bool idle = !running_;  // who runs something looks at the queue afterwards
      lock.unlock();                // or the thread would wake to wait for this one
      if (idle) changed_->notify_all();
      return task;
    }
    running_ = true;
  }
  const auto leave = [this] {
    const std::lock_guard lock(mutex_);
    running_ = false;
    changed_->notify_all();
  };
  try {
    run(operation, sequence, *task);
  } catch (...) {
    leave();
    throw;
  }
  leave();
  return task;
}

void Group::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_->wait(lock, [&] { return !running_ && (stopped_ || !queue_.empty()); });
    if (queue_.empty()) return;
    Queued next = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    run(next.operation, next.sequence, *next.task);
    lock.lock();
    running_ = false;
    changed_->notify_all();
  }
}

void Group::give_up(const std::string& reason) {
  if (process_ != getpid()) return;  // a forked child is no member
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = Failure{Trouble::lost, reason, {}};
  }
  if (engine_) engine_->give_up();
  if (messages_) messages_->stop();
}

void Group::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    stopped_ = true;
    changed_->notify_all();
  }
  if (thread_.joinable()) {
    if (process_ == getpid())
      thread_.join();
    else
      thread_.detach();
  }
  if (messages_) messages_->stop();
}

}  // namespace tritorch::distributed
