// When threads stay away from work, in made-up time.
#include "crowding.h"

#include "tests/cpp/check.h"

namespace {

using tritorch::Crowding;
using namespace std::chrono_literals;
using namespace std::chrono_literals;

constexpr Crowding::Clock::time_point kStart{1h};

// A piece of 50 us a thread, whose last part is a time slice late.
constexpr Crowding::Piece late(int threads) { return {threads, 64, 50us, 4ms}; }

TEST(all_share_where_nobody_is_late) {
  Crowding crowding;
  auto now = kStart;
  for (int i = 0; i < 1000; ++i, now += 1ms) {
    CHECK_EQ(crowding.threads(2, now), 2);
    crowding.note({2, 16, 100us, 60us}, now);  // a part, and a thread that wakes
    crowding.note({2, 2, 5ms, 5ms}, now);      // two parts, of which the other took twice as long
    crowding.note({2, 64, 100ms, 4ms}, now);   // a time slice, of much work
  }
}

TEST(a_late_part_sends_threads_away_for_a_multiple) {
  Crowding crowding;
  CHECK_EQ(crowding.threads(2, kStart), 2);
  crowding.note(late(2), kStart);
  CHECK_EQ(crowding.threads(2, kStart), 1);
  CHECK_EQ(crowding.threads(2, kStart + 63ms), 1);
  CHECK_EQ(crowding.threads(2, kStart + 64ms), 2);
}

TEST(late_parts_soon_after_that_double_it_up_to_a_limit) {
  Crowding crowding;
  auto now = kStart;
  for (const auto rest : {64ms, 128ms, 256ms, 500ms, 500ms}) {
    CHECK_EQ(crowding.threads(2, now), 2);
    crowding.note(late(2), now);
    CHECK_EQ(crowding.threads(2, now + rest - 1us), 1);
    now += rest;
  }
}

TEST(it_is_forgotten_when_sharing_went_well_for_as_long) {
  Crowding crowding;
  auto now = kStart;
  for (int i = 0; i < 10; ++i) {
    crowding.note(late(2), now);
    CHECK_EQ(crowding.threads(2, now + 63ms), 1);
    now += 64ms;
    CHECK_EQ(crowding.threads(2, now), 2);
    now += 64ms;
  }
}

TEST(some_of_many_stay) {
  Crowding crowding;
  auto now = kStart;
  CHECK_EQ(crowding.threads(16, now), 16);
  crowding.note(late(16), now);
  CHECK_EQ(crowding.threads(16, now), 8);
  crowding.note(late(8), now + 1ms);  // and again: 128 ms
  CHECK_EQ(crowding.threads(16, now + 128ms), 4);
  now += 129ms;
  CHECK_EQ(crowding.threads(16, now), 8);
  now += 128ms;
  CHECK_EQ(crowding.threads(16, now), 16);
  CHECK_EQ(crowding.threads(3, now), 3);
}

TEST(a_program_that_was_stopped_goes_on) {
  Crowding crowding;
  crowding.note({2, 64, 50us, 24h * 365 * 100}, kStart);
  CHECK_EQ(crowding.threads(2, kStart + 499ms), 1);
  CHECK_EQ(crowding.threads(2, kStart + 500ms), 2);
}

}  // namespace
