#include "plans/trace.h"

#include <algorithm>
#include <utility>

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
    : recording(device, stream), outer_(recorder), outer_trace_(trace) {
  for (int i = 0; i < key.memory_count(); ++i) {
    const Array* array = key.array(key.memory(i).tensor);
    recording.add_input(array->storage, array->data());
  }
  for (int i = 0; i < key.tensor_count(); ++i) before_.push_back(look(key.tensor(i)));
  recording.asked = [this](PyObject* generator, long long count, std::uint32_t number) {
    draws.push_back({Ref::to(generator), count, number});
  };
  recorder = &recording;
  trace = this;
}

Trace::~Trace() {
  recorder = outer_;
  trace = outer_trace_;
}

Trace::Before Trace::look(Tensor* t) {
  return {t,       t->array, t->node, t->grad,      t->base,         t->view,
          t->created, t->hooks, t->leaf, t->inference, t->retains_grad, version_now(t)};
}

bool Trace::arguments_are_as_before() const {
  return std::ranges::all_of(before_, [&](const Before& was) {
    const Before is = look(was.tensor);
    const auto writes = std::ranges::count_if(written, [&](const Ref& each) {
      const auto* t = each.as<Tensor>();
      return t == was.tensor || (t->shared && t->shared == was.tensor->shared);
    });
    const auto same = [](PyObject* a, PyObject* b) {
      return a == b || (!is_set(a) && !is_set(b));
    };
    return is.array == was.array && same(is.node, was.node) && same(is.grad, was.grad) &&
           same(is.base, was.base) && same(is.view, was.view) && same(is.created, was.created) &&
           same(is.hooks, was.hooks) && is.leaf == was.leaf && is.inference == was.inference &&
           is.retains_grad == was.retains_grad && is.version - was.version == writes;
  });
}

PyObject* told_one(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
                   PyObject* result, Made::Kind kind) {
  if (trace && result)
    trace->made.push_back({kind, Ref::to(reinterpret_cast<PyObject*>(op)), Ref::to(params),
                           refs(inputs, n), refs(&result, 1), 0, {}, {}});
  return result;
}

PyObject* told_many(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
                    unsigned long mask, PyObject* results) {
  if (trace && results)
    trace->made.push_back({Made::many, Ref::to(reinterpret_cast<PyObject*>(op)), Ref::to(params),
                           refs(inputs, n),
                           refs(PySequence_Fast_ITEMS(results), PyTuple_GET_SIZE(results)), mask,
                           {}, {}});
  return results;
}

void told_wrapped(PyObject* tensor) {
  if (trace && tensor)
    trace->made.push_back({Made::wrapped, {}, {}, {}, refs(&tensor, 1), 0, {}, {}});
}

void told_alias(PyObject* input, PyObject* tensor) {
  if (trace && tensor)
    trace->made.push_back({Made::alias, {}, {}, refs(&input, 1), refs(&tensor, 1), 0, {}, {}});
}

void told_written(PyObject* tensor) {
  if (trace) trace->written.push_back(Ref::to(tensor));
}

void told_named(Node* node, PyObject* type, PyObject* call) {
  if (!trace) return;
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
