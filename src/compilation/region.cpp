#include "compilation/region.h"

#include "compilation/interrupts.h"
#include "compilation/program.h"
#include "compilation/state.h"
#include "launch/pack.h"

namespace tritorch {

constinit thread_local Region* region = nullptr;
PyTypeObject* region_type = nullptr;
PyObject* spec_handler = nullptr;
PyObject* miss_handler = nullptr;
PyObject* ambient_handler = nullptr;
PyObject* compute_handler = nullptr;
PyObject* look_handler = nullptr;
unsigned long long ambient_epoch = 1;
std::vector<Region*> regions;
thread_local int unfollowed = 0;
thread_local int flushes_held = 0;
int deferring = 0;

long ambient_now() {
  static thread_local struct {
    unsigned long long epoch;
    long number;
  } known;
  if (known.epoch != ambient_epoch) {
    const Ref number(PyObject_CallNoArgs(ambient_handler));
    if (!number) return -1;
    known = {ambient_epoch, PyLong_AsLong(number.get())};
  }
  return known.number;
}

namespace {

unsigned long long next_serial = 1;

constexpr int kTries = 4;  // so often a call is looked at before it is taken for a graph break

PyObject* region_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *trace_tree, *follower;
  if (!PyArg_ParseTuple(args, "O!O", step_type, &trace_tree, &follower)) return nullptr;
  auto* r = reinterpret_cast<Region*>(type->tp_alloc(type, 0));
  if (!r) return nullptr;
  r->root = r->here = reinterpret_cast<Step*>(Py_NewRef(trace_tree));
  r->follower = Py_NewRef(follower);
  r->slots = new std::vector<Tensor*>;
  r->steps = new std::vector<Step*>;
  r->kept = new std::vector<std::pair<int, Ref>>;
  r->is_kept = new std::vector<char>;
  r->written = new std::vector<std::pair<Ref, PyObject*>>;
  r->numbers = new std::vector<Number>;
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
  delete r->is_kept;
  delete r->written;
  delete r->numbers;
  Py_CLEAR(r->sibling);
  Py_CLEAR(r->walked);
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
  Py_VISIT(r->sibling);
  Py_VISIT(r->walked);
  for (auto& [slot, tensor] : *r->kept) Py_VISIT(tensor.get());
  for (auto& [tensor, array] : *r->written) Py_VISIT(tensor.get());
  return 0;
}

}  // namespace

namespace {

// The region of a mark knows a tensor no longer.
void clear_slot(const Tensor* t, unsigned long long mark) {
  Region* r = region_of(mark >> kSlotBits);
  if (!r) return;
  const auto slot = static_cast<std::size_t>(mark & ((1u << kSlotBits) - 1));
  if (slot < r->slots->size() && (*r->slots)[slot] == t) (*r->slots)[slot] = nullptr;
}

}  // namespace

static void grow(Region* r, int size) {
  if (r->slots->size() < static_cast<std::size_t>(size))
    r->slots->resize(static_cast<std::size_t>(size), nullptr);
}

void assign_slots(Region* r, Met& met) {
  grow(r, met.next);
  for (std::size_t i = 0; i < met.count; ++i) {
    const auto [t, before] = met.mark(i);
    if (before) clear_slot(t, before);
    (*r->slots)[static_cast<std::size_t>(slot_of(t))] = t;
  }
}

namespace {

bool refresh_ambient(Region* r) {
  if (r->epoch == ambient_epoch) return true;
  r->ambient = ambient_now();
  r->epoch = ambient_epoch;
  return r->ambient >= 0;
}

PyObject* as_tuple(const std::vector<std::int64_t>& values) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
  for (std::size_t i = 0; tuple && i < values.size(); ++i) {
    PyObject* value = PyLong_FromLongLong(values[i]);
    if (!value) Py_CLEAR(tuple);
    if (tuple) PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), value);
  }
  return tuple;
}

