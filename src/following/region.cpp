#include "following/region.h"

#include <chrono>
#include <thread>
#include <unordered_set>

#include "following/pattern.h"
#include "following/program.h"
#include "launch/pack.h"

namespace tritorch {

constinit thread_local Region* region = nullptr;
PyTypeObject* lazy_type = nullptr;
int waiting = 0;

namespace {

thread_local int unfollowed = 0;  // dispatch modes are entered, which see each call

PyTypeObject *region_type = nullptr, *step_type = nullptr;
PyObject* miss_handler = nullptr;      // (gate, args, kwargs): a call that is not in the trie
PyObject* describe_handler = nullptr;  // (tensor) -> the spec of a lazy one
PyObject* ambient_handler = nullptr;   // () -> a number for what is set in Python
PyObject* compute_handler = nullptr;   // computes what waits, and says how to do so again
unsigned long long next_serial = 1;
unsigned long long ambient_epoch = 1;     // changes with what is set in Python
std::vector<Region*> regions;             // all that run
std::unordered_set<const void*> exposed;  // owners of memory that a program may write unseen

constexpr std::size_t kMostBranches = 64;
constexpr int kTries = 4;  // so often a call is looked at before it is taken for a barrier

// ---- the trie -----------------------------------------------------------------------------------

struct Step;

// How to compute what waits when a step is the last, `first` was the first, and the program holds
// certain tensors: a `_C.Program`, a function, or None for the calls as they were made.
struct Plan {
  const Step* first;
  std::vector<int> held;
  Ref program;
};

// One followed call.  A barrier is one that needs all before it computed; it runs plainly each
// time.
struct Step {
  PyObject_HEAD PyObject* gate;
  PyObject* names;  // of keywords, or null
  PyObject* call;   // what Python keeps of it
  Step* parent;     // borrowed; null for the first, and where that is gone
  std::vector<Pattern>* args;
  std::vector<Pattern>* result;  // one
  std::vector<int>* writes;      // slots whose memory it writes
  std::vector<Step*>* next;      // owned
  std::vector<Plan>* plans;
  int first, met, made;  // its slots: from `first` on, so many from outside, so many made
  long ambient;
  int tries;
  char barrier, grad_enabled, inference_mode;
};

Step* new_step(Step* parent) {
  auto* step = reinterpret_cast<Step*>(step_type->tp_alloc(step_type, 0));
  if (!step) return nullptr;
  step->parent = parent;
  step->args = new std::vector<Pattern>;
  step->result = new std::vector<Pattern>(1);
  step->writes = new std::vector<int>;
  step->next = new std::vector<Step*>;
  step->plans = new std::vector<Plan>;
  return step;
}

void step_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  auto* step = reinterpret_cast<Step*>(self);
  // A long stream of calls must not be as many C frames.
  std::vector<Step*> todo(std::move(*step->next));
  step->next->clear();
  while (!todo.empty()) {
    Step* last = todo.back();
    todo.pop_back();
    if (Py_REFCNT(last) == 1) {
      todo.insert(todo.end(), last->next->begin(), last->next->end());
      last->next->clear();
    } else {
      last->parent = nullptr;
    }
    Py_DECREF(last);
  }
  Py_CLEAR(step->gate);
  Py_CLEAR(step->names);
  Py_CLEAR(step->call);
  delete step->args;
  delete step->result;
  delete step->writes;
  delete step->next;
  delete step->plans;
  type->tp_free(self);
  Py_DECREF(type);
}

int step_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* step = reinterpret_cast<Step*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(step->call);
  for (const Plan& plan : *step->plans) Py_VISIT(plan.program.get());
  for (Step* next : *step->next) Py_VISIT(reinterpret_cast<PyObject*>(next));
  return 0;
}

PyObject* step_next(PyObject* self, void*) {
  auto* step = reinterpret_cast<Step*>(self);
  PyObject* list = PyList_New(0);
  for (Step* next : *step->next)
    if (list && PyList_Append(list, reinterpret_cast<PyObject*>(next)) < 0) Py_CLEAR(list);
  return list;
}

PyObject* step_writes(PyObject* self, void*) {
  PyObject* list = PyList_New(0);
  for (int slot : *reinterpret_cast<Step*>(self)->writes) {
    PyObject* number = PyLong_FromLong(slot);
    if (!list || !number || PyList_Append(list, number) < 0) Py_CLEAR(list);
    Py_XDECREF(number);
  }
  return list;
}

// run(region, tensors) -> the tensors of the result: makes the call, of tensors by slot in a dict,
// which gets those that it makes
PyObject* step_run(PyObject* self, PyObject* const* args, Py_ssize_t n);
PyMethodDef step_methods[] = {{"run", TRITORCH_FASTCALL(step_run), nullptr},
                              {nullptr, nullptr, 0, nullptr}};

