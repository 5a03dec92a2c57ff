// Collectives over TCP: each member has a connection to each other.
//
// Every message begins with what its sender is at.  Algorithms by size: all_reduce sends everything
// to everybody (short), halves and doubles (powers of two), or goes around a ring (long); reduce
// and short broadcasts go along a binomial tree, long broadcasts are scattered and gathered.
#pragma once

#include <vector>

#include "distributed/operation.h"
#include "distributed/sockets.h"

namespace tritorch::distributed {

class MeshEngine : public Engine {
 public:
  // sockets: by rank; none at the own.
  MeshEngine(std::vector<Descriptor> sockets, int rank);
  void run(const Operation& operation, std::uint64_t sequence) override;
  void give_up() override;
  bool given_up() const override { return given_up_; }
  std::vector<int> absent() const override { return absent_; }

 private:
  struct Header {
    std::uint64_t sequence, hash, size;
  };
  struct Transfer {
    int peer;
    bool sends;
    char* data;
    std::size_t size;
    Header header{};
    std::size_t done = 0;
    bool over() const { return done == sizeof(Header) + size; }
  };
  Transfer to(int peer, const char* data, std::size_t size) const;
  Transfer from(int peer, char* data, std::size_t size) const;
  bool advance(Transfer& transfer);
  void exchange(std::vector<Transfer> transfers);

  void all_reduce();
  void directly();
  void by_halves();
  void around();
  void reduce_to_root();
  void reduce_scatter();
  void broadcast(char* data, std::size_t size);
  void all_to_all();
  void all_gather(bool everywhere);
  void scatter();
  void combine(char* into, const char* other, bool other_first, std::size_t count) const;
  void finish(char* out, std::size_t count) const;

  std::vector<Descriptor> sockets_;
  std::vector<int> absent_;
  int rank_, size_;
  bool given_up_ = false;
  const Operation* now_ = nullptr;
  std::uint64_t sequence_ = 0, hash_ = 0;
  Deadline deadline_{Deadline::Clock::time_point{}};
};

}  // namespace tritorch::distributed
