#include "plans/plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory_resource>

#include "driver/blocking.h"
#include "driver/context.h"
#include "launch/arena.h"

namespace tritorch::plans {
namespace {

constexpr std::size_t kMostNodes = 64, kMostBytes = 4096, kMostSources = 160;

bool same_layouts(const Layout& a, const Layout& b) {
  return std::ranges::equal(a.shape(), b.shape()) && std::ranges::equal(a.strides(), b.strides());
}

}  // namespace

bool Plan::Place::operator==(const Place& other) const {
  return kind == other.kind && index == other.index && output == other.output &&
         same_objects(value, other.value);
}

bool Plan::Laid::operator==(const Laid& other) const {
  return exists == other.exists && origin == other.origin && dtype == other.dtype &&
         same_layouts(layout, other.layout) && host == other.host;
}

bool Plan::Make::operator==(const Make& other) const {
  return kind == other.kind && op.get() == other.op.get() && same_objects(params, other.params) &&
         computed.get() == other.computed.get() && inputs == other.inputs &&
         results == other.results && mask == other.mask && drawn == other.drawn &&
         node_type.get() == other.node_type.get() && named == other.named &&
         node_call == other.node_call && recorded == other.recorded;
}

bool Plan::Result::operator==(const Result& other) const {
  return kind == other.kind && tensor_place == other.tensor_place &&
         type.get() == other.type.get() && items == other.items;
}

Plan::~Plan() = default;

// ---- from a call that was watched ---------------------------------------------------------------

struct Plan::Builder {
  const Key& key;
  Trace& trace;
  std::string& why;
  std::vector<int>
      numbers;  // of what was made, the number among what the plan makes; -1: it has none
  std::unique_ptr<Plan> plan{new Plan};

  bool fail(const char* text) {
    if (why.empty()) why = text;
    return false;
  }

  // All that is needed, in the order in which it was made: nodes are numbered in that.
  bool add_needed(PyObject* result) {
    for (const std::size_t i : trace.needed(result))
      if (!add(i)) return false;
    return true;
  }

  // Where a tensor comes from.
  bool place(PyObject* object, Plan::Place& found) {
    for (int i = 0; i < key.tensor_count(); ++i)
      if (reinterpret_cast<PyObject*>(key.tensor(i)) == object) {
        found = {Place::argument, i, 0, {}};
        return true;
      }
    for (std::size_t i = 0; i < trace.made.size(); ++i)
      for (std::size_t k = 0; k < trace.made[i].results.size(); ++k)
        if (trace.made[i].results[k].get() == object) {
          found = {Place::made, numbers[i], static_cast<int>(k), {}};
          return true;
        }
    return fail("it gives, or keeps, a tensor that no record has made");
  }

  bool lay(PyObject* array, Laid& laid) {
    const Array* found = as_array(array);
    if (!found) return fail("it gives what is no array of a GPU");
    laid = {true, trace.recording.origin_of(*found), found->dtype, found->layout};
    if (laid.origin.kind == Origin::elsewhere) return fail("it gives memory that was there before");
    if (laid.origin.delta % static_cast<std::int64_t>(item_size(found->dtype)))
      return fail("a result lies between elements");
    return true;
  }

  // An array of the CPU: where the record's function got it from, before it was placed; of a view,
  // as it lies.
  bool see(const Tensor& t, const Made& made, std::size_t k, Laid& laid) {
    laid.exists = true;
    if (t.array != made.arrays[k].get()) return fail("a result's array is another one afterwards");
    const char* unknown = nullptr;
    PyObject* array = made.kind == Made::view ? t.array : made.given[k].get();
    return plan->host_.describe(array, laid.host, unknown) || fail(unknown);
  }

