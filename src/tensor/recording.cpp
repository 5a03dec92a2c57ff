// How a call is recorded: which inputs want a gradient, and the node that keeps what it needs.
#include "launch/pack.h"
#include "ref.h"
#include "tensor/fields.h"

namespace tritorch {
namespace {

constexpr const char* kSavedInference =
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference mode in computation tracked by autograd. To work around this, you can make a clone "
    "to get a "
    "normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
    "`torch.inference_mode()`.";

// Notes inputs that PyTorch saves and this gradient does not need: see `keeps` in operator.py.
bool keep_inputs(const Operator* op, Node* node, PyObject* const* inputs, Py_ssize_t n,
                 unsigned saves) {
  node->kept = PyTuple_New(0);
  for (Py_ssize_t i = 0; node->kept && i < n; ++i) {
    const int bit = i < 31 ? static_cast<int>(i) : 31;
    Tensor* t = as_tensor(inputs[i]);
    if (!t || t->inference || !((op->keeps >> bit) & 1) || ((saves >> bit) & 1)) continue;
    if (!t->shared && !(t->shared = new_shared(array_of(t)))) return false;
    const Ref shape(PyObject_GetAttr(array_of(t), names.shape));
    const Ref dtype(shape ? PyObject_GetAttr(array_of(t), names.dtype) : nullptr);
    if (!dtype) return false;
    Ref each(Py_BuildValue("(nOLOO)", i, reinterpret_cast<PyObject*>(t->shared), t->shared->version,
                           shape.get(), dtype.get()));
    if (!each) return false;
    const Py_ssize_t size = PyTuple_GET_SIZE(node->kept);
    if (_PyTuple_Resize(&node->kept, size + 1) < 0) return false;
    PyTuple_SET_ITEM(node->kept, size, each.release());
  }
  return node->kept != nullptr;
}

// Notes that a node keeps shared memory until it is written, and forgets nodes that are gone.
bool lend(Node* node, Py_ssize_t position, Shared* shared) {
  const Ref lent(PyList_New(0));
  const Py_ssize_t before = is_set(shared->lent) ? PyList_GET_SIZE(shared->lent) : 0;
  for (Py_ssize_t i = 0; lent && i < before; ++i) {
    PyObject* each = PyList_GET_ITEM(shared->lent, i);
    if (PyWeakref_GetObject(PyTuple_GET_ITEM(each, 0)) == Py_None) continue;
    if (PyList_Append(lent.get(), each) < 0) return false;
  }
  const Ref reference(PyWeakref_NewRef(reinterpret_cast<PyObject*>(node), nullptr));
  const Ref entry(reference ? Py_BuildValue("(On)", reference.get(), position) : nullptr);
  if (!lent || !entry || PyList_Append(lent.get(), entry.get()) < 0) return false;
  Py_XSETREF(shared->lent, Py_NewRef(lent.get()));
  return true;
}

// Notes what is saved only until it is written: see Note [Lent tensors] in graph.py.
bool lend_saved(const Operator* op, Node* node) {
  const Py_ssize_t n = is_set(node->saved) ? PyTuple_GET_SIZE(node->saved) : 0;
  for (Py_ssize_t i = -1; i < n; ++i) {
    auto* shared = i < 0 ? reinterpret_cast<Shared*>(node->out_shared) : nullptr;
    Tensor* saved = i < 0 ? nullptr : as_tensor(PyTuple_GET_ITEM(node->saved, i));
    if (!((op->lends >> (i < 0 ? 31 : i)) & 1) || !(shared || saved)) continue;
    if (saved && !saved->shared && !(saved->shared = new_shared(array_of(saved)))) return false;
    if (!lend(node, i, saved ? saved->shared : shared)) return false;
  }
  return true;
}

// Python makes the class of a record's nodes when its first call is recorded: most never are.
[[gnu::noinline]] bool make_node_type(Operator* op) {
  Ref made(PyObject_CallMethod(reinterpret_cast<PyObject*>(op), "_make_node_type", nullptr));
  if (made && !op->node_type) op->node_type = made.release();
  return op->node_type != nullptr;
}

}  // namespace

bool find_wanted(const Operator* op, PyObject* const* inputs, Py_ssize_t n, Wanted* wanted) {
  if (!modes.grad_enabled || !op->differentiable) return true;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(inputs[i]);
    if (!t) continue;
    int needed = requires_grad(t);
    if (needed < 0) return false;
    if (!needed) continue;
    wanted->any = true;
    const Py_ssize_t entry = i < kInputs ? i : kInputs - 1;
    wanted->saves |= op->saves[entry];
    wanted->shapes |= op->shapes[entry];
    wanted->saves_out |= op->saves_out[entry];
  }
  return true;
}

