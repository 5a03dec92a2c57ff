// How the members of a group connect: each listens, tells its address by the store, and calls those
// of lower rank.
#pragma once

#include <string>
#include <vector>

#include "distributed/sockets.h"

namespace tritorch::distributed {

// Two connections to each other member, by rank: for collectives, and for messages.
struct Sockets {
  std::vector<Descriptor> collectives, messages;
};

// token: what members know by the store, and strangers do not.
Sockets meet(int listener, const std::vector<Address>& addresses, int rank,
             const std::string& token, bool collectives, const Deadline& deadline);

}  // namespace tritorch::distributed