  // Takes what was made as number i into the plan, after what it needs.
  bool add(std::size_t i) {
    Made& made = trace.made[i];
    Make make{made.kind, made.op,   made.params,    {}, {}, {},
              {},        made.mask, made.node_type, {}, {}, {}};
    if (!take_out_numbers(make)) return false;
    const Node* node = nullptr;
    for (std::size_t k = 0; k < made.results.size(); ++k) {
      Laid laid;
      if (Tensor* t = as_tensor(made.results[k].get())) {
        if (!(plan->on_host_ ? see(*t, made, k, laid) : lay(array_of(t), laid))) return false;
        if (!is_plain(t, made)) return false;
        if (is_set(t->node)) node = reinterpret_cast<const Node*>(t->node);
      }
      make.results.push_back(std::move(laid));
    }
    make.computed = made.computed;
    if (make.params && holds_tensor(make.params.get())) return fail("its params hold a tensor");
    make.recorded = node != nullptr;
    make.named = static_cast<bool>(made.node_type);
    if (node && !describe_node(node, made, make)) return false;
    if (plan->on_host_ || keeps_inputs(made)) {
      for (const Ref& input : made.inputs) {
        Place each;
        if (as_tensor(input.get())) {
          if (!place(input.get(), each)) return false;
        } else if (holds_tensor(input.get())) {
          return fail("an input is no tensor");
        } else {
          each = {Place::object, 0, 0, input};
        }
        make.inputs.push_back(std::move(each));
      }
    } else {
      make.inputs.resize(made.inputs.size());
    }
    numbers[i] = static_cast<int>(plan->makes_.size());
    plan->makes_.push_back(std::move(make));
    return true;
  }

  // Numbers that a generator gave, among the params, are others in the next run.
  bool take_out_numbers(Make& make) {
    if (!make.params || !PyTuple_Check(make.params.get())) return true;
    const Py_ssize_t n = PyTuple_GET_SIZE(make.params.get());
    for (Py_ssize_t i = 0; i < n; ++i) {
      const int number = trace.recording.number_of(PyTuple_GET_ITEM(make.params.get(), i));
      if (number >= 0)
        make.drawn.emplace_back(static_cast<int>(i), static_cast<std::uint32_t>(number));
    }
    if (make.drawn.empty()) return true;
    Ref params(PyTuple_New(n));
    for (Py_ssize_t i = 0; params && i < n; ++i)
      PyTuple_SET_ITEM(params.get(), i, Py_NewRef(PyTuple_GET_ITEM(make.params.get(), i)));
    for (const auto& [at, number] : make.drawn)
      if (params) Py_SETREF(PyTuple_GET_ITEM(params.get(), at), Py_NewRef(Py_None));
    make.params = params;
    return params || fail("there is no memory");
  }

  // Whether Python has left a new tensor as the native half has made it.
  bool is_plain(const Tensor* t, const Made& made) {
    if (Py_TYPE(t) != tensor_type) return fail("it gives a tensor of another class");
    if (t->leaf || t->retains_grad || is_set(t->grad) || is_set(t->hooks) || is_set(t->tangent))
      return fail("Python has changed a tensor that it gives");
    if (made.kind != Made::view && (is_set(t->base) || is_set(t->view) || is_set(t->created)))
      return fail("Python makes a view of a tensor that it gives");
    if (made.kind == Made::view && (!is_set(t->base) || !is_set(t->view)))
      return fail("Python has changed a view that it gives");
    if (is_set(t->node) && (made.kind == Made::wrapped || made.kind == Made::alias))
      return fail("Python has given a tensor its node");
    if (is_set(t->node)) {
      const auto* node = reinterpret_cast<const Node*>(t->node);
      if (node->op != made.op.get()) return fail("a result has another record's node");
    }
    return true;
  }

  bool describe_node(const Node* node, const Made& made, Make& make) {
    const auto* op = made.op.as<Operator>();
    PyObject* type = made.node_type ? made.node_type.get() : op->node_type;
    if (reinterpret_cast<PyObject*>(Py_TYPE(node)) != type || is_set(node->hooks))
      return fail("Python has changed a node");
    if (!made.node_type && is_set(node->call)) return fail("Python has changed a node");
    if (!made.node_call || made.node_call.get() == Py_None) return true;
    if (node->call != made.node_call.get()) return fail("Python has changed a node");
    make.node_call = {Place::object, 0, 0, made.node_call};
    return take_apart(make);
  }

