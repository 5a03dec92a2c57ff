// Memory that all members of a group share, when all are on one host.
//
// Each member has a page to say what it is at, and two buffers.  Members meet in rounds: in a round
// a member writes into one of its two buffers (the round's number says which) and arrives; when all
// have arrived, it reads the others'.  The buffer of round k is written again in round k + 2, whose
// writers have passed round k + 1, at which its readers arrived after they had read.
//
// A member holds a lock of the file on the byte that has its number.  The system takes it back when
// its process ends, however it ends: so those who wait learn that it is gone.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "distributed/sockets.h"

namespace tritorch::distributed {

// What a member is about to do; all must say the same.
struct Signature {
  std::uint64_t sequence = 0, hash = 0;
};

class Board {
 public:
  // The file of a new board, without a name.
  static Descriptor create(int members, const std::string& token);
  // Maps a board that another process has made; throws if it is not the one with this token.
  Board(pid_t owner, int file, int rank, int members, const std::string& token);
  ~Board();
  Board(const Board&) = delete;

  static constexpr std::size_t kBuffer = std::size_t{1} << 20;

  // A member's buffer of the coming round, and of the one in which all have arrived.
  char* writable(int rank) const;
  const char* readable(int rank) const;
  // What this member is about to do, and a number beside; read after the next round by all.
  void say(const Signature& signature, std::uint64_t number);
  Signature said(int rank) const;
  std::uint64_t said_number(int rank) const;
  void arrive();
  // Waits until all have arrived.  Throws for a deadline, for members that are gone, and if a
  // member has given up.
  void wait(const Deadline& deadline);
  // The members that have not come to the round that this one waits in.
  std::vector<int> absent() const;
  // Ends all waiting, now and later.
  void give_up();
  bool given_up() const;
  int members() const { return members_; }

 private:
  struct Page;
  struct Head;
  char* buffer(int rank, std::uint32_t round) const;
  Page& page(int rank) const;
  bool gone(int rank) const;
  void pause(std::uint32_t seen, std::uint32_t target, const Deadline& deadline);

  Descriptor file_;
  char* memory_ = nullptr;
  std::size_t bytes_ = 0;
  Head* head_ = nullptr;
  int rank_, members_;
  std::uint32_t round_ = 0;
  std::uint32_t operation_ = 0;
  int spins_;
};

}  // namespace tritorch::distributed
