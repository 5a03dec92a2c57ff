// Flushes: deferred calls are computed by plans, or as they were made.
#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

#include "compilation/interrupts.h"
#include "compilation/program.h"
#include "compilation/state.h"

namespace tritorch {
namespace {

// Gives the results of a call to its slots.
bool receive(const Pattern& p, PyObject* computed, Region* r, std::vector<Ref>& values) {
  if (p.kind == Pattern::fresh) {
    Tensor* t = alive((*r->slots)[static_cast<std::size_t>(p.number)]);
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
      PySequence_Fast_GET_SIZE(computed) != static_cast<Py_ssize_t>(p.items().size())) {
    PyErr_SetString(PyExc_SystemError, "a followed call gave another number of results");
    return false;
  }
  for (std::size_t i = 0; i < p.items().size(); ++i)
    if (!receive(p.items()[i], PySequence_Fast_ITEMS(computed)[i], r, values)) return false;
  return true;
}

}  // namespace

bool run_step(const Step* step, Region* r, std::vector<Ref>& values) {
  std::vector<Ref> args;
  std::vector<PyObject*> given;
  for (const Pattern& p : step->args()) {
    args.emplace_back(build(p, values, *r->numbers));
    if (!args.back()) return false;
    given.push_back(args.back().get());
  }
  modes.grad_enabled = step->grad_enabled;
  modes.inference_mode = step->inference_mode;
  const auto n =
      static_cast<Py_ssize_t>(given.size()) - (step->names ? PyTuple_GET_SIZE(step->names) : 0);
  Ref result(call_plainly(r, step->gate, given.data(), n, step->names));
  return result && receive(step->result(), result.get(), r, values);
}

namespace {

// Makes the deferred calls, as the program made them.
bool run_plainly(Region* r, const std::vector<Step*>& steps, std::vector<Ref>& values) {
  const Modes before = modes;
  bool good = true;
  for (const Step* step : steps)
    if (!(good = run_step(step, r, values))) break;
  modes.grad_enabled = before.grad_enabled;
  modes.inference_mode = before.inference_mode;
  return good;
}

// The deferred tensors that somebody holds.
std::vector<int> find_held(const Region* r, const std::vector<Step*>& steps) {
  std::vector<int> held;
  for (const Step* step : steps)
    for (int slot = step->first + step->met; slot < step->first + step->met + step->made; ++slot)
      if (const Tensor* t = alive((*r->slots)[static_cast<std::size_t>(slot)]); t && is_deferred(t))
        held.push_back(slot);
  return held;
}

// The inputs that share memory.  An input that alone refers to its memory, and to its array, shares
// neither.
std::vector<Sharing> find_shared(const std::vector<Ref>& values) {
  struct Holder {
    const PyObject* owner;
    int slot;
    bool whole;
  };
  std::vector<Holder> holders;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor* t = values[i] ? as_tensor(values[i].get()) : nullptr;
    if (!t || !t->array) continue;
    const auto slot = static_cast<int>(i);
    auto* shared = reinterpret_cast<PyObject*>(t->shared);
    if (shared && Py_REFCNT(shared) > 1) holders.push_back({shared, slot, false});
    if (Py_REFCNT(t->array) > 1 + (t->shared && t->shared->array == t->array))
      holders.push_back({t->array, slot, true});
  }
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return a.owner != b.owner ? a.owner < b.owner : a.slot < b.slot;
  });
  std::vector<Sharing> found;
  for (std::size_t i = 1, first = 0; i < holders.size(); ++i) {
    if (holders[i].owner != holders[first].owner)
      first = i;
    else
      found.push_back({holders[first].slot, holders[i].slot, holders[i].whole});
  }
  std::sort(found.begin(), found.end(), [](const Sharing& a, const Sharing& b) {
    return std::tie(a.other, a.first, a.whole) < std::tie(b.other, b.first, b.whole);
  });
  return found;
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
  std::vector<Sharing> shared = find_shared(values);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].first != steps.front() || plans[i].held != held || plans[i].shared != shared)
      continue;
    Ref keeps = plans[i].program;  // another thread may put another in its place
    PyObject* program = keeps.get();
    if (Py_TYPE(program) == program_type)
      return run_program(program, reinterpret_cast<PyObject*>(r), values, *r->slots);
    if (PyTuple_CheckExact(
            program)) {  // (one that waits for a backward pass, the last one by then)
      if (PyLong_AsLong(PyTuple_GET_ITEM(program, 1)) == latest_pass)
        program = Py_None;
      else
        program = PyTuple_GET_ITEM(program, 0);
    }
    if (program == Py_None) return run_plainly(r, steps, values);
    Ref next = ask_python(r, steps, values, held, program);
    if (next) plans[i].program = std::move(next);
    return static_cast<bool>(plans[i].program) && !PyErr_Occurred();
  }
  if (plans.size() >= kMostPlans) return run_plainly(r, steps, values);
  Ref plan = ask_python(r, steps, values, held, compute_handler);
  if (!plan) return false;
  const bool known = std::ranges::any_of(plans, [&](const Plan& each) {
    return each.first == steps.front() && each.held == held && each.shared == shared;
  });  // another thread has found one meanwhile
  if (!known) plans.push_back({steps.front(), held, std::move(shared), std::move(plan)});
  return true;
}

}  // namespace

