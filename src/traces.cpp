#include "traces.h"

#include <Python.h>

#include <mutex>
#include <unordered_map>

#include "driver/blocking.h"
#include "driver/fork.h"

namespace tritorch {
namespace {

constexpr int kMaxFrames = 48;

struct RawFrame {
  PyCodeObject* code;  // owned for good: stacks are few, and a code object must not be reused
  int line;
  bool operator==(const RawFrame&) const = default;
};
using RawTrace = std::vector<RawFrame>;

struct Hash {
  std::size_t operator()(const RawTrace& trace) const {
    std::size_t h = trace.size();
    for (const RawFrame& frame : trace)
      h = (h ^ reinterpret_cast<std::uintptr_t>(frame.code) ^
           static_cast<std::size_t>(frame.line)) *
          0x9E3779B97F4A7C15u;
    return h;
  }
};

ForkMutex table_mutex;
std::unordered_map<RawTrace, memory::TraceId, Hash> ids;
std::vector<std::vector<TraceFrame>>
    described;  // by id - 1: text, so that no interpreter is needed

std::string utf8(PyObject* text) {
  const char* chars = PyUnicode_AsUTF8(text);
  if (!chars) PyErr_Clear();
  return chars ? chars : "?";
}

}  // namespace

memory::TraceId capture_trace() {
  if (!PyGILState_Check()) return 0;
  RawTrace trace;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame && trace.size() < kMaxFrames) {
    trace.push_back({PyFrame_GetCode(frame), PyFrame_GetLineNumber(frame)});
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  Py_XDECREF(frame);
  std::lock_guard lock(table_mutex);  // never held while waiting for the interpreter
  auto [place, is_new] = ids.try_emplace(trace, described.size() + 1);
  if (is_new) {
    std::vector<TraceFrame>& frames = described.emplace_back();
    for (const RawFrame& raw : trace)
      frames.push_back({utf8(raw.code->co_filename), utf8(raw.code->co_name), raw.line});
  } else {
    for (const RawFrame& raw : trace) Py_DECREF(raw.code);
  }
  return place->second;
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
