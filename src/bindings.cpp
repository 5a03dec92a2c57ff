// tritorch._C: all bindings, and nothing but bindings.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "array/array.h"
#include "array/dlpack.h"
#include "array/order.h"
#include "driver/context.h"
#include "driver/event.h"
#include "driver/fork.h"
#include "driver/simulator.h"
#include "interpreter.h"
#include "launch/launcher.h"
#include "launch/pack.h"
#include "memory/event_queues.h"
#include "memory/graph.h"
#include "memory/host.h"
#include "memory/registry.h"
#include "random/rejection.h"
#include "random/selection.h"
#include "tensor/gate.h"
#include "tensor/ndarray.h"
#include "tensor/quiet.h"
#include "tensor/tensor.h"
#include "traces.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tritorch {
namespace {

PyObject* dtype_objects[kDTypes];
PyTypeObject* array_type = nullptr;
PyObject* cuda_error = nullptr;
PyObject* out_of_memory_error = nullptr;
PyObject* unavailable_error = nullptr;
PyObject* garbage_collector = nullptr;
PyObject* device_fault = nullptr;
PyObject* interrupting = nullptr;  // the exception that ended a simulated kernel, till it is raised

cu::CUstream stream_of(std::uint64_t handle) { return reinterpret_cast<cu::CUstream>(handle); }
std::uint64_t handle_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// ---- errors -------------------------------------------------------------------------------------

void set_cuda_error(const CudaError& error) {
  PyObject* value = PyObject_CallFunction(cuda_error, "s", error.what());
  if (!value) return;
  nb::object owned = nb::steal(value);
  owned.attr("code") = static_cast<int>(error.code);
  owned.attr("name") = error_name(error.code);
  PyErr_SetObject(cuda_error, value);
}

void rethrow_as_python(std::exception_ptr pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const CudaError& error) {
    PyObject* passing =
        error.code == cu::simulator::kInterrupted ? std::exchange(interrupting, nullptr) : nullptr;
    if (!passing) return set_cuda_error(error);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(passing)), passing);
    Py_DECREF(passing);
  } catch (const OutOfMemoryError& error) {
    PyErr_SetString(out_of_memory_error, error.what());
  } catch (const CudaUnavailable& error) {
    PyErr_SetString(unavailable_error, error.what());
  } catch (const std::domain_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (const PythonError&) {
  }
}

PyObject* new_exception(nb::module_& m, const char* name, const char* doc, PyObject* base) {
  std::string qualified = std::string("tritorch.cuda.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::borrow(type);
  return type;
}

// ---- arguments ----------------------------------------------------------------------------------

DType dtype_of(nb::handle object) {
  for (int code = 0; code < kDTypes; ++code)
    if (dtype_objects[code] == object.ptr()) return static_cast<DType>(code);
  throw nb::type_error(
      ("expected a tritorch dtype, got " + std::string(nb::repr(object).c_str())).c_str());
}

nb::object dtype_object(DType dtype) { return nb::borrow(dtype_objects[static_cast<int>(dtype)]); }

std::int64_t to_int(PyObject* item) {
  if (PyLong_CheckExact(item)) {
    std::int64_t value = PyLong_AsLongLong(item);
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    return value;
  }
  PyObject* index = PyNumber_Index(item);
  if (!index) throw nb::python_error();
  nb::object owned = nb::steal(index);
  std::int64_t value = PyLong_AsLongLong(index);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

std::vector<std::int64_t> ints(nb::handle sequence) {
  if (PyLong_Check(sequence.ptr())) return {to_int(sequence.ptr())};
  PyObject* fast = PySequence_Fast(sequence.ptr(), "a sequence of integers is needed");
  if (!fast) throw nb::python_error();
  nb::object owned = nb::steal(fast);
  std::vector<std::int64_t> out(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast)));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = to_int(PySequence_Fast_GET_ITEM(fast, static_cast<Py_ssize_t>(i)));
  return out;
}

nb::tuple tuple_of(Sizes sizes) {
  PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(sizes.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  return nb::steal<nb::tuple>(out);
}

nb::object wrap(Array&& array) {
  nb::object object = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(array_type)));
  new (nb::inst_ptr<Array>(object)) Array(std::move(array));
  nb::inst_mark_ready(object);
  return object;
}

int device_or_current(std::optional<int> device) { return device ? *device : current_device(); }