namespace {

// A thread that waits until another has flushed a region; under the GIL.
struct Wait {
  unsigned long thread;
  const Region* region;
};
std::vector<Wait> waits;

// True if the thread that flushes a region waits, by way of others, for this thread.
bool waits_for(unsigned long thread, const Region* r) {
  for (std::size_t links = 0; r && r->computing && links <= waits.size(); ++links) {
    if (r->computing == thread) return true;
    const auto next = std::find_if(waits.begin(), waits.end(),
                                   [&](const Wait& wait) { return wait.thread == r->computing; });
    r = next == waits.end() ? nullptr : next->region;
  }
  return false;
}

}  // namespace

void wait_while_computed(Region* r) {
  const unsigned long me = PyThread_get_thread_ident();
  if (!r->computing || waits_for(me, r)) return;
  const Ref keeps = Ref::to(reinterpret_cast<PyObject*>(r));
  waits.push_back({me, r});
  while (r->computing && !waits_for(me, r)) {
    Py_BEGIN_ALLOW_THREADS;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    Py_END_ALLOW_THREADS;
  }
  std::erase_if(waits, [&](const Wait& wait) { return wait.thread == me; });
}

namespace {

// Runs it to its end, if only an interrupt is against that: the deferred tensors may still be held
// when the interrupt is over.  Calls that write nothing are run again, and it is raised then.
bool run_to_end(Region* r, const std::vector<Step*>& steps, std::vector<Ref>& values, bool writes) {
  if (writes) return run_as_planned(r, steps, values);
  const std::vector<Ref> given = values;
  if (run_as_planned(r, steps, values)) return true;
  if (!is_interrupt()) return false;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  values = given;
  run_as_planned(r, steps, values);
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
  return false;
}

}  // namespace

bool compute(Region* r) {
  wait_for_others(r);
  if (r->steps->empty()) return true;
  const bool writes = std::ranges::any_of(*r->steps, [](const Step* s) { return s->writes; });
  Uninterrupted uninterrupted;
  if (writes) uninterrupted.begin();
  if (r->steps->empty()) return uninterrupted.finish(true);  // a handler has flushed it
  r->computing = PyThread_get_thread_ident();
  std::vector<Step*> steps;
  steps.swap(*r->steps);
  put_back(r);
  std::vector<Ref> values(r->slots->size());
  for (auto& [slot, tensor] : *r->kept) values[static_cast<std::size_t>(slot)] = tensor;
  r->kept->clear();
  r->is_kept->clear();
  Region* mine = region == r ? nullptr : region;  // another thread's is computed here
  if (mine) ++mine->busy;
  ++r->busy;
  const bool asked = set_modes_asked(false);  // they were asked when the calls came
  const bool good = run_to_end(r, steps, values, writes);
  if (r->steps->empty()) {  // its memory is for the next ones
    steps.clear();
    steps.swap(*r->steps);
  }
  set_modes_asked(asked);
  r->computing = 0;
  --deferring;
  --r->busy;
  if (mine) --mine->busy;
  return uninterrupted.finish(good);
}

bool flush_all() {
  if (flushes_held) return true;
  std::vector<Ref> found;  // while one is computed, others come and go
  for (Region* r : regions)
    if (!r->steps->empty() || r->computing)
      found.push_back(Ref::to(reinterpret_cast<PyObject*>(r)));
  for (const Ref& each : found)
    if (!compute(reinterpret_cast<Region*>(each.get()))) return false;
  return true;
}

}  // namespace tritorch
