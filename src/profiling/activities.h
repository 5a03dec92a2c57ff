// What CUPTI says a device did while a profile runs, matched with the launches that asked for it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "driver/abi.h"

namespace tritorch::profiling {

// A kernel, a copy or a fill.  Times are by the host's clock.
struct Activity {
  std::uint64_t launch = 0;  // the number that its launch was given; 0: it is not ours
  std::uint64_t node = 0;    // of the graph that it was part of
  std::uint64_t stream = 0, bytes = 0;
  std::int64_t begin = 0, end = 0;
  std::uint32_t device = 0, registers = 0;
  std::array<std::int32_t, 3> grid{}, block{};
  std::int32_t shared = 0;
  std::string name;
};

// Libraries to try, in this order; none: CUPTI is not used.  What is open already stays.
void set_activity_libraries(std::vector<std::string> paths);
// Why there is no library: "" where there is one, or nobody has asked yet.
std::string activity_problem();

// Begins to collect, if it has not begun.  False where that cannot be done.
bool collect_activities();
// Under this number is launched what this thread launches until the next call of leave_launch.
void enter_launch(std::uint64_t number);
void leave_launch();
// Ends it: devices have done what they were asked to.
std::vector<Activity> end_activities();

}  // namespace tritorch::profiling
