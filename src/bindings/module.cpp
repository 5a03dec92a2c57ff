// tritorch._C: the module, and what the interpreter does for the code below it.
#include <atomic>

#include "array/array.h"
#include "bindings/convert.h"
#include "compilation/region.h"
#include "driver/blocking.h"
#include "host/functions.h"
#include "interpreter.h"
#include "launch/launcher.h"
#include "memory/host.h"
#include "memory/registry.h"
#include "nn/modules.h"
#include "plans/elements.h"
#include "plans/table.h"
#include "products/products.h"
#include "profiling/python.h"
#include "ref.h"
#include "scopes.h"
#include "tensor/answers.h"
#include "tensor/gate.h"
#include "tensor/ndarray.h"
#include "tensor/quiet.h"
#include "tensor/tensor.h"
#include "traces.h"
#include "workers.h"

namespace tritorch {
namespace {

PyObject* garbage_collector = nullptr;

void* leave_interpreter() {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}
void enter_interpreter(void* state) {
  wait_if_python_is_gone();
  outlasting([&] { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); });
}

bool collect_garbage() {
  start_what_waits();  // which keeps memory
  if (!garbage_collector) return false;
  outlasting([] {
    Acquired interpreter;
    const Ref result(PyObject_CallNoArgs(garbage_collector));
    if (!result) PyErr_Clear();
  });
  return true;
}

// work(i) for each i below `count`, on the workers: one of them at a time has the interpreter,
// which NumPy lets go of while it computes.  The first error ends it.
void share_python(std::ptrdiff_t count, nb::handle work) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  {
    BlockingRegion others;
    std::atomic<bool> failed{false};
    share(count, [&](Parts& parts) {
      std::ptrdiff_t i = parts.take();
      if (i < 0) return;
      outlasting([&] {
        const Acquired interpreter;
        for (; i >= 0 && !failed; i = parts.take()) {
          const Ref number(PyLong_FromSsize_t(i));
          if (number && Ref(PyObject_CallOneArg(work.ptr(), number.get()))) continue;
          if (failed.exchange(true))
            PyErr_Clear();
          else
            PyErr_Fetch(&type, &value, &traceback);
        }
      });
    });
  }
  if (!type) return;
  PyErr_Restore(type, value, traceback);
  throw nb::python_error();
}

}  // namespace
}  // namespace tritorch

NB_MODULE(_C, m) {
  using namespace tritorch;
  m.doc() = "tritorch's native half: driver, memory, arrays and launches.";
  nb::set_leak_warnings(false);  // arrays may outlive the interpreter in frames and module globals
  blocking_hooks = {leave_interpreter, enter_interpreter};
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    ending_thread = pthread_self();
    python_ends = true;
  }));
  memory::set_hooks({capture_trace, describe_trace, collect_garbage});
  m.def(
      "set_garbage_collector",
      [](nb::handle callback) { garbage_collector = Py_NewRef(callback.ptr()); }, "callback"_a);
#ifdef TRITORCH_COMMIT
  m.attr("commit") = TRITORCH_COMMIT;
  m.attr("cxx_flags") = TRITORCH_CXX_FLAGS;
#endif
  bind_errors(m);
  bind_dtypes(m);
  bind_device(m);
  bind_kernels(m);
  bind_streams(m);
  bind_memory(m);
  bind_sharing(m);
  bind_arrays(m);
  bind_random(m);
  bind_simulator(m);
  bind_distributed(m);
  bind_nccl(m);
  m.def("set_workers", &set_workers, nb::arg("count"),
        nb::sig("def set_workers(count: int, /) -> None"), "How many threads share work.");
  m.def("share", &share_python, nb::arg("count"), nb::arg("work"),
        nb::sig("def share(count: int, work: Callable[[int], Any], /) -> None"),
        "work(i) for each i below count, on as many threads as there are.");
  keep_freed_host_memory();
  if (!add_launch_types(m.ptr()) || !add_tensor_types(m.ptr()) || !add_gate_type(m.ptr()) ||
      !add_following(m.ptr()) || !add_property_type(m.ptr()) || !add_module_type(m.ptr()) ||
      !add_quiet_type(m.ptr()) || !plans::add_plan_types(m.ptr()) || !add_scope_types(m.ptr()) ||
      !add_ndarray_functions(m.ptr()) || !add_product_functions(m.ptr()) ||
      !add_host_functions(m.ptr()) || !plans::add_element_plans(m.ptr()) ||
      !profiling::add_functions(m.ptr()))
    throw nb::python_error();
}