  // A node's call may hold tensors: they become places.
  bool take_apart(Make& make) {
    std::vector<PyObject*> tensors;
    collect(make.node_call.value.get(), tensors);
    for (PyObject* each : tensors) {
      bool argument = false;
      for (int i = 0; i < key.tensor_count(); ++i)
        argument |= reinterpret_cast<PyObject*>(key.tensor(i)) == each;
      if (!argument) return fail("a node keeps a tensor that is no argument");
    }
    if (tensors.empty()) return true;
    Ref known(PyDict_New());
    for (int i = 0; known && i < key.tensor_count(); ++i) {
      const Ref id(PyLong_FromVoidPtr(key.tensor(i))), number(PyLong_FromLong(i));
      if (!id || !number || PyDict_SetItem(known.get(), id.get(), number.get()) < 0) known = Ref();
    }
    Ref shape = known ? replaced(make.node_call.value.get(), known.get()) : Ref();
    if (!shape) {
      PyErr_Clear();
      return fail("a node's call holds what cannot be told apart");
    }
    make.node_call = {Place::made, 0, 0, shape};
    return true;
  }

  static void collect(PyObject* object, std::vector<PyObject*>& tensors) {
    if (as_tensor(object)) {
      tensors.push_back(object);
    } else if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
        collect(PySequence_Fast_ITEMS(object)[i], tensors);
    } else if (PyDict_CheckExact(object)) {
      PyObject *key, *value;
      Py_ssize_t at = 0;
      while (PyDict_Next(object, &at, &key, &value)) collect(value, tensors);
    }
  }

  // The same object with slices of a class of its own, slice(number, None, marker), for tensors.
  static Ref replaced(PyObject* object, PyObject* known) {
    if (as_tensor(object)) {
      const Ref id(PyLong_FromVoidPtr(object));
      PyObject* number = id ? PyDict_GetItem(known, id.get()) : nullptr;
      return number ? Ref(PySlice_New(number, Py_None, registered.dtype_type)) : Ref();
    }
    if (PyTuple_CheckExact(object)) {
      Ref made(PyTuple_New(PyTuple_GET_SIZE(object)));
      for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(object); ++i) {
        Ref item = replaced(PyTuple_GET_ITEM(object, i), known);
        if (!item) return {};
        PyTuple_SET_ITEM(made.get(), i, item.release());
      }
      return made;
    }
    if (PyDict_CheckExact(object)) {
      Ref made(PyDict_New());
      PyObject *key, *value;
      Py_ssize_t at = 0;
      while (made && PyDict_Next(object, &at, &key, &value)) {
        const Ref item = replaced(value, known);
        if (!item || PyDict_SetItem(made.get(), key, item.get()) < 0) return {};
      }
      return made;
    }
    return holds_tensor(object) ? Ref() : Ref::to(object);
  }

  bool describe_result(PyObject* object, Result& result, int depth) {
    if (object == Py_None && (depth > 0 || !trace.written.empty())) {
      result.kind = Result::none;
      return true;
    }
    if (as_tensor(object)) {
      result.kind = Result::tensor;
      return place(object, result.tensor_place);
    }
    const bool exact = PyTuple_CheckExact(object) || PyList_CheckExact(object);
    const bool named = !exact && PyTuple_Check(object) && Py_TYPE(object)->tp_dictoffset == 0;
    if (depth > 1 || !(exact || named)) return fail("it gives what is no tensor");
    result.kind = Result::several;
    result.type = Ref::to(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    result.items.resize(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(object)));
    for (std::size_t i = 0; i < result.items.size(); ++i)
      if (!describe_result(PySequence_Fast_ITEMS(object)[i], result.items[i], depth + 1))
        return false;
    return true;
  }

  // Whether a view that the call has made is written: its memory is an argument's.
  bool writes_a_view() {
    return std::ranges::any_of(trace.written, [&](const Ref& each) {
      return std::ranges::any_of(trace.made, [&](const Made& made) {
        return made.kind == Made::view && made.results[0].get() == each.get();
      });
    });
  }

  bool describe_writes() {
    for (const Ref& each : trace.written) {
      Place found;
      bool known = false;
      for (int i = 0; i < key.tensor_count(); ++i)
        known |= reinterpret_cast<PyObject*>(key.tensor(i)) == each.get();
      for (const Made& made : trace.made)
        for (const Ref& result : made.results) known |= result.get() == each.get();
      if (!known) return fail("it writes what is no argument");
      if (!place(each.get(), found)) return false;
      if (plan->on_host_ && found.kind == Place::argument && !plan->host_.gets(found.index) &&
          !writes_a_view())
        return fail("nobody has seen a write");
      plan->written_.push_back(found);
    }
    if (plan->on_host_ && asks_too_late()) return fail("values decide after a write");
    return true;
  }

  // Whether a function's answer, by which a run is given up, comes after a write.
  bool asks_too_late() const {
    std::vector<int> arguments;
    for (const Place& each : plan->written_)
      if (each.kind == Place::argument) arguments.push_back(each.index);
    if (arguments.size() < plan->written_.size()) return plan->host_.has_answers();
    return plan->host_.asks_after_writing(arguments);
  }
};