Node* new_node(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
               const Wanted& wanted) {
  if (!op->node_type && !make_node_type(op)) return nullptr;
  auto* type = reinterpret_cast<PyTypeObject*>(op->node_type);
  Ref made(type->tp_alloc(type, 0));
  auto* node = made.as<Node>();
  if (!node || !number(node)) return nullptr;
  node->op = Py_NewRef(reinterpret_cast<PyObject*>(op));
  node->params = Py_XNewRef(params);
  node->keeps_numbers = op->keeps_numbers;
  node->edges = PyTuple_New(n);
  const bool saves = wanted.saves | wanted.shapes;
  node->saved = saves ? PyTuple_New(n) : nullptr;
  if (!node->edges || (saves && !node->saved)) return nullptr;
  if (op->keeps && !keep_inputs(op, node, inputs, n, wanted.saves)) return nullptr;
  bool later_outputs = false, later_versions = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(inputs[i]);
    PyObject* edge = Py_None;
    if (!t) (inputs[i] == Py_None ? node->absent : node->numbers) |= 1u << (i < 31 ? i : 31);
    if (t && t->leaf) {
      edge = inputs[i];
    } else if (t && is_set(t->node)) {
      edge = t->node;
      later_outputs |= t->output != 0;
    }
    PyTuple_SET_ITEM(node->edges, i, Py_NewRef(edge));
    if (node->saved) {
      const int bit = i < 31 ? static_cast<int>(i) : 31;
      bool save = (wanted.saves >> bit) & 1;
      PyObject* kept = nullptr;
      if (!save && t && ((wanted.shapes >> bit) & 1)) {
        kept = op->describes ? PyObject_CallOneArg(registered.describe, inputs[i])
                             : PyObject_GetAttr(array_of(t), names.shape);
        if (!kept) return nullptr;
      } else {
        if (save && t && t->inference) {
          PyErr_SetString(PyExc_RuntimeError, kSavedInference);
          return nullptr;
        }
        kept = Py_NewRef(save ? inputs[i] : Py_None);
      }
      PyTuple_SET_ITEM(node->saved, i, kept);
      later_versions |= save && t && t->shared && t->shared->version != 0;
    }
  }
  if (later_outputs) {
    node->outputs = PyTuple_New(n);
    for (Py_ssize_t i = 0; node->outputs && i < n; ++i) {
      Tensor* t = as_tensor(inputs[i]);
      PyTuple_SET_ITEM(node->outputs, i, PyLong_FromLong(t && !t->leaf ? t->output : 0));
    }
  }
  if (later_versions) {
    node->versions = PyTuple_New(n);
    for (Py_ssize_t i = 0; node->versions && i < n; ++i)
      PyTuple_SET_ITEM(node->versions, i,
                       PyLong_FromLongLong(version_of(PyTuple_GET_ITEM(node->saved, i))));
  }
  made.release();
  return node;
}

int has_gradients(PyObject* array) {
  if (const NDArray* host = as_ndarray(array)) {
    const char kind = host->kind();
    return kind != 'i' && kind != 'u' && kind != 'b';
  }
  if (const Array* device = as_array(array)) {
    const char kind = kDTypeTable[static_cast<int>(device->dtype)].kind;
    return kind == 'f' || kind == 'c';
  }
  const Ref dtype(PyObject_GetAttr(array, names.dtype));
  const int found = dtype ? PySet_Contains(registered.integral, dtype.get()) : -1;
  return found < 0 ? found : !found;
}

bool complete_node(Node* node, PyObject* array) {
  auto* self = reinterpret_cast<PyObject*>(node);
  auto* op = reinterpret_cast<Operator*>(node->op);
  if (op->lends && !lend_saved(op, node)) return false;
  if (Py_TYPE(array) != reinterpret_cast<PyTypeObject*>(ndarray_type) && registered.stream_probe) {
    PyObject* stream = PyObject_CallOneArg(registered.stream_probe, array);
    if (!stream) return false;
    Py_XSETREF(node->stream, stream);
  }
  for (PyObject* callback :
       {modes.saving_hooks && (is_set(node->saved) || is_set(node->out)) ? registered.pack_saved
                                                                         : nullptr,
        modes.tracing_calls ? registered.annotate_node : nullptr}) {
    if (!callback) continue;
    const Ref done(PyObject_CallOneArg(callback, self));
    if (!done) return false;
  }
  return true;
}

bool attach(Tensor* out, Node* node) {
  node->shape = PyObject_GetAttr(out->array, names.shape);
  node->dtype = PyObject_GetAttr(out->array, names.dtype);
  if (!node->shape || !node->dtype) return false;
  out->node = Py_NewRef(reinterpret_cast<PyObject*>(node));
  return true;
}

bool save_output(Tensor* out, Node* node) {
  if (!out->shared && !(out->shared = new_shared(array_of(out)))) return false;
  node->out_shared = Py_NewRef(reinterpret_cast<PyObject*>(out->shared));
  node->out_version = out->shared->version;
  node->out = Py_NewRef(array_of(out));
  return true;
}

bool save_outputs(PyObject* outs, unsigned wanted, Node* node) {
  const Py_ssize_t count = PyTuple_GET_SIZE(outs);
  node->out = PyTuple_New(count);
  node->out_shared = PyTuple_New(count);
  if (!node->out || !node->out_shared) return false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Tensor* out =
        (wanted >> (i < 31 ? i : 31)) & 1 ? as_tensor(PyTuple_GET_ITEM(outs, i)) : nullptr;
    if (out && !out->shared && !(out->shared = new_shared(out->array))) return false;
    auto* shared = out ? reinterpret_cast<PyObject*>(out->shared) : Py_None;
    PyTuple_SET_ITEM(node->out, i, Py_NewRef(out ? out->array : Py_None));
    PyTuple_SET_ITEM(node->out_shared, i, Py_NewRef(shared));
  }
  return true;
}

}  // namespace tritorch
