#include "plans/table.h"

#include <structmember.h>

#include <cstddef>
#include <utility>

#include "compilation/state.h"
#include "driver/context.h"
#include "launch/waiting.h"
#include "profiling/python.h"
#include "scopes.h"

namespace tritorch::plans {

PyObject* plain_types = nullptr;
static PyObject* without_values = nullptr;  // (function, args, kwargs, made) -> whether it agrees
static PyObject* random_state = nullptr;    // () -> state; (state): sets it
bool enabled = false;
thread_local int withheld = 0;

namespace {

constexpr std::size_t kMostEntries = 512;         // of a function
constexpr int kManyKeys = 2048, kRest = 1 << 15;  // calls
constexpr int kMostGivenUp = 8;  // runs, for other values' sake, of a plan of smaller functions
constexpr int kMostTries = 3;    // calls that are watched, of which no two agree

// Of what the result of a watched call leads to: [(record, params, inputs that are no tensors),
// ...].
PyObject* described(const Trace& trace, PyObject* result) {
  Ref list(PyList_New(0));
  const Ref none(PyTuple_New(0));  // a record without params is called with () or with nothing
  for (const std::size_t i : trace.needed(result)) {
    const Made& made = trace.made[i];
    const Ref plain(PyList_New(0));
    for (const Ref& input : made.inputs)
      if (!plain || (!as_tensor(input.get()) && PyList_Append(plain.get(), input.get()) < 0))
        return nullptr;
    const Ref each(PyTuple_Pack(3, made.op ? made.op.get() : Py_None,
                                made.params ? made.params.get() : none.get(), plain.get()));
    if (!list || !each || PyList_Append(list.get(), each.get()) < 0) return nullptr;
  }
  return list.release();
}

}  // namespace

bool may_plan(PyObject* const* args, Py_ssize_t n, PyObject* names, bool makes) {
  if (!enabled || trace || recorder || withheld) return false;
  bool plain = false;
  for (Py_ssize_t i = 0; i < n && !plain; ++i) {
    PyObject* each = args[i];
    if ((PyTuple_CheckExact(each) || PyList_CheckExact(each)) && PySequence_Fast_GET_SIZE(each))
      each = PySequence_Fast_ITEMS(each)[0];
    if (const Tensor* t = as_tensor(each)) {
      if (!t->array || !(as_array(t->array) || as_ndarray(t->array))) return false;
      plain = true;
    }
  }
  if (!plain && !makes) return false;
  // A profile shows the calls of Python's, and what each of them launches.
  return !modes.saving_hooks && !modes.tracing_calls && !region && !is_watched() &&
         !profiling::enabled && !has_to_wait();
}

PyObject* Table::call(PyObject* function, PyObject* const* args, std::size_t flagged,
                      PyObject* names) {
  if (resting_ > 0) {
    --resting_;
    return PyObject_Vectorcall(function, args, flagged, names);
  }
  Key key;
  if (!key.take(args, PyVectorcall_NARGS(flagged), names)) {
    // A view that may not be asked for its history: whether that matters, the function knows.
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyErr_Clear();
    return PyObject_Vectorcall(function, args, flagged, names);
  }
  const std::uint64_t hash = key.hash();
  auto [first, last] = entries_.equal_range(hash);
  for (; first != last; ++first) {
    if (!key.equals(first->second->words)) continue;
    const std::shared_ptr<Entry> entry = first->second;  // what runs below may clear the table
    if (const std::shared_ptr<const Plan> plan = entry->ready) {
      PyObject* result = plan->run(key);
      if (result) ++runs_, ++recent_runs_;
      if (result || PyErr_Occurred()) return result;
      if (plan->has_answers() && ++entry->given_up == kMostGivenUp) entry->take_whole();
    } else if (!entry->never && !entry->busy && ++entry->seen > 1) {
      return watch(key, entry, function, args, flagged, names);
    }
    return PyObject_Vectorcall(function, args, flagged, names);
  }
  PyObject* result = PyObject_Vectorcall(function, args, flagged, names);
  if (!result) return nullptr;
  if (entries_.size() >= kMostEntries) make_room();
  if (++recent_keys_ == kManyKeys) {  // where hardly a call comes again, keys are in vain
    if (recent_runs_ < recent_keys_) resting_ = kRest;
    recent_keys_ = recent_runs_ = 0;
  }
  auto entry = std::make_shared<Entry>();
  entry->words = key.words();
  entry->objects = key.objects();
  entry->seen = 1;
  entries_.emplace(hash, std::move(entry));
  return result;
}

// What a call on the CPU is made again with, once it was watched: its function and arguments, and
// copies of its arrays and of the generator's state from before.
struct Again {
  PyObject* function;
  PyObject* const* args;
  std::size_t flagged;
  PyObject* names;
  std::vector<Ref> copies;
  Ref random;