std::unique_ptr<Plan> Plan::of(const Key& key, Trace& trace, PyObject* result, std::string& why) {
  Recording& recording = trace.recording;
  why = recording.unfit_because;
  if (!why.empty()) return nullptr;
  Builder builder{key, trace, why, std::vector<int>(trace.made.size(), -1)};
  builder.plan->on_host_ = key.on_host();
  const char* unknown = nullptr;
  if (key.on_host() && !builder.plan->host_.take(key.arrays(), trace.calls, unknown)) {
    why = unknown;
    return nullptr;
  }
  if (!trace.arguments_are_as_before()) {
    why = "it changes an argument";
    return nullptr;
  }
  if (!builder.add_needed(result) || !builder.describe_result(result, builder.plan->result_, 0) ||
      !builder.describe_writes())
    return nullptr;
  Plan& plan = *builder.plan;
  if (recording.record.nodes.size() > kMostNodes) why = "it has too many launches";
  if (recording.record.marks.size() > kMostNodes) why = "it has too many checks of values";
  for (const Allocation& each : recording.record.allocations)
    if (!each.content.empty()) why = "it copies from the host";
  for (const GraphNode& node : recording.record.nodes)
    if (node.chunks.size() * sizeof(GraphNode::Chunk) > kMostBytes || node.offsets.size() > 64)
      why = "a launch has too many parameters";
  for (std::uint32_t i = 0; i < recording.number_count(); ++i)
    if (!recording.is_used(i)) why = "a number that was drawn is used by no kernel";
  for (int i = 0; i < key.memory_count(); ++i) plan.anchors_.push_back(key.memory(i).tensor);
  plan.draws_ = trace.draws;
  if (plan.anchors_.size() + recording.record.allocations.size() + 2 * plan.draws_.size() >
      kMostSources)
    why = "it uses too much different memory";
  if (!why.empty()) return nullptr;
  plan.record_ = std::move(recording.record);
  return std::move(builder.plan);
}

bool Plan::agrees(const Plan& other, std::string& why) const {
  why = difference(record_, other.record_);
  const bool same_draws =
      std::ranges::equal(draws_, other.draws_, [](const auto& a, const auto& b) {
        return a.generator.get() == b.generator.get() && a.count == b.count && a.number == b.number;
      });
  if (why.empty() && !(same_draws && anchors_ == other.anchors_ && written_ == other.written_))
    why = "it draws or writes otherwise from call to call";
  if (why.empty() && !(host_ == other.host_)) why = "other functions are called from call to call";
  if (why.empty() && !(result_ == other.result_ && makes_ == other.makes_))
    why = "its results differ from call to call";
  return why.empty();
}

void Plan::prepare() {
  const auto n_inputs = static_cast<std::uint32_t>(anchors_.size());
  const auto n_allocations = static_cast<std::uint32_t>(record_.allocations.size());
  steps_.resize(record_.nodes.size());
  for (const Use& use : record_.uses) {
    std::uint32_t source = use.index;
    if (use.source == Use::allocation)
      source += n_inputs;
    else if (use.source == Use::number)
      source += n_inputs + n_allocations;
    else if (use.source == Use::any)
      source += n_inputs + n_allocations + 2 * static_cast<std::uint32_t>(draws_.size());
    steps_[use.node].patches.push_back({source, use.place, use.size, use.delta, use.map});
  }
  std::vector<bool> escapes(n_allocations);
  for (const Make& make : makes_)
    for (const Laid& laid : make.results)
      if (laid.exists && laid.origin.kind == Origin::allocation) escapes[laid.origin.index] = true;
  for (std::uint32_t i = 0; i < n_allocations; ++i) {
    const Allocation& each = record_.allocations[i];
    if (escapes[i])
      escaping_.push_back(i);
    else if (each.first <= each.last)
      between_.push_back(i);
  }
  between_bytes_ = plan_memory(record_.allocations, between_, places_);
}

