#include "distributed/messages.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tritorch::distributed {
namespace {

constexpr std::size_t kMostKept = std::size_t{64} << 20;

}  // namespace

Messages::Messages(std::vector<Descriptor> sockets)
    : sockets_(std::move(sockets)),
      peers_(sockets_.size()),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      process_(getpid()) {}

// Whether this call is the one that stops them; a forked child has nothing to stop.
bool Messages::tell_to_stop() {
  if (stopped_.exchange(true) || process_ != getpid()) return false;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
  const std::lock_guard lock(mutex_);  // behind a call that starts the thread
  if (!thread_.started()) close();
  return true;
}

void Messages::stop() {
  if (tell_to_stop()) thread_.join();
}

void Messages::leave() {
  tell_to_stop();
  thread_.leave();
}

bool Messages::all_sent() {
  const std::lock_guard lock(mutex_);
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return peer.sends.empty(); });
}

void Messages::close() {
  for (const Descriptor& each : sockets_)
    if (each) shutdown(each.get(), SHUT_WR);
}

std::shared_ptr<Task> Messages::begin(
    const std::function<void(const std::shared_ptr<Task>&)>& add) {
  auto task = std::make_shared<Task>();
  const std::lock_guard lock(mutex_);
  if (stopped_ || process_ != getpid()) {
    task->finish(Failure{Trouble::lost, "the group was ended", {}});
    return task;
  }
  add(task);
  if (!thread_.started()) thread_.start([self = shared_from_this()] { self->run(); });
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
  return task;
}

std::shared_ptr<Task> Messages::send(int peer, std::uint64_t tag, Piece piece,
                                     std::chrono::milliseconds timeout,
                                     std::shared_ptr<void> held) {
  return begin([&](const std::shared_ptr<Task>& task) {
    peers_[static_cast<std::size_t>(peer)].sends.push_back(
        {{tag, piece.size}, piece, std::move(held), 0, Deadline::in(timeout), task});
  });
}

std::shared_ptr<Task> Messages::receive(int peer, std::uint64_t tag, Piece piece,
                                        std::chrono::milliseconds timeout,
                                        std::shared_ptr<void> held) {
  return begin([&](const std::shared_ptr<Task>& task) {
    asked_.push_back({peer, tag, piece, std::move(held), Deadline::in(timeout), task});
  });
}

void Messages::run() {
  std::vector<pollfd> waits;
  while (!stopped_) {
    bool moved = false;
    waits.assign(1, {wake_.get(), POLLIN, 0});
    {
      const std::lock_guard lock(mutex_);
      expire();
      for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
        const Descriptor& socket = sockets_[static_cast<std::size_t>(rank)];
        Peer& peer = peers_[static_cast<std::size_t>(rank)];
        if (!socket || peer.lost) continue;
        try {
          moved |= match_kept(rank);
          moved |= advance_sends(rank);
          moved |= advance_receive(rank);
        } catch (const Error& error) {
          lose(rank, error);
          continue;
        }
        short events = peer.sends.empty() ? 0 : POLLOUT;
        // A message for which there is no place stays in the socket.
        if (peer.done < sizeof(Header) || peer.takes) events |= POLLIN;
        waits.push_back({socket.get(), events, 0});
      }
    }
    finish_ended();
    if (moved) continue;
    if (poll(waits.data(), waits.size(), 50) > 0 && waits[0].revents) {
      std::uint64_t count;
      [[maybe_unused]] const auto cleared = read(wake_.get(), &count, sizeof count);
    }
  }
  close();
  fail_all({Trouble::lost, "the group was ended", {}});
}

// Callbacks run Python, which may send and receive: never under the lock.
void Messages::end(const std::shared_ptr<Task>& task, std::optional<Failure> failure) {
  ended_.emplace_back(task, std::move(failure));
}

void Messages::finish_ended() {
  for (auto& [task, failure] : std::exchange(ended_, {})) task->finish(std::move(failure));
}

bool Messages::advance_sends(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const int fd = sockets_[static_cast<std::size_t>(rank)].get();
  bool moved = false;
  while (!peer.sends.empty()) {
    Send& now = peer.sends.front();
    while (now.done < sizeof(Header) + now.piece.size) {
      const bool head = now.done < sizeof(Header);
      const char* data = head ? reinterpret_cast<char*>(&now.header) + now.done
                              : now.piece.data + (now.done - sizeof(Header));
      const std::size_t left =
          head ? sizeof(Header) - now.done : sizeof(Header) + now.piece.size - now.done;
      const std::size_t sent = send_some(fd, data, left);
      if (!sent) return moved;
      moved = true;
      now.done += sent;
    }
    end(now.task);
    peer.sends.pop_front();
  }
  return moved;
}

