#include "launch/launcher.h"

#include <structmember.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/context.h"
#include "interpreter.h"
#include "launch/descriptor.h"
#include "launch/pack.h"
#include "launch/recording.h"
#include "launch/waiting.h"
#include "profiling/device.h"
#include "profiling/python.h"
#include "ref.h"

namespace tritorch {
namespace {

// ---- Launcher -----------------------------------------------------------------------------------

struct LaunchPlan {
  std::vector<ArgPlan> args;  // one a Python parameter
  unsigned num_warps = 4, num_ctas = 1, shared = 0;
  bool cooperative = false, dependent = false;  // dependent: programmatic dependent launch
  std::size_t scratch_size = 0, scratch_align = 1, profile_size = 0, profile_align = 1;
};

std::vector<std::uint32_t> parameter_sizes(const LaunchPlan& plan) {
  std::vector<std::uint32_t> sizes;
  for (const ArgPlan& arg : plan.args) append_sizes(arg, sizes);
  sizes.insert(sizes.end(), 2, 8);  // the scratch pointers
  return sizes;
}

struct Launcher {
  PyObject_HEAD vectorcallfunc vectorcall;
  LaunchPlan* plan;
  PyObject* allocate_scratch;  // (bytes, alignment, stream, zeroed) -> object with an address
};

struct Grid {
  std::uint64_t x = 1, y = 1, z = 1;
};

[[noreturn]] void fail(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw PythonError{};
}

std::uint64_t grid_dim(PyObject* value) {
  const Ref index = checked(PyNumber_Index(value));
  long long dim = PyLong_AsLongLong(index.get());
  if (dim == -1 && PyErr_Occurred()) throw PythonError{};
  if (dim < 0) fail(PyExc_ValueError, "a grid dimension is negative: " + std::to_string(dim));
  return static_cast<std::uint64_t>(dim);
}

// Memory that the compiled kernel asked for, alive until the launch is queued: what is freed then
// is reused only by later work of the same stream.
class Scratch {
 public:
  Scratch(const Launcher* launcher, std::size_t each, std::size_t align, const Grid& grid,
          cu::CUstream stream, bool zeroed, int device) {
    if (each == 0) return;
    std::size_t bytes = each * grid.x * grid.y * grid.z * launcher->plan->num_ctas;
    owner_ = checked(outlasting([&] {
      return PyObject_CallFunction(launcher->allocate_scratch, "nnKi",
                                   static_cast<Py_ssize_t>(bytes), static_cast<Py_ssize_t>(align),
                                   reinterpret_cast<unsigned long long>(stream), zeroed);
    }));
    pointer_ = pointer_of(owner_.get(), device);
  }
  Scratch(const Scratch&) = delete;
  cu::CUdeviceptr pointer() const { return pointer_; }

