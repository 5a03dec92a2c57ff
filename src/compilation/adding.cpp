// Steps of the trace tree, added for calls that were made plainly.
#include <algorithm>

#include "compilation/state.h"

namespace tritorch {

namespace {

constexpr std::size_t kMostBranches = 64;

// Gives the tensors of a pattern, in their order, the dynamic layouts of `items`.  A dynamic number
// among arguments is the next that a run has.
bool take_layouts(Pattern& p, PyObject* items, Py_ssize_t& next, bool of_results) {
  if (p.kind == Pattern::computed) p.kind = Pattern::dynamic;
  if (p.kind == Pattern::fresh) {
    PyObject* item = next < PyTuple_GET_SIZE(items) ? PyTuple_GET_ITEM(items, next++) : Py_None;
    if (item == Py_None) return true;
    auto layout = std::make_unique<DynamicLayout>();
    if (!layout->read(item)) return false;
    (of_results ? p.with_more().layout : p.more->input.dynamic) = std::move(layout);
  }
  for (Pattern& each : p.items())
    if (!take_layouts(each, items, next, of_results)) return false;
  return true;
}

// The tensors that a call is given, once each.
void find_reads(const Pattern& p, std::vector<int>& reads) {
  if ((p.kind == Pattern::slot || p.kind == Pattern::fresh) &&
      std::ranges::find(reads, p.number) == reads.end())
    reads.push_back(p.number);
  for (const Pattern& each : p.items()) find_reads(each, reads);
}

// dynamic: (layouts of tensors from outside, layouts of results, conditions, this run's numbers)
bool make_dynamic(Region* r, Step* step, PyObject* dynamic) {
  PyObject *inputs, *results, *conditions, *numbers;
  if (!PyArg_ParseTuple(dynamic, "O!O!O!O!", &PyTuple_Type, &inputs, &PyTuple_Type, &results,
                        &PyTuple_Type, &conditions, &PyTuple_Type, &numbers))
    return false;
  Py_ssize_t next = 0;
  for (Pattern& p : step->args())
    if (!take_layouts(p, inputs, next, false)) return false;
  next = 0;
  if (!take_layouts(step->patterns[step->n_args], results, next, true)) return false;
  if (PyTuple_GET_SIZE(conditions)) step->conditions = new std::vector<Expr>;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(conditions); ++i) {
    step->conditions->emplace_back();
    if (!step->conditions->back().take(PyTuple_GET_ITEM(conditions, i))) return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(numbers); ++i) {
    r->numbers->emplace_back();
    read_number(PyTuple_GET_ITEM(numbers, i), r->numbers->back());
  }
  return true;
}

}  // namespace

// add(gate, args, names, call, result, writes, dynamic): a call that was made plainly, with all
// arguments in `args`, is a step from here on.  False: it cannot be told from others.
PyObject* add_step(PyObject* self, PyObject* args) {
  auto* r = reinterpret_cast<Region*>(self);
  PyObject *gate, *all, *names, *call, *result, *writes, *dynamic;
  if (!PyArg_ParseTuple(args, "OO!OOOO!O", &gate, &PyTuple_Type, &all, &names, &call, &result,
                        &PyTuple_Type, &writes, &dynamic))
    return nullptr;
  std::size_t branches;
  end_of(r->here, branches);
  if (branches >= kMostBranches) {
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
  step->numbers = static_cast<int>(r->numbers->size());
  Met met{r->serial, step->first, *r->numbers};
  const auto n = static_cast<unsigned>(PyTuple_GET_SIZE(all));
  step->n_args = static_cast<int>(n);
  step->patterns = new Pattern[n + std::size_t{1}];
  for (unsigned i = 0; i < n; ++i) {
    if (!make_pattern(PyTuple_GET_ITEM(all, i), met, step->patterns[i])) {
      met.take_back();
      if (PyErr_Occurred()) return nullptr;
      Py_RETURN_FALSE;
    }
  }
  for (const Pattern& p : step->args()) find_reads(p, *step->reads);
  step->met = met.next - step->first;
  assign_slots(r, met);
  // Its results: patterns of the same kind, with the spec of each tensor that is made here.
  Met made{r->serial, met.next, *r->numbers};
  Pattern& pattern = step->patterns[step->n_args];
  const auto result_pattern = [&](auto&& again, Pattern& p, PyObject* object) -> bool {
    if (Tensor* t = as_tensor(object)) {
      if (t->mark >> kSlotBits == r->serial) {
        p.kind = Pattern::slot;
        p.number = slot_of(t);
        return true;
      }
      p.kind = Pattern::fresh;
      p.number = made.next;
      const Ref spec(PyObject_CallOneArg(spec_handler, object));
      if (spec) p.object = Ref(new_deferred(spec.get(), nullptr));
      made.meet(t);
      return static_cast<bool>(p.object);
    }
    if (PyTuple_Check(object) || PyList_CheckExact(object)) {
      p.kind = Pattern::sequence;
      p.object = Ref::to(reinterpret_cast<PyObject*>(Py_TYPE(object)));
      p.with_more().items.resize(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(object)));
      for (std::size_t i = 0; i < p.items().size(); ++i)
        if (!again(again, p.items()[i], PySequence_Fast_ITEMS(object)[i])) return false;
      return true;
    }
    p.kind = Pattern::same;
    p.object = Ref::to(object);
    return true;
  };
  if (!result_pattern(result_pattern, pattern, result)) return nullptr;
  step->made = made.next - met.next;
  assign_slots(r, made);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(writes); ++i)
    if (Tensor* t = as_tensor(PyTuple_GET_ITEM(writes, i)))
      if (t->mark >> kSlotBits == r->serial) {
        if (!step->writes) step->writes = new std::vector<int>;
        step->writes->push_back(slot_of(t));
      }
  if (dynamic != Py_None && !make_dynamic(r, step, dynamic)) return nullptr;
  *end_of(r->here, branches) = step;  // Python ran, and other threads with it
  owned.release();
  r->here = step;
  Py_RETURN_TRUE;
}

// forget(call): the step of a call that was added last, of which Python could not keep what it has
// to.  It stays in the tree, other threads may be there, but no call matches it any more.
PyObject* forget_step(PyObject* self, PyObject* call) {
  auto* r = reinterpret_cast<Region*>(self);
  if (r->here->call == call) {
    Py_XSETREF(r->here->gate, Py_NewRef(Py_None));
    Py_XSETREF(r->here->call, Py_NewRef(Py_None));
    r->eager = true;
    r->learns = false;
  }
  Py_RETURN_NONE;
}

// add_graph_break(gate, call): a call was made that needs all before it computed.
PyObject* add_graph_break(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  auto* r = reinterpret_cast<Region*>(self);
  if (n != 2) return PyErr_Format(PyExc_TypeError, "add_graph_break(gate, call)");
  for (Step* step = r->here->child; step; step = step->sibling)
    if (step->graph_break && step->gate == args[0]) {
      ++step->tries;
      r->here = step;
      Py_RETURN_FALSE;
    }
  std::size_t branches;
  end_of(r->here, branches);
  if (branches >= kMostBranches) {
    r->eager = true;
    Py_RETURN_FALSE;
  }
  Step* step = new_step(r->here);
  if (!step) return nullptr;
  step->gate = Py_NewRef(args[0]);
  step->call = Py_NewRef(args[1]);
  step->graph_break = true;
  step->tries = 1;
  step->first = static_cast<int>(r->slots->size());
  step->numbers = static_cast<int>(r->numbers->size());
  *end_of(r->here, branches) = step;
  r->here = step;
  Py_RETURN_TRUE;
}

}  // namespace tritorch