PyMemberDef step_members[] = {
    {"gate", T_OBJECT, offsetof(Step, gate), READONLY, nullptr},
    {"names", T_OBJECT, offsetof(Step, names), READONLY, nullptr},
    {"call", T_OBJECT, offsetof(Step, call), 0, nullptr},
    {"parent", T_OBJECT, offsetof(Step, parent), READONLY, nullptr},
    {"first", T_INT, offsetof(Step, first), READONLY, nullptr},
    {"met", T_INT, offsetof(Step, met), READONLY, nullptr},
    {"made", T_INT, offsetof(Step, made), READONLY, nullptr},
    {"barrier", T_BOOL, offsetof(Step, barrier), READONLY, nullptr},
    {"ambient", T_LONG, offsetof(Step, ambient), READONLY, nullptr},
    {"grad_enabled", T_BOOL, offsetof(Step, grad_enabled), READONLY, nullptr},
    {"inference_mode", T_BOOL, offsetof(Step, inference_mode), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef step_properties[] = {{"next", step_next, nullptr, nullptr, nullptr},
                                 {"writes", step_writes, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot step_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(step_dealloc)},
                            {Py_tp_traverse, reinterpret_cast<void*>(step_traverse)},
                            {Py_tp_members, step_members},
                            {Py_tp_getset, step_properties},
                            {Py_tp_methods, step_methods},
                            {Py_tp_doc, const_cast<char*>("One call that is followed.")},
                            {0, nullptr}};
PyType_Spec step_spec = {
    "tritorch._C.Step", sizeof(Step), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, step_slots};

// ---- lazy tensors -------------------------------------------------------------------------------

enum { kShape, kDtype, kStrides, kDevice, kNeedsGrad, kLeaf, kSpecFields };

PyObject* lazy_get(PyObject* self, void* field) {
  auto* lazy = reinterpret_cast<Lazy*>(self);
  return Py_NewRef(PyTuple_GET_ITEM(lazy->spec, reinterpret_cast<std::intptr_t>(field)));
}
PyObject* lazy_ndim(PyObject* self, void*) {
  return PyLong_FromSsize_t(
      PyTuple_GET_SIZE(PyTuple_GET_ITEM(reinterpret_cast<Lazy*>(self)->spec, kShape)));
}
// Dense in row-major order, of dims of more than one.
PyObject* lazy_is_contiguous(PyObject* self, PyObject*) {
  PyObject* spec = reinterpret_cast<Lazy*>(self)->spec;
  PyObject *shape = PyTuple_GET_ITEM(spec, kShape), *strides = PyTuple_GET_ITEM(spec, kStrides);
  long long step = 1;
  bool dense = true;
  for (Py_ssize_t i = PyTuple_GET_SIZE(shape) - 1; i >= 0; --i) {
    const long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (size == 0) Py_RETURN_TRUE;
    if (size > 1) dense &= PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i)) == step;
    step *= size;
  }
  return PyErr_Occurred() ? nullptr : PyBool_FromLong(dense);
}
PyMethodDef lazy_methods[] = {{"is_contiguous", lazy_is_contiguous, METH_NOARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};
void lazy_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* lazy = reinterpret_cast<Lazy*>(self);
  Py_CLEAR(lazy->spec);
  Py_CLEAR(lazy->region);
  type->tp_free(self);
  Py_DECREF(type);
}
PyGetSetDef lazy_properties[] = {
    {"shape", lazy_get, nullptr, nullptr, reinterpret_cast<void*>(kShape)},
    {"dtype", lazy_get, nullptr, nullptr, reinterpret_cast<void*>(kDtype)},
    {"strides", lazy_get, nullptr, nullptr, reinterpret_cast<void*>(kStrides)},
    {"device", lazy_get, nullptr, nullptr, reinterpret_cast<void*>(kDevice)},
    {"ndim", lazy_ndim, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot lazy_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(lazy_dealloc)},
    {Py_tp_getset, lazy_properties},
    {Py_tp_methods, lazy_methods},
    {Py_tp_doc, const_cast<char*>("What a tensor has in place of an array while it waits.")},
    {0, nullptr}};
PyType_Spec lazy_spec = {"tritorch._C.Lazy", sizeof(Lazy), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, lazy_slots};

}  // namespace

// ---- regions ------------------------------------------------------------------------------------

struct Region {
  PyObject_HEAD Step* root;                         // owned, as are the steps below it
  Step* here;                                       // the last call
  PyObject* follower;                               // Python's
  std::vector<Tensor*>* slots;                      // borrowed: null for one that is gone
  std::vector<Step*>* steps;                        // what waits
  std::vector<std::pair<int, Ref>>* kept;           // tensors with arrays that it needs
  std::vector<std::pair<Ref, PyObject*>>* written;  // tensors whose arrays are put aside
  unsigned long long serial;
  unsigned long long epoch;
  long ambient;
  unsigned long computing;  // which thread computes what waited; 0: none
  int busy;                 // calls inside of calls are not followed
  char open;                // it runs
  char eager;               // too many branches: nothing is followed any more
  char learns;              // a call was new in this run
};

namespace {

bool compute(Region* r);

Region* as_region(PyObject* object) {
  return Py_TYPE(object) == region_type ? reinterpret_cast<Region*>(object) : nullptr;
}

PyObject* region_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *trie, *follower;
  if (!PyArg_ParseTuple(args, "O!O", step_type, &trie, &follower)) return nullptr;
  auto* r = reinterpret_cast<Region*>(type->tp_alloc(type, 0));
  if (!r) return nullptr;
  r->root = r->here = reinterpret_cast<Step*>(Py_NewRef(trie));
  r->follower = Py_NewRef(follower);
  r->slots = new std::vector<Tensor*>;
  r->steps = new std::vector<Step*>;
  r->kept = new std::vector<std::pair<int, Ref>>;
  r->written = new std::vector<std::pair<Ref, PyObject*>>;
  r->serial = next_serial++;
  return reinterpret_cast<PyObject*>(r);
}

void region_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  auto* r = reinterpret_cast<Region*>(self);
  std::erase(regions, r);
  delete r->slots;
  delete r->steps;
  delete r->kept;
  delete r->written;
  Py_CLEAR(r->root);
  Py_CLEAR(r->follower);
  type->tp_free(self);
  Py_DECREF(type);
}

