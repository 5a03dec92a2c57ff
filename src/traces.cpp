#include "traces.h"

#include <Python.h>

#include <mutex>
#include <unordered_map>

#include "driver/blocking.h"
#include "driver/fork.h"
#include "ref.h"

namespace tritorch {
namespace {

constexpr int kMaxFrames = 48;

// Where a frame stands: an instruction, or the line that it is of, which takes longer to find out.
struct RawFrame {
  PyCodeObject* code;  // owned for good: stacks are few, and a code object must not be reused
  int place;
  bool operator==(const RawFrame&) const = default;
};
using RawTrace = std::vector<RawFrame>;

struct Hash {
  std::size_t operator()(const RawTrace& trace) const {
    std::size_t h = trace.size();
    for (const RawFrame& frame : trace)
      h = (h ^ reinterpret_cast<std::uintptr_t>(frame.code) ^
           static_cast<std::size_t>(frame.place)) *
          0x9E3779B97F4A7C15u;
    return h;
  }
};

ForkMutex table_mutex;
std::unordered_map<RawTrace, memory::TraceId, Hash> by_instructions, by_lines;
std::vector<std::vector<TraceFrame>>
    described;  // by id - 1: text, so that no interpreter is needed

std::string utf8(PyObject* text) {
  const char* chars = PyUnicode_AsUTF8(text);
  if (!chars) PyErr_Clear();
  return chars ? chars : "?";
}

// With the lock: the number of a stack that has not been met at these instructions.
memory::TraceId new_trace(const RawTrace& trace) {
  RawTrace lines = trace;
  for (RawFrame& frame : lines) {
    Py_INCREF(frame.code);
    frame.place = PyCode_Addr2Line(frame.code, frame.place);
  }
  const auto [place, is_new] = by_lines.try_emplace(lines, described.size() + 1);
  if (is_new) {
    std::vector<TraceFrame>& frames = described.emplace_back();
    for (const RawFrame& raw : lines)
      frames.push_back({utf8(raw.code->co_filename), utf8(raw.code->co_name), raw.place});
  }
  return place->second;
}

}  // namespace

memory::TraceId capture_trace() {
  if (!PyGILState_Check()) return 0;
  thread_local RawTrace trace;
  trace.clear();
  Ref frame(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame && trace.size() < kMaxFrames) {
    auto* here = frame.as<PyFrameObject>();
    const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(here)));  // the frame has it
    trace.push_back({code.as<PyCodeObject>(), PyFrame_GetLasti(here)});
    frame = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(here)));
  }
  std::lock_guard lock(table_mutex);  // never held while waiting for the interpreter
  if (const auto known = by_instructions.find(trace); known != by_instructions.end())
    return known->second;
  return by_instructions[trace] = new_trace(trace);
}

std::vector<TraceFrame> trace_frames(memory::TraceId trace) {
  std::lock_guard lock(table_mutex);
  if (trace == 0 || trace > described.size()) return {};
  return described[trace - 1];
}

std::string describe_trace(memory::TraceId trace) {
  std::string out;
  for (const TraceFrame& frame : trace_frames(trace))
    out +=
        "    " + frame.filename + ":" + std::to_string(frame.line) + " in " + frame.function + "\n";
  return out;
}

}  // namespace tritorch
