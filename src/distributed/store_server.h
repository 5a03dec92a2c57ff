// The server of TCPStore: one thread, one event loop, as many clients as there are descriptors.
//
// A connection has at most one request open.  One that has to wait is parked at the key that it
// lacks, and looked at again when that key is written; while it is parked, nothing is read from its
// socket.  So a connection costs a request and a reply at most, whatever its other end does.
//
// Before its first request a client proves that it knows the job's secret (hello, prove), and the
// server proves the same; frames of those who have not are short.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "distributed/sockets.h"

namespace tritorch::distributed {

class StoreServer {
 public:
  // listener: a socket that listens already, or -1 for one at this address.
  StoreServer(const std::string& host, int port, const std::string& secret, int listener = -1);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  Address address() const { return address_; }
  void stop();

 private:
  class Loop;
  Descriptor listener_, wake_;
  Address address_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
  int process_;
};

// What both sides of a handshake say.
inline constexpr std::int64_t kStoreVersion = 1;
std::string proof_of_server(const std::string& secret, const std::string& client_nonce,
                            const std::string& server_nonce);
std::string proof_of_client(const std::string& secret, const std::string& client_nonce,
                            const std::string& server_nonce);

}  // namespace tritorch::distributed
