#define PY_SSIZE_T_CLEAN
#include "profiling/functions.h"

#include <frameobject.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "profiling/python.h"
#include "ref.h"

namespace tritorch::profiling {
namespace {

std::string hidden_files;
std::vector<std::string> shown_files, helping_files;

// What is known of a code object or of a method's definition, by its address.
struct Named {
  PyObject* kept = nullptr;       // so that no other one has the address
  std::uint32_t name = kUnnamed;  // of what has no events
  bool helps = false;             // it has none where hidden functions call it
};
std::unordered_map<const void*, Named> known;

// A call that is open in this thread; frame: whose, or of a builtin, who called it.
struct OpenCall {
  const PyFrameObject* frame;
  Event* event;
  bool builtin;
};
struct Calls {
  std::uint64_t generation = 0;
  std::vector<OpenCall> open;
  std::vector<std::size_t> hidden;  // how many hidden functions run within each open call, at last
  bool missed = false;              // calls while the profile was paused
};
thread_local Calls calls;
bool watching = false;

std::uint32_t number_and_forget(PyObject* owned) {
  const Ref text(owned);
  const std::uint32_t number = text ? number_of(text.get()) : kUnnamed;
  PyErr_Clear();  // an event is not worth an error
  return number;
}

bool starts_with_any(const std::string& path, const std::vector<std::string>& starts) {
  return std::ranges::any_of(starts,
                             [&](const std::string& each) { return path.starts_with(each); });
}

bool is_hidden(const std::string& path) {
  return !hidden_files.empty() && path.starts_with(hidden_files) &&
         !starts_with_any(path, shown_files);
}

const Named& named(PyCodeObject* code) {
  Named& found = known[code];
  if (found.kept) return found;
  found.kept = Py_NewRef(reinterpret_cast<PyObject*>(code));
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const std::string path = file ? file : "";
  PyErr_Clear();
  if (is_hidden(path)) return found;
  const std::uint32_t name = number_and_forget(
      PyUnicode_FromFormat("%U(%d): %U", code->co_filename, code->co_firstlineno, code->co_name));
  const bool helps = starts_with_any(path, helping_files);
  Named& kept = known[code];  // where it is now
  kept.name = name;
  kept.helps = helps;
  return kept;
}

const Named& named(PyFrameObject* frame) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  const Named& found = named(code);
  Py_DECREF(code);
  return found;
}

// Whether hidden functions run within the innermost call that is shown.
bool within_hidden() { return calls.hidden.back() > 0; }

// The name of a function that is called now; kUnnamed: it has no event.
std::uint32_t name_of_called(PyFrameObject* frame) {
  const Named& found = named(frame);
  return found.helps && within_hidden() ? kUnnamed : found.name;
}

std::uint32_t name_of_builtin(PyObject* function) {
  if (!PyCFunction_Check(function)) return kUnnamed;
  Named& found = known[reinterpret_cast<PyCFunctionObject*>(function)->m_ml];
  if (found.kept) return found.name;
  found.kept = Py_NewRef(Py_None);  // definitions are not freed
  return found.name = number_and_forget(PyObject_Repr(function));
}

Event* opened(Thread& thread, Kind kind, std::uint32_t name) {
  Event* event = begin(thread, kind, name);
  thread.open = static_cast<std::uint32_t>(thread.count);
  return event;
}

// The line at which the first frame from here outwards is that is not hidden; 0: there is none.
// The reference is given up.
int line_from(PyFrameObject* frame) {
  while (frame && named(frame).name == kUnnamed) {
    PyFrameObject* next = PyFrame_GetBack(frame);
    Py_SETREF(frame, next);
  }
  const int line = frame ? PyFrame_GetLineNumber(frame) : 0;
  Py_XDECREF(frame);
  return line;
}

// Opens an event for a function, and notes the line at which it was called.
void enter(Thread& thread, PyFrameObject* frame) {
  const std::uint32_t name = name_of_called(frame);
  if (name == kUnnamed) {
    ++calls.hidden.back();
    return;
  }
  Event* event = opened(thread, Kind::function, name);
  event->detail = line_from(PyFrame_GetBack(frame));
  calls.open.push_back({frame, event, false});
  calls.hidden.push_back(0);
}

// Ends the last calls, down to so many.
void end_down_to(Thread& thread, std::size_t count) {
  if (calls.open.size() <= count) return;
  const std::int64_t time = now();
  for (std::size_t i = count; i < calls.open.size(); ++i) calls.open[i].event->end = time;
  thread.close(calls.open[count].event);
  calls.open.resize(count);
  calls.hidden.resize(count + 1);
}

// Opens events for the functions that run already, the outermost first.
void catch_up(Thread& thread, PyFrameObject* innermost) {
  if (calls.generation == generation) end_down_to(thread, 0);
  calls = {generation, {}, {0}, false};
  std::vector<PyFrameObject*> frames;
  for (auto* frame = reinterpret_cast<PyFrameObject*>(Py_XNewRef(innermost)); frame;
       frame = PyFrame_GetBack(frame))
    frames.push_back(frame);
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) enter(thread, *frame);
  for (PyFrameObject* frame : frames) Py_DECREF(frame);
}