// A buffer of bytes, held for the length of a call.
class BufferView {
 public:
  BufferView(nb::handle object, bool writable) {
    int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  void* data() const { return view_.buf; }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_;
};

void require_dense(const Array& array, std::size_t bytes, const char* what) {
  if (!array.layout.is_contiguous())
    throw std::invalid_argument(std::string(what) + ": the array must be contiguous");
  if (array.nbytes() != bytes)
    throw std::invalid_argument(std::string(what) + ": the array has " +
                                std::to_string(array.nbytes()) + " bytes, the buffer " +
                                std::to_string(bytes));
}

// ---- indexing -----------------------------------------------------------------------------------

// Integers, slices, None and ... ; each dimension is taken in turn.
Array index(const Array& array, nb::handle key) {
  nb::tuple items = PyTuple_Check(key.ptr()) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
  int consumed = 0, ellipses = 0;
  for (nb::handle item : items) {
    if (item.ptr() == Py_Ellipsis)
      ++ellipses;
    else if (!item.is_none())
      ++consumed;
  }
  int ndim = array.layout.ndim();
  if (ellipses > 1) throw nb::index_error("an index can only have a single ellipsis ('...')");
  if (consumed > ndim)
    throw nb::index_error(
        ("too many indices for tensor of dimension " + std::to_string(ndim)).c_str());
  Array view = array;
  int dim = 0;
  for (nb::handle item : items) {
    if (item.ptr() == Py_Ellipsis) {
      dim += ndim - consumed;
    } else if (item.is_none()) {
      view = view.unsqueeze(dim++);
    } else if (PySlice_Check(item.ptr())) {
      Py_ssize_t start, stop, step;
      if (PySlice_Unpack(item.ptr(), &start, &stop, &step) < 0) throw nb::python_error();
      if (step <= 0) throw nb::value_error("step must be greater than zero");
      view = view.slice(dim++, start, stop, step);
    } else if (PyIndex_Check(item.ptr()) && !PyBool_Check(item.ptr())) {
      Py_ssize_t position = PyNumber_AsSsize_t(item.ptr(), PyExc_IndexError);
      if (position == -1 && PyErr_Occurred()) throw nb::python_error();
      view = view.select(dim, position);
    } else {
      throw nb::type_error(("an array is indexed by integers, slices, None and ..., not " +
                            std::string(Py_TYPE(item.ptr())->tp_name))
                               .c_str());
    }
  }
  return view;
}

// ---- copies -------------------------------------------------------------------------------------

// A page-locked source or target must outlive the copy; a pageable one has been staged, or the copy
// was waited for.
void after_host_copy(const void* host, cu::CUstream stream, bool non_blocking) {
  if (!non_blocking) {
    DRIVE(cuStreamSynchronize(stream));
  } else if (memory::PinnedAllocator* pinned = memory::existing_pinned_allocator()) {
    pinned->record_stream(host, stream);
  }
}

void copy_from_host(const Array& array, nb::handle buffer, std::uint64_t stream,
                    bool non_blocking) {
  BufferView view(buffer, false);
  require_dense(array, view.size(), "copy_from_host");
  if (view.size() == 0) return;
  DeviceScope scope(array.device());
  DRIVE(cuMemcpyHtoDAsync(array.data(), view.data(), view.size(), stream_of(stream)));
  after_host_copy(view.data(), stream_of(stream), non_blocking);
}

void copy_to_host(const Array& array, nb::handle buffer, std::uint64_t stream, bool non_blocking) {
  BufferView view(buffer, true);
  require_dense(array, view.size(), "copy_to_host");
  if (view.size() == 0) return;
  DeviceScope scope(array.device());
  DRIVE(cuMemcpyDtoHAsync(view.data(), array.data(), view.size(), stream_of(stream)));
  after_host_copy(view.data(), stream_of(stream), non_blocking);
}

void copy_dense(const Array& to, const Array& from, std::uint64_t stream) {
  require_dense(to, from.nbytes(), "copy_dense");
  require_dense(from, from.nbytes(), "copy_dense");
  if (from.nbytes() == 0) return;
  if (to.device() == from.device()) {
    DeviceScope scope(to.device());
    DRIVE(cuMemcpyDtoDAsync(to.data(), from.data(), from.nbytes(), stream_of(stream)));
    return;
  }
  cu::CUcontext to_context = context_of(to.device()), from_context = context_of(from.device());
  DeviceScope scope(from.device());
  DRIVE(cuMemcpyPeerAsync(to.data(), to_context, from.data(), from_context, from.nbytes(),
                          stream_of(stream)));
}

// Fills dense memory with a pattern of one, two or four bytes.
void fill_dense(const Array& array, nb::bytes pattern, std::uint64_t stream) {
  require_dense(array, array.nbytes(), "fill_dense");
  std::size_t width = pattern.size(), count = array.nbytes() / width;
  if (array.nbytes() == 0) return;
  DeviceScope scope(array.device());
  std::uint32_t value = 0;
  std::memcpy(&value, pattern.c_str(), width);
  if (width == 1)
    DRIVE(
        cuMemsetD8Async(array.data(), static_cast<unsigned char>(value), count, stream_of(stream)));
  else if (width == 2)
    DRIVE(cuMemsetD16Async(array.data(), static_cast<unsigned short>(value), count,
                           stream_of(stream)));
  else if (width == 4)
    DRIVE(cuMemsetD32Async(array.data(), value, count, stream_of(stream)));
  else
    throw std::domain_error("fill_dense: a pattern has 1, 2 or 4 bytes");
}

// ---- statistics ---------------------------------------------------------------------------------

nb::dict statistics_dict(int device) {
  memory::Statistics s = memory::device_allocator(device).statistics();
  nb::dict out;
  auto add = [&](const std::string& prefix, const memory::Stat& stat) {
    out[(prefix + ".current").c_str()] = stat.current;
    out[(prefix + ".peak").c_str()] = stat.peak;
    out[(prefix + ".allocated").c_str()] = stat.allocated;
    out[(prefix + ".freed").c_str()] = stat.freed;
  };
  auto by_size = [&](const std::string& name, const memory::StatBySize& stat) {
    add(name + ".all", stat.all);
    add(name + ".small_pool", stat.small_pool);
    add(name + ".large_pool", stat.large_pool);
  };
  by_size("allocation", s.allocation);
  by_size("segment", s.segment);
  by_size("active", s.active);
  by_size("inactive_split", s.inactive_split);
  by_size("allocated_bytes", s.allocated_bytes);
  by_size("reserved_bytes", s.reserved_bytes);
  by_size("active_bytes", s.active_bytes);
  by_size("inactive_split_bytes", s.inactive_split_bytes);
  by_size("requested_bytes", s.requested_bytes);
  add("oversize_allocations", s.oversize_allocations);
  add("oversize_segments", s.oversize_segments);
  out["num_alloc_retries"] = s.num_alloc_retries;
  out["num_ooms"] = s.num_ooms;
  out["num_sync_all_streams"] = s.num_sync_all_streams;
  out["num_device_alloc"] = s.num_device_alloc;
  out["num_device_free"] = s.num_device_free;
  out["max_split_size"] = s.max_split_size;
  return out;
}

nb::list frames_list(memory::TraceId trace) {
  nb::list frames;
  for (const TraceFrame& frame : trace_frames(trace)) {
    nb::dict entry;
    entry["filename"] = frame.filename;
    entry["line"] = frame.line;
    entry["name"] = frame.function;
    frames.append(entry);
  }
  return frames;
}

nb::list segments_list(int device) {
  static const char* const kStates[] = {"active_allocated", "active_awaiting_free", "inactive"};
  nb::list out;
  for (const memory::SegmentSnapshot& segment : memory::device_allocator(device).snapshot()) {
    nb::dict entry;
    entry["device"] = device;
    entry["address"] = segment.address;
    entry["total_size"] = segment.total_size;
    entry["allocated_size"] = segment.allocated_size;
    entry["active_size"] = segment.active_size;
    entry["requested_size"] = segment.requested_size;
    entry["stream"] = handle_of(segment.stream);
    entry["segment_type"] = segment.kind == memory::kSmallPool ? "small" : "large";
    entry["segment_pool_id"] = nb::make_tuple(0, segment.pool);
    entry["is_expandable"] = segment.expandable;
    nb::list blocks;
    for (const memory::BlockSnapshot& block : segment.blocks) {
      nb::dict item;
      item["address"] = block.address;
      item["size"] = block.size;
      item["requested_size"] = block.requested;
      item["state"] = kStates[block.state];
      item["frames"] = frames_list(block.trace);
      blocks.append(item);
    }
    entry["blocks"] = blocks;
    out.append(entry);
  }
  return out;
}

nb::list history_list(int device) {
  static const char* const kActions[] = {"alloc",         "free_requested", "free_completed",
                                         "segment_alloc", "segment_free",   "segment_map",
                                         "segment_unmap", "snapshot",       "oom"};
  nb::list out;
  for (const memory::TraceEntry& entry : memory::device_allocator(device).history()) {
    nb::dict item;
    item["action"] = kActions[entry.action];
    item["addr"] = entry.address;
    item["size"] = entry.size;
    item["stream"] = handle_of(entry.stream);
    item["time_us"] = entry.time_us;
    item["frames"] = frames_list(entry.trace);
    out.append(item);
  }
  return out;
}

memory::Settings settings_from(const std::string& text) {
  try {
    return memory::parse_settings(text);
  } catch (const std::invalid_argument& error) {
    throw std::domain_error(error.what());
  }
}

// ---- modules and simulated functions ------------------------------------------------------------

// -> (module, function, registers, spilled words, most threads a block)
nb::tuple load_binary(const std::string& name, nb::bytes image, int shared, int device) {
  DeviceScope scope(device);
  cu::CUmodule module;
  cu::CUfunction function;
  {
    memory::RelaxedCapture relaxed(driver());  // a graph's first launch loads its kernels
    check(driver().cuModuleLoadData(&module, image.c_str()), "cuModuleLoadData(&module, image)");
    const cu::CUresult found = driver().cuModuleGetFunction(&function, module, name.c_str());
    if (found != cu::CUDA_SUCCESS) (void)driver().cuModuleUnload(module);
    check(found, "cuModuleGetFunction(&function, module, name)");
  }
  auto read = [&](cu::CUfunction_attribute attribute) {
    int value = 0;
    DRIVE(cuFuncGetAttribute(&value, attribute, function));
    return value;
  };
  int limit = device_properties(device).shared_memory_per_block_optin;
  constexpr int kWithoutAsking = 48 * 1024;
  if (shared > kWithoutAsking && limit > kWithoutAsking) {
    DRIVE(cuFuncSetCacheConfig(function, cu::CU_FUNC_CACHE_PREFER_SHARED));
    DRIVE(cuFuncSetAttribute(function, cu::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                             limit - read(cu::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)));
  }
  return nb::make_tuple(handle_of(module), handle_of(function),
                        read(cu::CU_FUNC_ATTRIBUTE_NUM_REGS),
                        read(cu::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) / 4,
                        read(cu::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
}

// Calls a Python function when the simulated device's queue reaches the launch.
struct SimulatedBody {
  nb::object callback;  // (grid, parameter bytes, ...) -> None
  std::vector<std::uint32_t> sizes;
};

// The configuration of the launch that ran last, for tests.
struct {
  unsigned grid[3], block[3], shared;
  std::vector<int> attributes;
} last_launch;

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
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  if (interrupting)
    Py_DECREF(value);  // the first says what happened
  else
    interrupting = value;
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
    last_launch = {{c.gridDimX, c.gridDimY, c.gridDimZ},
                   {c.blockDimX, c.blockDimY, c.blockDimZ},
                   c.sharedMemBytes,
                   {}};
    unsigned ctas = 1;
    for (unsigned i = 0; i < c.numAttrs; ++i) {
      last_launch.attributes.push_back(c.attrs[i].id);
      if (c.attrs[i].id == cu::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        ctas = c.attrs[i].value.clusterDim.x;
    }
    nb::object grid = nb::make_tuple(c.gridDimX / ctas, c.gridDimY, c.gridDimZ);
    nb::str site(launch.site.c_str());
    PyObject* done = outlasting([&] {
      return PyObject_CallFunctionObjArgs(body->callback.ptr(), grid.ptr(), parameters.ptr(),
                                          site.ptr(), nullptr);
    });
    if (!done) nb::raise_python_error();
    Py_DECREF(done);
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

cu::simulator::Call call_named(const std::string& name) {
  if (name == "alloc") return cu::simulator::Call::alloc;
  if (name == "launch") return cu::simulator::Call::launch;
  if (name == "copy") return cu::simulator::Call::copy;
  throw std::domain_error("a failure is injected into 'alloc', 'launch' or 'copy', not '" + name +
                          "'");
}

// Where a launch comes from: the innermost line of Python that is in none of these folders.
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

void check_block(std::size_t addresses, std::size_t mask, std::size_t values) {
  if (addresses != values || mask != values)
    throw std::domain_error("addresses, mask and values differ in size");
}

void bind_simulator(nb::module_& m) {
  nb::module_ sim = m.def_submodule("simulator", "Controls of the simulated device.");
  sim.def(
      "configure",
      [](const std::string& text) {
        try {
          cu::simulator::set_options(cu::parse_simulator_options(text));
        } catch (const std::invalid_argument& error) {
          throw std::domain_error(error.what());
        }
      },
      "settings"_a);
  device_fault = PyErr_NewExceptionWithDoc(
      "tritorch._C.simulator.DeviceFault",
      "Ends a simulated kernel as a GPU would: (the CUresult that the device is left with, why).",
      nullptr, nullptr);
  if (!device_fault) throw nb::python_error();
  sim.attr("DeviceFault") = nb::borrow(device_fault);
  in_forked_child(
      [](void*) {
        if (collector_paused.exchange(false)) PyGC_Enable();
      },
      &collector_paused);
  sim.def(
      "tell_launch_sites",
      [](std::vector<std::string> skipped) {
        folders = new std::vector<std::string>(std::move(skipped));
        cu::simulator::set_launch_site(launch_site);
      },
      "skipped"_a);
  sim.def("set_seed", &cu::simulator::set_seed, "seed"_a);
  sim.def(
      "fail",
      [](const std::string& call, std::uint64_t nth, int code) {
        cu::simulator::fail(call_named(call), nth, static_cast<cu::CUresult>(code));
      },
      "call"_a, "nth"_a, "code"_a);
  sim.def("clear_error", [] {
    BlockingRegion region;
    cu::simulator::clear_error();
    memory::forget_failures();  // else the next allocation would tell of the error
  });
  sim.def("accessible", &cu::simulator::accessible, "address"_a, "size"_a);
  // What interpreted kernels load and store.  -> the first bad address's place, or -1
  using Addresses = nb::ndarray<const std::int64_t, nb::c_contig, nb::device::cpu>;
  using Mask = nb::ndarray<const bool, nb::c_contig, nb::device::cpu>;
  sim.def(
      "load",
      [](Addresses addresses, std::optional<Mask> mask,
         nb::ndarray<nb::c_contig, nb::device::cpu> out) {
        check_block(addresses.size(), mask ? mask->size() : out.size(), out.size());
        return cu::simulator::load(addresses.data(), mask ? mask->data() : nullptr,
                                   addresses.size(), out.itemsize(), out.data());
      },
      "addresses"_a, "mask"_a.none(), "out"_a);
  sim.def(
      "store",
      [](Addresses addresses, std::optional<Mask> mask,
         nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> values) {
        check_block(addresses.size(), mask ? mask->size() : values.size(), values.size());
        return cu::simulator::store(addresses.data(), mask ? mask->data() : nullptr,
                                    addresses.size(), values.itemsize(), values.data());
      },
      "addresses"_a, "mask"_a.none(), "values"_a);
  sim.def(
      "counters",
      [](int device) {
        cu::simulator::Counters c = cu::simulator::counters(device);
        nb::dict out;
        out["launches"] = c.launches;
        out["copies"] = c.copies;
        out["memsets"] = c.memsets;
        out["allocations"] = c.allocations;
        out["frees"] = c.frees;
        out["live_allocations"] = c.live_allocations;
        out["live_bytes"] = c.live_bytes;
        out["live_streams"] = c.live_streams;
        out["live_events"] = c.live_events;
        return out;
      },
      "device"_a);
  sim.def(
      "make_function",
      [](const std::string& name, std::vector<std::uint32_t> sizes, nb::object callback) {
        auto* body = new SimulatedBody{std::move(callback), sizes};
        return handle_of(
            cu::simulator::make_function(name, sizes, run_simulated, body, destroy_simulated));
      },
      "name"_a, "parameter_sizes"_a, "callback"_a);
  sim.def(
      "image_of",
      [](std::uint64_t function) {
        const std::string image =
            cu::simulator::image_of(reinterpret_cast<cu::CUfunction>(function));
        return nb::bytes(image.data(), image.size());
      },
      "function"_a);
  // c = a b + c, rounded once, to float32 if they are: what an interpreted kernel's fma does.
  using Numbers = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  sim.def(
      "fma",
      [](Numbers a, Numbers b, Numbers c, bool narrow) {
        if (a.size() != c.size() || b.size() != c.size()) throw std::domain_error("sizes differ");
        double *x = a.data(), *y = b.data(), *z = c.data();
        for (std::size_t i = 0; i < c.size(); ++i)
          z[i] = narrow ? std::fma(static_cast<float>(x[i]), static_cast<float>(y[i]),
                                   static_cast<float>(z[i]))
                        : std::fma(x[i], y[i], z[i]);
      },
      "a"_a, "b"_a, "c"_a, "narrow"_a);
  sim.def("last_launch", [] {
    nb::dict out;
    out["grid"] = nb::make_tuple(last_launch.grid[0], last_launch.grid[1], last_launch.grid[2]);
    out["block"] = nb::make_tuple(last_launch.block[0], last_launch.block[1], last_launch.block[2]);
    out["shared"] = last_launch.shared;
    out["attributes"] = last_launch.attributes;
    return out;
  });
  sim.def(
      "free_function",
      [](std::uint64_t function) {
        BlockingRegion region;
        cu::simulator::free_function(reinterpret_cast<cu::CUfunction>(function));
      },
      "function"_a);
}

// ---- groups of bindings -------------------------------------------------------------------------

void bind_device(nb::module_& m) {
  m.def(
      "set_dtypes",
      [](nb::list dtypes) {
        if (dtypes.size() != kDTypes)
          throw std::domain_error("one object for each dtype code is needed");
        for (int i = 0; i < kDTypes; ++i) dtype_objects[i] = Py_NewRef(dtypes[i].ptr());
      },
      "dtypes"_a);
  m.def("simulation_requested", &simulation_requested);
  m.def("driver_loaded", &driver_loaded);
  m.def("forked_after_use", &forked_after_use);
  m.def("load_driver", [] { driver(); });
  m.def("is_simulated",
        [] { return driver_loaded() ? driver().simulated : simulation_requested(); });
  m.def("driver_version", [] {
    int version = 0;
    DRIVE(cuDriverGetVersion(&version));
    return version;
  });
  m.def("device_count", [] { return device_count_or_zero(); });
  m.def("why_unavailable", [] {
    std::string problem;
    int count = device_count_or_zero(&problem);
    return count > 0 ? std::string() : problem;
  });
  m.def("current_device", [] { return current_device(); });
  m.def("set_device", &set_current_device, "device"_a);
  m.def("device_in_use", &device_in_use, "device"_a);
  m.def(
      "synchronize",
      [](int device) {
        DeviceScope scope(device);
        DRIVE(cuCtxSynchronize());
      },
      "device"_a);
  m.def(
      "device_properties",
      [](int device) {
        const DeviceProperties& p = device_properties(device);
        nb::dict out;
        out["name"] = p.name;
        out["uuid"] = p.uuid;
        out["major"] = p.major;
        out["minor"] = p.minor;
        out["total_memory"] = p.total_memory;
        out["multi_processor_count"] = p.multi_processor_count;
        out["warp_size"] = p.warp_size;
        out["max_threads_per_block"] = p.max_threads_per_block;
        out["max_threads_per_multi_processor"] = p.max_threads_per_multi_processor;
        out["regs_per_multiprocessor"] = p.regs_per_multiprocessor;
        out["shared_memory_per_block"] = p.shared_memory_per_block;
        out["shared_memory_per_block_optin"] = p.shared_memory_per_block_optin;
        out["shared_memory_per_multiprocessor"] = p.shared_memory_per_multiprocessor;
        out["L2_cache_size"] = p.l2_cache_size;
        out["clock_rate"] = p.clock_rate;
        out["memory_clock_rate"] = p.memory_clock_rate;
        out["memory_bus_width"] = p.memory_bus_width;
        out["pci_bus_id"] = p.pci_bus_id;
        out["pci_device_id"] = p.pci_device_id;
        out["pci_domain_id"] = p.pci_domain_id;
        out["is_integrated"] = p.is_integrated;
        out["is_multi_gpu_board"] = p.is_multi_gpu_board;
        out["virtual_memory"] = p.virtual_memory;
        return out;
      },
      "device"_a);
  m.def(
      "can_access_peer",
      [](int device, int peer) {
        int yes = 0;
        cu::CUdevice a, b;
        DRIVE(cuDeviceGet(&a, device));
        DRIVE(cuDeviceGet(&b, peer));
        DRIVE(cuDeviceCanAccessPeer(&yes, a, b));
        return yes != 0;
      },
      "device"_a, "peer"_a);
  m.def(
      "mem_get_info",
      [](int device) {
        std::size_t free = 0, total = 0;
        DeviceScope scope(device);
        DRIVE(cuMemGetInfo(&free, &total));
        return nb::make_tuple(free, total);
      },
      "device"_a);
  m.def("load_binary", &load_binary, "name"_a, "image"_a, "shared"_a, "device"_a);
  m.def(
      "unload_module",
      [](std::uint64_t module, int device) {
        if (!driver_loaded()) return;
        DeviceScope scope(device < 0 ? current_device() : device);  // finalisers run on any thread
        memory::RelaxedCapture relaxed(driver());
        check(driver().cuModuleUnload(reinterpret_cast<cu::CUmodule>(module)),
              "cuModuleUnload(module)");
      },
      "module"_a, "device"_a = -1);
  m.def(
      "set_printf_fifo_size",
      [](std::size_t size) {
        bind(current_device());
        DRIVE(cuCtxSetLimit(cu::CU_LIMIT_PRINTF_FIFO_SIZE, size));
      },
      "size"_a);
  m.def(
      "max_active_clusters",
      [](std::uint64_t function, unsigned shared, unsigned num_ctas, unsigned num_warps) {
        if (!driver().cuOccupancyMaxActiveClusters)
          throw CudaError(cu::CUDA_ERROR_NOT_SUPPORTED, "cuOccupancyMaxActiveClusters");
        cu::CUlaunchAttribute attribute{};
        attribute.id = cu::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim = {num_ctas, 1, 1};
        cu::CUlaunchConfig config{num_ctas, 1,      1,       32 * num_warps, 1,
                                  1,        shared, nullptr, &attribute,     1};
        int clusters = 0;
        bind(current_device());
        DRIVE(cuOccupancyMaxActiveClusters(&clusters, reinterpret_cast<cu::CUfunction>(function),
                                           &config));
        return clusters;
      },
      "function"_a, "shared"_a, "num_ctas"_a, "num_warps"_a);
  m.def(
      "encode_tensor_map",
      [](std::uint64_t address, int swizzle, int element_bytes, int element_type,
         std::vector<std::uint32_t> box, std::vector<std::uint64_t> shape,
         std::vector<std::int64_t> strides, bool fill_nan) {
        int rank = static_cast<int>(shape.size());
        if (rank < 1 || rank > 5 || strides.size() != shape.size() || box.size() != shape.size())
          throw std::domain_error(
              "a tensor map needs 1 to 5 sizes and as many strides and box sizes");
        TensorMapRequest request;
        request.address = address;
        request.swizzle = swizzle;
        request.element_bytes = element_bytes;
        request.element_type = element_type;
        request.rank = rank;
        request.fill_nan = fill_nan;
        for (int i = 0; i < rank; ++i) {
          request.shape[i] = shape[rank - 1 - i];
          request.box[i] = box[rank - 1 - i];
          if (i + 1 < rank) request.strides[i] = strides[rank - 2 - i] * element_bytes;
        }
        request.strides[rank - 1] =
            request.shape[rank - 1] * (rank == 1 ? element_bytes : request.strides[rank - 2]);
        cu::CUtensorMap map = tensor_map(request);
        return nb::bytes(&map, sizeof map);
      },
      "address"_a, "swizzle"_a, "element_bytes"_a, "element_type"_a, "box"_a, "shape"_a,
      "strides"_a, "fill_nan"_a);
}

void bind_streams(nb::module_& m) {
  m.def("current_stream", [](int device) { return handle_of(current_stream(device)); }, "device"_a);
  m.def(
      "set_stream",
      [](int device, std::uint64_t stream) { set_current_stream(device, stream_of(stream)); },
      "device"_a, "stream"_a);
  m.def(
      "stream_from_pool",
      [](int device, int priority) { return handle_of(stream_from_pool(device, priority)); },
      "device"_a, "priority"_a);
  m.def(
      "stream_priority_range",
      [](int device) {
        int least = 0, greatest = 0;
        DeviceScope scope(device);
        DRIVE(cuCtxGetStreamPriorityRange(&least, &greatest));
        return nb::make_tuple(least, greatest);
      },
      "device"_a);
  m.def(
      "stream_synchronize",
      [](int device, std::uint64_t stream) {
        DeviceScope scope(device);
        DRIVE(cuStreamSynchronize(stream_of(stream)));
      },
      "device"_a, "stream"_a);
  m.def(
      "stream_query",
      [](int device, std::uint64_t stream) {
        DeviceScope scope(device);
        cu::CUresult result;
        {
          BlockingRegion region;
          result = driver().cuStreamQuery(stream_of(stream));
        }
        if (result == cu::CUDA_ERROR_NOT_READY) return false;
        check(result, "cuStreamQuery(stream)");
        return true;
      },
      "device"_a, "stream"_a);
  m.def(
      "stream_priority",
      [](int device, std::uint64_t stream) {
        int priority = 0;
        DeviceScope scope(device);
        DRIVE(cuStreamGetPriority(stream_of(stream), &priority));
        return priority;
      },
      "device"_a, "stream"_a);
  m.def(
      "stream_capture_id",
      [](int device, std::uint64_t stream) {
        // 0 when nothing is being captured; -1 for a capture that an illegal call has spoilt.
        cu::CUstreamCaptureStatus status;
        cu::cuuint64_t id = 0;
        DeviceScope scope(device);
        DRIVE(cuStreamGetCaptureInfo(stream_of(stream), &status, &id, nullptr, nullptr, nullptr));
        if (status == cu::CU_STREAM_CAPTURE_STATUS_INVALIDATED) return std::int64_t{-1};
        return status == cu::CU_STREAM_CAPTURE_STATUS_ACTIVE ? static_cast<std::int64_t>(id)
                                                             : std::int64_t{0};
      },
      "device"_a, "stream"_a);

  nb::class_<Event>(m, "Event")
      .def(nb::init<unsigned>(), "flags"_a)
      .def(
          "record",
          [](Event& self, int device, std::uint64_t stream) {
            self.record(device, stream_of(stream));
          },
          "device"_a, "stream"_a)
      .def(
          "wait",
          [](Event& self, int device, std::uint64_t stream) {
            self.wait(device, stream_of(stream));
          },
          "device"_a, "stream"_a)
      .def("query", &Event::query)
      .def("synchronize", &Event::synchronize)
      .def("elapsed_time", &Event::elapsed_time, "end"_a)
      .def_prop_ro("flags", &Event::flags)
      .def_prop_ro("device_index", &Event::device)
      .def_prop_ro("handle", [](Event& self) { return handle_of(self.handle()); });

  nb::class_<Graph>(m, "Graph")
      .def(nb::init<>())
      .def(
          "capture_begin",
          [](Graph& self, int device, std::uint64_t stream, memory::PoolId pool, int mode) {
            self.capture_begin(device, stream_of(stream), pool, mode);
          },
          "device"_a, "stream"_a, "pool"_a, "mode"_a)
      .def("capture_end", &Graph::capture_end)
      .def("instantiate", &Graph::instantiate)
      .def(
          "replay", [](Graph& self, std::uint64_t stream) { self.replay(stream_of(stream)); },
          "stream"_a)
      .def("reset", &Graph::reset)
      .def("debug_dump", &Graph::debug_dump, "path"_a)
      .def("keep_graph", &Graph::keep_graph, "keep"_a)
      .def_prop_ro("pool", &Graph::pool)
      .def_prop_ro("device_index", &Graph::device)
      .def_prop_ro("node_count", &Graph::node_count);
}

void bind_memory(nb::module_& m) {
  using memory::device_allocator;
  m.def("memory_stats", &statistics_dict, "device"_a);
  m.def("memory_segments", &segments_list, "device"_a);
  m.def("memory_history", &history_list, "device"_a);
  m.def(
      "record_memory_history",
      [](int device, bool traces, std::size_t entries) {
        device_allocator(device).record_history(traces, entries);
      },
      "device"_a, "traces"_a, "max_entries"_a);
  m.def(
      "reset_peak_memory_stats",
      [](int device) { device_allocator(device).reset_peak_statistics(); }, "device"_a);
  m.def(
      "reset_accumulated_memory_stats",
      [](int device) { device_allocator(device).reset_accumulated_statistics(); }, "device"_a);
  m.def("empty_cache", [] {
    for (int device = 0; device < kMaxDevices; ++device)
      if (memory::existing_allocator(device)) {
        DeviceScope scope(device);
        device_allocator(device).empty_cache();
      }
    if (memory::PinnedAllocator* pinned = memory::existing_pinned_allocator())
      pinned->empty_cache();
  });
  m.def(
      "set_memory_fraction",
      [](double fraction, int device) { device_allocator(device).set_memory_fraction(fraction); },
      "fraction"_a, "device"_a);
  m.def(
      "memory_fraction", [](int device) { return device_allocator(device).memory_fraction(); },
      "device"_a);
  m.def(
      "set_allocator_settings",
      [](const std::string& text) {
        memory::Settings settings = settings_from(text);
        settings.poison_on_free |= simulation_requested() && cu::simulator::options().poison;
        memory::set_settings(settings);
      },
      "settings"_a);
  m.def("allocator_settings", [] {
    memory::Settings s = memory::current_settings();
    nb::dict out;
    out["expandable_segments"] = s.expandable_segments;
    out["max_split_size"] =
        s.max_split_size == SIZE_MAX ? -1 : static_cast<std::int64_t>(s.max_split_size);
    out["garbage_collection_threshold"] = s.garbage_collection_threshold;
    out["roundup_power2_divisions"] = s.roundup_power2_divisions;
    out["sanitize"] = s.sanitize;
    out["poison_on_free"] = s.poison_on_free;
    return out;
  });
  m.def(
      "check_memory", [](int device) { return device_allocator(device).check_memory(); },
      "device"_a);
  m.def(
      "create_pool", [](int device) { return device_allocator(device).create_pool(); }, "device"_a);
  m.def(
      "release_pool",
      [](int device, memory::PoolId pool) {
        if (driver_loaded()) device_allocator(device).release_pool(pool);
      },
      "device"_a, "pool"_a);
  m.def(
      "pool_use_count",
      [](int device, memory::PoolId pool) { return device_allocator(device).pool_use_count(pool); },
      "device"_a, "pool"_a);
  m.def(
      "begin_thread_to_pool",
      [](int device, memory::PoolId pool) { device_allocator(device).begin_thread_to_pool(pool); },
      "device"_a, "pool"_a);
  m.def(
      "end_thread_to_pool",
      [](int device, memory::PoolId pool) { device_allocator(device).end_thread_to_pool(pool); },
      "device"_a, "pool"_a);
  m.def(
      "pinned_buffer",
      [](std::size_t bytes) {
        // A writable ndarray of bytes over page-locked memory, which goes back when the array dies.
        void* data = memory::pinned_allocator().allocate(bytes);
        nb::capsule owner(data ? data : reinterpret_cast<void*>(1), [](void* base) noexcept {
          if (base != reinterpret_cast<void*>(1) && driver_loaded())
            memory::pinned_allocator().free(base);
        });
        std::size_t shape[1] = {bytes};
        return nb::ndarray<nb::numpy, std::uint8_t>(data, 1, shape, owner);
      },
      "nbytes"_a);
  m.def(
      "is_pinned",
      [](std::uint64_t address) {
        memory::PinnedAllocator* pinned = memory::existing_pinned_allocator();
        return pinned && pinned->owns(reinterpret_cast<void*>(address));
      },
      "address"_a);
  m.def("host_memory_stats", [] {
    memory::HostStatistics s = memory::pinned_allocator().statistics();
    nb::dict out;
    out["allocated_bytes.current"] = s.allocated_bytes;
    out["allocated_bytes.peak"] = s.peak_allocated_bytes;
    out["reserved_bytes.current"] = s.reserved_bytes;
    out["allocation.current"] = s.allocations;
    out["segment.current"] = s.segments;
    out["num_host_alloc"] = s.num_host_alloc;
    out["num_host_free"] = s.num_host_free;
    return out;
  });
}

void bind_arrays(nb::module_& m) {
  auto array = nb::class_<Array>(m, "Array");
  array_type = reinterpret_cast<PyTypeObject*>(array.ptr());
  array.def_prop_ro("shape", [](const Array& a) { return tuple_of(a.layout.shape()); })
      .def_prop_ro("strides", [](const Array& a) { return tuple_of(a.layout.strides()); })
      .def_prop_ro("ndim", [](const Array& a) { return a.layout.ndim(); })
      .def_prop_ro("dtype", [](const Array& a) { return dtype_object(a.dtype); })
      .def_prop_ro("device_index", &Array::device)
      .def_prop_ro("nbytes", &Array::nbytes)
      .def_prop_ro("itemsize", [](const Array& a) { return item_size(a.dtype); })
      .def_prop_ro("storage_address", [](const Array& a) { return a.storage->address; })
      .def_prop_ro("storage_nbytes", [](const Array& a) { return a.storage->bytes; })
      .def("data_ptr", &Array::data)
      .def("element_size", [](const Array& a) { return item_size(a.dtype); })
      .def("storage_offset", [](const Array& a) { return a.offset; })
      .def("numel", [](const Array& a) { return a.layout.numel(); })
      .def("is_contiguous", [](const Array& a) { return a.layout.is_contiguous(); })
      .def(
          "stride",
          [](const Array& a, std::optional<std::int64_t> dim) -> nb::object {
            if (!dim) return tuple_of(a.layout.strides());
            return nb::int_(a.layout.strides()[wrap_dim(*dim, a.layout.ndim())]);
          },
          "dim"_a = nb::none())
      .def(
          "size",
          [](const Array& a, std::optional<std::int64_t> dim) -> nb::object {
            if (!dim) return tuple_of(a.layout.shape());
            return nb::int_(a.layout.shape()[wrap_dim(*dim, a.layout.ndim())]);
          },
          "dim"_a = nb::none())
      .def(
          "shares_storage",
          [](const Array& a, const Array& b) { return a.storage.get() == b.storage.get(); },
          "other"_a)
      .def(
          "_record_stream",
          [](const Array& a, std::uint64_t stream) { a.storage->record_stream(stream_of(stream)); },
          "stream"_a)
      .def(
          "as_strided",
          [](const Array& a, nb::handle shape, nb::handle strides,
             std::optional<std::int64_t> offset) {
            return wrap(a.as_strided(ints(shape), ints(strides), offset.value_or(a.offset)));
          },
          "size"_a, "stride"_a, "storage_offset"_a = nb::none())
      .def(
          "permute",
          [](const Array& a, nb::args dims) {
            return wrap(a.permute(ints(
                dims.size() == 1 && !PyLong_Check(dims[0].ptr()) ? dims[0] : nb::object(dims))));
          },
          "dims"_a)
      .def(
          "transpose",
          [](const Array& a, std::int64_t dim0, std::int64_t dim1) {
            int ndim = a.layout.ndim(), first = wrap_dim(dim0, ndim), second = wrap_dim(dim1, ndim);
            return wrap(ndim == 0 ? Array(a) : a.transpose(first, second));
          },
          "dim0"_a, "dim1"_a)
      .def(
          "expand",
          [](const Array& a, nb::args shape) {
            return wrap(a.expand(ints(shape.size() == 1 && !PyLong_Check(shape[0].ptr())
                                          ? shape[0]
                                          : nb::object(shape))));
          },
          "shape"_a)
      .def(
          "unsqueeze",
          [](const Array& a, std::int64_t dim) {
            return wrap(a.unsqueeze(wrap_dim(dim, a.layout.ndim() + 1)));
          },
          "dim"_a)
      .def(
          "select",
          [](const Array& a, std::int64_t dim, std::int64_t position) {
            if (a.layout.ndim() == 0)
              throw nb::index_error("select() cannot be applied to a 0-dim tensor.");
            return wrap(a.select(wrap_dim(dim, a.layout.ndim()), position));
          },
          "dim"_a, "index"_a)
      .def(
          "reshape_view",
          [](const Array& a, nb::handle shape) -> nb::object {
            std::optional<Array> view = a.reshape_view(ints(shape));
            return view ? wrap(std::move(*view)) : nb::none();
          },
          "shape"_a,
          nb::sig("def reshape_view(self, shape: collections.abc.Sequence[int]) -> Array | None"))
      .def(
          "view_dtype",
          [](const Array& a, nb::handle dtype) { return wrap(a.view_dtype(dtype_of(dtype))); },
          "dtype"_a)
      .def(
          "__getitem__", [](const Array& a, nb::handle key) { return wrap(index(a, key)); },
          "key"_a)
      .def("__len__", [](const Array& a) {
        if (a.layout.ndim() == 0) throw nb::type_error("len() of a 0-d tensor");
        return a.layout.shape()[0];
      });
  m.def(
      "empty",
      [](nb::handle shape, nb::handle dtype, std::optional<int> device) {
        int ordinal = device_or_current(device);
        return wrap(Array::empty(ints(shape), dtype_of(dtype), ordinal, current_stream(ordinal)));
      },
      "shape"_a, "dtype"_a, "device"_a = nb::none());
  m.def(
      "empty_strided",
      [](nb::handle shape, nb::handle strides, nb::handle dtype, std::optional<int> device) {
        int ordinal = device_or_current(device);
        return wrap(Array::empty_strided(ints(shape), ints(strides), dtype_of(dtype), ordinal,
                                         current_stream(ordinal)));
      },
      "shape"_a, "strides"_a, "dtype"_a, "device"_a = nb::none());
  m.def(
      "allocate_bytes",
      [](std::size_t bytes, int device, std::uint64_t stream) {
        std::int64_t shape[1] = {static_cast<std::int64_t>(bytes)};
        return wrap(Array::empty(shape, DType::uint8, device, stream_of(stream)));
      },
      "nbytes"_a, "device"_a, "stream"_a, "Uninitialised bytes that belong to a stream.");
  m.def(
      "collapse",
      [](nb::handle shape, std::vector<std::vector<std::int64_t>> strides) {
        std::vector<Sizes> spans(strides.begin(), strides.end());
        std::vector<std::int64_t> sizes = ints(shape);
        Collapsed out = collapse(sizes, spans);
        nb::list lists;
        for (const auto& list : out.strides) lists.append(tuple_of(list));
        return nb::make_tuple(tuple_of(out.shape), nb::tuple(lists));
      },
      "shape"_a, "strides"_a);
  m.def(
      "result_strides",
      [](nb::handle shape, const std::vector<std::pair<nb::handle, nb::handle>>& operands,
         bool numbers) {
        std::vector<std::vector<std::int64_t>> lists;
        std::vector<Lie> lies;
        lists.reserve(2 * operands.size());
        for (const auto& [sizes, strides] : operands) {
          const auto& own = lists.emplace_back(ints(sizes));
          const auto& steps = lists.emplace_back(ints(strides));
          lies.push_back({own, steps});
        }
        return tuple_of(result_strides(ints(shape), lies, numbers));
      },
      "shape"_a, "operands"_a, "numbers"_a,
      "The strides of what an elementwise operator makes of operands (shape, strides).");
  m.def(
      "copy_strides",
      [](nb::handle shape, nb::handle strides) {
        const std::vector<std::int64_t> sizes = ints(shape), steps = ints(strides);
        return tuple_of(copy_strides({sizes, steps}));
      },
      "shape"_a, "strides"_a, "The strides of a copy that keeps the memory order.");
  m.def("copy_from_host", &copy_from_host, "array"_a, "buffer"_a, "stream"_a, "non_blocking"_a);
  m.def("copy_to_host", &copy_to_host, "array"_a, "buffer"_a, "stream"_a, "non_blocking"_a);
  m.def("copy_dense", &copy_dense, "to"_a, "source"_a, "stream"_a);
  m.def("fill_dense", &fill_dense, "array"_a, "pattern"_a, "stream"_a);
  m.def(
      "to_dlpack",
      [](const Array& a, bool versioned) { return nb::steal(to_dlpack(a, versioned)); }, "array"_a,
      "versioned"_a);
  m.def(
      "from_dlpack", [](nb::handle capsule) { return wrap(from_dlpack(capsule.ptr())); },
      "capsule"_a);
  m.def(
      "adopt",
      [](nb::handle owner, std::uint64_t address, nb::handle shape, nb::handle strides,
         nb::handle dtype, int device) {
        // An array over memory that `owner` keeps alive.
        Array array;
        array.dtype = dtype_of(dtype);
        array.layout = strides.is_none() ? Layout::contiguous(ints(shape))
                                         : Layout(ints(shape), ints(strides));
        std::size_t bytes = array.layout.numel() == 0
                                ? 0
                                : (array.layout.extent().second + 1) * item_size(array.dtype);
        array.storage = StorageRef(
            Storage::adopt(device, address, bytes, owner.inc_ref().ptr(), [](void* object) {
              outlasting([&] {
                Acquired interpreter;
                Py_DECREF(static_cast<PyObject*>(object));
              });
            }));
        return wrap(std::move(array));
      },
      "owner"_a.none(), "address"_a, "shape"_a, "strides"_a.none(), "dtype"_a, "device"_a);
}

// ---- random numbers -----------------------------------------------------------------------------

// The memory of an ndarray that lies dense in C's order; its dtype is the caller's to know.
template <class T = void>
T* dense(nb::handle array, std::size_t size) {
  const NDArray* a = as_ndarray(array.ptr());
  if (!a || !a->is_contiguous() || a->size() != size)
    throw std::domain_error("a contiguous ndarray of " + std::to_string(size) +
                            " numbers is needed");
  return reinterpret_cast<T*>(a->data);
}

std::size_t size_of(nb::handle array) {
  const NDArray* a = as_ndarray(array.ptr());
  if (!a) throw nb::type_error("an ndarray is needed");
  return a->size();
}

random::Target target_of(nb::handle out, nb::handle dtype, int threads = 1) {
  const std::size_t size = size_of(out);
  return {dense(out, size), dtype_of(dtype), size, threads};
}

// Draws with the generator locked; many numbers, without the interpreter's lock.
template <class Draw>
void drawing(random::Generator& generator, std::size_t size, const Draw& draw) {
  constexpr std::size_t kMany = 1 << 14;
  if (size < kMany) {
    const auto lock = lock_politely(generator.mutex);
    draw();
  } else {
    BlockingRegion region;
    const std::lock_guard lock(generator.mutex);
    draw();
  }
}

// function(T{}) for the type that `wide` chooses.
template <class Function>
void as_floats(bool wide, const Function& function) {
  wide ? function(double{}) : function(float{});
}

void bind_random(nb::module_& m) {
  using random::Generator;
  nb::class_<Generator>(m, "CpuGenerator", "PyTorch's generator of the CPU and what it draws.")
      .def(nb::init<std::uint64_t>(), "seed"_a)
      .def_prop_ro("seed", [](Generator& g) { return g.engine.seed; })
      .def(
          "manual_seed",
          [](Generator& g, std::uint64_t seed) { drawing(g, 1, [&] { g.manual_seed(seed); }); },
          "seed"_a)
      .def("get_state",
           [](Generator& g) {
             char bytes[Generator::kStateBytes];
             drawing(g, 1, [&] { g.get_state(bytes); });
             return nb::bytes(bytes, sizeof bytes);
           })
      .def(
          "set_state",
          [](Generator& g, nb::bytes state) {
            if (state.size() != Generator::kStateBytes)
              throw std::invalid_argument("Expected a CPUGeneratorImplState of size " +
                                          std::to_string(Generator::kStateBytes) +
                                          " but found the input RNG state size to be " +
                                          std::to_string(state.size()));
            drawing(g, 1, [&] { g.set_state(state.c_str()); });
          },
          "state"_a)
      .def(
          "draw",
          [](Generator& g, nb::str name, nb::handle out, nb::handle dtype, double p, double q,
             int threads) {
            const random::Target target = target_of(out, dtype, threads);
            const char* which = name.c_str();
            drawing(g, target.size, [&] { random::draw(g, which, target, p, q); });
          },
          "name"_a, "out"_a, "dtype"_a, "p"_a = 0.0, "q"_a = 0.0, "threads"_a = 1)
      .def(
          "draw_integers",
          [](Generator& g, nb::handle out, nb::handle dtype, std::uint64_t range,
             std::uint64_t base, bool wide) {
            const random::Target target = target_of(out, dtype);
            drawing(g, target.size, [&] { random::draw_integers(g, target, range, base, wide); });
          },
          "out"_a, "dtype"_a, "range"_a, "base"_a, "wide"_a)
      .def(
          "draw_permutation",
          [](Generator& g, nb::handle out, nb::handle dtype) {
            const random::Target target = target_of(out, dtype);
            drawing(g, target.size, [&] { random::draw_permutation(g, target); });
          },
          "out"_a, "dtype"_a)
      .def(
          "draw_bernoulli",
          [](Generator& g, nb::handle out, nb::handle dtype, nb::handle chances, bool wide) {
            const random::Target target = target_of(out, dtype);
            as_floats(wide, [&]<class T>(T) {
              const T* given = dense<T>(chances, target.size);
              drawing(g, target.size, [&] { random::draw_bernoulli(g, target, given); });
            });
          },
          "out"_a, "dtype"_a, "chances"_a, "wide"_a)
      .def(
          "draw_slopes",
          [](Generator& g, nb::handle out, nb::handle x, bool wide, double low, double high) {
            const std::size_t n = size_of(x);
            as_floats(wide, [&]<class T>(T) {
              T* to = dense<T>(out, n);
              const T* given = dense<T>(x, n);
              drawing(g, n, [&] { random::draw_slopes(g, given, to, n, low, high); });
            });
          },
          "out"_a, "x"_a, "wide"_a, "low"_a, "high"_a)
      .def(
          "draw_by_weight",
          [](Generator& g, nb::handle out, nb::handle weights, bool wide, std::size_t rows) {
            const std::size_t drawn = size_of(out), given = size_of(weights);
            std::int64_t* to = dense<std::int64_t>(out, drawn);
            as_floats(wide, [&]<class T>(T) {
              const T* from = dense<T>(weights, given);
              drawing(g, drawn + given, [&] {
                random::draw_by_weight(g, from, rows, given / rows, to, drawn / rows);
              });
            });
          },
          "out"_a, "weights"_a, "wide"_a, "rows"_a)
      .def(
          "draw_poisson",
          [](Generator& g, nb::handle out, nb::handle rates) {
            const std::size_t n = size_of(rates);
            double* to = dense<double>(out, n);
            const double* given = dense<double>(rates, n);
            drawing(g, n, [&] { random::draw_poisson(g, given, to, n); });
          },
          "out"_a, "rates"_a)
      .def(
          "draw_gamma",
          [](Generator& g, nb::handle out, nb::handle shapes, bool wide) {
            const std::size_t n = size_of(shapes);
            as_floats(wide, [&]<class T>(T) {
              T* to = dense<T>(out, n);
              const T* given = dense<T>(shapes, n);
              drawing(g, n, [&] { random::draw_gamma(g, given, to, n); });
            });
          },
          "out"_a, "shapes"_a, "wide"_a)
      .def(
          "draw_binomial",
          [](Generator& g, nb::handle out, nb::handle counts, nb::handle chances, bool wide) {
            const std::size_t n = size_of(counts);
            as_floats(wide, [&]<class T>(T) {
              T* to = dense<T>(out, n);
              const T *trials = dense<T>(counts, n), *given = dense<T>(chances, n);
              drawing(g, n, [&] { random::draw_binomial(g, trials, given, to, n); });
            });
          },
          "out"_a, "counts"_a, "chances"_a, "wide"_a);
  m.def(
      "largest",
      [](nb::handle out, nb::handle values, bool wide, std::size_t rows) {
        const std::size_t chosen = size_of(out), given = size_of(values);
        std::int64_t* to = dense<std::int64_t>(out, chosen);
        as_floats(wide, [&]<class T>(T) {
          const T* from = dense<T>(values, given);
          BlockingRegion region;
          random::largest(from, rows, given / rows, to, chosen / rows);
        });
      },
      "out"_a, "values"_a, "wide"_a, "rows"_a,
      "The places of the largest numbers of each row, the largest first.");
}

// ---- hooks --------------------------------------------------------------------------------------

void* leave_interpreter() {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}
void enter_interpreter(void* state) {
  outlasting([&] { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); });
}

bool collect_garbage() {
  if (!garbage_collector) return false;
  outlasting([] {
    Acquired interpreter;
    PyObject* result = PyObject_CallNoArgs(garbage_collector);
    if (!result) PyErr_Clear();
    Py_XDECREF(result);
  });
  return true;
}

}  // namespace

const Array* as_array(PyObject* object) noexcept {
  return Py_TYPE(object) == array_type ? nb::inst_ptr<Array>(nb::handle(object)) : nullptr;
}

void set_python_error(std::exception_ptr pointer) noexcept {
  try {
    rethrow_as_python(pointer);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::out_of_range& error) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

}  // namespace tritorch

NB_MODULE(_C, m) {
  using namespace tritorch;
  m.doc() = "tritorch's native half: driver, memory, arrays and launches.";
  nb::set_leak_warnings(false);  // arrays may outlive the interpreter in frames and module globals
  unavailable_error = new_exception(
      m, "CudaUnavailableError", "There is no usable CUDA driver or device.", PyExc_RuntimeError);
  cuda_error = new_exception(m, "CudaError", "A CUDA driver call failed; see its code and name.",
                             PyExc_RuntimeError);
  out_of_memory_error =
      new_exception(m, "OutOfMemoryError", "The device's memory is exhausted.", PyExc_RuntimeError);
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) { rethrow_as_python(pointer); });
  blocking_hooks = {leave_interpreter, enter_interpreter};
  memory::set_hooks({capture_trace, describe_trace, collect_garbage});
  m.def(
      "set_garbage_collector",
      [](nb::handle callback) { garbage_collector = Py_NewRef(callback.ptr()); }, "callback"_a);
  bind_device(m);
  bind_streams(m);
  bind_memory(m);
  bind_arrays(m);
  bind_random(m);
  bind_simulator(m);
  keep_freed_host_memory();
  if (!add_launch_types(m.ptr()) || !add_tensor_types(m.ptr()) || !add_gate_type(m.ptr()) ||
      !add_quiet_type(m.ptr()))
    throw nb::python_error();
}