int region_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* r = reinterpret_cast<Region*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<PyObject*>(r->root));
  Py_VISIT(r->follower);
  for (auto& [slot, tensor] : *r->kept) Py_VISIT(tensor.get());
  for (auto& [tensor, array] : *r->written) Py_VISIT(tensor.get());
  return 0;
}

bool refresh_ambient(Region* r) {
  if (r->epoch == ambient_epoch) return true;
  PyObject* number = PyObject_CallNoArgs(ambient_handler);
  if (!number) return false;
  r->ambient = PyLong_AsLong(number);
  Py_DECREF(number);
  r->epoch = ambient_epoch;
  return !PyErr_Occurred();
}

void grow(Region* r, int size) {
  if (r->slots->size() < static_cast<std::size_t>(size))
    r->slots->resize(static_cast<std::size_t>(size), nullptr);
}

void place(Region* r, Tensor* t, int slot) {
  grow(r, slot + 1);
  t->mark = mark_of(r->serial, slot);
  (*r->slots)[static_cast<std::size_t>(slot)] = t;
}

// The owner of the memory that an array is a view of; null: somebody who is no array of ours.
const void* owner_of(PyObject* array) {
  if (const Array* d = as_array(array)) return d->storage.get();
  while (NDArray* a = as_ndarray(array)) {
    if (!a->base) return a;
    array = a->base;
  }
  return nullptr;
}

bool is_exposed(const Tensor* t) {
  const void* owner = owner_of(t->array);
  return !owner || (t->shared && t->shared->fixed) || exposed.contains(owner);
}

// Whether this tensor alone leads to its memory.
bool is_alone(const Tensor* t) {
  const Py_ssize_t mine = 1 + (t->shared && t->shared->array == t->array);
  if (is_set(t->base) || Py_REFCNT(t->array) != mine) return false;
  if (t->shared && (Py_REFCNT(t->shared) != 1 || is_set(t->shared->storage) ||
                    (is_set(t->shared->array) && t->shared->array != t->array)))
    return false;
  if (const NDArray* a = as_ndarray(t->array)) return !a->base;
  return false;
}

Lazy* new_lazy(PyObject* spec, Region* r) {
  auto* lazy = reinterpret_cast<Lazy*>(lazy_type->tp_alloc(lazy_type, 0));
  if (!lazy) return nullptr;
  lazy->spec = Py_NewRef(spec);
  lazy->region = Py_NewRef(reinterpret_cast<PyObject*>(r));
  return lazy;
}

// What a call results in, now: the tensors that it makes are lazy.
PyObject* make_result(const Pattern& p, Region* r) {
  switch (p.kind) {
    case Pattern::fresh: {
      auto* t = reinterpret_cast<Tensor*>(tensor_type->tp_alloc(tensor_type, 0));
      if (!t) return nullptr;
      t->shadow = reinterpret_cast<PyObject*>(new_lazy(p.object.get(), r));
      if (!t->shadow) {
        Py_DECREF(t);
        return nullptr;
      }
      place(r, t, p.number);
      return reinterpret_cast<PyObject*>(t);
    }
    case Pattern::slot:
      return Py_NewRef(
          reinterpret_cast<PyObject*>((*r->slots)[static_cast<std::size_t>(p.number)]));
    case Pattern::sequence: {
      const auto size = static_cast<Py_ssize_t>(p.items.size());
      PyObject* list = PyList_New(size);
      for (Py_ssize_t i = 0; list && i < size; ++i) {
        PyObject* item = make_result(p.items[static_cast<std::size_t>(i)], r);
        if (item)
          PyList_SET_ITEM(list, i, item);
        else
          Py_CLEAR(list);
      }
      if (!list || p.object.get() == reinterpret_cast<PyObject*>(&PyList_Type)) return list;
      PyObject* made = p.object.get() == reinterpret_cast<PyObject*>(&PyTuple_Type)
                           ? PyList_AsTuple(list)
                           : PyObject_CallMethod(p.object.get(), "_make", "O", list);
      Py_DECREF(list);
      return made;
    }
    default:
      return Py_NewRef(p.object.get());
  }
}

// The tensors of a call's arguments that have arrays are kept until it is computed.
bool keep(const Pattern& p, PyObject* argument, Region* r) {
  bool seen = false;
  if (p.kind == Pattern::slot || p.kind == Pattern::fresh) {
    Tensor* t = as_tensor(argument);
    if (p.kind == Pattern::fresh) place(r, t, p.number);
    if (t->array) {
      for (auto& [slot, tensor] : *r->kept)
        if (slot == p.number) return is_exposed(t);
      r->kept->emplace_back(p.number, Ref::to(argument));
      return is_exposed(t);
    }
    return false;
  }
  if (p.kind == Pattern::sequence)
    for (std::size_t i = 0; i < p.items.size(); ++i)
      seen |= keep(p.items[i], PySequence_Fast_ITEMS(argument)[i], r);
  if (p.kind == Pattern::slice) {
    auto* s = reinterpret_cast<PySliceObject*>(argument);
    seen |=
        keep(p.items[0], s->start, r) | keep(p.items[1], s->stop, r) | keep(p.items[2], s->step, r);
  }
  return seen;
}

bool same_names(PyObject* a, PyObject* b) {
  const Py_ssize_t size = a ? PyTuple_GET_SIZE(a) : 0;
  if (size != (b ? PyTuple_GET_SIZE(b) : 0)) return false;
  for (Py_ssize_t i = 0; a != b && i < size; ++i) {
    PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
    if (x != y && PyUnicode_Compare(x, y) != 0) return false;
  }
  return true;
}