  bool take(const Key& key) {
    for (int i = 0; i < key.tensor_count(); ++i) {
      Ref copy(copy_of(key.tensor(i)->array));
      if (!copy) return false;
      copies.push_back(std::move(copy));
    }
    random = Ref(PyObject_CallNoArgs(random_state));
    return static_cast<bool>(random);
  }

  // The plan gives the same for the same numbers drawn; the generator goes on from where it was.
  bool is_confirmed(const Plan& plan, const Key& key, const Trace& trace, std::string& why) const {
    const Ref now(PyObject_CallNoArgs(random_state));
    if (!now || !Ref(PyObject_CallOneArg(random_state, random.get()))) return false;
    const bool draws =
        plan.has_answers() && PyObject_RichCompareBool(now.get(), random.get(), Py_EQ) != 1;
    if (draws) why = "values decide, and numbers are drawn";
    const bool good = !draws && plan.confirms(key, trace, copies, why);
    TakenError error;  // the generator is set back whatever came up
    const bool back = static_cast<bool>(Ref(PyObject_CallOneArg(random_state, now.get())));
    if (error) error.restore();
    return back && good;
  }

  // Values decide nothing: the same records are called on tensors without memory.
  bool agrees_without_values(const Trace& trace, PyObject* result, std::string& why) const {
    const Ref made(described(trace, result));
    const Py_ssize_t n = PyVectorcall_NARGS(flagged);
    const Ref positional(PyTuple_New(n)), keywords(PyDict_New());
    if (!made || !positional || !keywords) return false;
    for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
      if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[n + i]) < 0) return false;
    const Ref answer(PyObject_CallFunctionObjArgs(without_values, function, positional.get(),
                                                  keywords.get(), made.get(), nullptr));
    if (answer.get() == Py_True) return true;
    why = "values decide what it calls, or nobody knows";
    return false;
  }
};

// Forgets calls that have come too seldom for a plan, or, where there are too many plans, all.
void Table::make_room() {
  decltype(entries_) kept;
  for (auto& [hash, entry] : entries_)
    if (entry->ready) kept.emplace(hash, entry);
  if (kept.size() > kMostEntries / 2) kept.clear();
  entries_.swap(kept);
}

PyObject* Table::watch(const Key& key, const std::shared_ptr<Entry>& entry, PyObject* function,
                       PyObject* const* args, std::size_t flagged, PyObject* names) {
  entry->busy = true;
  PyObject* result = guarded([&]() -> PyObject* {
    const bool on_host = key.on_host();
    Again again{function, args, flagged, names, {}, {}};
    int device = 0;
    if (on_host) {
      if (entry->taken && !again.take(key)) return nullptr;
    } else {
      device = key.device() < 0 ? current_device() : key.device();
      bind(device);
    }
    Trace watched(key, device, on_host ? nullptr : current_stream(device));
    watched.whole = entry->whole;
    Ref result(PyObject_Vectorcall(function, args, flagged, names));
    if (result) learn(*entry, key, watched, again, result.get());
    return PyErr_Occurred() ? nullptr : result.release();  // a Ctrl-C
  });
  entry->busy = false;
  return result;
}

