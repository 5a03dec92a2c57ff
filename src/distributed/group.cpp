#include "distributed/group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace tritorch::distributed {
namespace {

// The only member's part.
void alone(const Operation& operation) {
  for (std::size_t i = 0; i < operation.in.size() && i < operation.out.size(); ++i)
    if (operation.in[i].size && operation.in[i].data != operation.out[i].data)
      std::memmove(operation.out[i].data, operation.in[i].data, operation.in[i].size);
}

// The groups of this process.
struct Registry {
  ForkMutex mutex;
  std::vector<std::weak_ptr<Group>> groups;

  std::vector<std::shared_ptr<Group>> all() {
    const std::lock_guard lock(mutex);
    std::vector<std::shared_ptr<Group>> out;
    for (const auto& each : groups)
      if (auto group = each.lock()) out.push_back(std::move(group));
    return out;
  }
  void add(const std::shared_ptr<Group>& group) {
    const std::lock_guard lock(mutex);
    std::erase_if(groups, [](const auto& each) { return each.expired(); });
    groups.push_back(group);
  }
};
Registry& registry() {
  static auto* groups = new Registry;  // outlives what runs at exit
  return *groups;
}

}  // namespace

Group::Group(int rank, int size, std::unique_ptr<Engine> engine, std::shared_ptr<Messages> messages,
             std::shared_ptr<void> held)
    : rank_(rank),
      size_(size),
      engine_(std::move(engine)),
      messages_(std::move(messages)),
      held_(std::move(held)),
      process_(getpid()) {}

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
      if (!thread_.started()) thread_.start([self = shared_from_this()] { self->work(); });
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
    running_ = busy_ = true;
    lock.unlock();
    run(next.operation, next.sequence, *next.task);
    next = {};
    lock.lock();
    running_ = busy_ = false;
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
  thread_.join();
  if (messages_) messages_->stop();
}

void Group::leave() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_->notify_all();
  }
  thread_.leave();
  if (messages_) messages_->leave();
}

bool Group::idle() {
  const std::lock_guard lock(mutex_);
  return !busy_ && queue_.empty() && (!messages_ || messages_->all_sent());
}

static std::atomic<std::thread::id> leaver;  // who has called leave_groups

void register_group(const std::shared_ptr<Group>& group) { registry().add(group); }

void leave_groups(const Deadline& deadline) {
  const auto groups = registry().all();
  const auto idle = [](const auto& group) { return group->idle(); };
  while (!std::all_of(groups.begin(), groups.end(), idle) && !deadline.over()) {
    look_for_interrupts();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  leaver = std::this_thread::get_id();
  for (const auto& group : groups) group->leave();
}

bool is_left_behind() {
  const std::thread::id by = leaver;
  return by != std::thread::id() && by != std::this_thread::get_id();
}

}  // namespace tritorch::distributed