// ---- runs ---------------------------------------------------------------------------------------

struct Plan::Run {
  explicit Run(const Key& of) : key(of) {}

  const Key& key;
  int device = 0;
  cu::CUstream stream = nullptr;
  std::array<std::uint64_t, kMostSources + kMostNodes> sources;  // addresses and numbers
  std::vector<StorageRef> memory;  // of allocations that results lie in
  StorageRef between;

 private:
  std::array<std::byte, 512> bytes_;  // enough for most calls
  std::pmr::monotonic_buffer_resource room_{bytes_.data(), bytes_.size()};

 public:
  Refs host{&room_};                               // what the CPU's functions have given
  Refs tensors{&room_};                            // what has been made, one after the other
  std::pmr::vector<std::uint32_t> starts{&room_};  // of each Make in `tensors`
};

bool Plan::allocate(Run& run) const {
  const std::size_t n_inputs = anchors_.size();
  for (std::size_t i = 0; i < n_inputs; ++i) run.sources[i] = run.key.array(anchors_[i])->data();
  run.memory.resize(escaping_.size());
  for (std::size_t i = 0; i < escaping_.size(); ++i) {
    run.memory[i] = StorageRef(
        Storage::allocate(run.device, record_.allocations[escaping_[i]].bytes, run.stream));
    run.sources[n_inputs + escaping_[i]] = run.memory[i]->address;
  }
  if (between_bytes_) {
    run.between = StorageRef(Storage::allocate(run.device, between_bytes_, run.stream));
    for (const std::uint32_t i : between_)
      run.sources[n_inputs + i] = run.between->address + places_[i];
  }
  return true;
}

// Whether kernels take a number as they were compiled: as wide as it was.
bool Plan::fits(std::uint32_t source, std::uint64_t bits) const {
  return std::ranges::all_of(steps_, [&](const Step& step) {
    return std::ranges::all_of(step.patches, [&](const Patch& patch) {
      const int spare = 64 - 8 * static_cast<int>(patch.size);
      const auto kept = static_cast<std::int64_t>(bits << spare) >> spare;
      return patch.source != source || static_cast<std::uint64_t>(kept) == bits;
    });
  });
}

// Asks generators for numbers, and for what marks of errors are now.  False with a Python error
// set; or without, where numbers do not fit and were given back.
bool Plan::ask(Run& run) const {
  auto at = static_cast<std::uint32_t>(anchors_.size() + record_.allocations.size());
  bool fitting = true;
  std::vector<std::pair<PyObject*, Ref>> drawn;
  for (const Draw& draw : draws_) {
    const Ref pair(PyObject_CallMethod(draw.generator.get(), "draw", "L", draw.count));
    PyObject *seed, *offset;
    if (!pair || !PyArg_ParseTuple(pair.get(), "OO", &seed, &offset)) return false;
    drawn.emplace_back(draw.generator.get(), Ref::to(offset));
    for (PyObject* number : {seed, offset}) {
      run.sources[at] = PyLong_AsUnsignedLongLongMask(number);
      fitting = fitting && fits(at, run.sources[at]);
      ++at;
    }
  }
  for (auto each = drawn.rbegin(); !fitting && each != drawn.rend(); ++each)
    if (!Ref(PyObject_CallMethod(each->first, "_rewind", "O", each->second.get()))) return false;
  for (const Ref& mark : record_.marks) {
    const Ref number(fitting ? PyObject_CallMethod(mark.get(), "again", nullptr) : nullptr);
    if (!number) return false;
    run.sources[at++] = PyLong_AsUnsignedLongLongMask(number.get());
  }
  return fitting && !PyErr_Occurred();
}

