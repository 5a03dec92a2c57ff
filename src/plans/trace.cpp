#include "plans/trace.h"

#include <algorithm>
#include <utility>

#include "tensor/quiet.h"

namespace tritorch::plans {
namespace {

long long version_now(const Tensor* t) { return t->shared ? t->shared->version : 0; }

std::vector<Ref> refs(PyObject* const* objects, Py_ssize_t n) {
  std::vector<Ref> kept;
  kept.reserve(static_cast<std::size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) kept.push_back(Ref::to(objects[i]));
  return kept;
}

}  // namespace

Trace::Trace(const Key& key, int device, cu::CUstream stream)
    : recording(device, stream), on_host(key.on_host()), outer_(recorder), outer_trace_(trace) {
  for (int i = 0; !on_host && i < key.memory_count(); ++i) {
    const Array* array = key.array(key.memory(i).tensor);
    recording.add_input(array->storage, array->data());
  }
  for (int i = 0; i < key.tensor_count(); ++i) before_.push_back(look(key.tensor(i)));
  recording.asked = [this](PyObject* generator, long long count, std::uint32_t number) {
    draws.push_back({Ref::to(generator), count, number});
  };
  if (!on_host) recorder = &recording;
  trace = this;
}

Trace::Trace() : recording(0, nullptr), on_host(true), outer_(recorder), outer_trace_(trace) {
  trace = this;
}

Trace::~Trace() {
  recorder = outer_;
  trace = outer_trace_;
}

Trace::Before Trace::look(Tensor* t) {
  return {t,          t->array, t->node, t->grad,      t->base,         t->view,
          t->created, t->hooks, t->leaf, t->inference, t->retains_grad, version_now(t)};
}

bool keeps_inputs(const Made& made) {
  return made.kind == Made::view || made.kind == Made::alias ||
         std::ranges::any_of(made.results, [](const Ref& result) {
           const Tensor* t = as_tensor(result.get());
           return t && is_set(t->node);
         });
}

std::vector<std::size_t> Trace::needed(PyObject* result) const {
  std::vector<bool> marked(made.size());
  const auto mark = [&](const auto& self, PyObject* object) -> void {
    if (PyTuple_Check(object) || PyList_Check(object)) {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
        self(self, PySequence_Fast_ITEMS(object)[i]);
      return;
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (std::ranges::none_of(made[i].results, [&](const Ref& r) { return r.get() == object; }))
        continue;
      if (marked[i]) return;
      marked[i] = true;
      if (on_host || keeps_inputs(made[i]))
        for (const Ref& input : made[i].inputs) self(self, input.get());
      return;
    }
  };
  mark(mark, result);
  for (const Ref& each : written) mark(mark, each.get());
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < made.size(); ++i)
    if (marked[i]) numbers.push_back(i);
  return numbers;
}

bool Trace::arguments_are_as_before() const {
  return std::ranges::all_of(before_, [&](const Before& was) {
    const Before is = look(was.tensor);
    const auto writes = std::ranges::count_if(written, [&](const Ref& each) {
      const auto* t = each.as<Tensor>();
      return t == was.tensor || (t->shared && t->shared == was.tensor->shared);
    });
    const auto same = [](PyObject* a, PyObject* b) { return a == b || (!is_set(a) && !is_set(b)); };
    return is.array == was.array && same(is.node, was.node) && same(is.grad, was.grad) &&
           same(is.base, was.base) && same(is.view, was.view) && same(is.created, was.created) &&
           same(is.hooks, was.hooks) && is.leaf == was.leaf && is.inference == was.inference &&
           is.retains_grad == was.retains_grad && is.version - was.version == writes;
  });
}

namespace {

// Whether calls are watched, and no function of arrays, whose own calls are its affair, runs.
bool watches() { return trace && !trace->within; }

void add(Made made) {
  for (const Ref& result : made.results) {
    const Tensor* t = as_tensor(result.get());
    made.arrays.push_back(t ? Ref::to(array_of(t)) : Ref());
  }
  trace->made.push_back(std::move(made));
}

}  // namespace

PyObject* told_one(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
                   PyObject* given, PyObject* computed, PyObject* result, Made::Kind kind) {
  if (result && watches())
    add({kind,
         Ref::to(reinterpret_cast<PyObject*>(op)),
         Ref::to(params),
         refs(inputs, n),
         refs(&result, 1),
         0,
         {},
         {},
         refs(&given, 1),
         Ref::to(computed),
         {}});
  return result;
}

PyObject* told_many(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
                    unsigned long mask, PyObject* given, PyObject* results) {
  if (results && watches())
    add({Made::many,
         Ref::to(reinterpret_cast<PyObject*>(op)),
         Ref::to(params),
         refs(inputs, n),
         refs(PySequence_Fast_ITEMS(results), PyTuple_GET_SIZE(results)),
         mask,
         {},
         {},
         refs(PySequence_Fast_ITEMS(given), PyTuple_GET_SIZE(given)),
         {},
         {}});
  return results;
}

void told_wrapped(PyObject* array, PyObject* tensor) {
  if (tensor && watches())
    add({Made::wrapped, {}, {}, {}, refs(&tensor, 1), 0, {}, {}, refs(&array, 1), {}, {}});
}

void told_alias(PyObject* input, PyObject* array, PyObject* tensor) {
  if (tensor && watches())
    add({Made::alias,
         {},
         {},
         refs(&input, 1),
         refs(&tensor, 1),
         0,
         {},
         {},
         refs(&array, 1),
         {},
         {}});
}

PyObject* watched_call(PyObject* function, PyObject* const* args, std::size_t flagged,
                       PyObject* names, Contents contents) {
  if (!trace->on_host || is_taken_apart(function))
    return PyObject_Vectorcall(function, args, flagged, names);
  ++trace->within;
  PyObject* result = PyObject_Vectorcall(function, args, flagged, names);
  --trace->within;
  const Py_ssize_t n = PyVectorcall_NARGS(flagged);
  if (result && watches())
    trace->calls.push_back({Ref::to(function),
                            refs(args, n + (names ? PyTuple_GET_SIZE(names) : 0)), Ref::to(names),
                            Ref::to(result), contents});
  return result;
}

bool is_taken_apart(PyObject* function) {
  if (trace->within || !is_parts(function)) return false;
  trace->has_parts = true;
  return !trace->whole;
}

void told_written(PyObject* tensor) {
  if (watches()) trace->written.push_back(Ref::to(tensor));
}

void told_named(Node* node, PyObject* type, PyObject* call) {
  if (!watches()) return;
  for (Made& each : trace->made)
    for (const Ref& result : each.results) {
      const Tensor* t = as_tensor(result.get());
      if (!t || t->node != reinterpret_cast<PyObject*>(node)) continue;
      each.node_type = Ref::to(type);
      each.node_call = Ref::to(call);
      return;
    }
  trace->recording.unfit("a node is named that was there before");
}

void told_unfit(const char* why) {
  if (trace) trace->recording.unfit(why);
}

}  // namespace tritorch::plans