// Finds where the message goes whose header has come; false if it has to stay outside.
bool Messages::place(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  for (auto each = asked_.begin(); each != asked_.end(); ++each) {
    if ((each->peer != rank && each->peer != kAnySource) || each->tag != peer.header.tag) continue;
    if (each->piece.size != peer.header.size) {
      end(each->task,
          Failure{Trouble::mismatch,
                  "rank " + std::to_string(rank) + " sends " + std::to_string(peer.header.size) +
                      " bytes where " + std::to_string(each->piece.size) + " are expected",
                  {rank}});
      asked_.erase(each);
      return place(rank);
    }
    peer.into = std::move(*each);
    asked_.erase(each);
    peer.takes = true;
    return true;
  }
  if (peer.kept_bytes + peer.header.size > kMostKept) {
    // Whoever waits for a later message of this member has to get it, whatever lies before.
    const bool wanted = std::any_of(asked_.begin(), asked_.end(),
                                    [&](const Receive& each) { return each.peer == rank; });
    if (!wanted) return false;
  }
  peer.under_way.resize(peer.header.size);
  peer.kept_bytes += peer.header.size;
  peer.takes = true;
  return true;
}

void Messages::deliver(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.into) {
    peer.into->task->source = rank;
    end(peer.into->task);
    peer.into.reset();
  } else {
    peer.kept.push_back({peer.header.tag, std::move(peer.under_way)});
    peer.under_way = {};
  }
  peer.done = 0;
  peer.takes = false;
}

bool Messages::advance_receive(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const int fd = sockets_[static_cast<std::size_t>(rank)].get();
  bool moved = false;
  for (;;) {
    if (peer.done < sizeof(Header)) {
      const std::size_t came = receive_some(fd, reinterpret_cast<char*>(&peer.header) + peer.done,
                                            sizeof(Header) - peer.done);
      if (!came) return moved;
      moved = true;
      peer.done += came;
      continue;
    }
    if (!peer.takes && !place(rank)) return moved;
    const std::size_t at = peer.done - sizeof(Header);
    if (at < peer.header.size) {
      char* data = peer.into ? peer.into->piece.data : peer.under_way.data();
      const std::size_t came = receive_some(fd, data + at, peer.header.size - at);
      if (!came) return moved;
      moved = true;
      peer.done += came;
      if (at + came < peer.header.size) continue;
    }
    deliver(rank);
    moved = true;
    match_kept(rank);
  }
}

// Gives kept messages to those who have asked since.
bool Messages::match_kept(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  bool moved = false;
  for (auto each = asked_.begin(); each != asked_.end();) {
    const auto found = (each->peer != rank && each->peer != kAnySource)
                           ? peer.kept.end()
                           : std::find_if(peer.kept.begin(), peer.kept.end(),
                                          [&](const Kept& kept) { return kept.tag == each->tag; });
    if (found == peer.kept.end()) {
      ++each;
      continue;
    }
    std::optional<Failure> failure;
    if (found->bytes.size() == each->piece.size) {
      if (each->piece.size) std::memcpy(each->piece.data, found->bytes.data(), found->bytes.size());
    } else {
      failure =
          Failure{Trouble::mismatch,
                  "rank " + std::to_string(rank) + " sent " + std::to_string(found->bytes.size()) +
                      " bytes where " + std::to_string(each->piece.size) + " are expected",
                  {rank}};
    }
    each->task->source = rank;
    peer.kept_bytes -= found->bytes.size();
    peer.kept.erase(found);
    const auto task = each->task;
    each = asked_.erase(each);
    end(task, std::move(failure));
    moved = true;
  }
  return moved;
}

void Messages::lose(int rank, const Error& error) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.lost = Failure{Trouble::lost,
                      "rank " + std::to_string(rank) + " is gone or gave up: " + error.what(),
                      {rank}};
  for (Send& each : peer.sends) end(each.task, peer.lost);
  peer.sends.clear();
  if (peer.into) end(peer.into->task, peer.lost);
  peer.into.reset();
}

void Messages::expire() {
  const auto late = [](const Deadline& deadline) { return deadline.over(); };
  const auto timeout = [](int rank) {
    return Failure{Trouble::timeout, "the message did not pass in time",
                   rank < 0 ? std::vector<int>{} : std::vector<int>{rank}};
  };
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const bool late_send = !peer.sends.empty() && late(peer.sends.front().deadline);
    const bool late_receive = peer.into && late(peer.into->deadline);
    if (late_send) end(peer.sends.front().task, timeout(rank));
    if (late_receive) end(peer.into->task, timeout(rank));
    // Half of a message has passed, or its memory is not to be touched any more: nothing more can.
    if (late_send || late_receive) lose(rank, Error(Trouble::timeout, "a message stopped halfway"));
    if (!peer.lost) continue;
    for (Send& each : peer.sends) end(each.task, peer.lost);
    peer.sends.clear();
  }
  for (auto each = asked_.begin(); each != asked_.end();) {
    const bool lost = each->peer >= 0 && peers_[static_cast<std::size_t>(each->peer)].lost;
    if (!lost && !late(each->deadline)) {
      ++each;
      continue;
    }
    const auto failure = lost ? peers_[static_cast<std::size_t>(each->peer)].lost
                              : std::optional<Failure>(timeout(each->peer));
    const auto task = each->task;
    each = asked_.erase(each);
    end(task, failure);
  }
}

void Messages::fail_all(const Failure& failure) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (Peer& peer : peers_) {
    for (Send& each : peer.sends) end(each.task, failure);
    peer.sends.clear();
    if (peer.into) end(peer.into->task, failure);
    peer.into.reset();
  }
  for (Receive& each : asked_) end(each.task, failure);
  asked_.clear();
  lock.unlock();
  finish_ended();
}

}  // namespace tritorch::distributed