void Plan::launch(Run& run) const {
  const BlockingRegion region;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const GraphNode& node = record_.nodes[i];
    alignas(128) unsigned char bytes[kMostBytes];
    std::memcpy(bytes, node.bytes(), node.chunks.size() * sizeof(GraphNode::Chunk));
    for (const Patch& patch : steps_[i].patches) {
      const std::uint64_t value =
          run.sources[patch.source] + static_cast<std::uint64_t>(patch.delta);
      if (patch.map < 0) {
        std::memcpy(bytes + patch.place, &value, patch.size);
      } else {
        TensorMapRequest request = record_.maps[static_cast<std::size_t>(patch.map)];
        request.address = value;
        const cu::CUtensorMap map = tensor_map(request);
        std::memcpy(bytes + patch.place, &map, sizeof map);
      }
    }
    launch_with(node, bytes, run.stream);
  }
}

Ref Plan::params_of(const Run& run, const Make& make) const {
  if (make.drawn.empty()) return make.params;
  const Py_ssize_t n = PyTuple_GET_SIZE(make.params.get());
  Ref params(PyTuple_New(n));
  for (Py_ssize_t i = 0; params && i < n; ++i)
    PyTuple_SET_ITEM(params.get(), i, Py_NewRef(PyTuple_GET_ITEM(make.params.get(), i)));
  const std::size_t first = anchors_.size() + record_.allocations.size();
  for (const auto& [at, number] : make.drawn) {
    PyObject* value = params ? PyLong_FromUnsignedLongLong(run.sources[first + number]) : nullptr;
    if (!value) return {};
    Py_SETREF(PyTuple_GET_ITEM(params.get(), at), value);
  }
  return params;
}

bool Plan::confirms(const Key& key, const Trace& trace, const std::vector<Ref>& copies,
                    std::string& why) const {
  std::vector<PyObject*> arrays;
  for (const Ref& each : copies) arrays.push_back(each.get());
  Refs results;
  bool good = host_.run(arrays, results, true);
  std::size_t next = 0;
  for (std::size_t i = 0; good && i < trace.made.size(); ++i) {
    if (next == makes_.size() || trace.made[i].op.get() != makes_[next].op.get() ||
        trace.made[i].kind != makes_[next].kind)
      continue;
    const Make& make = makes_[next++];
    for (std::size_t k = 0; good && k < make.results.size(); ++k) {
      if (!make.results[k].exists || host_.is_unwritten(make.results[k].host)) continue;
      const Tensor* t = as_tensor(trace.made[i].results[k].get());
      const Ref array = host_.at(make.results[k].host, arrays, results);
      good = t && array && same_contents(array.get(), t->array);
      if (good && make.kind == Made::view && !views_memory(make, array.get(), arrays, results)) {
        why = "it makes a view of a result that its operator lays out";
        return false;
      }
    }
  }
  for (std::size_t i = 0; good && i < arrays.size(); ++i)
    good = same_contents(arrays[i], key.tensor(static_cast<int>(i))->array);
  if (!good || next != makes_.size())
    why = "its functions give other numbers when they are called again";
  return why.empty();
}

// Whether the array of a view lies in the memory of the array that its base is made with: an
// operator that lays a result out gives the base a copy, of which the view would not be one.
bool Plan::views_memory(const Make& make, PyObject* view, std::span<PyObject* const> arrays,
                        const Refs& results) const {
  const Place& of = make.inputs[0];
  if (of.kind != Place::made) return true;
  const Laid& laid =
      makes_[static_cast<std::size_t>(of.index)].results[static_cast<std::size_t>(of.output)];
  const Ref base = host_.at(laid.host, arrays, results);
  return base && owner_of(base.get()) == owner_of(view);
}

