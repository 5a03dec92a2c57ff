#include "simulator/python.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "driver/fork.h"
#include "interpreter.h"
#include "ref.h"

namespace tritorch {

namespace nb = nanobind;

PyObject* device_fault = nullptr;

namespace {

struct SimulatedBody {
  nb::object callback;  // (grid, parameter bytes, ...) -> None
  std::vector<std::uint32_t> sizes;
};

LastLaunch last;
PyObject* interrupting = nullptr;  // the exception that ended a kernel, till it is raised

std::atomic<bool> collector_paused{false};

// A kernel ended by an exception: the device's fault if the interpreter says so; all others, Ctrl-C
// for one, are raised by the call that ran the kernel.
cu::CUresult ended_by(nb::python_error& failure, std::string& error) {
  if (failure.matches(device_fault)) {
    nb::object args = failure.value().attr("args");
    error = nb::cast<std::string>(nb::str(args[1]));
    return static_cast<cu::CUresult>(nb::cast<int>(args[0]));
  }
  failure.restore();
  TakenError taken;
  taken.normalize();
  if (taken.traceback()) PyException_SetTraceback(taken.value(), taken.traceback());
  if (!interrupting) interrupting = Py_NewRef(taken.value());  // the first says what happened
  return cu::simulator::kInterrupted;
}

cu::CUresult interpret(SimulatedBody* body, const cu::simulator::Launch& launch,
                       std::string& error) {
  Acquired interpreter;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);  // the caller may be raising
  // The caller may hold the allocator's lock, which a finaliser of some array would want.
  bool collected = PyGC_Disable() != 0;
  collector_paused = collected;
  cu::CUresult result = cu::CUDA_SUCCESS;
  try {
    nb::list parameters;
    for (std::size_t i = 0; i < body->sizes.size(); ++i)
      parameters.append(nb::bytes((*launch.params)[i], body->sizes[i]));
    const cu::CUlaunchConfig& c = *launch.config;
    last = {{c.gridDimX, c.gridDimY, c.gridDimZ},
            {c.blockDimX, c.blockDimY, c.blockDimZ},
            c.sharedMemBytes,
            {}};
    unsigned ctas = 1;
    for (unsigned i = 0; i < c.numAttrs; ++i) {
      last.attributes.push_back(c.attrs[i].id);
      if (c.attrs[i].id == cu::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        ctas = c.attrs[i].value.clusterDim.x;
    }
    nb::object grid = nb::make_tuple(c.gridDimX / ctas, c.gridDimY, c.gridDimZ);
    nb::str site(launch.site.c_str());
    const Ref done(outlasting([&] {
      return PyObject_CallFunctionObjArgs(body->callback.ptr(), grid.ptr(), parameters.ptr(),
                                          site.ptr(), nullptr);
    }));
    if (!done) nb::raise_python_error();
  } catch (nb::python_error& failure) {
    result = ended_by(failure, error);
  }
  collector_paused = false;
  if (collected) PyGC_Enable();
  PyErr_Restore(type, value, traceback);
  return result;
}

cu::CUresult run_simulated(void* user, const cu::simulator::Launch& launch, std::string& error) {
  return outlasting([&] { return interpret(static_cast<SimulatedBody*>(user), launch, error); });
}

void destroy_simulated(void* user) {
  outlasting([&] {
    Acquired interpreter;
    delete static_cast<SimulatedBody*>(user);
  });
}

std::vector<std::string>* folders = nullptr;  // never freed: launches outlast the interpreter

std::string innermost_line() {
  Acquired interpreter;
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid()) {
    auto* here = reinterpret_cast<PyFrameObject*>(frame.ptr());
    nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(here)));
    const std::string file = nb::cast<std::string>(nb::object(code.attr("co_filename")));
    if (std::none_of(folders->begin(), folders->end(),
                     [&](const std::string& folder) { return file.starts_with(folder); }))
      return file + ":" + std::to_string(PyFrame_GetLineNumber(here));
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(here)));
  }
  return {};
}

std::string launch_site() { return outlasting(innermost_line); }

}  // namespace

cu::CUfunction make_simulated(const std::string& name, std::vector<std::uint32_t> parameter_sizes,
                              PyObject* callback) {
  auto* body = new SimulatedBody{nb::borrow(callback), parameter_sizes};
  return cu::simulator::make_function(name, std::move(parameter_sizes), run_simulated, body,
                                      destroy_simulated);
}

PyObject* take_interruption() { return std::exchange(interrupting, nullptr); }

void tell_launch_sites(std::vector<std::string> skipped) {
  folders = new std::vector<std::string>(std::move(skipped));
  cu::simulator::set_launch_site(launch_site);
}

const LastLaunch& last_launch() { return last; }

void resume_collector_in_children() {
  in_forked_child(
      [](void*) {
        if (collector_paused.exchange(false)) PyGC_Enable();
      },
      &collector_paused);
}

}  // namespace tritorch
