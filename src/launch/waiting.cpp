#include "launch/waiting.h"

#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "driver/context.h"
#include "driver/fork.h"
#include "interpreter.h"
#include "launch/pack.h"

namespace tritorch {
namespace {

// Launches in the queue, which keep memory: where there would be more, the first waits for its
// kernel while those of the others are compiled.
constexpr std::size_t kMost = 128;

struct Waiting {
  std::function<void()> call;  // a copy or a fill; or else a launch:
  PyObject* kernel;
  std::vector<PyObject*> args;
  std::size_t positional;
  PyObject* names;  // null: no keywords
  int device;
  cu::CUstream stream;

  void release() noexcept {
    for (PyObject* each : args) Py_DECREF(each);
    Py_XDECREF(names);
    Py_XDECREF(kernel);
  }
};

std::deque<Waiting>& queue() {
  static auto* found = new std::deque<Waiting>;  // never destroyed: Python may be gone
  return *found;
}
ForkMutex starting;
thread_local bool starts_here = false;
bool at_once = false;

void after_fork_in_child(void*) {
  starts_what_waits = nullptr;  // of the parent, which launches it
  new (&queue()) std::deque<Waiting>;
}
const bool watching_forks = (in_forked_child(after_fork_in_child, &queue()), true);

bool ends() {
#if PY_VERSION_HEX >= 0x030d0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

// What is current on this thread stays as it is for whoever asked for something else.
class Undisturbed {
 public:
  Undisturbed() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~Undisturbed() {
    if (!failed) PyErr_Restore(type_, value_, traceback_);
  }
  Undisturbed(const Undisturbed&) = delete;
  bool failed = false;  // its own error goes on in their place

 private:
  PyObject *type_, *value_, *traceback_;
  Unrecorded unrecorded_;
  Bound bound_;
};

void make(const Waiting& each) {
  if (each.call) return each.call();
  const cu::CUstream before = current_stream(each.device);
  set_current_stream(each.device, each.stream);
  PyObject* result = outlasting([&] {
    return PyObject_Vectorcall(each.kernel, each.args.data(), each.positional, each.names);
  });
  set_current_stream(each.device, before);
  if (!result) throw PythonError{};
  Py_DECREF(result);
}

// Starts the first of them, until no more than so many are left.
void start_until(std::size_t left) {
  if (starts_here || ends()) return;
  auto held = lock_politely(starting);
  outlasting([&] {
    Acquired interpreter;
    Undisturbed undisturbed;
    starts_here = true;
    try {
      while (queue().size() > left) {
        Waiting each = std::move(queue().front());
        queue().pop_front();
        try {
          make(each);
        } catch (...) {
          each.release();
          throw;
        }
        each.release();
      }
    } catch (...) {
      starts_here = false;
      undisturbed.failed = true;
      forget_what_waits();
      throw;
    }
    starts_here = false;
    if (queue().empty()) starts_what_waits = nullptr;
  });
}

void start_all() { start_until(0); }

void put(Waiting each) {
  queue().push_back(std::move(each));
  starts_what_waits = start_all;
}

bool put_call(std::function<void()> call) {
  if (starts_here || ends()) return false;
  return outlasting([&] {
    Acquired interpreter;
    if (!launches_wait()) return false;
    put({std::move(call), nullptr, {}, 0, nullptr, 0, nullptr});
    return true;
  });
}
const bool takes_calls = (puts_behind = put_call, true);

}  // namespace

bool has_to_wait() noexcept { return launches_wait() && !starts_here; }

bool may_wait(cu::CUstream stream) {
  if (at_once || starts_here || recorder) return false;
  cu::CUstreamCaptureStatus status = cu::CU_STREAM_CAPTURE_STATUS_NONE;
  cu::cuuint64_t id;
  BlockingRegion region;
  return driver().cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr) ==
             cu::CUDA_SUCCESS &&
         status == cu::CU_STREAM_CAPTURE_STATUS_NONE;
}

void wait_to_launch(PyObject* kernel, PyObject* const* args, std::size_t positional,
                    PyObject* names, int device, cu::CUstream stream) {
  Waiting each{{}, Py_NewRef(kernel), {}, positional, Py_XNewRef(names), device, stream};
  const std::size_t keywords = names ? static_cast<std::size_t>(PyTuple_GET_SIZE(names)) : 0;
  for (std::size_t i = 0; i < positional + keywords; ++i) each.args.push_back(Py_NewRef(args[i]));
  put(std::move(each));
  if (queue().size() > kMost) start_until(kMost);
}

void launch_at_once() {
  if (at_once) return;
  at_once = true;
  start_what_waits();
}

void forget_what_waits() noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  std::deque<Waiting> forgotten = std::exchange(queue(), {});
  starts_what_waits = nullptr;
  for (Waiting& each : forgotten) each.release();
  PyErr_Restore(type, value, traceback);
}

}  // namespace tritorch