Ref Plan::array_at(const Run& run, const Laid& laid) const {
  if (on_host_) return host_.at(laid.host, run.key.arrays(), run.host);
  Array array;
  std::uint64_t base;
  if (laid.origin.kind == Origin::input) {
    const Array* source = run.key.array(anchors_[laid.origin.index]);
    array.storage = source->storage;
    base = source->data();
  } else {
    const auto found = std::ranges::lower_bound(escaping_, laid.origin.index);
    array.storage = run.memory[static_cast<std::size_t>(found - escaping_.begin())];
    base = array.storage->address;
  }
  const std::uint64_t at = base + static_cast<std::uint64_t>(laid.origin.delta);
  array.offset = static_cast<std::int64_t>(at - array.storage->address) /
                 static_cast<std::int64_t>(item_size(laid.dtype));
  array.dtype = laid.dtype;
  array.layout = laid.layout;
  return Ref(array_object(std::move(array)));
}

PyObject* Plan::value_at(const Run& run, const Place& place) const {
  switch (place.kind) {
    case Place::argument:
      return reinterpret_cast<PyObject*>(run.key.tensor(place.index));
    case Place::made:
      return run
          .tensors[run.starts[static_cast<std::size_t>(place.index)] +
                   static_cast<std::size_t>(place.output)]
          .get();
    case Place::object:
      return place.value.get();
    case Place::none:
      break;
  }
  return Py_None;
}

namespace {

// A node's call with the present tensors in their places.
Ref filled_in(PyObject* object, const Key& key) {
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    if (slice->step == registered.dtype_type && slice->stop == Py_None)
      return Ref::to(
          reinterpret_cast<PyObject*>(key.tensor(static_cast<int>(PyLong_AsLong(slice->start)))));
  } else if (PyTuple_CheckExact(object)) {
    Ref made(PyTuple_New(PyTuple_GET_SIZE(object)));
    for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(object); ++i) {
      Ref item = filled_in(PyTuple_GET_ITEM(object, i), key);
      if (!item) return {};
      PyTuple_SET_ITEM(made.get(), i, item.release());
    }
    return made;
  } else if (PyDict_CheckExact(object)) {
    Ref made(PyDict_New());
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (made && PyDict_Next(object, &at, &name, &value)) {
      const Ref item = filled_in(value, key);
      if (!item || PyDict_SetItem(made.get(), name, item.get()) < 0) return {};
    }
    return made;
  }
  return Ref::to(object);
}

}  // namespace

bool Plan::name(const Run& run, const Make& make, const Ref* tensors) const {
  for (std::size_t i = 0; i < make.results.size(); ++i) {
    auto* t = make.results[i].exists ? tensors[i].as<Tensor>() : nullptr;
    if (!t || !is_set(t->node)) continue;
    auto* node = reinterpret_cast<Node*>(t->node);
    auto* self = reinterpret_cast<PyObject*>(node);
    PyTypeObject* type = make.node_type.as<PyTypeObject>();
    if (Py_TYPE(self) != type) {  // types of one layout, without slots or a dict of their own
      PyTypeObject* before = Py_TYPE(self);
      Py_INCREF(type);
      Py_SET_TYPE(self, type);
      Py_DECREF(before);
    }
    if (make.node_call.kind == Place::none) return true;
    Ref call = make.node_call.kind == Place::object
                   ? make.node_call.value
                   : filled_in(make.node_call.value.get(), run.key);
    if (!call) return false;
    Py_XSETREF(node->call, call.release());
    return true;
  }
  return true;
}

