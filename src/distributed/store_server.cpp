#include "distributed/store_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "distributed/sha256.h"
#include "distributed/store_table.h"

namespace tritorch::distributed {
namespace {

constexpr std::uint64_t kListener = 0, kWake = 1, kFirst = 2;
constexpr std::size_t kReadAtOnce = 64 << 10;
// The first bytes of a client of PyTorch's store: the question VALIDATE and its number.
constexpr std::string_view kTorchGreeting{"\0\xce\xf7\x85\x3c", 5};

void watch(int epoll, int what, int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  epoll_ctl(epoll, what, fd, &event);
}

}  // namespace

std::string proof_of_server(const std::string& secret, const std::string& client_nonce,
                            const std::string& server_nonce) {
  return hmac(secret, "server" + client_nonce + server_nonce);
}

std::string proof_of_client(const std::string& secret, const std::string& client_nonce,
                            const std::string& server_nonce) {
  return hmac(secret, "client" + server_nonce + client_nonce);
}

class StoreServer::Loop {
 public:
  using Clock = Deadline::Clock;
  Loop(int listener, int wake, std::string secret, Address address)
      : listener_(listener),
        secret_(std::move(secret)),
        address_(std::move(address)),
        epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    watch(epoll_.get(), EPOLL_CTL_ADD, listener, EPOLLIN, kListener);
    watch(epoll_.get(), EPOLL_CTL_ADD, wake, EPOLLIN, kWake);
  }

  void run() {
    epoll_event events[256];
    for (;;) {
      const int count = epoll_wait(epoll_.get(), events, 256, patience());
      for (int i = 0; i < count; ++i) {
        const std::uint64_t id = events[i].data.u64;
        if (id == kWake) return;
        if (id == kListener)
          accept_all();
        else
          serve(id, events[i].events);
      }
      expire();
    }
  }

 private:
  enum class Stage { unknown, greeted, proven };
  struct Client {
    Descriptor fd;
    Stage stage = Stage::unknown;
    std::string in, out, client_nonce, server_nonce;
    std::size_t sent = 0;
    std::optional<StoreRequest> parked;
    std::string parked_at;
    std::multimap<Clock::time_point, std::uint64_t>::iterator timer;
    std::uint32_t watched = EPOLLIN;
  };
  using Clients = std::unordered_map<std::uint64_t, Client>;

  int patience() const {
    auto next = timers_.empty() ? Clock::time_point::max() : timers_.begin()->first;
    if (full_) next = std::min(next, resume_);
    if (next == Clock::time_point::max()) return -1;
    return Deadline(next).slice(1 << 30);
  }

