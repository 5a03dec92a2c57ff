#include "distributed/sockets.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace tritorch::distributed {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

[[noreturn]] void fail(const std::string& what) {
  throw Error(Trouble::network, what + ": " + std::strerror(errno));
}

std::string place(const std::string& host, int port) {
  return "[" + host + "]:" + std::to_string(port);
}

Addresses resolve(const std::string& host, int port, int flags, int type = SOCK_STREAM) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code)
    throw Error(Trouble::network,
                "The host " + host + " is not known: " + std::string(gai_strerror(code)));
  return Addresses(found, freeaddrinfo);
}

void hurry(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

// Waits for an event; false when the deadline is over.
bool wait_for(int fd, short events, const Deadline& deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, deadline.slice());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail("poll");
    look_for_interrupts();
    if (deadline.over()) return false;
  }
}

std::string numeric(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST];
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST)) return "";
  return host;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor listen_on(const std::string& host, int port, int backlog) {
  const Addresses addresses = resolve(host, port, 0);
  std::string reason;
  for (addrinfo* each = addresses.get(); each; each = each->ai_next) {
    Descriptor fd(socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd) continue;
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd.get(), each->ai_addr, each->ai_addrlen) == 0 && listen(fd.get(), backlog) == 0)
      return fd;
    reason = std::strerror(errno);
  }
  throw Error(Trouble::network, "Nobody can listen at " + place(host, port) + " here: " + reason);
}

Address bound_address(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size)) fail("getsockname");
  const int port = address.ss_family == AF_INET6
                       ? ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port)
                       : ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  return {numeric(reinterpret_cast<sockaddr*>(&address), size), port};
}

std::string interface_towards(const std::string& host, int port) {
  const Addresses addresses = resolve(host, port ? port : 9, 0, SOCK_DGRAM);
  for (addrinfo* each = addresses.get(); each; each = each->ai_next) {
    Descriptor fd(socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (fd && connect(fd.get(), each->ai_addr, each->ai_addrlen) == 0)  // sends nothing
      return bound_address(fd.get()).host;
  }
  fail("No interface leads to " + host);
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all)) fail("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (ifaddrs* each = all; each; each = each->ifa_next)
      if (each->ifa_addr && each->ifa_addr->sa_family == family && name == each->ifa_name)
        return numeric(each->ifa_addr,
                       family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  throw Error(Trouble::network, "There is no interface " + name + " with an address.");
}

Descriptor connect_to(const std::string& host, int port, const Deadline& deadline) {
  std::string reason = "nobody answered";
  auto pause = std::chrono::milliseconds(2);
  for (;;) {
    Addresses addresses(nullptr, freeaddrinfo);
    try {
      addresses = resolve(host, port, 0);
    } catch (const Error& error) {
      reason = error.what();  // names, too, may come later
    }
    for (addrinfo* each = addresses.get(); each; each = each->ai_next) {
      Descriptor fd(socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (!fd) continue;
      if (connect(fd.get(), each->ai_addr, each->ai_addrlen) && errno != EINPROGRESS) {
        reason = std::strerror(errno);
        continue;
      }
      if (!wait_for(fd.get(), POLLOUT, deadline)) continue;
      int code = 0;
      socklen_t size = sizeof code;
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
      if (code == 0) {
        hurry(fd.get());
        return fd;
      }
      reason = std::strerror(code);
    }
    if (deadline.over())
      throw Error(Trouble::network, "The client socket has timed out while trying to connect to " +
                                        place(host, port) + " (" + reason + ").");
    look_for_interrupts();
    std::this_thread::sleep_for(std::min(pause, std::chrono::milliseconds(deadline.slice(500))));
    pause *= 2;
  }
}

Descriptor accept_from(int listener, const Deadline& deadline) {
  for (;;) {
    Descriptor fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      hurry(fd.get());
      return fd;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) fail("accept");
    if (!wait_for(listener, POLLIN, deadline)) return Descriptor();
  }
}

std::size_t send_some(int fd, const void* data, std::size_t size) {
  const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  throw Error(Trouble::lost, std::string("the connection broke: ") + std::strerror(errno));
}

std::size_t receive_some(int fd, void* data, std::size_t size) {
  const ssize_t came = recv(fd, data, size, MSG_DONTWAIT);
  if (came > 0) return static_cast<std::size_t>(came);
  if (came == 0) throw Error(Trouble::lost, "the connection was closed by the other side");
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return 0;
  throw Error(Trouble::lost, std::string("the connection broke: ") + std::strerror(errno));
}

void send_all(int fd, const void* data, std::size_t size, const Deadline& deadline) {
  for (auto* bytes = static_cast<const char*>(data); size;) {
    const std::size_t sent = send_some(fd, bytes, size);
    bytes += sent;
    size -= sent;
    if (!sent && !wait_for(fd, POLLOUT, deadline))
      throw Error(Trouble::timeout, "nothing could be sent in time");
  }
}

void receive_all(int fd, void* data, std::size_t size, const Deadline& deadline) {
  for (auto* bytes = static_cast<char*>(data); size;) {
    const std::size_t came = receive_some(fd, bytes, size);
    bytes += came;
    size -= came;
    if (!came && !wait_for(fd, POLLIN, deadline))
      throw Error(Trouble::timeout, "nothing came in time");
  }
}

}  // namespace tritorch::distributed
