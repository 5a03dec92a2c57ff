// Note [Crowding]
// Where other processes want the processors too, a helper may lose its own in the middle of a part:
// the caller then waits for milliseconds, until the helper's turn comes again, for what would have
// taken itself some microseconds.  So it measures how long it waits for the last parts.  Where that
// is longer than a part takes, half of the threads are sent away for a while, and then asked back.
// The while is a multiple of the wait, which bounds what all the waiting costs; a wait soon after
// threads came back doubles it.  So beside processes that stay, one piece of work is late every
// half second.  Work that takes far longer than the wait is shared all the same: two threads get
// more of a crowded machine than one.
// How work is cut does not depend on any of this, nor do results.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>

namespace tritorch {

class Crowding {
 public:
  using Clock = std::chrono::steady_clock;

  // A piece of work that was shared.
  struct Piece {
    int threads;           // that could take parts of it
    std::ptrdiff_t parts;  // at least 2
    Clock::duration own;   // how long the caller computed
    Clock::duration wait;  // how long it waited then for the last parts
  };

  // How many of `most` threads, the caller's among them, may share work that begins now.
  int threads(int most, Clock::time_point now) {
    if (welcome_ >= most) return most;
    if (now >= until_) {
      welcome_ = std::min(2 * welcome_, most);
      until_ = now + rest_;
    }
    return welcome_;
  }

  void note(const Piece& piece, Clock::time_point now) {
    if (!is_late(piece)) return;
    rest_ = std::max(kTimes * std::min(piece.wait, kLongest), now < until_ ? 2 * rest_ : kNone);
    rest_ = std::min(rest_, kLongest);
    until_ = now + rest_;
    welcome_ = std::max(piece.threads / 2, 1);
  }

 private:
  static constexpr Clock::duration kNone{};
  // A wait up to this is no sign of others: a thread that slept takes as long to wake, or nearly.
  static constexpr Clock::duration kLate = std::chrono::microseconds(300);
  static constexpr Clock::duration kLongest = std::chrono::milliseconds(500);
  // How many times as long as the wait threads stay away.
  static constexpr int kTimes = 16;
  // The wait may take the time of a part, or this part of the caller's time, which the helpers'
  // work is worth in any case.
  static constexpr std::ptrdiff_t kWorth = 4;

  static bool is_late(const Piece& piece) {
    const std::ptrdiff_t each = piece.parts / piece.threads;  // what a thread takes
    return piece.wait > kLate + piece.own / std::clamp<std::ptrdiff_t>(each, 1, kWorth);
  }

  int welcome_ = std::numeric_limits<int>::max();
  Clock::duration rest_ = kNone;
  // When more threads are asked; after that, until when a wait is soon.
  Clock::time_point until_{};
};

}  // namespace tritorch
