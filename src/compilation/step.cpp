// Step: one call in the tree of all traces of a function.
#include "compilation/state.h"

namespace tritorch {

PyTypeObject* step_type = nullptr;

Step* new_step(Step* parent) {
  auto* step = reinterpret_cast<Step*>(step_type->tp_alloc(step_type, 0));
  if (!step) return nullptr;
  step->parent = parent;
  step->plans = new std::vector<Plan>;
  step->reads = new std::vector<int>;
  return step;
}

namespace {

bool same_names(PyObject* a, PyObject* b) {
  const Py_ssize_t size = a ? PyTuple_GET_SIZE(a) : 0;
  if (size != (b ? PyTuple_GET_SIZE(b) : 0)) return false;
  for (Py_ssize_t i = 0; a != b && i < size; ++i) {
    PyObject *x = PyTuple_GET_ITEM(a, i), *y = PyTuple_GET_ITEM(b, i);
    if (x != y && PyUnicode_Compare(x, y) != 0) return false;
  }
  return true;
}

}  // namespace

bool matches(const Step* step, const Region* r, PyObject* const* args, Py_ssize_t n,
             PyObject* names, Met& met) {
  const Py_ssize_t total = n + (names ? PyTuple_GET_SIZE(names) : 0);
  if (step->graph_break || step->ambient != r->ambient ||
      step->grad_enabled != static_cast<char>(r->modes->grad_enabled) ||
      step->inference_mode != static_cast<char>(r->modes->inference_mode) ||
      step->n_args != total || !same_names(step->names, names))
    return false;
  for (Py_ssize_t i = 0; i < total; ++i) {
    const Pattern& p = step->patterns[i];
    if (p.kind == Pattern::slot && Py_TYPE(args[i]) == tensor_type
            ? reinterpret_cast<Tensor*>(args[i])->mark == mark_of(met.serial, p.number)
            : (p.is_object() && args[i] == p.object.get()) || fits(p, args[i], met))
      continue;
    met.take_back();
    return false;
  }
  if (!step->conditions) return true;
  for (const Expr& condition : *step->conditions) {
    std::int64_t holds;
    if (condition.compute(met.numbers, holds) && holds) continue;
    met.take_back();
    return false;
  }
  return true;
}

namespace {

void step_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  auto* step = reinterpret_cast<Step*>(self);
  // A long trace must not be as many C frames.
  std::vector<Step*> todo;
  const auto take_children = [&todo](Step* of) {
    for (Step* child = std::exchange(of->child, nullptr); child;
         child = std::exchange(child->sibling, nullptr))
      todo.push_back(child);
  };
  take_children(step);
  while (!todo.empty()) {
    Step* last = todo.back();
    todo.pop_back();
    if (Py_REFCNT(last) == 1)
      take_children(last);
    else
      last->parent = nullptr;
    Py_DECREF(last);
  }
  Py_CLEAR(step->gate);
  Py_CLEAR(step->names);
  Py_CLEAR(step->call);
  delete[] step->patterns;
  delete step->reads;
  delete step->writes;
  delete step->plans;
  delete step->conditions;
  type->tp_free(self);
  Py_DECREF(type);
}

int step_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* step = reinterpret_cast<Step*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(step->call);
  for (const Plan& plan : *step->plans) Py_VISIT(plan.program.get());
  for (Step* child = step->child; child; child = child->sibling)
    Py_VISIT(reinterpret_cast<PyObject*>(child));
  return 0;
}

PyObject* step_next(PyObject* self, void*) {
  PyObject* list = PyList_New(0);
  for (Step* child = reinterpret_cast<Step*>(self)->child; child; child = child->sibling)
    if (list && PyList_Append(list, reinterpret_cast<PyObject*>(child)) < 0) Py_CLEAR(list);
  return list;
}

PyObject* step_writes(PyObject* self, void*) {
  PyObject* list = PyList_New(0);
  const std::vector<int>* writes = reinterpret_cast<Step*>(self)->writes;
  for (int slot : writes ? std::span(*writes) : std::span<const int>()) {
    const Ref number(PyLong_FromLong(slot));
    if (!list || !number || PyList_Append(list, number.get()) < 0) Py_CLEAR(list);
  }
  return list;
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

// require(conditions): on numbers, without which the step does not fit from now on
PyObject* step_require(PyObject* self, PyObject* conditions) {
  if (!PyTuple_Check(conditions)) return PyErr_Format(PyExc_TypeError, "require(conditions)");
  std::vector<Expr> more(static_cast<std::size_t>(PyTuple_GET_SIZE(conditions)));
  for (std::size_t i = 0; i < more.size(); ++i)
    if (!more[i].take(PyTuple_GET_ITEM(conditions, static_cast<Py_ssize_t>(i)))) return nullptr;
  auto*& mine = reinterpret_cast<Step*>(self)->conditions;
  if (!mine) mine = new std::vector<Expr>;
  mine->insert(mine->end(), more.begin(), more.end());
  Py_RETURN_NONE;
}

PyMethodDef step_methods[] = {{"run", TRITORCH_FASTCALL(step_run), nullptr},
                              {"require", step_require, METH_O, nullptr},
                              {nullptr, nullptr, 0, nullptr}};

PyMemberDef step_members[] = {
    {"gate", T_OBJECT, offsetof(Step, gate), READONLY, nullptr},
    {"names", T_OBJECT, offsetof(Step, names), READONLY, nullptr},
    {"call", T_OBJECT, offsetof(Step, call), 0, nullptr},
    {"parent", T_OBJECT, offsetof(Step, parent), READONLY, nullptr},
    {"first", T_INT, offsetof(Step, first), READONLY, nullptr},
    {"met", T_INT, offsetof(Step, met), READONLY, nullptr},
    {"made", T_INT, offsetof(Step, made), READONLY, nullptr},
    {"numbers", T_INT, offsetof(Step, numbers), READONLY, nullptr},
    {"graph_break", T_BOOL, offsetof(Step, graph_break), READONLY, nullptr},
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

}  // namespace

bool add_step_type(PyObject* module) {
  step_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&step_spec));
  return step_type &&
         PyModule_AddObjectRef(module, "Step", reinterpret_cast<PyObject*>(step_type)) == 0;
}

}  // namespace tritorch