void Table::learn(Entry& entry, const Key& key, Trace& watched, const Again& again,
                  PyObject* result) {
  learn_as_it_is(entry, key, watched, again, result);
  if (!entry.never || !watched.has_parts || entry.whole) return;
  entry.take_whole();  // where its parts are no plan, it is one function
}

void Table::learn_as_it_is(Entry& entry, const Key& key, Trace& watched, const Again& again,
                           PyObject* result) {
  std::unique_ptr<Plan> plan = Plan::of(key, watched, result, entry.why);
  if (plan && entry.taken && plan->agrees(*entry.taken, entry.why)) {
    bool good = true;
    if (key.on_host()) {
      Trace* const outer = std::exchange(trace, nullptr);
      good = again.is_confirmed(*plan, key, watched, entry.why) &&
             again.agrees_without_values(watched, result, entry.why);
      trace = outer;
      if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    }
    if (good) {
      plan->prepare();
      entry.ready = std::move(plan);
    }
    entry.never = !good;
    entry.taken.reset();
    return;
  }
  const bool first = plan && !entry.taken;
  entry.taken = std::move(plan);
  if (first) return;
  if (!entry.taken || ++entry.tries >= kMostTries) {
    entry.never = true;
    entry.taken.reset();
  }
}

void Table::Entry::take_whole() {
  if (std::exchange(whole, true)) return;
  ready.reset();
  never = false;
  tries = 0;
}

PyObject* Table::describe() const {
  Ref reasons(PyDict_New());
  Py_ssize_t ready = 0;
  for (const auto& [hash, entry] : entries_) {
    ready += entry->ready != nullptr;
    if (!entry->never || !reasons) continue;
    const Ref why(PyUnicode_FromString(entry->why.c_str()));
    const Ref count(PyLong_FromLong(1));
    if (!why || !count || PyDict_SetItem(reasons.get(), why.get(), count.get()) < 0) return nullptr;
  }
  return Py_BuildValue("{s:n,s:n,s:L,s:O}", "calls", static_cast<Py_ssize_t>(entries_.size()),
                       "plans", ready, "runs", runs_, "none", reasons.get());
}

// ---- Planned ------------------------------------------------------------------------------------

namespace {

struct Planned {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  Table* table;
};

PyObject* planned_call(PyObject* self, PyObject* const* args, std::size_t flagged,
                       PyObject* names) {
  auto* planned = reinterpret_cast<Planned*>(self);
  const Py_ssize_t n = PyVectorcall_NARGS(flagged);
  if (!may_plan(args, n, names))
    return PyObject_Vectorcall(planned->function, args, flagged, names);
  if (!planned->table) planned->table = new Table;
  return planned->table->call(planned->function, args, flagged, names);
}

PyObject* planned_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* function;
  if (!PyArg_ParseTuple(args, "O", &function)) return nullptr;
  auto* self = reinterpret_cast<Planned*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = planned_call;
  self->function = Py_NewRef(function);
  return reinterpret_cast<PyObject*>(self);
}

using Fields = Collected<Planned, &Planned::function>;

void planned_dealloc(PyObject* self) {
  delete std::exchange(reinterpret_cast<Planned*>(self)->table, nullptr);
  Fields::dealloc(self);
}

PyObject* planned_plans(PyObject* self, void*) {
  const Table* table = reinterpret_cast<Planned*>(self)->table;
  return table ? table->describe() : Table().describe();
}