 private:
  Ref owner_;
  cu::CUdeviceptr pointer_ = 0;
};

// The number of the name in profiles of what this thread launches.
thread_local std::uint32_t launched_kernel = profiling::kUnknownKernel;

// owner: what keeps the function, for who launches it again.
void launch(const Launcher* launcher, cu::CUfunction function, const Grid& grid,
            cu::CUstream stream, int device, PyObject* const* values, PyObject* owner) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const LaunchPlan& plan = *launcher->plan;
  if (grid.x * plan.num_ctas > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    fail(PyExc_ValueError, "the grid (" + std::to_string(grid.x) + ", " + std::to_string(grid.y) +
                               ", " + std::to_string(grid.z) +
                               ") exceeds the hardware's limit of (2147483647, 65535, 65535)");
  bind(device);
  Recording* recording = current_recording();
  std::vector<Mark> marks;
  PackedArgs packed(recording ? &marks : nullptr);
  for (std::size_t i = 0; i < plan.args.size(); ++i) packed.add(plan.args[i], values[i], device);
  Scratch global(launcher, plan.scratch_size, plan.scratch_align, grid, stream, false, device);
  Scratch profile(launcher, plan.profile_size, plan.profile_align, grid, stream, true, device);
  packed.add_pointer(global.pointer());
  packed.add_pointer(profile.pointer());

  cu::CUlaunchAttribute attributes[4];
  unsigned count = 0;
  auto add = [&](cu::CUlaunchAttributeID id) -> cu::CUlaunchAttributeValue& {
    attributes[count].id = id;
    std::memset(&attributes[count].value, 0, sizeof(cu::CUlaunchAttributeValue));
    return attributes[count++].value;
  };
  if (plan.dependent)
    add(cu::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        .programmaticStreamSerializationAllowed = 1;
  if (plan.cooperative) add(cu::CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative = 1;
  if (plan.num_ctas > 1) {
    add(cu::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim = {plan.num_ctas, 1, 1};
    add(cu::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
        .clusterSchedulingPolicyPreference = cu::CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
    if (plan.num_ctas > 8)  // allowed on Hopper and later, but not portable
      DRIVE(
          cuFuncSetAttribute(function, cu::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  }
  cu::CUlaunchConfig config{static_cast<unsigned>(grid.x * plan.num_ctas),
                            static_cast<unsigned>(grid.y),
                            static_cast<unsigned>(grid.z),
                            32 * plan.num_warps,
                            1,
                            1,
                            plan.shared,
                            stream,
                            attributes,
                            count};
  if (recording) [[unlikely]] {
    std::vector<std::uint32_t> sizes = parameter_sizes(plan);
    const profiling::NodeNote note = profiling::note_of_now(launched_kernel);
    recording->kernel(config, function, packed, sizes, marks, device, owner, note);
  }
  Unrecorded noted;
  std::optional<profiling::LaunchScope> profiled;
  if (profiling::enabled) [[unlikely]]
    profiled.emplace(profiling::kLaunchKernel, launched_kernel, device, stream);
  DRIVE(cuLaunchKernelEx(&config, function, packed.params(), nullptr));
}

void run_hook(PyObject* hook, PyObject* metadata) {
  if (hook == Py_None) return;
  checked(outlasting([&] { return PyObject_CallOneArg(hook, metadata); }));
}

// launcher(grid_x, grid_y, grid_z, stream, function, kernel_metadata, launch_metadata, enter_hook,
//          exit_hook, *args): how Triton calls it.
PyObject* launcher_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  return guarded([&]() -> PyObject* {
    auto* launcher = reinterpret_cast<Launcher*>(self);
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    Py_ssize_t wanted = 9 + static_cast<Py_ssize_t>(launcher->plan->args.size());
    if (count != wanted || names)
      fail(PyExc_TypeError, "a launcher of this kernel takes " + std::to_string(wanted) +
                                " positional arguments, got " + std::to_string(count));
    Grid grid{grid_dim(args[0]), grid_dim(args[1]), grid_dim(args[2])};
    auto stream = reinterpret_cast<cu::CUstream>(PyLong_AsUnsignedLongLongMask(args[3]));
    auto function = reinterpret_cast<cu::CUfunction>(PyLong_AsUnsignedLongLongMask(args[4]));
    if (PyErr_Occurred()) throw PythonError{};
    run_hook(args[7], args[6]);
    launch(launcher, function, grid, stream, current_device(), args + 9, self);
    run_hook(args[8], args[6]);
    Py_RETURN_NONE;
  });
}

// Launcher(signature, num_warps, num_ctas, shared, cooperative, dependent, scratch, profile,
//          tensor_descriptor_meta, has_rounding_flag, pads_fp4_shape, allocate_scratch)
PyObject* launcher_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {
        "signature",      "num_warps",        "num_ctas", "shared", "cooperative",
        "dependent",      "scratch",          "profile",  "meta",   "has_rounding_flag",
        "pads_fp4_shape", "allocate_scratch", nullptr};
    PyObject *signature, *meta, *allocate;
    unsigned num_warps, num_ctas, shared;
    int cooperative, dependent, rounding, pads;
    Py_ssize_t scratch_size, scratch_align, profile_size, profile_align;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O!IIIpp(nn)(nn)OppO", const_cast<char**>(names), &PyTuple_Type,
            &signature, &num_warps, &num_ctas, &shared, &cooperative, &dependent, &scratch_size,
            &scratch_align, &profile_size, &profile_align, &meta, &rounding, &pads, &allocate))
      throw PythonError{};
    auto plan = std::make_unique<LaunchPlan>();
    Py_ssize_t next_meta = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(signature); ++i)
      plan->args.push_back(parse_signature(PyTuple_GET_ITEM(signature, i),
                                           meta == Py_None ? nullptr : meta, next_meta, rounding,
                                           pads));
    plan->num_warps = num_warps;
    plan->num_ctas = num_ctas;
    plan->shared = shared;
    plan->cooperative = cooperative;
    plan->dependent = dependent;
    plan->scratch_size = scratch_size;
    plan->scratch_align = scratch_align;
    plan->profile_size = profile_size;
    plan->profile_align = profile_align;
    auto* self = reinterpret_cast<Launcher*>(type->tp_alloc(type, 0));
    if (!self) throw PythonError{};
    self->vectorcall = launcher_call;
    self->plan = plan.release();
    self->allocate_scratch = Py_NewRef(allocate);
    return reinterpret_cast<PyObject*>(self);
  });
}

void launcher_dealloc(PyObject* self) {
  auto* launcher = reinterpret_cast<Launcher*>(self);
  PyTypeObject* type = Py_TYPE(self);
  delete launcher->plan;
  Py_XDECREF(launcher->allocate_scratch);
  type->tp_free(self);
  Py_DECREF(type);
}

// The kinds ("pointer", "i32", ...) and sizes of the parameters that a launch passes, the two
// scratch pointers last.
PyObject* launcher_parameters(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    std::vector<std::string> kinds;
    std::vector<std::uint32_t> sizes;
    for (const ArgPlan& plan : reinterpret_cast<Launcher*>(self)->plan->args) {
      append_kinds(plan, kinds);
      append_sizes(plan, sizes);
    }
    for (int i = 0; i < 2; ++i) kinds.emplace_back("pointer"), sizes.push_back(8);
    Ref out = checked(PyTuple_New(static_cast<Py_ssize_t>(kinds.size())));
    for (std::size_t i = 0; i < kinds.size(); ++i)
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i),
                       checked(Py_BuildValue("(sI)", kinds[i].c_str(), sizes[i])).release());
    return out.release();
  });
}

