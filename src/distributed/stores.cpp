#include "distributed/stores.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "distributed/sha256.h"
#include "distributed/store_server.h"

namespace tritorch::distributed {
namespace {

// How much longer than the server a client waits for its answer.
constexpr std::chrono::milliseconds kGrace{5000};
// How long a client that has met the server waits for another connection to it.
constexpr std::chrono::milliseconds kReconnect{5000};

Deadline deadline_of(const StoreRequest& request) {
  return Deadline::in(std::chrono::milliseconds(request.milliseconds));
}

}  // namespace

StoreReply HashEngine::call(const StoreRequest& request) {
  const Deadline deadline = deadline_of(request);
  std::unique_lock<std::mutex> lock(mutex_);
  std::string missing;
  for (;;) {
    if (auto reply = table_.apply(request, missing)) {
      if (StoreTable::changes(request.op)) changed_->notify_all();
      return *reply;
    }
    if (deadline.over()) return {StoreStatus::timed_out, 0, {}};
    changed_->wait_for(lock, std::chrono::milliseconds(deadline.slice()));
    lock.unlock();
    look_for_interrupts();
    lock.lock();
  }
}

void FileEngine::read_new(int fd) {
  struct stat status{};
  fstat(fd, &status);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size <= read_) return;
  std::string fresh(size - read_, '\0');
  for (std::size_t at = 0; at < fresh.size();) {
    const ssize_t came =
        pread(fd, fresh.data() + at, fresh.size() - at, static_cast<off_t>(read_ + at));
    if (came <= 0) throw Error(Trouble::store, "FileStore: " + path_ + " cannot be read");
    at += static_cast<std::size_t>(came);
  }
  std::string_view rest = fresh;
  std::string missing;
  while (!rest.empty()) {
    const auto length = body_length(rest);
    std::optional<StoreRequest> request;
    if (length && rest.size() >= kHeaderBytes + *length)
      request = decode_request(rest.substr(kHeaderBytes, *length));
    if (!request) throw Error(Trouble::store, "FileStore: " + path_ + " is no store's file");
    table_.apply(*request, missing);
    rest.remove_prefix(kHeaderBytes + *length);
    read_ += kHeaderBytes + *length;
  }
}

std::optional<StoreReply> FileEngine::attempt(const StoreRequest& request) {
  const Descriptor fd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) throw Error(Trouble::store, "FileStore: " + path_ + ": " + std::strerror(errno));
  while (flock(fd.get(), LOCK_EX))  // closing gives it back
    if (errno != EINTR) throw Error(Trouble::store, "FileStore: " + path_ + " cannot be locked");
  read_new(fd.get());
  std::string missing;
  auto reply = table_.apply(request, missing);
  if (reply && reply->status == StoreStatus::done && StoreTable::changes(request.op)) {
    const std::string record = encode(request);
    if (pwrite(fd.get(), record.data(), record.size(), static_cast<off_t>(read_)) !=
        static_cast<ssize_t>(record.size()))
      throw Error(Trouble::store, "FileStore: " + path_ + " cannot be written");
    read_ += record.size();
  }
  return reply;
}

StoreReply FileEngine::call(const StoreRequest& request) {
  const Deadline deadline = deadline_of(request);
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (auto reply = attempt(request)) return *reply;
    }
    if (deadline.over()) return {StoreStatus::timed_out, 0, {}};
    look_for_interrupts();
    std::this_thread::sleep_for(std::min(pause, std::chrono::milliseconds(deadline.slice(50))));
    pause *= 2;
  }
}

ClientEngine::ClientEngine(std::string host, int port, std::string secret, const Deadline& deadline)
    : process_(getpid()), host_(std::move(host)), secret_(std::move(secret)), port_(port) {
  idle_.push_back(connect(deadline));
}

StoreReply ClientEngine::exchange(int fd, const StoreRequest& request, const Deadline& deadline) {
  const std::string frame = encode(request);
  if (frame.size() - kHeaderBytes > kMostBytes)
    throw Error(Trouble::store, "the values are too long for a store");
  send_all(fd, frame.data(), frame.size(), deadline);
  std::string header(kHeaderBytes, '\0');
  receive_all(fd, header.data(), header.size(), deadline);
  const auto length = body_length(header);
  if (!length) throw Error(Trouble::network, "what answers at the store's address is no store");
  std::string body(*length, '\0');
  receive_all(fd, body.data(), body.size(), deadline);
  auto reply = decode_reply(body);
  if (!reply) throw Error(Trouble::network, "what answers at the store's address is no store");
  return *reply;
}

Descriptor ClientEngine::connect(const Deadline& deadline) {
  Descriptor fd = connect_to(host_, port_, deadline);
  const std::string nonce = random_bytes(32);
  StoreRequest hello{StoreOp::hello, kStoreVersion, 0, {}, {nonce}};
  StoreReply answer;
  try {
    answer = exchange(fd.get(), hello, deadline);
  } catch (const Error& error) {
    const std::string place = "what listens at [" + host_ + "]:" + std::to_string(port_);
    if (error.kind == Trouble::lost)
      throw Error(Trouble::network,
                  place +
                      " closes the connection at a store's greeting: it ends, or it is no store "
                      "of tritorch's but PyTorch's, of a process that imports another torch");
    if (error.kind == Trouble::timeout)
      throw Error(Trouble::timeout,
                  place +
                      " does not answer a store's greeting: its process is stopped, or it is no "
                      "store");
    throw;
  }
  if (answer.status != StoreStatus::done || answer.values.size() != 2)
    throw Error(Trouble::network, "the store speaks version " + std::to_string(answer.number) +
                                      ", this process version " + std::to_string(kStoreVersion));
  if (!same(answer.values[1], proof_of_server(secret_, nonce, answer.values[0])))
    throw Error(Trouble::network,
                "the store does not know this job's secret (TRITORCH_JOB_SECRET): it is another's");
  StoreRequest prove{StoreOp::prove, 0, 0, {}, {proof_of_client(secret_, nonce, answer.values[0])}};
  exchange(fd.get(), prove, deadline);
  return fd;
}

StoreReply ClientEngine::call(const StoreRequest& request) {
  const auto limit = std::chrono::milliseconds(request.milliseconds) + kGrace;
  const Deadline deadline = Deadline::in(limit);
  Descriptor fd;
  {
    const std::lock_guard lock(mutex_);
    if (process_ != getpid()) {  // a forked child must not write into its parent's connections
      idle_.clear();
      process_ = getpid();
    }
    if (!idle_.empty()) {
      fd = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  StoreReply reply;
  try {
    if (!fd) fd = connect(Deadline::in(std::min(kReconnect, limit)));
    reply = exchange(fd.get(), request, deadline);
  } catch (const Error& error) {
    throw Error(Trouble::network, "The store at [" + host_ + "]:" + std::to_string(port_) +
                                      " does not answer: " + error.what());
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(fd));
  return reply;
}

}  // namespace tritorch::distributed
