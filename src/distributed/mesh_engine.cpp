#include "distributed/mesh_engine.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace tritorch::distributed {
namespace {

constexpr std::size_t kShort = 32 << 10;    // sent to everybody at once
constexpr std::size_t kMiddle = 512 << 10;  // halved and doubled

using Bytes = std::unique_ptr<char[]>;
Bytes buffer(std::size_t size) { return Bytes(new char[std::max<std::size_t>(size, 1)]); }

void copy(char* to, const char* from, std::size_t size) {
  if (size && to != from) std::memcpy(to, from, size);
}

// For tests: which algorithm all_reduce takes, whatever the size.
std::string_view wanted_algorithm() {
  const char* name = std::getenv("TRITORCH_GLOO_ALL_REDUCE");
  return name ? name : "";
}

}  // namespace

MeshEngine::MeshEngine(std::vector<Descriptor> sockets, int rank)
    : sockets_(std::move(sockets)), rank_(rank), size_(static_cast<int>(sockets_.size())) {}

MeshEngine::Transfer MeshEngine::to(int peer, const char* data, std::size_t size) const {
  return {peer, true, const_cast<char*>(data), size, {sequence_, hash_, size}};
}
MeshEngine::Transfer MeshEngine::from(int peer, char* data, std::size_t size) const {
  return {peer, false, data, size};
}

// Moves what can be moved now; whether anything was.
bool MeshEngine::advance(Transfer& transfer) {
  const std::size_t before = transfer.done;
  const int fd = sockets_[static_cast<std::size_t>(transfer.peer)].get();
  const auto move = [&](void* data, std::size_t size) {
    return transfer.sends ? send_some(fd, data, size) : receive_some(fd, data, size);
  };
  try {
    if (transfer.done < sizeof(Header)) {
      transfer.done += move(reinterpret_cast<char*>(&transfer.header) + transfer.done,
                            sizeof(Header) - transfer.done);
      if (transfer.done < sizeof(Header)) return transfer.done != before;
      const Header& header = transfer.header;
      if (header.sequence != sequence_ || header.hash != hash_)
        throw Error(Trouble::mismatch, "the ranks called different collectives");
      if (header.size != transfer.size)
        throw Error(Trouble::mismatch, "rank " + std::to_string(transfer.peer) + " sends " +
                                           std::to_string(header.size) + " bytes where " +
                                           std::to_string(transfer.size) + " are expected");
    }
    while (!transfer.over()) {
      const std::size_t at = transfer.done - sizeof(Header);
      const std::size_t moved = move(transfer.data + at, transfer.size - at);
      if (!moved) break;
      transfer.done += moved;
    }
  } catch (const Error& error) {
    absent_ = {transfer.peer};
    if (error.kind != Trouble::lost) throw;
    throw Error(Trouble::lost,
                "rank " + std::to_string(transfer.peer) + " is gone or gave up: " + error.what());
  }
  return transfer.done != before;
}

// All at once, so that no order of calls can block; several for one peer go one after the other.
void MeshEngine::exchange(std::vector<Transfer> transfers) {
  std::vector<pollfd> waits;
  std::vector<char> busy;
  for (;;) {
    bool moved = false;
    waits.clear();
    busy.assign(2 * sockets_.size(), 0);
    for (Transfer& each : transfers) {
      char& taken = busy[2 * static_cast<std::size_t>(each.peer) + each.sends];
      if (each.over() || taken) continue;
      moved |= advance(each);
      if (each.over()) continue;
      taken = 1;
      waits.push_back({sockets_[static_cast<std::size_t>(each.peer)].get(),
                       static_cast<short>(each.sends ? POLLOUT : POLLIN), 0});
    }
    if (waits.empty() && std::all_of(transfers.begin(), transfers.end(),
                                     [](const Transfer& each) { return each.over(); }))
      return;
    if (moved || waits.empty()) continue;
    if (poll(waits.data(), waits.size(), deadline_.slice()) > 0) continue;
    look_for_interrupts();
    if (!deadline_.over()) continue;
    absent_.clear();
    for (const Transfer& each : transfers)
      if (!each.over()) absent_.push_back(each.peer);
    std::sort(absent_.begin(), absent_.end());
    absent_.erase(std::unique(absent_.begin(), absent_.end()), absent_.end());
    throw Error(Trouble::timeout, "not all ranks came");
  }
}

void MeshEngine::give_up() {
  given_up_ = true;
  for (const Descriptor& each : sockets_)
    if (each) shutdown(each.get(), SHUT_RDWR);
}

void MeshEngine::run(const Operation& operation, std::uint64_t sequence) {
  now_ = &operation;
  sequence_ = sequence;
  hash_ = operation.hash();
  deadline_ = Deadline::in(operation.timeout);
  absent_.clear();
  switch (operation.kind) {
    case Kind::broadcast:
      return broadcast(operation.out[0].data, operation.out[0].size);
    case Kind::all_reduce:
      return all_reduce();
    case Kind::reduce:
      return reduce_to_root();
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
    default: {
      // Dissemination: after step k each has heard of 2^k others.
      for (int step = 1; step < size_; step *= 2)
        exchange({to((rank_ + step) % size_, nullptr, 0),
                  from((rank_ - step + size_) % size_, nullptr, 0)});
    }
  }
}