PyMemberDef launcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Launcher, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef launcher_properties[] = {
    {"parameters", launcher_parameters, nullptr,
     "((kind, bytes), ...) of the parameters that a launch passes", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot launcher_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(launcher_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(launcher_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, launcher_members},
    {Py_tp_getset, launcher_properties},
    {Py_tp_doc,
     const_cast<char*>("A compiled kernel's launch plan; called as Triton calls a launcher.")},
    {0, nullptr}};
PyType_Spec launcher_spec = {"tritorch._C.Launcher", sizeof(Launcher), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, launcher_slots};
PyTypeObject* launcher_type = nullptr;

// ---- Kernel -------------------------------------------------------------------------------------

// A launch key: one or more words an argument, in a fixed buffer.
class Key {
 public:
  static constexpr int kWords = 160;
  void add(std::uint64_t word) {
    if (count_ < kWords)
      words_[count_++] = word;
    else
      cacheable_ = false;
  }
  void add_value(PyObject* value, bool specialised);
  bool cacheable() const { return cacheable_; }
  std::uint64_t hash() const {
    std::uint64_t h = 0x9E3779B97F4A7C15u;
    for (int i = 0; i < count_; ++i) h = (h ^ words_[i]) * 0xFF51AFD7ED558CCDu, h ^= h >> 32;
    return h;
  }
  bool operator==(const std::vector<std::uint64_t>& other) const {
    return other.size() == static_cast<std::size_t>(count_) &&
           std::memcmp(other.data(), words_, sizeof(std::uint64_t) * count_) == 0;
  }
  std::vector<std::uint64_t> words() const { return {words_, words_ + count_}; }

 private:
  enum Tag : std::uint64_t { kArray = 1, kInt, kBool, kFloat, kNone, kTuple, kDescriptor };
  static constexpr std::uint64_t tagged(Tag tag, std::uint64_t payload) {
    return tag << 56 | payload;
  }
  std::uint64_t words_[kWords];
  int count_ = 0;
  bool cacheable_ = true;
};

// Distinguishes whatever Triton's specialisation does: what differs there differs here.  (What is
// the same there may differ here; it then costs a second entry, not a second compilation.)
void Key::add_value(PyObject* value, bool specialised) {
  if (const Array* array = as_array(value)) {
    add(tagged(kArray, static_cast<std::uint64_t>(array->dtype) << 1 |
                           (specialised && array->data() % 16 == 0)));
  } else if (PyBool_Check(value)) {
    add(tagged(kBool, 0));
  } else if (PyLong_Check(value)) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    std::uint64_t width = overflow ? 2 : number < -0x80000000ll || number > 0x7fffffffll;
    std::uint64_t divisible =
        overflow ? PyLong_AsUnsignedLongLongMask(value) % 16 == 0 : number % 16 == 0;
    std::uint64_t traits = divisible << 1 | (!overflow && number == 1);
    add(tagged(kInt, width << 2 | (specialised ? traits : 0)));
  } else if (PyFloat_Check(value)) {
    add(tagged(kFloat, 0));
  } else if (value == Py_None) {
    add(tagged(kNone, 0));
  } else if (PyTuple_Check(value)) {
    add(tagged(kTuple, static_cast<std::uint64_t>(PyTuple_GET_SIZE(value))));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      add_value(PyTuple_GET_ITEM(value, i), true);  // whatever Triton is told of the tuple
  } else if (const Descriptor* described = as_descriptor(value)) {
    std::uint64_t traits = static_cast<std::uint64_t>(described->array->dtype);
    add(tagged(kDescriptor, traits << 8 | static_cast<std::uint64_t>(described->rank)));
    for (int i = 0; i < described->rank; ++i) add(described->block[i]);
  } else {
    cacheable_ = false;  // Triton's descriptors, foreign tensors: Triton decides each time
  }
}

struct Entry {
  std::vector<std::uint64_t> key;
  Ref launcher;
  cu::CUfunction function = nullptr;
  Ref keep;  // the compiled kernel and the objects whose identity is in the key
};

// What of an argument is in the key: as in triton/sources.py.
enum class Kind : std::uint8_t { specialised, constant, unspecialised };

struct KernelState {
  std::uint32_t profiled = 0;  // the number of its name in profiles; 0: not asked yet
  // (device, args tuple, kwargs dict, whether it may wait) -> (Launcher, function, keep), or None:
  // it is being compiled
  Ref compile;
  std::vector<Ref> names;     // interned, one a parameter
  std::vector<Ref> defaults;  // null where there is none
  std::vector<Kind> kinds;
  std::unordered_multimap<std::uint64_t, Entry> entries;
  // Call sites' keyword tuples, resolved: a parameter's index, or -1 for an option.  A launch
  // shares its slots: while it asks Python to compile, other threads add call sites and forget
  // them.
  std::vector<std::pair<Ref, std::shared_ptr<const std::vector<int>>>> call_sites;
};

struct Kernel {
  PyObject_HEAD vectorcallfunc vectorcall;
  KernelState* state;
};

// While it is in scope, what this thread launches has a kernel's name in profiles.
class ProfiledKernel {
 public:
  explicit ProfiledKernel(KernelState& state) {
    if (!profiling::enabled && !recorder) return;
    if (!state.profiled) state.profiled = ask(state);
    launched_kernel = state.profiled;
  }
  ~ProfiledKernel() { launched_kernel = profiling::kUnknownKernel; }

 private:
  static std::uint32_t ask(const KernelState& state) {
    const Ref source(PyObject_GetAttrString(state.compile.get(), "__self__"));
    const Ref name(source ? PyObject_GetAttrString(source.get(), "name") : nullptr);
    const bool known = name && PyUnicode_Check(name.get()) && PyUnicode_GET_LENGTH(name.get());
    const std::uint32_t number =
        known ? profiling::number_of(name.get()) : std::uint32_t{profiling::kUnknownKernel};
    PyErr_Clear();
    return number;
  }
};

constexpr std::size_t kMaxParams = 128, kMaxEntries = 4096, kMaxCallSites = 64;

std::shared_ptr<const std::vector<int>> resolve_keywords(KernelState& state, PyObject* names) {
  for (auto& [known, slots] : state.call_sites)
    if (known.get() == names) return slots;
  if (state.call_sites.size() >= kMaxCallSites) state.call_sites.clear();
  std::vector<int> slots;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    int slot = -1;
    for (std::size_t p = 0; p < state.names.size(); ++p)
      if (PyUnicode_Compare(state.names[p].get(), PyTuple_GET_ITEM(names, i)) == 0)
        slot = static_cast<int>(p);
    slots.push_back(slot);
  }
  auto shared = std::make_shared<const std::vector<int>>(std::move(slots));
  return state.call_sites.emplace_back(Ref::to(names), std::move(shared)).second;
}