PyMemberDef planned_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Planned, call), READONLY, nullptr},
    {"__wrapped__", T_OBJECT, offsetof(Planned, function), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef planned_properties[] = {
    {"plans", planned_plans, nullptr, "what is known of its calls", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot planned_slots[] = {{Py_tp_new, reinterpret_cast<void*>(planned_new)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(planned_dealloc)},
                               {Py_tp_traverse, reinterpret_cast<void*>(Fields::traverse)},
                               {Py_tp_clear, reinterpret_cast<void*>(Fields::clear)},
                               {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                               {Py_tp_members, planned_members},
                               {Py_tp_getset, planned_properties},
                               {Py_tp_doc, const_cast<char*>("A function, called by plans.")},
                               {0, nullptr}};
PyType_Spec planned_spec = {"tritorch._C.Planned", sizeof(Planned), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                            planned_slots};

// set_plans(plain_types, ambient, without_values, random_state): turns plans on; set_plans() turns
// them off.
PyObject* set_plans(PyObject*, PyObject* args) {
  PyObject *types = nullptr, *ambient = nullptr, *agreeing = nullptr, *random = nullptr;
  if (!PyArg_ParseTuple(args, "|O!OOO", &PyTuple_Type, &types, &ambient, &agreeing, &random))
    return nullptr;
  const bool before = enabled;
  enabled = types != nullptr;
  if (types) {
    Py_XSETREF(plain_types, Py_NewRef(types));
    Py_XSETREF(without_values, Py_NewRef(agreeing));
    Py_XSETREF(random_state, Py_NewRef(random));
    if (!ambient_handler) ambient_handler = Py_NewRef(ambient);
  }
  return PyBool_FromLong(before);
}

PyObject* name_node(PyObject*, PyObject* args) {
  PyObject *object, *type, *call;
  if (!PyArg_ParseTuple(args, "O!OO", node_base_type, &object, &type, &call)) return nullptr;
  if (PyObject_SetAttrString(object, "__class__", type) < 0) return nullptr;
  auto* node = reinterpret_cast<Node*>(object);
  Py_XSETREF(node->call, Py_NewRef(call));
  told_named(node, type, call);
  Py_RETURN_NONE;
}

PyObject* plan_parts(PyObject*, PyObject*) {
  if (!plain_types || !ambient_handler) return PyErr_Format(PyExc_RuntimeError, "plans are off");
  return PyTuple_Pack(4, plain_types, ambient_handler, without_values, random_state);
}

// withhold_plans(by) -> -by: this thread's calls have no plans while the sum is not 0
PyObject* withhold_plans(PyObject*, PyObject* by) {
  const long more = PyLong_AsLong(by);
  if (more == -1 && PyErr_Occurred()) return nullptr;
  withheld += static_cast<int>(more);
  return PyLong_FromLong(-more);
}

// records_of(function, args, kwargs) -> [(record, params, inputs that are no tensors), ...] of what
// the result leads to
PyObject* records_of(PyObject*, PyObject* arguments) {
  PyObject *function, *args, *kwargs;
  if (!PyArg_ParseTuple(arguments, "OO!O!", &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs))
    return nullptr;
  const Trace watched;
  const Ref result(PyObject_Call(function, args, kwargs));
  return result ? described(watched, result.get()) : nullptr;
}

// watched_for_plan() -> whether this thread's call is watched: quick ways that values choose are
// not taken then
PyObject* watched_for_plan(PyObject*, PyObject*) { return PyBool_FromLong(trace != nullptr); }

PyMethodDef functions[] = {
    {"watched_for_plan", watched_for_plan, METH_NOARGS,
     "(): whether a call plan is being made, whose calls no values may choose."},
    {"records_of", records_of, METH_VARARGS,
     "(function, args, kwargs): the records, with params, that the result of a call leads to."},
    {"withhold_plans", withhold_plans, METH_O,
     "(by): this thread's calls have no plans while the sum is not 0; returns -by."},
    {"plan_parts", plan_parts, METH_NOARGS, "The arguments that `set_plans` had last."},
    {"set_plans", set_plans, METH_VARARGS,
     "(plain_types, ambient, without_values, random_state): turns call plans on; () off."},
    {"name_node", name_node, METH_VARARGS,
     "(node, type, call): gives a new node another record's class, and the call that it keeps."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_plan_types(PyObject* module) {
  const Ref type(PyType_FromSpec(&planned_spec));
  return type && PyModule_AddObjectRef(module, "Planned", type.get()) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch::plans