// into = the two combined, the one of the lower ranks first.
void MeshEngine::combine(char* into, const char* other, bool other_first, std::size_t count) const {
  const void* both[] = {other_first ? other : into, other_first ? into : other};
  const ReduceOp op = now_->op == ReduceOp::avg ? ReduceOp::sum : now_->op;
  reduce(op, now_->dtype, into, both, 2, count, 1);
}

// What is left of an average of what was only added up.
void MeshEngine::finish(char* out, std::size_t count) const {
  const void* one[] = {out};
  if (now_->op == ReduceOp::avg) reduce(now_->op, now_->dtype, out, one, 1, count, size_);
}

void MeshEngine::all_reduce() {
  const std::size_t size = now_->in[0].size;
  const std::string_view wanted = wanted_algorithm();
  const bool power = std::has_single_bit(static_cast<unsigned>(size_));
  if (wanted == "direct" || (wanted.empty() && size * static_cast<std::size_t>(size_) <= kShort))
    return directly();
  if (power && (wanted == "halving" || (wanted.empty() && size <= kMiddle))) return by_halves();
  if (wanted == "tree") {
    reduce_to_root();
    return broadcast(now_->out[0].data, size);
  }
  around();
}

void MeshEngine::directly() {
  const Piece in = now_->in[0];
  const Bytes all = buffer(in.size * static_cast<std::size_t>(size_));
  std::vector<Transfer> transfers;
  std::vector<const void*> inputs;
  for (int rank = 0; rank < size_; ++rank) {
    char* place = all.get() + in.size * static_cast<std::size_t>(rank);
    inputs.push_back(rank == rank_ ? in.data : place);
    if (rank == rank_) continue;
    transfers.push_back(to(rank, in.data, in.size));
    transfers.push_back(from(rank, place, in.size));
  }
  exchange(std::move(transfers));
  reduce(now_->op, now_->dtype, now_->out[0].data, inputs.data(), size_,
         in.size / item_size(now_->dtype), size_);
}

void MeshEngine::by_halves() {
  const std::size_t item = item_size(now_->dtype);
  const std::size_t count = now_->in[0].size / item;
  char* out = now_->out[0].data;
  copy(out, now_->in[0].data, now_->in[0].size);
  const Bytes other = buffer(count / 2 * item + item);
  std::vector<Range> kept{{0, count}};
  const auto halves = [](Range range, bool upper) -> Range {
    const std::size_t middle = range.begin + range.size() / 2;
    return upper ? Range{middle, range.end} : Range{range.begin, middle};
  };
  for (int mask = size_ / 2; mask; mask /= 2) {
    const bool upper = rank_ & mask;
    const Range mine = halves(kept.back(), upper), theirs = halves(kept.back(), !upper);
    exchange({to(rank_ ^ mask, out + theirs.begin * item, theirs.size() * item),
              from(rank_ ^ mask, other.get(), mine.size() * item)});
    combine(out + mine.begin * item, other.get(), upper, mine.size());
    kept.push_back(mine);
  }
  finish(out + kept.back().begin * item, kept.back().size());
  for (int mask = 1; mask < size_; mask *= 2) {
    const Range mine = kept.back();
    kept.pop_back();
    const Range theirs = halves(kept.back(), !(rank_ & mask));
    exchange({to(rank_ ^ mask, out + mine.begin * item, mine.size() * item),
              from(rank_ ^ mask, out + theirs.begin * item, theirs.size() * item)});
  }
}

void MeshEngine::around() {
  const std::size_t item = item_size(now_->dtype);
  const std::size_t count = now_->in[0].size / item;
  char* out = now_->out[0].data;
  copy(out, now_->in[0].data, now_->in[0].size);
  const int next = (rank_ + 1) % size_, last = (rank_ - 1 + size_) % size_;
  const Bytes other = buffer((count / static_cast<std::size_t>(size_) + 1) * item);
  const auto part = [&](int index) { return cut(count, size_, ((index % size_) + size_) % size_); };
  for (int step = 0; step < size_ - 1; ++step) {
    const Range sent = part(rank_ - step), mine = part(rank_ - step - 1);
    exchange({to(next, out + sent.begin * item, sent.size() * item),
              from(last, other.get(), mine.size() * item)});
    combine(out + mine.begin * item, other.get(), true, mine.size());
  }
  const Range whole = part(rank_ + 1);
  finish(out + whole.begin * item, whole.size());
  for (int step = 0; step < size_ - 1; ++step) {
    const Range sent = part(rank_ + 1 - step), mine = part(rank_ - step);
    exchange({to(next, out + sent.begin * item, sent.size() * item),
              from(last, out + mine.begin * item, mine.size() * item)});
  }
}