// A constant enters the key by value if it is a small number, or a tuple of them; else by identity
// (and is kept alive).
void add_constant(Key& key, PyObject* value) {
  if (PyLong_Check(value)) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (!overflow) {
      key.add(PyBool_Check(value) ? 2 : 1);
      key.add(static_cast<std::uint64_t>(number));
      return;
    }
  } else if (PyFloat_Check(value)) {
    double number = PyFloat_AS_DOUBLE(value);
    std::uint64_t bits;
    std::memcpy(&bits, &number, 8);
    key.add(3);
    key.add(bits);
    return;
  } else if (PyTuple_Check(value)) {
    key.add(5);
    key.add(static_cast<std::uint64_t>(PyTuple_GET_SIZE(value)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
      add_constant(key, PyTuple_GET_ITEM(value, i));
    return;
  }
  key.add(4);
  key.add(reinterpret_cast<std::uintptr_t>(value));
}

Grid parse_grid(PyObject* value) {
  Grid grid;
  if (PyTuple_Check(value)) {
    Py_ssize_t count = PyTuple_GET_SIZE(value);
    if (count < 1 || count > 3) fail(PyExc_ValueError, "a grid has one to three dimensions");
    grid.x = grid_dim(PyTuple_GET_ITEM(value, 0));
    if (count > 1) grid.y = grid_dim(PyTuple_GET_ITEM(value, 1));
    if (count > 2) grid.z = grid_dim(PyTuple_GET_ITEM(value, 2));
  } else {
    grid.x = grid_dim(value);
  }
  return grid;
}

// Asks Python for the compiled kernel.  Nothing: the launch waits until it is compiled, if it may.
std::optional<Entry> compile(KernelState& state, int device, PyObject* const* values,
                             PyObject* const* args, Py_ssize_t positional, PyObject* names,
                             const std::vector<int>* slots, bool waits) {
  std::size_t count = state.names.size();
  const Ref options = checked(PyDict_New());
  const Ref bound = checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
  const Ref kept = checked(PyList_New(0));
  const auto keep = [&](PyObject* value) {
    if (PyList_Append(kept.get(), value) < 0) throw PythonError{};
  };
  for (std::size_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(bound.get(), static_cast<Py_ssize_t>(i), Py_NewRef(values[i]));
    if (state.kinds[i] == Kind::constant) keep(values[i]);
  }
  for (std::size_t i = 0; names && i < slots->size(); ++i)
    if ((*slots)[i] < 0) {
      PyObject* name = PyTuple_GET_ITEM(names, i);
      PyObject* value = args[positional + static_cast<Py_ssize_t>(i)];
      if (PyDict_SetItem(options.get(), name, value) < 0) throw PythonError{};
      keep(name);
      keep(value);
    }
  const Ref result = checked(outlasting([&] {
    return PyObject_CallFunction(state.compile.get(), "iOOO", device, bound.get(), options.get(),
                                 waits ? Py_True : Py_False);
  }));
  if (result.get() == Py_None && waits) return std::nullopt;
  PyObject *launcher, *compiled;
  unsigned long long function = 0;
  if (!PyArg_ParseTuple(result.get(), "O!KO", launcher_type, &launcher, &function, &compiled))
    throw PythonError{};
  Entry entry;
  entry.launcher = Ref::to(launcher);
  entry.function = reinterpret_cast<cu::CUfunction>(function);
  entry.keep = checked(PyTuple_Pack(2, compiled, kept.get()));
  return entry;
}

// kernel(grid, *params, **params_and_options)
PyObject* kernel_call(PyObject* self, PyObject* const* args, std::size_t flags, PyObject* names) {
  return guarded([&]() -> PyObject* {
    KernelState& state = *reinterpret_cast<Kernel*>(self)->state;
    Py_ssize_t positional = PyVectorcall_NARGS(flags);
    std::size_t count = state.names.size();
    if (positional < 1 || static_cast<std::size_t>(positional - 1) > count)
      fail(PyExc_TypeError, "a kernel takes its grid and at most " + std::to_string(count) +
                                " positional arguments, got " + std::to_string(positional));
    PyObject* values[kMaxParams];
    for (std::size_t i = 0; i < count; ++i)
      values[i] =
          static_cast<Py_ssize_t>(i) < positional - 1 ? args[i + 1] : state.defaults[i].get();
    std::shared_ptr<const std::vector<int>> slots;
    if (names) {
      slots = resolve_keywords(state, names);
      for (std::size_t i = 0; i < slots->size(); ++i)
        if (int slot = (*slots)[i]; slot >= 0) {
          if (slot < positional - 1)
            fail(PyExc_TypeError, std::string("got multiple values for argument '") +
                                      PyUnicode_AsUTF8(state.names[slot].get()) + "'");
          values[slot] = args[positional + static_cast<Py_ssize_t>(i)];
        }
    }
    int device = -1;
    Key key;
    for (std::size_t i = 0; i < count; ++i) {
      if (!values[i])
        fail(PyExc_TypeError,
             std::string("missing argument '") + PyUnicode_AsUTF8(state.names[i].get()) + "'");
      if (state.kinds[i] == Kind::constant) {
        add_constant(key, values[i]);
      } else {
        key.add_value(values[i], state.kinds[i] == Kind::specialised);
        if (device >= 0) continue;
        if (const Array* array = as_array(values[i]))
          device = array->device();
        else if (const Descriptor* described = as_descriptor(values[i]))
          device = described->array->device();
      }
    }
    if (device < 0) device = current_device();
    key.add(static_cast<std::uint64_t>(device));
    for (std::size_t i = 0; names && i < slots->size(); ++i)
      if ((*slots)[i] < 0) {
        add_constant(key, PyTuple_GET_ITEM(names, i));
        add_constant(key, args[positional + static_cast<Py_ssize_t>(i)]);
      }
    Grid grid = parse_grid(args[0]);
    cu::CUstream stream = current_stream(device);
    std::uint64_t hash = key.hash();
    // What is recorded waits for nothing.
    auto waits_behind_others = [] {
      if (!has_to_wait()) return false;
      if (!recorder) return true;
      start_what_waits();
      return false;
    };
    auto put_behind = [&] {
      wait_to_launch(self, args, static_cast<std::size_t>(positional), names, device, stream);
      return Py_NewRef(Py_None);
    };
    ProfiledKernel named(state);
    if (key.cacheable()) {
      auto [first, last] = state.entries.equal_range(hash);
      for (; first != last; ++first)
        if (key == first->second.key) {
          // What Python runs below may clear the table.
          const Ref launcher = first->second.launcher, keep = first->second.keep;
          const cu::CUfunction function = first->second.function;
          if (waits_behind_others()) return put_behind();
          launch(launcher.as<Launcher>(), function, grid, stream, device, values, keep.get());
          Py_RETURN_NONE;
        }
    }
    std::optional<Entry> found = compile(state, device, values, args, positional, names,
                                         slots.get(), key.cacheable() && may_wait(stream));
    if (!found) return put_behind();
    Entry& entry = *found;
    entry.key = key.words();
    const bool behind = waits_behind_others();
    if (!behind)
      launch(entry.launcher.as<Launcher>(), entry.function, grid, stream, device, values,
             entry.keep.get());
    if (key.cacheable()) {
      // What Python runs as they go finds an empty table.
      if (state.entries.size() >= kMaxEntries) decltype(state.entries)().swap(state.entries);
      state.entries.emplace(hash, std::move(entry));
    }
    if (behind) return put_behind();
    Py_RETURN_NONE;
  });
}

// Kernel(compile, names, defaults, kinds): defaults holds (True, value) or None a parameter.
PyObject* kernel_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyObject *compile, *names, *defaults, *kinds;
    if (!PyArg_ParseTuple(args, "OO!O!O!", &compile, &PyTuple_Type, &names, &PyTuple_Type,
                          &defaults, &PyTuple_Type, &kinds))
      throw PythonError{};
    if (PyTuple_GET_SIZE(names) > static_cast<Py_ssize_t>(kMaxParams))
      fail(PyExc_ValueError, "a kernel has at most 128 parameters");
    if (PyTuple_GET_SIZE(defaults) != PyTuple_GET_SIZE(names) ||
        PyTuple_GET_SIZE(kinds) != PyTuple_GET_SIZE(names))
      fail(PyExc_ValueError, "a kernel has as many defaults and kinds as parameters");
    auto state = std::make_unique<KernelState>();
    state->compile = Ref::to(compile);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
      PyObject* entry = PyTuple_GET_ITEM(defaults, i);
      PyObject* value = nullptr;
      if (entry != Py_None && !(value = PyTuple_GetItem(entry, 1))) throw PythonError{};
      state->names.push_back(Ref::to(PyTuple_GET_ITEM(names, i)));
      state->defaults.push_back(Ref::to(value));
      long kind = PyLong_AsLong(PyTuple_GET_ITEM(kinds, i));
      if (kind == -1 && PyErr_Occurred()) throw PythonError{};
      if (kind < 0 || kind > 2) fail(PyExc_ValueError, "a parameter's kind is 0, 1 or 2");
      state->kinds.push_back(static_cast<Kind>(kind));
    }
    auto* self = reinterpret_cast<Kernel*>(type->tp_alloc(type, 0));
    if (!self) throw PythonError{};
    self->vectorcall = kernel_call;
    self->state = state.release();
    return reinterpret_cast<PyObject*>(self);
  });
}