bool matches(const Step* step, Region* r, PyObject* const* args, Py_ssize_t n, PyObject* names,
             Met& met) {
  const Py_ssize_t total = n + (names ? PyTuple_GET_SIZE(names) : 0);
  if (step->barrier || step->ambient != r->ambient ||
      step->grad_enabled != static_cast<char>(modes.grad_enabled) ||
      step->inference_mode != static_cast<char>(modes.inference_mode) ||
      static_cast<Py_ssize_t>(step->args->size()) != total || !same_names(step->names, names))
    return false;
  for (Py_ssize_t i = 0; i < total; ++i)
    if (!fits((*step->args)[static_cast<std::size_t>(i)], args[i], met)) {
      met.take_back();
      return false;
    }
  return true;
}

// Whether a call may wait that writes a tensor with an array: nobody else leads to its memory.
bool put_aside(Region* r, int slot) {
  Tensor* t = (*r->slots)[static_cast<std::size_t>(slot)];
  if (!t || !t->array) return true;  // it waits itself
  if (!is_alone(t) || is_exposed(t)) return false;
  PyObject* spec = PyObject_CallOneArg(describe_handler, reinterpret_cast<PyObject*>(t));
  if (!spec) {
    PyErr_Clear();
    return false;
  }
  auto* lazy = reinterpret_cast<PyObject*>(new_lazy(spec, r));
  Py_DECREF(spec);
  if (!lazy) {
    PyErr_Clear();
    return false;
  }
  r->written->emplace_back(Ref::to(reinterpret_cast<PyObject*>(t)), t->array);
  t->array = nullptr;
  Py_XSETREF(t->shadow, lazy);
  return true;
}

void put_back(Region* r) {
  for (auto& [tensor, array] : *r->written) {
    auto* t = reinterpret_cast<Tensor*>(tensor.get());
    t->array = array;
    Py_CLEAR(t->shadow);
  }
  r->written->clear();
}

PyObject* call_plainly(Region* r, PyObject* gate, PyObject* const* args, Py_ssize_t n,
                       PyObject* names) {
  ++r->busy;
  PyObject* result = PyObject_Vectorcall(gate, args, static_cast<std::size_t>(n), names);
  --r->busy;
  return result;
}

// A barrier may change what is known of the tensors that it is given: they are met anew.
void unmark(Region* r, PyObject* argument) {
  if (Tensor* t = as_tensor(argument)) {
    if (t->mark >> kSlotBits == r->serial) {
      forget(t);
      t->mark = 0;
    }
    if (is_set(t->base)) unmark(r, t->base);
  } else if (PyTuple_CheckExact(argument) || PyList_CheckExact(argument)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(argument); ++i)
      unmark(r, PySequence_Fast_ITEMS(argument)[i]);
  }
}

void unmark_all(Region* r, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const Py_ssize_t total = n + (names ? PyTuple_GET_SIZE(names) : 0);
  for (Py_ssize_t i = 0; i < total; ++i) unmark(r, args[i]);
}

PyObject* hit(Region* r, Step* step, PyObject* const* args) {
  r->computing = PyThread_get_thread_ident();  // no other thread computes half of what waits
  grow(r, step->first + step->met + step->made);
  bool now = false;
  for (std::size_t i = 0; i < step->args->size(); ++i) now |= keep((*step->args)[i], args[i], r);
  PyObject* result = make_result(step->result->front(), r);
  if (result) {
    waiting += r->steps->empty();
    r->steps->push_back(step);
    r->here = step;
    for (int slot : *step->writes) now |= !put_aside(r, slot);
  }
  r->computing = 0;
  if (!result) return nullptr;
  if (now && !compute(r)) Py_CLEAR(result);
  return result;
}

PyObject* miss(Region* r, PyObject* gate, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  PyObject* positional = PyTuple_New(n);
  PyObject* keywords = PyDict_New();
  bool good = positional && keywords;
  for (Py_ssize_t i = 0; good && i < n; ++i) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; good && names && i < PyTuple_GET_SIZE(names); ++i)
    good = PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), args[n + i]) == 0;
  PyObject* result = nullptr;
  if (good) {
    ++r->busy;
    result = PyObject_CallFunctionObjArgs(miss_handler, reinterpret_cast<PyObject*>(r), gate,
                                          positional, keywords, nullptr);
    --r->busy;
    if (r->here->barrier) unmark_all(r, args, n, names);
  }
  Py_XDECREF(positional);
  Py_XDECREF(keywords);
  return result;
}

// ---- computing what waits -----------------------------------------------------------------------

// A tensor that waited becomes what was computed, with its history.
bool become(Tensor* t, PyObject* computed) {
  Tensor* from = as_tensor(computed);
  if (!from || from == t || t->array) return from != nullptr;
  const auto take = [](auto*& mine, auto* theirs) {
    using Field = std::remove_reference_t<decltype(mine)>;
    auto* before = reinterpret_cast<PyObject*>(mine);
    mine = reinterpret_cast<Field>(Py_XNewRef(reinterpret_cast<PyObject*>(theirs)));
    Py_XDECREF(before);
  };
  if (!from->shared && !(from->shared = new_shared(array_of(from)))) return false;
  take(t->array, from->array);
  take(t->shadow, from->shadow);
  take(t->node, from->node);
  if (from->grad) take(t->grad, from->grad);
  take(t->shared, from->shared);
  take(t->base, from->base);
  take(t->view, from->view);
  take(t->created, from->created);
  take(t->tangent, from->tangent);
  take(t->hooks, from->hooks);
  t->epoch = from->epoch;
  t->output = from->output;
  t->leaf = from->leaf;
  t->inference = from->inference;
  t->retains_grad = from->retains_grad;
  return true;
}