// The stand-in for the array of a deferred tensor, with the sizes of this run.
Ref deferred_of(const Pattern& p, const Region* r) {
  if (!p.more || !p.more->layout) return p.object;
  std::vector<std::int64_t> sizes, steps;
  if (!p.more->layout->compute(*r->numbers, sizes, steps)) {
    PyErr_SetString(PyExc_SystemError, "a size of a compiled function has no value");
    return Ref();
  }
  Ref spec(PyTuple_New(kSpecFields)), shape(as_tuple(sizes)), strides(as_tuple(steps));
  if (!spec || !shape || !strides) return Ref();
  for (Py_ssize_t i = 0; i < kSpecFields; ++i) {
    PyObject* item = i == kShape ? shape.get()
                     : i == kStrides
                         ? strides.get()
                         : PyTuple_GET_ITEM(reinterpret_cast<Deferred*>(p.object.get())->spec, i);
    PyTuple_SET_ITEM(spec.get(), i, Py_NewRef(item));
  }
  return Ref(new_deferred(spec.get(), nullptr));
}

// The result of a deferred call: the tensors that it makes are deferred.
PyObject* make_result(const Pattern& p, Region* r) {
  switch (p.kind) {
    case Pattern::fresh: {
      Ref deferred = deferred_of(p, r);
      auto* t =
          deferred ? reinterpret_cast<Tensor*>(tensor_type->tp_alloc(tensor_type, 0)) : nullptr;
      if (!t) return nullptr;
      t->shadow = deferred.release();
      t->mark = mark_of(r->serial, p.number);
      (*r->slots)[static_cast<std::size_t>(p.number)] = t;
      return reinterpret_cast<PyObject*>(t);
    }
    case Pattern::slot: {
      auto* t = reinterpret_cast<PyObject*>((*r->slots)[static_cast<std::size_t>(p.number)]);
      return t ? Py_NewRef(t) : PyErr_Format(PyExc_SystemError, "tensor %d is gone", p.number);
    }
    case Pattern::sequence:
      return build_sequence(p, [&](const Pattern& item) { return make_result(item, r); });
    default:
      return Py_NewRef(p.object.get());
  }
}

// Keeps the tensors of a call's arguments that have arrays until it is computed.  True if a program
// may write one of them without a call.
bool keep(const Step* step, Region* r) {
  bool seen = false;
  for (int number : *step->reads) {
    const auto slot = static_cast<std::size_t>(number);
    Tensor* t = (*r->slots)[slot];
    if (!t->array) continue;
    if (r->is_kept->size() <= slot) r->is_kept->resize(r->slots->size(), 0);
    if (!std::exchange((*r->is_kept)[slot], 1))
      r->kept->emplace_back(number, Ref::to(reinterpret_cast<PyObject*>(t)));
    seen |= is_exposed(t);
  }
  return seen;
}

// True if a call may be deferred that writes a tensor with an array: nobody else leads to its
// memory.  An error that is set is an interrupt.
bool put_aside(Region* r, int slot) {
  Tensor* t = (*r->slots)[static_cast<std::size_t>(slot)];
  if (!t || !t->array) return true;  // it is deferred itself
  if (!is_alone(t) || is_exposed(t)) return false;
  const Ref spec(PyObject_CallOneArg(spec_handler, reinterpret_cast<PyObject*>(t)));
  if (!spec) {
    if (!is_interrupt()) PyErr_Clear();
    return false;
  }
  PyObject* deferred = new_deferred(spec.get(), r);
  if (!deferred) {
    PyErr_Clear();
    return false;
  }
  r->written->emplace_back(Ref::to(reinterpret_cast<PyObject*>(t)), t->array);
  t->array = nullptr;
  Py_XSETREF(t->shadow, deferred);
  return true;
}

}  // namespace

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

