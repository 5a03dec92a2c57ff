// The keys, values and queues of a store, and what each operation does to them.  The server of
// TCPStore, HashStore and FileStore all keep one.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "distributed/store_frames.h"

namespace tritorch::distributed {

class StoreTable {
 public:
  // The reply; none if the operation has to wait, for the key that `missing` names then.
  std::optional<StoreReply> apply(const StoreRequest& request, std::string& missing);
  // Whether an operation changes the table.
  static bool changes(StoreOp op);

 private:
  const std::string* find(const std::string& key) const;
  StoreReply compare_set(const StoreRequest& request);
  std::optional<StoreReply> pop(const StoreRequest& request, std::string& missing);

  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;
};

}  // namespace tritorch::distributed