// Gives what a call has computed to its slots.
bool receive(const Pattern& p, PyObject* computed, Region* r, std::vector<Ref>& values) {
  if (p.kind == Pattern::fresh) {
    Tensor* t = (*r->slots)[static_cast<std::size_t>(p.number)];
    if (t && !become(t, computed)) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "a followed call gave no tensor");
      return false;
    }
    values[static_cast<std::size_t>(p.number)] =
        Ref::to(t ? reinterpret_cast<PyObject*>(t) : computed);
    return true;
  }
  if (p.kind != Pattern::sequence) return true;
  if (!(PyTuple_Check(computed) || PyList_Check(computed)) ||
      PySequence_Fast_GET_SIZE(computed) != static_cast<Py_ssize_t>(p.items.size())) {
    PyErr_SetString(PyExc_SystemError, "a followed call gave another number of results");
    return false;
  }
  for (std::size_t i = 0; i < p.items.size(); ++i)
    if (!receive(p.items[i], PySequence_Fast_ITEMS(computed)[i], r, values)) return false;
  return true;
}

bool run_step(const Step* step, Region* r, std::vector<Ref>& values) {
  std::vector<Ref> args;
  std::vector<PyObject*> given;
  for (const Pattern& p : *step->args) {
    args.emplace_back(build(p, values));
    if (!args.back()) return false;
    given.push_back(args.back().get());
  }
  modes.grad_enabled = step->grad_enabled;
  modes.inference_mode = step->inference_mode;
  const auto n =
      static_cast<Py_ssize_t>(given.size()) - (step->names ? PyTuple_GET_SIZE(step->names) : 0);
  Ref result(call_plainly(r, step->gate, given.data(), n, step->names));
  return result && receive(step->result->front(), result.get(), r, values);
}

PyObject* step_run(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || Py_TYPE(args[0]) != region_type || !PyDict_Check(args[1]))
    return PyErr_Format(PyExc_TypeError, "run(region, tensors)");
  auto* r = reinterpret_cast<Region*>(args[0]);
  const auto* step = reinterpret_cast<Step*>(self);
  std::vector<Ref> values(static_cast<std::size_t>(step->first + step->met + step->made));
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(args[1], &position, &key, &value)) {
    const auto slot = static_cast<std::size_t>(PyLong_AsLong(key));
    if (slot < values.size()) values[slot] = Ref::to(value);
  }
  const Modes before = modes;
  const bool good = run_step(step, r, values);
  modes.grad_enabled = before.grad_enabled;
  modes.inference_mode = before.inference_mode;
  if (!good) return nullptr;
  for (int slot = step->first + step->met; slot < step->first + step->met + step->made; ++slot) {
    Ref number(PyLong_FromLong(slot));
    PyObject* made = values[static_cast<std::size_t>(slot)].get();
    if (!number || (made && PyDict_SetItem(args[1], number.get(), made) < 0)) return nullptr;
  }
  Py_RETURN_NONE;
}

// Makes the calls that wait, as the program made them.
bool run_plainly(Region* r, const std::vector<Step*>& steps, std::vector<Ref>& values) {
  const Modes before = modes;
  bool good = true;
  for (const Step* step : steps)
    if (!(good = run_step(step, r, values))) break;
  modes.grad_enabled = before.grad_enabled;
  modes.inference_mode = before.inference_mode;
  return good;
}

// The tensors of what waits that somebody holds.
std::vector<int> find_held(const Region* r, const std::vector<Step*>& steps) {
  std::vector<int> held;
  for (const Step* step : steps)
    for (int slot = step->first + step->met; slot < step->first + step->met + step->made; ++slot)
      if (const Tensor* t = (*r->slots)[static_cast<std::size_t>(slot)]; t && is_lazy(t))
        held.push_back(slot);
  return held;
}

// compute_handler(region, steps, tensors, held) -> a plan for the next time
Ref ask_python(Region* r, const std::vector<Step*>& steps, const std::vector<Ref>& values,
               const std::vector<int>& held, PyObject* handler) {
  Ref list(PyList_New(0)), tensors(PyDict_New()), numbers(PyList_New(0));
  bool good = list && tensors && numbers;
  for (Step* step : steps)
    good = good && PyList_Append(list.get(), reinterpret_cast<PyObject*>(step)) == 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!good || !values[i]) continue;
    Ref number(PyLong_FromSize_t(i));
    good = number && PyDict_SetItem(tensors.get(), number.get(), values[i].get()) == 0;
  }
  for (int slot : held) {
    Ref number(PyLong_FromLong(slot));
    good = good && number && PyList_Append(numbers.get(), number.get()) == 0;
  }
  if (!good) return Ref();
  return Ref(PyObject_CallFunctionObjArgs(handler, reinterpret_cast<PyObject*>(r), list.get(),
                                          tensors.get(), numbers.get(), nullptr));
}

constexpr std::size_t kMostPlans = 8;

bool run_as_planned(Region* r, const std::vector<Step*>& steps, std::vector<Ref>& values) {
  std::vector<Plan>& plans = *steps.back()->plans;
  const std::vector<int> held = find_held(r, steps);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].first != steps.front() || plans[i].held != held) continue;
    Ref keeps = plans[i].program;  // another thread may put another in its place
    PyObject* program = keeps.get();
    if (Py_TYPE(program) == program_type)
      return run_program(program, reinterpret_cast<PyObject*>(r), values, *r->slots);
    if (program == Py_None) return run_plainly(r, steps, values);
    Ref next = ask_python(r, steps, values, held, program);
    if (next) plans[i].program = std::move(next);
    return static_cast<bool>(plans[i].program) && !PyErr_Occurred();
  }
  if (plans.size() >= kMostPlans) return run_plainly(r, steps, values);
  Ref plan = ask_python(r, steps, values, held, compute_handler);
  if (!plan) return false;
  plans.push_back({steps.front(), held, std::move(plan)});
  return true;
}