  void accept_all() {
    for (;;) {
      Descriptor fd(accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) {
        // Out of descriptors: those who wait are let in when others have gone.
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_, nullptr);
          full_ = true;
          resume_ = Clock::now() + std::chrono::milliseconds(50);
        }
        return;
      }
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      const std::uint64_t id = next_++;
      watch(epoll_.get(), EPOLL_CTL_ADD, fd.get(), EPOLLIN, id);
      clients_[id].fd = std::move(fd);
    }
  }

  void serve(std::uint64_t id, std::uint32_t events) {
    const auto found = clients_.find(id);
    if (found == clients_.end()) return;
    Client& client = found->second;
    bool alive = true;
    try {
      if (events & EPOLLOUT) flush(client);
      if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) alive = read(client);
      if (alive) alive = advance(id, client);
    } catch (const std::exception&) {  // its end, or no memory for what it asks
      alive = false;
    }
    if (!alive) drop(id);
    settle();
  }

  bool read(Client& client) {
    if (client.parked) return false;  // only its end is watched for
    const std::size_t had = client.in.size();
    client.in.resize(had + kReadAtOnce);
    std::size_t came = 0;
    try {
      came = receive_some(client.fd.get(), client.in.data() + had, kReadAtOnce);
    } catch (...) {
      client.in.resize(had);
      throw;
    }
    client.in.resize(had + came);
    return true;
  }

  // Answers what has come whole, until something has to wait; false if the client is no client.
  bool advance(std::uint64_t id, Client& client) {
    if (client.stage == Stage::unknown && client.in.starts_with(kTorchGreeting))
      return refuse_torch(client);
    while (!client.parked && client.out.empty() && client.in.size() >= kHeaderBytes) {
      const auto length = body_length(
          client.in, client.stage == Stage::proven ? kMostBytes : kMostBytesOfStrangers);
      if (!length) return false;
      if (client.in.size() < kHeaderBytes + *length) break;
      auto request = decode_request(std::string_view(client.in).substr(kHeaderBytes, *length));
      client.in.erase(0, kHeaderBytes + *length);
      if (!request) return false;
      if (client.stage != Stage::proven) {
        if (!greet(client, *request)) return false;
      } else {
        handle(id, client, std::move(*request));
      }
      flush(client);
    }
    rewatch(id, client);
    return true;
  }

  // A client of PyTorch's says its greeting and a ping, whose number it wants back.  It tries again
  // for half an hour where that fails, and gives up at once where its first question does.
  bool refuse_torch(Client& client) {
    constexpr std::size_t kPing = 1 + sizeof(std::uint32_t);
    const std::size_t length = client.in.size();
    if (length < kTorchGreeting.size() + kPing) return true;
    if (length > kTorchGreeting.size() + kPing) return false;
    if (!std::exchange(met_torch_, true))
      std::fprintf(stderr,
                   "tritorch: a process speaks the protocol of PyTorch's store to the store at "
                   "[%s]:%d, which refuses it: its program imports another torch than this one. "
                   "`python -m tritorch launch --as-torch` has `import torch` give tritorch.\n",
                   address_.host.c_str(), address_.port);
    send_some(client.fd.get(), client.in.data() + length - sizeof(std::uint32_t),
              sizeof(std::uint32_t));
    return true;
  }

  bool greet(Client& client, const StoreRequest& request) {
    if (client.stage == Stage::unknown) {
      if (request.op != StoreOp::hello || request.values.size() != 1) return false;
      client.client_nonce = request.values[0];
      client.server_nonce = random_bytes(32);
      client.stage = Stage::greeted;
      client.out = encode(
          StoreReply{request.number == kStoreVersion ? StoreStatus::done : StoreStatus::refused,
                     kStoreVersion,
                     {client.server_nonce,
                      proof_of_server(secret_, client.client_nonce, client.server_nonce)}});
      return true;
    }
    if (request.op != StoreOp::prove || request.values.size() != 1 ||
        !same(request.values[0],
              proof_of_client(secret_, client.client_nonce, client.server_nonce)))
      return false;
    client.stage = Stage::proven;
    client.out = encode(StoreReply{});
    return true;
  }

  void handle(std::uint64_t id, Client& client, StoreRequest&& request) {
    std::string missing;
    if (auto reply = table_.apply(request, missing)) {
      client.out = encode(*reply);
      if (StoreTable::changes(request.op))
        written_.insert(written_.end(), request.keys.begin(), request.keys.end());
      return;
    }
    const auto until = Clock::now() + std::chrono::milliseconds(request.milliseconds);
    client.timer = timers_.emplace(until, id);
    client.parked = std::move(request);
    park(id, client, missing);
  }

  void park(std::uint64_t id, Client& client, const std::string& key) {
    client.parked_at = key;
    parked_[key].push_back(id);
  }

  void unpark(std::uint64_t id, Client& client) {
    const auto found = parked_.find(client.parked_at);
    if (found != parked_.end()) {
      std::erase(found->second, id);
      if (found->second.empty()) parked_.erase(found);
    }
    timers_.erase(client.timer);
    client.parked.reset();
  }

  // Looks at those who wait for keys that were written, until nobody can go on.
  void settle() {
    while (!written_.empty()) {
      std::vector<std::string> keys = std::move(written_);
      written_.clear();
      for (const std::string& key : keys) {
        auto node = parked_.extract(key);
        if (node.empty()) continue;
        for (const std::uint64_t id : node.mapped()) resume(id);
      }
    }
  }

  void resume(std::uint64_t id) {
    Client& client = clients_.at(id);
    std::string missing;
    auto reply = table_.apply(*client.parked, missing);
    if (!reply) return park(id, client, missing);
    if (StoreTable::changes(client.parked->op))
      written_.insert(written_.end(), client.parked->keys.begin(), client.parked->keys.end());
    answer(id, client, *reply);
  }

  void answer(std::uint64_t id, Client& client, const StoreReply& reply) {
    unpark(id, client);
    bool alive = true;
    try {
      client.out = encode(reply);
      flush(client);
      alive = advance(id, client);
    } catch (const std::exception&) {
      alive = false;
    }
    if (!alive) drop(id);
  }

  void expire() {
    const auto now = Clock::now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
      const std::uint64_t id = timers_.begin()->second;
      answer(id, clients_.at(id), StoreReply{StoreStatus::timed_out, 0, {}});
    }
    settle();
    if (full_ && resume_ <= now) {
      full_ = false;
      watch(epoll_.get(), EPOLL_CTL_ADD, listener_, EPOLLIN, kListener);
    }
  }

  void flush(Client& client) {
    while (client.sent < client.out.size()) {
      const std::size_t sent = send_some(client.fd.get(), client.out.data() + client.sent,
                                         client.out.size() - client.sent);
      if (!sent) return;
      client.sent += sent;
    }
    client.out.clear();
    client.sent = 0;
  }

  void rewatch(std::uint64_t id, Client& client) {
    const std::uint32_t events = client.parked         ? std::uint32_t{EPOLLRDHUP}
                                 : !client.out.empty() ? std::uint32_t{EPOLLOUT}
                                                       : std::uint32_t{EPOLLIN};
    if (events == client.watched) return;
    watch(epoll_.get(), EPOLL_CTL_MOD, client.fd.get(), events, id);
    client.watched = events;
  }

  void drop(std::uint64_t id) {
    const auto found = clients_.find(id);
    if (found->second.parked) unpark(id, found->second);
    clients_.erase(found);  // closing takes it out of epoll
  }

  int listener_;
  std::string secret_;
  Address address_;
  bool met_torch_ = false;
  Descriptor epoll_;
  StoreTable table_;
  Clients clients_;
  std::unordered_map<std::string, std::vector<std::uint64_t>> parked_;
  std::multimap<Clock::time_point, std::uint64_t> timers_;
  std::vector<std::string> written_;
  std::uint64_t next_ = kFirst;
  bool full_ = false;
  Clock::time_point resume_;
};

StoreServer::StoreServer(const std::string& host, int port, const std::string& secret, int listener)
    : listener_(listener >= 0 ? Descriptor(listener) : listen_on(host, port)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      address_(bound_address(listener_.get())),
      loop_(std::make_unique<Loop>(listener_.get(), wake_.get(), secret, address_)),
      thread_([loop = loop_.get()] { loop->run(); }),
      process_(getpid()) {}

void StoreServer::stop() {
  if (!thread_.joinable()) return;
  if (process_ != getpid()) {  // a forked child has no such thread
    thread_.detach();
    return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.get(), &one, sizeof one);
  thread_.join();
  loop_.reset();
  listener_ = Descriptor();
}

StoreServer::~StoreServer() { stop(); }

}  // namespace tritorch::distributed
