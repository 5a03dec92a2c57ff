// Collectives of members that share memory.
#pragma once

#include "distributed/board.h"
#include "distributed/operation.h"

namespace tritorch::distributed {

class BoardEngine : public Engine {
 public:
  BoardEngine(pid_t owner, int file, int rank, int size, const std::string& token)
      : board_(owner, file, rank, size, token), rank_(rank), size_(size) {}
  void run(const Operation& operation, std::uint64_t sequence) override;
  void give_up() override { board_.give_up(); }
  bool given_up() const override { return board_.given_up(); }
  std::vector<int> absent() const override { return board_.absent(); }

 private:
  // A round: write, meet, read.  The first of an operation compares what members are at.
  template <class Write, class Read>
  void round(Write&& write, Read&& read);
  void compare() const;
  void compare_sizes() const;
  void reduce_into(char* out, std::size_t offset, std::size_t count) const;
  void all_reduce(bool everywhere);
  void reduce_scatter();
  void all_gather(bool everywhere);
  void scatter();
  void broadcast();
  void all_to_all();

  Board board_;
  int rank_, size_;
  // Of the operation that runs.
  const Operation* now_ = nullptr;
  Deadline deadline_{Deadline::Clock::time_point{}};
  Signature signature_;
  std::uint64_t number_ = 0;
  bool first_ = true;
};

}  // namespace tritorch::distributed
