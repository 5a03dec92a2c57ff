// The stores themselves, all with one call: a request, and its reply.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distributed/fork_condition.h"
#include "distributed/sockets.h"
#include "distributed/store_table.h"

namespace tritorch::distributed {

class StoreEngine {
 public:
  virtual ~StoreEngine() = default;
  virtual StoreReply call(const StoreRequest& request) = 0;
};

// A table in this process, for threads.
class HashEngine : public StoreEngine {
 public:
  StoreReply call(const StoreRequest& request) override;

 private:
  ForkMutex mutex_;
  ForkCondition changed_;
  StoreTable table_;
};

// A file in which the requests that change something stand one after the other.  Who asks takes the
// file's lock, reads what others have written, and answers itself.
class FileEngine : public StoreEngine {
 public:
  explicit FileEngine(std::string path) : path_(std::move(path)) {}
  StoreReply call(const StoreRequest& request) override;

 private:
  std::optional<StoreReply> attempt(const StoreRequest& request);
  void read_new(int fd);
  ForkMutex mutex_;
  std::string path_;
  std::size_t read_ = 0;
  StoreTable table_;
};

// A client of a StoreServer.  A thread that calls has a connection for itself, so that one that
// waits delays no other; connections are used again.
class ClientEngine : public StoreEngine {
 public:
  ClientEngine(std::string host, int port, std::string secret, const Deadline& deadline);
  StoreReply call(const StoreRequest& request) override;

 private:
  Descriptor connect(const Deadline& deadline);
  StoreReply exchange(int fd, const StoreRequest& request, const Deadline& deadline);
  ForkMutex mutex_;
  std::vector<Descriptor> idle_;
  int process_;
  std::string host_, secret_;
  int port_;
};

}  // namespace tritorch::distributed