PyObject* Plan::make_results(Run& run) const {
  std::size_t total = 0;
  for (const Make& make : makes_) total += make.results.size();
  run.tensors.resize(total);
  run.starts.reserve(makes_.size());
  std::size_t at = 0;
  for (const Make& make : makes_) {
    run.starts.push_back(static_cast<std::uint32_t>(at));
    Ref* tensors = &run.tensors[at];
    at += make.results.size();
    std::array<PyObject*, 16> few;
    std::vector<PyObject*> more(make.inputs.size() > few.size() ? make.inputs.size() : 0);
    PyObject** inputs = more.empty() ? few.data() : more.data();
    const auto n = static_cast<Py_ssize_t>(make.inputs.size());
    for (Py_ssize_t i = 0; i < n; ++i)
      inputs[i] = value_at(run, make.inputs[static_cast<std::size_t>(i)]);
    auto* op = make.op.as<Operator>();
    const Ref params = params_of(run, make);
    if (!params && make.params) return nullptr;
    if (make.kind == Made::many) {
      const Ref arrays(PyTuple_New(static_cast<Py_ssize_t>(make.results.size())));
      if (!arrays) return nullptr;
      for (std::size_t i = 0; i < make.results.size(); ++i) {
        Ref array = make.results[i].exists ? array_at(run, make.results[i]) : Ref::to(Py_None);
        if (!array) return nullptr;
        PyTuple_SET_ITEM(arrays.get(), static_cast<Py_ssize_t>(i), array.release());
      }
      const Ref outs(on_host_ ? finish_many(op, arrays.get(), make.mask, params.get(), inputs, n)
                              : make_many(op, arrays.get(), make.mask, params.get(), inputs, n));
      if (!outs) return nullptr;
      for (std::size_t i = 0; i < make.results.size(); ++i)
        tensors[i] = Ref::to(PyTuple_GET_ITEM(outs.get(), static_cast<Py_ssize_t>(i)));
    } else {
      const Ref array = array_at(run, make.results[0]);
      if (!array) return nullptr;
      if (make.kind == Made::wrapped)
        tensors[0] = Ref(reinterpret_cast<PyObject*>(new_tensor(array.get())));
      else if (make.kind == Made::alias)
        tensors[0] = Ref(make_alias(reinterpret_cast<Tensor*>(inputs[0]), array.get()));
      else if (make.kind == Made::view)
        tensors[0] = Ref(make_view(op, array.get(), params.get(), inputs[0]));
      else if (on_host_)
        tensors[0] = Ref(finish_one(op, array.get(), inputs, n, params.get(), make.computed.get()));
      else
        tensors[0] = Ref(make_one(op, array.get(), inputs, n, params.get(), false));
      if (!tensors[0]) return nullptr;
    }
    if (make.named && !name(run, make, tensors)) return nullptr;
  }
  for (const Place& each : written_) {
    auto* t = reinterpret_cast<Tensor*>(value_at(run, each));
    if (!t->shared && !(t->shared = new_shared(array_of(t)))) return nullptr;
    ++t->shared->version;
  }
  return give(run, result_);
}

PyObject* Plan::give(const Run& run, const Result& result) const {
  if (result.kind == Result::none) Py_RETURN_NONE;
  if (result.kind == Result::tensor) return Py_NewRef(value_at(run, result.tensor_place));
  auto* type = result.type.as<PyTypeObject>();
  const auto n = static_cast<Py_ssize_t>(result.items.size());
  const bool list = type == &PyList_Type;
  Ref made(list ? PyList_New(n) : type == &PyTuple_Type ? PyTuple_New(n) : type->tp_alloc(type, n));
  for (Py_ssize_t i = 0; made && i < n; ++i) {
    PyObject* item = give(run, result.items[static_cast<std::size_t>(i)]);
    if (!item) return nullptr;
    list ? PyList_SET_ITEM(made.get(), i, item) : PyTuple_SET_ITEM(made.get(), i, item);
  }
  return made.release();
}

namespace {

// Whether a write needs no further look: as `is_writable` says.
bool may_write(Tensor* t) {
  if ((t->inference == 1 && !modes.inference_mode) || (t->shared && is_set(t->shared->lent)))
    return false;
  if (!modes.grad_enabled || !(t->leaf || is_set(t->node) || is_set(t->base))) return true;
  const int needed = is_set(t->created) ? 1 : requires_grad(t);
  PyErr_Clear();
  return needed == 0;
}

}  // namespace

PyObject* Plan::run(const Key& key) const {
  for (const Place& each : written_)
    if (each.kind == Place::argument && !may_write(key.tensor(each.index))) return nullptr;
  if (on_host_) {
    Run run(key);
    return host_.run(key.arrays(), run.host) ? make_results(run) : nullptr;
  }
  return guarded([&]() -> PyObject* {
    const int device = key.device() < 0 ? current_device() : key.device();
    bind(device);
    Run run(key);
    run.device = device;
    run.stream = current_stream(device);
    if (!allocate(run) || !ask(run)) return nullptr;
    launch(run);
    run.between = StorageRef();
    return make_results(run);
  });
}

}  // namespace tritorch::plans
