#include "distributed/meeting.h"

#include <cstring>

#include "distributed/sha256.h"

namespace tritorch::distributed {
namespace {

// What the one who calls says first.
struct Greeting {
  char token[32];
  std::int32_t rank;
  std::int32_t lane;
};

Descriptor connect_to_member(int rank, const Address& address, const Deadline& deadline) {
  try {
    return connect_to(address.host, address.port, deadline);
  } catch (const Error& error) {
    throw Error(error.kind, "member " + std::to_string(rank) + " of the group: " + error.what());
  }
}

}  // namespace

Sockets meet(int listener, const std::vector<Address>& addresses, int rank,
             const std::string& token, bool collectives, const Deadline& deadline) {
  const std::string proof = sha256("members " + token);
  const int size = static_cast<int>(addresses.size());
  Sockets out;
  out.messages.resize(addresses.size());
  if (collectives) out.collectives.resize(addresses.size());
  const auto lane = [&](int which) -> std::vector<Descriptor>& {
    return which ? out.messages : out.collectives;
  };
  int waited = 0;
  for (int which = collectives ? 0 : 1; which < 2; ++which) {
    for (int peer = 0; peer < rank; ++peer) {
      const Address& address = addresses[static_cast<std::size_t>(peer)];
      Descriptor fd = connect_to_member(peer, address, deadline);
      Greeting greeting{};
      std::memcpy(greeting.token, proof.data(), sizeof greeting.token);
      greeting.rank = rank;
      greeting.lane = which;
      send_all(fd.get(), &greeting, sizeof greeting, deadline);
      lane(which)[static_cast<std::size_t>(peer)] = std::move(fd);
    }
    waited += size - 1 - rank;
  }
  while (waited) {
    Descriptor fd = accept_from(listener, deadline);
    if (!fd) {
      std::string missing;
      for (int peer = rank + 1; peer < size; ++peer)
        if (!out.messages[static_cast<std::size_t>(peer)] ||
            (collectives && !out.collectives[static_cast<std::size_t>(peer)]))
          missing += (missing.empty() ? "" : ", ") + std::to_string(peer);
      throw Error(Trouble::timeout,
                  "members of the group that did not connect in time: " + missing);
    }
    Greeting greeting{};
    try {  // a stranger gets a moment, and no error out of us
      const auto moment =
          Deadline(std::min(deadline.end(), Deadline::in(std::chrono::milliseconds(2000)).end()));
      receive_all(fd.get(), &greeting, sizeof greeting, moment);
    } catch (const Error&) {
      continue;
    }
    if (!same({greeting.token, sizeof greeting.token}, proof) || greeting.rank <= rank ||
        greeting.rank >= size || greeting.lane < (collectives ? 0 : 1) || greeting.lane > 1)
      continue;
    Descriptor& place = lane(greeting.lane)[static_cast<std::size_t>(greeting.rank)];
    if (place) continue;
    place = std::move(fd);
    --waited;
  }
  return out;
}

}  // namespace tritorch::distributed