// Waits while another thread computes what waited in a region.
void wait_for_others(Region* r) {
  while (r->computing && r->computing != PyThread_get_thread_ident()) {
    Py_BEGIN_ALLOW_THREADS;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    Py_END_ALLOW_THREADS;
  }
}

bool compute(Region* r) {
  wait_for_others(r);
  if (r->steps->empty()) return true;
  std::vector<Step*> steps;
  steps.swap(*r->steps);
  --waiting;
  put_back(r);
  std::vector<Ref> values(r->slots->size());
  for (auto& [slot, tensor] : *r->kept) values[static_cast<std::size_t>(slot)] = tensor;
  r->kept->clear();
  Region* mine = region == r ? nullptr : region;  // another thread's is computed here
  if (mine) ++mine->busy;
  ++r->busy;
  r->computing = PyThread_get_thread_ident();
  const bool asked = set_modes_asked(false);  // they were asked when the calls came
  const bool good = run_as_planned(r, steps, values);
  set_modes_asked(asked);
  r->computing = 0;
  --r->busy;
  if (mine) --mine->busy;
  return good;
}

PyObject* region_compute(PyObject* self, PyObject*) {
  if (!compute(reinterpret_cast<Region*>(self))) return nullptr;
  Py_RETURN_NONE;
}

// add(gate, args, names, call, result, writes): a call that was made plainly, with all arguments
// in `args`, is a step from here on.  False: it cannot be told from others.
PyObject* region_add(PyObject* self, PyObject* args) {
  auto* r = reinterpret_cast<Region*>(self);
  PyObject *gate, *all, *names, *call, *result, *writes;
  if (!PyArg_ParseTuple(args, "OO!OOOO!", &gate, &PyTuple_Type, &all, &names, &call, &result,
                        &PyTuple_Type, &writes))
    return nullptr;
  if (r->here->next->size() >= kMostBranches) {
    r->eager = true;
    Py_RETURN_FALSE;
  }
  Step* step = new_step(r->here);
  if (!step) return nullptr;
  Ref owned(reinterpret_cast<PyObject*>(step));
  step->gate = Py_NewRef(gate);
  step->names = names == Py_None ? nullptr : Py_NewRef(names);
  step->call = Py_NewRef(call);
  step->ambient = r->ambient;
  step->grad_enabled = modes.grad_enabled;
  step->inference_mode = modes.inference_mode;
  step->first = static_cast<int>(r->slots->size());
  Met met{r->serial, step->first, {}};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(all); ++i) {
    step->args->emplace_back();
    if (!make_pattern(PyTuple_GET_ITEM(all, i), met, step->args->back())) {
      met.take_back();
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_FALSE;
    }
  }
  step->met = met.next - step->first;
  for (auto& [tensor, mark] : met.marks)
    place(r, tensor, static_cast<int>(tensor->mark & ((1u << kSlotBits) - 1)));
  // What it gives: patterns of the same kind, with the spec of each tensor that is made here.
  Met made{r->serial, met.next, {}};
  Pattern& pattern = step->result->front();
  const auto describe = [&](auto&& again, Pattern& p, PyObject* object) -> bool {
    if (Tensor* t = as_tensor(object)) {
      if (t->mark >> kSlotBits == r->serial) {
        p.kind = Pattern::slot;
        p.number = static_cast<int>(t->mark & ((1u << kSlotBits) - 1));
        return true;
      }
      p.kind = Pattern::fresh;
      p.number = made.next;
      p.object = Ref(PyObject_CallOneArg(describe_handler, object));
      made.meet(t);
      return static_cast<bool>(p.object);
    }
    if (PyTuple_Check(object) || PyList_CheckExact(object)) {
      p.kind = Pattern::sequence;
      p.object = Ref::to(reinterpret_cast<PyObject*>(Py_TYPE(object)));
      p.items.resize(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(object)));
      for (std::size_t i = 0; i < p.items.size(); ++i)
        if (!again(again, p.items[i], PySequence_Fast_ITEMS(object)[i])) return false;
      return true;
    }
    p.kind = Pattern::same;
    p.object = Ref::to(object);
    return true;
  };
  if (!describe(describe, pattern, result)) return nullptr;
  step->made = made.next - met.next;
  for (auto& [tensor, mark] : made.marks)
    place(r, tensor, static_cast<int>(tensor->mark & ((1u << kSlotBits) - 1)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(writes); ++i)
    if (Tensor* t = as_tensor(PyTuple_GET_ITEM(writes, i)))
      if (t->mark >> kSlotBits == r->serial)
        step->writes->push_back(static_cast<int>(t->mark & ((1u << kSlotBits) - 1)));
  r->here->next->push_back(step);
  owned.release();
  r->here = step;
  Py_RETURN_TRUE;
}

// add_barrier(gate, call): a call that needs all before it computed was made.
PyObject* region_add_barrier(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  auto* r = reinterpret_cast<Region*>(self);
  if (n != 2) return PyErr_Format(PyExc_TypeError, "add_barrier(gate, call)");
  for (Step* step : *r->here->next)
    if (step->barrier && step->gate == args[0]) {
      ++step->tries;
      r->here = step;
      Py_RETURN_FALSE;
    }
  if (r->here->next->size() >= kMostBranches) {
    r->eager = true;
    Py_RETURN_FALSE;
  }
  Step* step = new_step(r->here);
  if (!step) return nullptr;
  step->gate = Py_NewRef(args[0]);
  step->call = Py_NewRef(args[1]);
  step->barrier = true;
  step->tries = 1;
  step->first = static_cast<int>(r->slots->size());
  r->here->next->push_back(step);
  r->here = step;
  Py_RETURN_TRUE;
}

