#include "distributed/board_engine.h"

#include <algorithm>
#include <cstring>

namespace tritorch::distributed {
namespace {

constexpr std::size_t kBuffer = Board::kBuffer;
// Up to here each member computes all of a sum itself, which saves a round.
constexpr std::size_t kTogether = 16 << 10;

void copy(char* to, const char* from, std::size_t size) {
  if (size && to != from) std::memcpy(to, from, size);
}

constexpr auto nothing = [] {};

}  // namespace

template <class Write, class Read>
void BoardEngine::round(Write&& write, Read&& read) {
  write();
  if (first_) board_.say(signature_, number_);
  board_.arrive();
  board_.wait(deadline_);
  if (first_) compare();
  first_ = false;
  read();
}

void BoardEngine::compare() const {
  for (int rank = 0; rank < size_; ++rank) {
    const Signature other = board_.said(rank);
    if (other.hash != signature_.hash || other.sequence != signature_.sequence)
      throw Error(Trouble::mismatch, "the ranks called different collectives");
  }
}

void BoardEngine::run(const Operation& operation, std::uint64_t sequence) {
  now_ = &operation;
  deadline_ = Deadline::in(operation.timeout);
  signature_ = {sequence, operation.hash()};
  number_ = 0;
  first_ = true;
  switch (operation.kind) {
    case Kind::broadcast:
      return broadcast();
    case Kind::all_reduce:
      return all_reduce(true);
    case Kind::reduce:
      return all_reduce(false);
    case Kind::all_gather:
      return all_gather(true);
    case Kind::gather:
      return all_gather(false);
    case Kind::scatter:
      return scatter();
    case Kind::reduce_scatter:
      return reduce_scatter();
    case Kind::all_to_all:
      return all_to_all();
    default:
      return round(nothing, nothing);
  }
}

// The sum of what all have written at an offset of their buffers.
void BoardEngine::reduce_into(char* out, std::size_t offset, std::size_t count) const {
  std::vector<const void*> inputs(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank)
    inputs[static_cast<std::size_t>(rank)] = board_.readable(rank) + offset;
  reduce(now_->op, now_->dtype, out, inputs.data(), size_, count, size_);
}

void BoardEngine::all_reduce(bool everywhere) {
  const Piece in = now_->in[0], out = now_->out[0];
  const bool wanted = everywhere || rank_ == now_->root;
  const std::size_t item = item_size(now_->dtype);
  if (in.size <= kTogether)
    return round([&] { copy(board_.writable(rank_), in.data, in.size); },
                 [&] {
                   if (wanted) reduce_into(out.data, 0, in.size / item);
                 });
  for (std::size_t at = 0; at < in.size; at += kBuffer) {
    const std::size_t size = std::min(kBuffer, in.size - at);
    const Range mine = cut(size / item, size_, rank_);
    round([&] { copy(board_.writable(rank_), in.data + at, size); },
          [&] {
            reduce_into(board_.writable(rank_) + mine.begin * item, mine.begin * item, mine.size());
          });
    round(nothing, [&] {
      if (!wanted) return;
      for (int rank = 0; rank < size_; ++rank) {
        const Range part = cut(size / item, size_, rank);
        copy(out.data + at + part.begin * item, board_.readable(rank) + part.begin * item,
             part.size() * item);
      }
    });
  }
}

void BoardEngine::reduce_scatter() {
  const Piece out = now_->out[0];
  const std::size_t item = item_size(now_->dtype);
  const std::size_t room = kBuffer / static_cast<std::size_t>(size_) / 64 * 64;
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(room, out.size - at);
    round(
        [&] {
          for (int rank = 0; rank < size_; ++rank)
            copy(board_.writable(rank_) + static_cast<std::size_t>(rank) * room,
                 now_->in[static_cast<std::size_t>(rank)].data + at, size);
        },
        [&] { reduce_into(out.data + at, static_cast<std::size_t>(rank_) * room, size / item); });
    at += size;
  } while (at < out.size);
}

