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
#include "ref.h"

namespace tritorch {
namespace {

// Launches in the queue, which keep memory: where there would be more, the first waits for its
// kernel while those of the others are compiled.
constexpr std::size_t kMost = 128;

struct Waiting {
  std::function<void()> call;  // a copy or a fill; or else a launch:
  Ref kernel;
  std::vector<Ref> args;
  std::size_t positional;
  Ref names;  // null: no keywords
  int device;
  cu::CUstream stream;
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
  Undisturbed() = default;
  ~Undisturbed() {
    if (!failed) error_.restore();
  }
  Undisturbed(const Undisturbed&) = delete;
  bool failed = false;  // its own error goes on in their place

 private:
  TakenError error_;
  Unrecorded unrecorded_;
  Bound bound_;
};

void make(const Waiting& each) {
  if (each.call) return each.call();
  const cu::CUstream before = current_stream(each.device);
  set_current_stream(each.device, each.stream);
  std::vector<PyObject*> args;
  for (const Ref& arg : each.args) args.push_back(arg.get());
  const Ref result(outlasting([&] {
    return PyObject_Vectorcall(each.kernel.get(), args.data(), each.positional, each.names.get());
  }));
  set_current_stream(each.device, before);
  if (!result) throw PythonError{};
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
        const Waiting each = std::move(queue().front());
        queue().pop_front();
        make(each);
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
    put({std::move(call), {}, {}, 0, {}, 0, nullptr});
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
  Waiting each{{}, Ref::to(kernel), {}, positional, Ref::to(names), device, stream};
  const std::size_t keywords = names ? static_cast<std::size_t>(PyTuple_GET_SIZE(names)) : 0;
  for (std::size_t i = 0; i < positional + keywords; ++i) each.args.push_back(Ref::to(args[i]));
  put(std::move(each));
  if (queue().size() > kMost) start_until(kMost);
}

void launch_at_once() {
  if (at_once) return;
  at_once = true;
  start_what_waits();
}

void forget_what_waits() noexcept {
  TakenError error;
  std::deque<Waiting> forgotten = std::exchange(queue(), {});
  starts_what_waits = nullptr;
  forgotten.clear();
  error.restore();
}

}  // namespace tritorch
