// Messages between two members of a group: sends and receives, matched by their tags.
//
// They run in a thread of their own beside the group's collectives, all at once: two members that
// first send to each other and then receive do not block.  A message that nobody has asked for yet
// is kept, up to a limit; beyond it the sender waits, as it would for a receiver that never comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "distributed/operation.h"
#include "distributed/runner.h"
#include "distributed/sockets.h"
#include "distributed/task.h"
#include "driver/fork.h"

namespace tritorch::distributed {

inline constexpr int kAnySource = -1;

class Messages : public std::enable_shared_from_this<Messages> {
 public:
  // sockets: by rank; none at the own.
  explicit Messages(std::vector<Descriptor> sockets);
  Messages(const Messages&) = delete;
  // held: the owner of the piece's memory.
  std::shared_ptr<Task> send(int peer, std::uint64_t tag, Piece piece,
                             std::chrono::milliseconds timeout, std::shared_ptr<void> held = {});
  std::shared_ptr<Task> receive(int peer, std::uint64_t tag, Piece piece,
                                std::chrono::milliseconds timeout, std::shared_ptr<void> held = {});
  // All that wait fail, here and at the other members; waits for that.
  void stop();
  // The same, without waiting.
  void leave();
  bool all_sent();

 private:
  struct Header {
    std::uint64_t tag, size;
  };
  struct Send {
    Header header;
    Piece piece;
    std::shared_ptr<void> held;
    std::size_t done = 0;
    Deadline deadline;
    std::shared_ptr<Task> task;
  };
  struct Receive {
    int peer;
    std::uint64_t tag;
    Piece piece;
    std::shared_ptr<void> held;
    Deadline deadline;
    std::shared_ptr<Task> task;
  };
  struct Kept {
    std::uint64_t tag;
    std::vector<char> bytes;
  };
  // What comes from one member: the message that is under way, and those that wait to be asked for.
  struct Peer {
    std::deque<Send> sends;
    std::deque<Kept> kept;
    std::size_t kept_bytes = 0;
    Header header{};
    std::size_t done = 0;
    std::optional<Receive> into;  // else into `under_way`
    bool takes = false;           // the header is whole, and there is a place for the rest
    std::vector<char> under_way;
    std::optional<Failure> lost;
  };
  std::shared_ptr<Task> begin(const std::function<void(const std::shared_ptr<Task>&)>& add);
  void end(const std::shared_ptr<Task>& task, std::optional<Failure> failure = std::nullopt);
  void finish_ended();
  bool tell_to_stop();
  void run();
  void close();
  bool advance_sends(int rank);
  bool advance_receive(int rank);
  bool place(int rank);
  void deliver(int rank);
  bool match_kept(int rank);
  void lose(int rank, const Error& error);
  void expire();
  void fail_all(const Failure& failure);

  std::vector<Descriptor> sockets_;
  std::vector<Peer> peers_;
  std::list<Receive> asked_;
  // Tasks that are over; the thread tells them, or who has ended it.
  std::vector<std::pair<std::shared_ptr<Task>, std::optional<Failure>>> ended_;
  ForkMutex mutex_;
  Descriptor wake_;
  std::atomic<bool> stopped_{false};
  Runner thread_;
  int process_;
};

}  // namespace tritorch::distributed