void BoardEngine::all_gather(bool everywhere) {
  const Piece in = now_->in[0];
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(kBuffer, in.size - at);
    round([&] { copy(board_.writable(rank_), in.data + at, size); },
          [&] {
            if (!everywhere && rank_ != now_->root) return;
            for (int rank = 0; rank < size_; ++rank)
              copy(now_->out[static_cast<std::size_t>(rank)].data + at, board_.readable(rank),
                   size);
          });
    at += size;
  } while (at < in.size);
}

void BoardEngine::scatter() {
  const Piece out = now_->out[0];
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(kBuffer, out.size - at);
    round(
        [&] {
          if (rank_ != now_->root) return;
          for (int rank = 0; rank < size_; ++rank)
            copy(board_.writable(rank), now_->in[static_cast<std::size_t>(rank)].data + at, size);
        },
        [&] { copy(out.data + at, board_.readable(rank_), size); });
    at += size;
  } while (at < out.size);
}

void BoardEngine::broadcast() {
  const Piece out = now_->out[0];
  // The root may fill everybody's buffers.
  const std::size_t room = kBuffer * static_cast<std::size_t>(size_);
  std::size_t at = 0;
  do {
    const std::size_t size = std::min(room, out.size - at);
    const auto pieces = [&](auto&& each) {
      for (std::size_t from = 0; from < size; from += kBuffer)
        each(static_cast<int>(from / kBuffer), out.data + at + from,
             std::min(kBuffer, size - from));
    };
    round(
        [&] {
          if (rank_ == now_->root)
            pieces([&](int rank, char* data, std::size_t bytes) {
              copy(board_.writable(rank), data, bytes);
            });
        },
        [&] {
          if (rank_ != now_->root)
            pieces([&](int rank, char* data, std::size_t bytes) {
              copy(data, board_.readable(rank), bytes);
            });
        });
    at += size;
  } while (at < out.size);
}

// What members send to this one and what it expects, and the other way round.
void BoardEngine::compare_sizes() const {
  const auto members = static_cast<std::size_t>(size_), mine = static_cast<std::size_t>(rank_);
  for (std::size_t rank = 0; rank < members; ++rank) {
    const auto* sizes =
        reinterpret_cast<const std::uint64_t*>(board_.readable(static_cast<int>(rank)));
    const std::uint64_t sends = sizes[mine], expects = sizes[members + mine];
    const std::size_t wanted = now_->out[rank].size, given = now_->in[rank].size;
    if (sends == wanted && expects == given) continue;
    const bool from = sends != wanted;
    throw Error(Trouble::mismatch,
                "rank " + std::to_string(rank) + (from ? " sends " : " expects ") +
                    std::to_string(from ? sends : expects) + " bytes where " +
                    std::to_string(from ? wanted : given) + (from ? " are expected" : " are sent"));
  }
}

// Buffers begin with how much their member sends to each, and how much it expects.
void BoardEngine::all_to_all() {
  const auto members = static_cast<std::size_t>(size_);
  const std::size_t head = (members * 2 * sizeof(std::uint64_t) + 63) / 64 * 64;
  const std::size_t room = (kBuffer - head) / members / 64 * 64;
  for (const Piece& piece : now_->in) number_ = std::max(number_, std::uint64_t{piece.size});
  std::size_t longest = 0, at = 0;
  do {
    const auto part = [&](const Piece& piece) {
      return at >= piece.size ? 0 : std::min(room, piece.size - at);
    };
    round(
        [&] {
          char* to = board_.writable(rank_);
          auto* sizes = reinterpret_cast<std::uint64_t*>(to);
          for (std::size_t rank = 0; rank < members; ++rank) {
            const Piece& piece = now_->in[rank];
            sizes[rank] = piece.size;
            sizes[members + rank] = now_->out[rank].size;
            copy(to + head + rank * room, piece.data + at, part(piece));
          }
        },
        [&] {
          if (at == 0) compare_sizes();
          for (int rank = 0; rank < size_ && at == 0; ++rank)
            longest = std::max(longest, std::size_t{board_.said_number(rank)});
          for (int rank = 0; rank < size_; ++rank) {
            const Piece& piece = now_->out[static_cast<std::size_t>(rank)];
            const char* from = board_.readable(rank) + head;
            copy(piece.data + at, from + static_cast<std::size_t>(rank_) * room, part(piece));
          }
        });
    at += room;
  } while (at < longest);
}

}  // namespace tritorch::distributed
