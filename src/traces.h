// Python stacks of allocations, interned: the same stack has the same id.
#pragma once

#include <string>
#include <vector>

#include "memory/allocator.h"

namespace tritorch {

struct TraceFrame {
  std::string filename, function;
  int line;
};

memory::TraceId capture_trace();  // 0 on a thread that does not hold the interpreter lock
std::vector<TraceFrame> trace_frames(memory::TraceId trace);  // innermost first
std::string describe_trace(memory::TraceId trace);

}  // namespace tritorch