namespace {

// The call of a graph break may change what is known of the tensors that it is given: they are met
// anew.
void unmark(Region* r, PyObject* argument) {
  if (Tensor* t = as_tensor(argument)) {
    if (t->mark >> kSlotBits == r->serial && !is_deferred(t)) {
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

PyObject* hit(Region* r, Step* step, Met& met) {
  r->computing = r->thread;  // no other thread computes half of it
  const int size = step->first + step->met + step->made;
  while (r->slots->size() < static_cast<std::size_t>(size)) r->slots->push_back(nullptr);
  assign_slots(r, met);
  bool now = keep(step, r);
  PyObject* result = make_result(step->result(), r);
  if (result) {
    deferring += r->steps->empty();
    r->steps->push_back(step);
    r->here = step;
    if (step->writes)
      for (int slot : *step->writes) {
        now |= !put_aside(r, slot);
        if (now && PyErr_Occurred()) break;  // an interrupt, which is raised when this is computed
      }
  }
  r->computing = 0;
  if (!result) return nullptr;
  if (!now) return result;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (!compute(r) || type) Py_CLEAR(result);
  if (type) PyErr_Restore(type, value, trace);
  return result;
}

PyObject* miss(Region* r, PyObject* gate, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const Ref positional(PyTuple_New(n)), keywords(PyDict_New());
  if (!positional || !keywords) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[n + i]) < 0) return nullptr;
  ++r->busy;
  PyObject* result = PyObject_CallFunctionObjArgs(miss_handler, reinterpret_cast<PyObject*>(r),
                                                  gate, positional.get(), keywords.get(), nullptr);
  --r->busy;
  if (r->here->graph_break) unmark_all(r, args, n, names);
  return result;
}

}  // namespace

bool enter(Region* r) {
  if (r->entered || region) {
    PyErr_SetString(PyExc_RuntimeError, "this thread is in a region");
    return false;
  }
  if (!refresh_ambient(r)) return false;
  r->entered = true;
  r->thread = PyThread_get_thread_ident();
  r->modes = &modes;
  r->unfollowed = &unfollowed;
  regions.push_back(r);
  region = reinterpret_cast<Region*>(Py_NewRef(reinterpret_cast<PyObject*>(r)));
  return true;
}

bool leave(Region* r) {
  if (region != r) {
    PyErr_SetString(PyExc_RuntimeError, "this thread is not in that region");
    return false;
  }
  const bool good = compute(r);
  r->entered = false;
  std::erase(regions, r);
  region = nullptr;
  Py_DECREF(reinterpret_cast<PyObject*>(r));
  return good;
}

void start_again(Region* r) {
  r->here = r->root;
  r->slots->clear();
  r->numbers->clear();
  Py_CLEAR(r->sibling);
  Py_CLEAR(r->walked);
  r->serial = next_serial++;
  r->eager = r->learns = false;
}

namespace {

PyObject* region_compute(PyObject* self, PyObject*) {
  if (!compute(reinterpret_cast<Region*>(self))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* region_enter(PyObject* self, PyObject*) {
  if (!enter(reinterpret_cast<Region*>(self))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* region_leave(PyObject* self, PyObject*) {
  if (!leave(reinterpret_cast<Region*>(self))) return nullptr;
  Py_RETURN_NONE;
}

PyObject* region_deferred(PyObject* self, void*) {
  return PyLong_FromSize_t(reinterpret_cast<Region*>(self)->steps->size());
}
PyObject* region_numbers(PyObject* self, void*) {
  const auto& numbers = *reinterpret_cast<Region*>(self)->numbers;
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(numbers.size()));
  for (std::size_t i = 0; tuple && i < numbers.size(); ++i) {
    PyObject* number = number_object(numbers[i]);
    if (!number) Py_CLEAR(tuple);
    if (tuple) PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), number);
  }
  return tuple;
}
PyObject* region_size(PyObject* self, void*) {
  return PyLong_FromSize_t(reinterpret_cast<Region*>(self)->slots->size());
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

// The tensor of a slot, if it is deferred.
const Tensor* deferred_at(PyObject* self, PyObject* slot) {
  const auto& slots = *reinterpret_cast<Region*>(self)->slots;
  const auto i = static_cast<std::size_t>(PyLong_AsLong(slot));
  const Tensor* t = i < slots.size() ? slots[i] : nullptr;
  return t && is_deferred(t) ? t : nullptr;
}

// is_leaf(slot) -> whether a deferred tensor is a leaf that wants gradients
PyObject* region_is_leaf(PyObject* self, PyObject* slot) {
  const Tensor* t = deferred_at(self, slot);
  return PyBool_FromLong(t && deferred_is_leaf(t));
}

// needs_grad(slot) -> whether gradients will flow to a deferred tensor
PyObject* region_needs_grad(PyObject* self, PyObject* slot) {
  const Tensor* t = deferred_at(self, slot);
  return PyBool_FromLong(t && deferred_needs_grad(t));
}

PyMethodDef region_methods[] = {{"enter", region_enter, METH_NOARGS, nullptr},
                                {"leave", region_leave, METH_NOARGS, nullptr},
                                {"compute", region_compute, METH_NOARGS, nullptr},
                                {"tensors", region_tensors, METH_O, nullptr},
                                {"needs_grad", region_needs_grad, METH_O, nullptr},
                                {"is_leaf", region_is_leaf, METH_O, nullptr},
                                {"add", add_step, METH_VARARGS, nullptr},
                                {"forget", forget_step, METH_O, nullptr},
                                {"add_graph_break", TRITORCH_FASTCALL(add_graph_break), nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyMemberDef region_members[] = {
    {"follower", T_OBJECT, offsetof(Region, follower), READONLY, nullptr},
    {"serial", T_ULONGLONG, offsetof(Region, serial), READONLY, nullptr},
    {"sibling", T_OBJECT, offsetof(Region, sibling), 0, nullptr},
    {"walked", T_OBJECT, offsetof(Region, walked), 0, nullptr},
    {"busy", T_INT, offsetof(Region, busy), 0, nullptr},
    {"eager", T_BOOL, offsetof(Region, eager), 0, nullptr},
    {"learns", T_BOOL, offsetof(Region, learns), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef region_properties[] = {{"deferred", region_deferred, nullptr, nullptr, nullptr},
                                   {"here", region_here, nullptr, nullptr, nullptr},
                                   {"numbers", region_numbers, nullptr, nullptr, nullptr},
                                   {"size", region_size, nullptr, nullptr, nullptr},
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

}  // namespace

bool follows(Region* r) {
  if (r->computing && !flushes_held) wait_while_computed(r);  // what it has computed is half there
  return r->busy == 0 && !r->eager && *r->unfollowed == 0;
}

bool is_overheard(const Region* r) { return r->modes->saving_hooks || r->modes->tracing_calls; }

PyObject* follow(Region* r, PyObject* gate, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  wait_for_others(r);
  if (!refresh_ambient(r)) return nullptr;
  Step* graph_break = nullptr;
  Met met{r->serial, 0, *r->numbers};
  for (Step* step = r->here->child; step; step = step->sibling) {
    if (step->gate != gate) continue;
    if (step->graph_break) {
      graph_break = step;
      continue;
    }
    met.next = step->first;
    if (!matches(step, r, args, n, names, met)) continue;
    return hit(r, step, met);
  }
  if (graph_break && graph_break->tries >= kTries) {
    r->here = graph_break;
    if (!compute(r)) return nullptr;
    PyObject* result = call_plainly(r, gate, args, n, names);
    unmark_all(r, args, n, names);
    return result;
  }
  return miss(r, gate, args, n, names);
}

Region* region_of(unsigned long long serial) {
  for (Region* r : regions)
    if (r->serial == serial) return r;
  return nullptr;
}

void forget(Tensor* t) { clear_slot(t, t->mark); }

bool add_region_type(PyObject* module) {
  region_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&region_spec));
  return region_type &&
         PyModule_AddObjectRef(module, "Region", reinterpret_cast<PyObject*>(region_type)) == 0;
}

}  // namespace tritorch