void leave(Thread& thread, const PyFrameObject* frame, bool builtin) {
  if (within_hidden()) {
    if (!builtin) --calls.hidden.back();
    return;
  }
  if (calls.open.empty()) return;
  const OpenCall& last = calls.open.back();
  if (last.frame == frame && last.builtin == builtin) end_down_to(thread, calls.open.size() - 1);
}

int on_call(PyObject*, PyFrameObject* frame, int what, PyObject* arg) {
  if (!enabled) {
    calls.missed = true;
    return 0;
  }
  Thread& thread = here();
  if (calls.generation != generation || calls.missed) {
    const bool entering = what == PyTrace_CALL;
    PyFrameObject* before = entering ? PyFrame_GetBack(frame) : nullptr;
    catch_up(thread, entering ? before : frame);
    Py_XDECREF(before);
  }
  switch (what) {
    case PyTrace_CALL:
      enter(thread, frame);
      break;
    case PyTrace_RETURN:
      leave(thread, frame, false);
      break;
    case PyTrace_C_CALL: {
      if (within_hidden()) break;
      const std::uint32_t name = name_of_builtin(arg);
      if (name == kUnnamed) break;
      Event* event = opened(thread, Kind::builtin, name);
      event->detail = PyFrame_GetLineNumber(frame);
      calls.open.push_back({frame, event, true});
      calls.hidden.push_back(0);
      break;
    }
    default:
      leave(thread, frame, true);
  }
  return 0;
}

// Every thread of Python's that has no profiler calls the function from now on; null: those that
// call ours call none.
bool set_in_all_threads(Py_tracefunc function) {
  PyThreadState* own = PyThreadState_Get();
  for (PyThreadState* each = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(own)); each;
       each = PyThreadState_Next(each)) {
    if (each->c_profilefunc != (function ? nullptr : on_call)) continue;
    PyThreadState_Swap(each);  // Python's lock is ours: no other thread runs meanwhile
    PyEval_SetProfile(function, nullptr);
  }
  PyThreadState_Swap(own);
  return !PyErr_Occurred();
}

}  // namespace

bool calls_are_shown() {
  return calls.generation == generation && !calls.open.empty() && !within_hidden();
}

Unseen::Unseen() : state_(PyThreadState_Get()) {
  if (state_->c_profilefunc != on_call || state_->c_tracefunc) state_ = nullptr;
  if (state_) PyThreadState_EnterTracing(state_);
}

Unseen::~Unseen() {
  if (state_) PyThreadState_LeaveTracing(state_);
}

int line_of_now() {
  return line_from(reinterpret_cast<PyFrameObject*>(Py_XNewRef(PyEval_GetFrame())));
}

void set_own_files(std::string hidden, std::vector<std::string> shown,
                   std::vector<std::string> helping) {
  hidden_files = std::move(hidden);
  helping_files = std::move(helping);
  shown_files = std::move(shown);
}

bool watch_functions() {
  for (const auto& [place, named] : known) Py_DECREF(named.kept);
  known.clear();
  return watching = set_in_all_threads(on_call);
}

void leave_functions() {
  if (!watching) return;
  watching = false;
  set_in_all_threads(nullptr);
}

}  // namespace tritorch::profiling
