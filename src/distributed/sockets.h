// TCP sockets that never block: whoever waits does so with a deadline.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "distributed/waiting.h"

namespace tritorch::distributed {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

struct Address {
  std::string host;
  int port = 0;
};

// A socket that listens on the interface that has this address, and on no other.
Descriptor listen_on(const std::string& host, int port, int backlog = 4096);
// The address at which a socket is bound.
Address bound_address(int fd);
// The address of the interface that leads to a host.
std::string interface_towards(const std::string& host, int port);
// The first address of a named interface.
std::string address_of_interface(const std::string& name);

// Tries until the deadline, for who listens may come later.
Descriptor connect_to(const std::string& host, int port, const Deadline& deadline);
// The next connection, or none by the deadline.
Descriptor accept_from(int listener, const Deadline& deadline);

void send_all(int fd, const void* data, std::size_t size, const Deadline& deadline);
void receive_all(int fd, void* data, std::size_t size, const Deadline& deadline);
// How much went or came at once: 0 if it would block.  Throws Trouble::lost at the end.
std::size_t send_some(int fd, const void* data, std::size_t size);
std::size_t receive_some(int fd, void* data, std::size_t size);

}  // namespace tritorch::distributed