PyObject* region_enter(PyObject* self, PyObject*) {
  auto* r = reinterpret_cast<Region*>(self);
  if (r->open || region) return PyErr_Format(PyExc_RuntimeError, "this thread is in a region");
  if (!refresh_ambient(r)) return nullptr;
  r->open = true;
  regions.push_back(r);
  region = reinterpret_cast<Region*>(Py_NewRef(self));
  Py_RETURN_NONE;
}

PyObject* region_leave(PyObject* self, PyObject*) {
  auto* r = reinterpret_cast<Region*>(self);
  if (region != r) return PyErr_Format(PyExc_RuntimeError, "this thread is not in that region");
  const bool good = compute(r);
  r->open = false;
  std::erase(regions, r);
  region = nullptr;
  Py_DECREF(self);
  if (!good) return nullptr;
  Py_RETURN_NONE;
}

PyObject* region_waits(PyObject* self, void*) {
  return PyLong_FromSize_t(reinterpret_cast<Region*>(self)->steps->size());
}
PyObject* region_here(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(reinterpret_cast<Region*>(self)->here));
}

// tensors(by slot, a dict) -> a list of those of all slots: those given, and those that are held
PyObject* region_tensors(PyObject* self, PyObject* given) {
  auto* r = reinterpret_cast<Region*>(self);
  if (!PyDict_Check(given)) return PyErr_Format(PyExc_TypeError, "expected a dict");
  std::vector<Ref> values(r->slots->size());
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(given, &position, &key, &value)) {
    const auto slot = static_cast<std::size_t>(PyLong_AsLong(key));
    if (slot < values.size()) values[slot] = Ref::to(value);
  }
  return tensors_by_slot(values, *r->slots);
}

// is_leaf(slot) -> whether a tensor that waits is a leaf that wants gradients
PyObject* region_is_leaf(PyObject* self, PyObject* slot) {
  auto* r = reinterpret_cast<Region*>(self);
  const auto i = static_cast<std::size_t>(PyLong_AsLong(slot));
  const Tensor* t = i < r->slots->size() ? (*r->slots)[i] : nullptr;
  return PyBool_FromLong(t && is_lazy(t) &&
                         PyTuple_GET_ITEM(reinterpret_cast<Lazy*>(t->shadow)->spec, kLeaf) ==
                             Py_True);
}

// needs_grad(slot) -> whether gradients will flow to a tensor that waits
PyObject* region_needs_grad(PyObject* self, PyObject* slot) {
  auto* r = reinterpret_cast<Region*>(self);
  const auto i = static_cast<std::size_t>(PyLong_AsLong(slot));
  const Tensor* t = i < r->slots->size() ? (*r->slots)[i] : nullptr;
  return PyBool_FromLong(t && is_lazy(t) && lazy_needs_grad(t));
}