// A function of a program's keeps its kernel, and that keeps what finds the function.
int kernel_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const KernelState* state = reinterpret_cast<Kernel*>(self)->state;
  if (!state) return 0;  // it is being made
  Py_VISIT(state->compile.get());
  for (const Ref& value : state->defaults) Py_VISIT(value.get());
  for (const auto& entry : state->entries) Py_VISIT(entry.second.keep.get());
  return 0;
}

int kernel_clear(PyObject* self) {
  KernelState* state = reinterpret_cast<Kernel*>(self)->state;
  state->compile = Ref::to(Py_None);
  decltype(state->entries)().swap(state->entries);
  return 0;
}

void kernel_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  KernelState* state = reinterpret_cast<Kernel*>(self)->state;
  PyTypeObject* type = Py_TYPE(self);
  delete state;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* kernel_cache_size(PyObject* self, void*) {
  return PyLong_FromSize_t(reinterpret_cast<Kernel*>(self)->state->entries.size());
}

PyMemberDef kernel_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Kernel, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef kernel_properties[] = {
    {"cache_size", kernel_cache_size, nullptr, "how many launch keys are known", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot kernel_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(kernel_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(kernel_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(kernel_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(kernel_clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, kernel_members},
    {Py_tp_getset, kernel_properties},
    {Py_tp_doc,
     const_cast<char*>("A jit function that tritorch launches: kernel(grid, *args, **options).")},
    {0, nullptr}};
PyType_Spec kernel_spec = {"tritorch._C.Kernel", sizeof(Kernel), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
                           kernel_slots};

}  // namespace

bool add_launch_types(PyObject* module) {
  launcher_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&launcher_spec));
  PyObject* kernel_type = PyType_FromSpec(&kernel_spec);
  return launcher_type && kernel_type && add_descriptor_type(module) &&
         PyModule_AddObjectRef(module, "Launcher", reinterpret_cast<PyObject*>(launcher_type)) ==
             0 &&
         PyModule_AddObjectRef(module, "Kernel", kernel_type) == 0;
}

}  // namespace tritorch