void MeshEngine::reduce_to_root() {
  const Piece in = now_->in[0];
  const std::size_t count = in.size / item_size(now_->dtype);
  const int root = now_->kind == Kind::reduce ? now_->root : 0;
  const int place = (rank_ - root + size_) % size_;
  const Bytes sum = buffer(in.size), other = buffer(in.size);
  copy(sum.get(), in.data, in.size);
  for (int mask = 1; mask < size_; mask *= 2) {
    if (place & mask) {
      exchange({to((place - mask + root) % size_, sum.get(), in.size)});
      return;
    }
    if (place + mask >= size_) continue;
    exchange({from((place + mask + root) % size_, other.get(), in.size)});
    combine(sum.get(), other.get(), false, count);
  }
  finish(sum.get(), count);
  copy(now_->out[0].data, sum.get(), in.size);
}

void MeshEngine::broadcast(char* data, std::size_t size) {
  const int root = now_->kind == Kind::broadcast ? now_->root : 0;
  const int place = (rank_ - root + size_) % size_;
  if (size > kMiddle && size_ > 2) {
    // Scattered, then everybody sends its part to everybody.
    std::vector<Transfer> transfers;
    const auto part = [&](int rank) { return cut(size, size_, rank); };
    const Range mine = part(rank_);
    if (rank_ == root) {
      for (int rank = 0; rank < size_; ++rank)
        if (rank != root) transfers.push_back(to(rank, data + part(rank).begin, part(rank).size()));
    } else {
      transfers.push_back(from(root, data + mine.begin, mine.size()));
    }
    exchange(std::move(transfers));
    transfers.clear();
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      if (rank != root) transfers.push_back(to(rank, data + mine.begin, mine.size()));
      if (rank_ != root)
        transfers.push_back(from(rank, data + part(rank).begin, part(rank).size()));
    }
    return exchange(std::move(transfers));
  }
  const auto span = static_cast<int>(std::bit_ceil(static_cast<unsigned>(size_)));
  const int lowest = place ? place & -place : span;
  if (place) exchange({from((place - lowest + root) % size_, data, size)});
  std::vector<Transfer> transfers;
  for (int mask = lowest / 2; mask; mask /= 2)
    if (place + mask < size_) transfers.push_back(to((place + mask + root) % size_, data, size));
  exchange(std::move(transfers));
}

// Everybody gets all parts of its piece, and adds them in the order of the ranks.
void MeshEngine::reduce_scatter() {
  const Piece out = now_->out[0];
  const Bytes all = buffer(out.size * static_cast<std::size_t>(size_));
  std::vector<Transfer> transfers;
  std::vector<const void*> inputs;
  for (int step = 0; step < size_; ++step) {
    char* place = all.get() + out.size * static_cast<std::size_t>(step);
    const auto rank = static_cast<std::size_t>(step);
    inputs.push_back(step == rank_ ? now_->in[rank].data : place);
    if (step == rank_) continue;
    transfers.push_back(to(step, now_->in[rank].data, out.size));
    transfers.push_back(from(step, place, out.size));
  }
  exchange(std::move(transfers));
  reduce(now_->op, now_->dtype, out.data, inputs.data(), size_, out.size / item_size(now_->dtype),
         size_);
}

void MeshEngine::all_to_all() {
  std::vector<Transfer> transfers;
  const auto own = static_cast<std::size_t>(rank_);
  for (int step = 1; step < size_; ++step) {
    const auto next = static_cast<std::size_t>((rank_ + step) % size_);
    const auto last = static_cast<std::size_t>((rank_ - step + size_) % size_);
    transfers.push_back(to(static_cast<int>(next), now_->in[next].data, now_->in[next].size));
    transfers.push_back(from(static_cast<int>(last), now_->out[last].data, now_->out[last].size));
  }
  copy(now_->out[own].data, now_->in[own].data, now_->in[own].size);
  exchange(std::move(transfers));
}

void MeshEngine::all_gather(bool everywhere) {
  const Piece in = now_->in[0];
  std::vector<Transfer> transfers;
  for (int step = 1; step < size_; ++step) {
    const int next = (rank_ + step) % size_, last = (rank_ - step + size_) % size_;
    if (everywhere || next == now_->root) transfers.push_back(to(next, in.data, in.size));
    if (everywhere || rank_ == now_->root)
      transfers.push_back(from(last, now_->out[static_cast<std::size_t>(last)].data, in.size));
  }
  if (everywhere || rank_ == now_->root)
    copy(now_->out[static_cast<std::size_t>(rank_)].data, in.data, in.size);
  exchange(std::move(transfers));
}

void MeshEngine::scatter() {
  const Piece out = now_->out[0];
  if (rank_ != now_->root) return exchange({from(now_->root, out.data, out.size)});
  std::vector<Transfer> transfers;
  for (int rank = 0; rank < size_; ++rank) {
    char* data = now_->in[static_cast<std::size_t>(rank)].data;
    if (rank == rank_)
      copy(out.data, data, out.size);
    else
      transfers.push_back(to(rank, data, out.size));
  }
  exchange(std::move(transfers));
}

}  // namespace tritorch::distributed