PyMethodDef region_methods[] = {{"enter", region_enter, METH_NOARGS, nullptr},
                                {"leave", region_leave, METH_NOARGS, nullptr},
                                {"compute", region_compute, METH_NOARGS, nullptr},
                                {"tensors", region_tensors, METH_O, nullptr},
                                {"needs_grad", region_needs_grad, METH_O, nullptr},
                                {"is_leaf", region_is_leaf, METH_O, nullptr},
                                {"add", region_add, METH_VARARGS, nullptr},
                                {"add_barrier", TRITORCH_FASTCALL(region_add_barrier), nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyMemberDef region_members[] = {
    {"follower", T_OBJECT, offsetof(Region, follower), READONLY, nullptr},
    {"busy", T_INT, offsetof(Region, busy), 0, nullptr},
    {"eager", T_BOOL, offsetof(Region, eager), 0, nullptr},
    {"learns", T_BOOL, offsetof(Region, learns), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef region_properties[] = {{"waits", region_waits, nullptr, nullptr, nullptr},
                                   {"here", region_here, nullptr, nullptr, nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot region_slots[] = {{Py_tp_new, reinterpret_cast<void*>(region_new)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(region_dealloc)},
                              {Py_tp_traverse, reinterpret_cast<void*>(region_traverse)},
                              {Py_tp_methods, region_methods},
                              {Py_tp_members, region_members},
                              {Py_tp_getset, region_properties},
                              {Py_tp_doc, const_cast<char*>("A compiled function while it runs.")},
                              {0, nullptr}};
PyType_Spec region_spec = {"tritorch._C.Region", sizeof(Region), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, region_slots};

// ---- functions ----------------------------------------------------------------------------------

PyObject* new_trie(PyObject*, PyObject*) { return reinterpret_cast<PyObject*>(new_step(nullptr)); }

PyObject* current_region(PyObject*, PyObject*) {
  return Py_NewRef(region ? reinterpret_cast<PyObject*>(region) : Py_None);
}

PyObject* settle(PyObject*, PyObject*) {
  if (!settled()) return nullptr;
  Py_RETURN_NONE;
}

// What is set in Python is about to change.
PyObject* ambient_changes(PyObject*, PyObject*) {
  ++ambient_epoch;
  if (!settled()) return nullptr;
  Py_RETURN_NONE;
}

// expose(array): a program got hold of an array's memory.
PyObject* expose_array(PyObject*, PyObject* array) {
  expose(array);
  Py_RETURN_NONE;
}

PyObject* set_following_handlers(PyObject*, PyObject* args) {
  PyObject *missing, *describing, *ambient, *computing;
  if (!PyArg_ParseTuple(args, "OOOO", &missing, &describing, &ambient, &computing)) return nullptr;
  Py_XSETREF(compute_handler, Py_NewRef(computing));
  Py_XSETREF(miss_handler, Py_NewRef(missing));
  Py_XSETREF(describe_handler, Py_NewRef(describing));
  Py_XSETREF(ambient_handler, Py_NewRef(ambient));
  Py_RETURN_NONE;
}

// force(*tensors) -> whether one of them waited; it is computed now
PyObject* force_tensors(PyObject*, PyObject* const* args, Py_ssize_t n) {
  bool any = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(args[i]);
    if (!t || !is_lazy(t)) continue;
    any = true;
    if (!force(t)) return nullptr;
  }
  return PyBool_FromLong(any);
}

// become(tensor, computed): a tensor that waited is what was computed
PyObject* tensor_become(PyObject*, PyObject* const* args, Py_ssize_t n) {
  Tensor* t = n == 2 ? as_tensor(args[0]) : nullptr;
  if (!t || !become(t, args[1])) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "become(tensor, computed)");
    return nullptr;
  }
  Py_RETURN_NONE;
}

// unfollow(by): nothing is followed in this thread while the sum is not 0
PyObject* unfollow(PyObject*, PyObject* by) {
  if (!settled()) return nullptr;
  unfollowed += static_cast<int>(PyLong_AsLong(by));
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* tensor_is_lazy(PyObject*, PyObject* object) {
  Tensor* t = as_tensor(object);
  return PyBool_FromLong(t && is_lazy(t));
}

PyMethodDef functions[] = {
    {"new_trie", new_trie, METH_NOARGS, "A step before all others."},
    {"current_region", current_region, METH_NOARGS, "The one that this thread is in, or None."},
    {"settle", settle, METH_NOARGS, "Computes what waits."},
    {"ambient_changes", ambient_changes, METH_NOARGS, "What is set in Python is about to change."},
    {"expose", expose_array, METH_O, "A program got hold of an array's memory."},
    {"force", TRITORCH_FASTCALL(force_tensors),
     "Whether one of these tensors waited; it is computed now."},
    {"become", TRITORCH_FASTCALL(tensor_become), nullptr},
    {"unfollow", unfollow, METH_O, "Counts the reasons for which this thread follows nothing."},
    {"is_lazy", tensor_is_lazy, METH_O, "Whether a tensor waits to be computed."},
    {"set_following_handlers", set_following_handlers, METH_VARARGS,
     "(missing, describing, ambient, computing)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void expose(PyObject* array) {
  if (const void* owner = owner_of(array)) exposed.insert(owner);
}

bool follows() {
  if (region) wait_for_others(region);  // what it has computed is half there
  return region && region->busy == 0 && !region->eager && unfollowed == 0;
}

PyObject* follow(PyObject* gate, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  Region* r = region;
  wait_for_others(r);
  if (!refresh_ambient(r)) return nullptr;
  Step* barrier = nullptr;
  Met met{r->serial, 0, {}};
  const std::vector<Step*>& known = *r->here->next;  // other threads may add to it
  for (std::size_t i = 0; i < known.size(); ++i) {
    Step* step = known[i];
    if (step->gate != gate) continue;
    if (step->barrier) {
      barrier = step;
      continue;
    }
    met.next = step->first;
    if (!matches(step, r, args, n, names, met)) continue;
    return hit(r, step, args);
  }
  if (barrier && barrier->tries >= kTries) {
    r->here = barrier;
    if (!compute(r)) return nullptr;
    PyObject* result = call_plainly(r, gate, args, n, names);
    unmark_all(r, args, n, names);
    return result;
  }
  return miss(r, gate, args, n, names);
}

bool force(Tensor* t) {
  auto* lazy = reinterpret_cast<Lazy*>(t->shadow);
  PyObject* owner = Py_NewRef(lazy->region);
  bool good = compute(reinterpret_cast<Region*>(owner));
  Py_DECREF(owner);
  if (good && is_lazy(t)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "this tensor has no values: the compiled function that was to compute it has "
                    "failed");
    good = false;
  }
  return good;
}

int lazy_needs_grad(const Tensor* t) {
  return PyTuple_GET_ITEM(reinterpret_cast<Lazy*>(t->shadow)->spec, kNeedsGrad) == Py_True;
}

void forget(Tensor* t) {
  for (Region* r : regions)
    if (t->mark >> kSlotBits == r->serial) {
      const auto slot = static_cast<std::size_t>(t->mark & ((1u << kSlotBits) - 1));
      if (slot < r->slots->size() && (*r->slots)[slot] == t) (*r->slots)[slot] = nullptr;
    }
}

bool settle_all() {
  for (std::size_t i = 0; i < regions.size(); ++i)
    if (!regions[i]->steps->empty() && !compute(regions[i])) return false;
  return true;
}

bool add_following(PyObject* module) {
  struct {
    PyTypeObject** type;
    PyType_Spec* spec;
    const char* name;
  } types[] = {{&step_type, &step_spec, "Step"},
               {&lazy_type, &lazy_spec, "Lazy"},
               {&region_type, &region_spec, "Region"}};
  for (auto& each : types) {
    *each.type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(each.spec));
    if (!*each.type ||
        PyModule_AddObjectRef(module, each.name, reinterpret_cast<PyObject*>(*each.type)) < 0)
      return false;
  }
  return add_program_type(module) && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch
