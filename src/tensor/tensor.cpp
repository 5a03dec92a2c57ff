#include "tensor/tensor.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "array/array.h"
#include "tensor/placing.h"
#include "tensor/quiet.h"

namespace tritorch {

PyTypeObject* tensor_type = nullptr;

namespace {

// ---- state --------------------------------------------------------------------------------------

thread_local bool grad_enabled = true;
thread_local bool inference_mode = false;
thread_local bool saving_hooks = false;   // saved-tensor hooks are installed
thread_local bool tracing_calls = false;  // anomaly mode: nodes keep the stack of their call
std::uint64_t next_sequence = 0;          // under the GIL

// Registered from Python, once.
PyObject* size_type = nullptr;
PyObject* generic_type = nullptr;  // of NumPy's scalars
PyObject* asarray = nullptr;
PyObject* refresh_view = nullptr;    // (view): gives a view its node anew
PyObject* raise_modified = nullptr;  // (node, position): a saved tensor was changed
PyObject* pack_saved = nullptr;      // (node): applies the saved-tensor hooks
PyObject* unpack_saved = nullptr;    // (node) -> saved
PyObject* annotate_node = nullptr;   // (node): the stack of its call
PyObject* no_grad_view = nullptr;    // what a view made in no_grad mode notes of itself
PyObject* inference_view = nullptr;  // and one made in inference mode
PyObject* lend = nullptr;            // (node, position, tensor): the node saved it until written
PyObject* stream_probe = nullptr;    // (array) -> its stream; unset while all use the default one
PyObject* str_shape = nullptr;
PyObject* str_dtype = nullptr;
PyObject* str_ndim = nullptr;
PyObject* dtype_map = nullptr;  // a backend's dtype -> tritorch.dtype

// ---- Shared -------------------------------------------------------------------------------------

struct Shared {
  PyObject_HEAD PyObject* array;  // spans the storage; None while nobody asked
  PyObject* storage;              // the UntypedStorage, once somebody asked
  PyObject* lent;                 // who has to be asked before a write
  long long version;
};

int shared_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* s = reinterpret_cast<Shared*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(s->array);
  Py_VISIT(s->storage);
  Py_VISIT(s->lent);
  return 0;
}

int shared_clear(PyObject* self) {
  auto* s = reinterpret_cast<Shared*>(self);
  Py_CLEAR(s->array);
  Py_CLEAR(s->storage);
  Py_CLEAR(s->lent);
  return 0;
}

void shared_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  shared_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef shared_members[] = {{"array", T_OBJECT, offsetof(Shared, array), 0, nullptr},
                                {"storage", T_OBJECT, offsetof(Shared, storage), 0, nullptr},
                                {"lent", T_OBJECT, offsetof(Shared, lent), 0, nullptr},
                                {"version", T_LONGLONG, offsetof(Shared, version), 0, nullptr},
                                {nullptr, 0, 0, 0, nullptr}};
PyType_Slot shared_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_dealloc, reinterpret_cast<void*>(shared_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(shared_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(shared_clear)},
    {Py_tp_members, shared_members},
    {Py_tp_doc, const_cast<char*>("What all views of one storage share.")},
    {0, nullptr}};
PyType_Spec shared_spec = {"tritorch._C.Shared", sizeof(Shared), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, shared_slots};
PyTypeObject* shared_type = nullptr;

Shared* new_shared(PyObject* array) {
  auto* s = reinterpret_cast<Shared*>(shared_type->tp_alloc(shared_type, 0));
  if (s) s->array = Py_XNewRef(array);
  return s;
}

// ---- TensorBase ---------------------------------------------------------------------------------

struct Tensor {
  PyObject_HEAD PyObject* array;  // unset for tensors whose every operation takes the slow path
  PyObject* shadow;               // their array
  PyObject* node;                 // what computed this tensor
  PyObject* grad;
  Shared* shared;
  PyObject* base;     // the tensor that this one is a view of
  PyObject* view;     // how: (operator, params, the view of the view's source)
  PyObject* created;  // of a view whose writes autograd cannot follow: why
  PyObject* tangent;
  PyObject* hooks;
  long long epoch;  // of a view: the version of its memory that its node belongs to
  int output;       // which of node's outputs
  char leaf;        // a leaf that requires grad
  char inference;   // 2: made of an inference tensor outside of the mode, counts its own versions
  char retains_grad;
};

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* t = reinterpret_cast<Tensor*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(t->array);
  Py_VISIT(t->shadow);
  Py_VISIT(t->node);
  Py_VISIT(t->grad);
  Py_VISIT(t->shared);
  Py_VISIT(t->base);
  Py_VISIT(t->view);
  Py_VISIT(t->created);
  Py_VISIT(t->tangent);
  Py_VISIT(t->hooks);
  return 0;
}

int tensor_clear(PyObject* self) {
  auto* t = reinterpret_cast<Tensor*>(self);
  Py_CLEAR(t->array);
  Py_CLEAR(t->shadow);
  Py_CLEAR(t->node);
  Py_CLEAR(t->grad);
  Py_CLEAR(t->shared);
  Py_CLEAR(t->base);
  Py_CLEAR(t->view);
  Py_CLEAR(t->created);
  Py_CLEAR(t->tangent);
  Py_CLEAR(t->hooks);
  return 0;
}

void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, tensor_dealloc);
  tensor_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
  Py_TRASHCAN_END;
}

PyTypeObject* tensor_base_type = nullptr;

Tensor* as_tensor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == tensor_type || PyType_IsSubtype(type, tensor_base_type)
             ? reinterpret_cast<Tensor*>(object)
             : nullptr;
}

// Python clears fields by assigning None.
bool is_set(const PyObject* field) { return field && field != Py_None; }

PyObject* array_of(const Tensor* t) { return t->array ? t->array : t->shadow; }

bool has_history(PyObject* base) {
  auto* t = reinterpret_cast<Tensor*>(base);
  return t->leaf || is_set(t->node);
}

// Whether gradients flow to t.  A view whose memory was written since it was made, or since it was
// last asked, first learns its history anew.
// -1: a Python error is set.
int requires_grad(Tensor* t) {
  if (is_set(t->base) && t->shared && t->epoch != t->shared->version &&
      (is_set(t->node) || has_history(t->base))) {
    PyObject* done = PyObject_CallOneArg(refresh_view, reinterpret_cast<PyObject*>(t));
    if (!done) return -1;
    Py_DECREF(done);
  }
  if (t->leaf || is_set(t->node)) return 1;
  // PyTorch's rule: a view without history (made in no_grad mode, or before its base required grad)
  // seems to require grad when its base does.
  return is_set(t->base) ? requires_grad(reinterpret_cast<Tensor*>(t->base)) : 0;
}

// exact: a view, whose strides are meant.
Tensor* new_tensor(PyObject* array, bool exact = false) {
  PyObject* owned = nullptr;
  if (Py_TYPE(array) != reinterpret_cast<PyTypeObject*>(ndarray_type) &&
      PyType_IsSubtype(Py_TYPE(array), reinterpret_cast<PyTypeObject*>(generic_type))) {
    // NumPy answers 0-d questions with scalars.
    owned = PyObject_CallOneArg(asarray, array);
    if (!owned) return nullptr;
    array = owned;
  }
  if (!exact && !give_strides(array)) {
    Py_XDECREF(owned);
    return nullptr;
  }
  auto* t = reinterpret_cast<Tensor*>(tensor_type->tp_alloc(tensor_type, 0));
  if (t) {
    t->array = Py_NewRef(array);
    t->inference = inference_mode;
  }
  Py_XDECREF(owned);
  return t;
}

PyObject* tensor_new(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

PyObject* get_shape(PyObject* self, void*) {
  auto* t = reinterpret_cast<Tensor*>(self);
  PyObject* array = array_of(t);
  if (!array) return PyErr_Format(PyExc_RuntimeError, "the tensor is not initialised");
  PyObject* shape = PyObject_GetAttr(array, str_shape);
  if (!shape) return nullptr;
  PyObject* args = PyTuple_Pack(1, shape);
  Py_DECREF(shape);
  if (!args) return nullptr;
  PyObject* size = PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(size_type), args, nullptr);
  Py_DECREF(args);
  return size;
}

PyObject* get_ndim(PyObject* self, void*) {
  PyObject* array = array_of(reinterpret_cast<Tensor*>(self));
  if (!array) return PyErr_Format(PyExc_RuntimeError, "the tensor is not initialised");
  return PyObject_GetAttr(array, str_ndim);
}

PyObject* get_dtype(PyObject* self, void*) {
  PyObject* array = array_of(reinterpret_cast<Tensor*>(self));
  if (!array) return PyErr_Format(PyExc_RuntimeError, "the tensor is not initialised");
  PyObject* dtype = PyObject_GetAttr(array, str_dtype);
  if (!dtype) return nullptr;
  PyObject* ours = PyDict_GetItemWithError(dtype_map, dtype);
  if (ours) {
    Py_DECREF(dtype);
    return Py_NewRef(ours);
  }
  if (PyErr_Occurred()) {
    Py_DECREF(dtype);
    return nullptr;
  }
  return dtype;  // a device array has our dtypes itself
}

PyObject* get_requires_grad(PyObject* self, void*) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (is_set(t->created) && (t->leaf || is_set(t->node) ||
                             (is_set(t->base) && is_set(reinterpret_cast<Tensor*>(t->base)->node))))
    Py_RETURN_TRUE;
  int needed = requires_grad(t);
  return needed < 0 ? nullptr : PyBool_FromLong(needed);
}

PyObject* get_node(PyObject* self, void*) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (requires_grad(t) < 0) return nullptr;
  return Py_NewRef(t->node ? t->node : Py_None);
}

PyObject* get_version(PyObject* self, void*) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (t->inference == 1)
    return PyErr_Format(PyExc_RuntimeError, "Inference tensors do not track version counter.");
  return PyLong_FromLongLong(t->shared ? t->shared->version : 0);
}

PyObject* get_shared(PyObject* self, void*) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (!t->shared && !(t->shared = new_shared(array_of(t)))) return nullptr;
  return Py_NewRef(reinterpret_cast<PyObject*>(t->shared));
}

int set_shared(PyObject* self, PyObject* value, void*) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (value == Py_None) value = nullptr;
  if (value && Py_TYPE(value) != shared_type) {
    PyErr_SetString(PyExc_TypeError, "expected _C.Shared");
    return -1;
  }
  Py_XSETREF(t->shared, reinterpret_cast<Shared*>(Py_XNewRef(value)));
  return 0;
}

// Whether this is an inference tensor outside of the mode, which may not be written.
PyObject* get_frozen(PyObject* self, void*) {
  return PyBool_FromLong(reinterpret_cast<Tensor*>(self)->inference == 1 && !inference_mode);
}

// The array, wherever it is.
PyObject* get_array(PyObject* self, void*) {
  PyObject* array = array_of(reinterpret_cast<Tensor*>(self));
  return Py_NewRef(array ? array : Py_None);
}

PyMemberDef tensor_members[] = {
    {"_a", T_OBJECT_EX, offsetof(Tensor, array), 0, nullptr},
    {"_shadow", T_OBJECT_EX, offsetof(Tensor, shadow), 0, nullptr},
    {"_raw_node", T_OBJECT, offsetof(Tensor, node), 0, nullptr},
    {"_grad", T_OBJECT, offsetof(Tensor, grad), 0, nullptr},
    {"_base", T_OBJECT, offsetof(Tensor, base), 0, nullptr},
    {"_view", T_OBJECT, offsetof(Tensor, view), 0, nullptr},
    {"_created", T_OBJECT, offsetof(Tensor, created), 0, nullptr},
    {"_tangent", T_OBJECT, offsetof(Tensor, tangent), 0, nullptr},
    {"_hooks", T_OBJECT, offsetof(Tensor, hooks), 0, nullptr},
    {"_epoch", T_LONGLONG, offsetof(Tensor, epoch), 0, nullptr},
    {"output_nr", T_INT, offsetof(Tensor, output), 0, nullptr},
    {"_leaf", T_BOOL, offsetof(Tensor, leaf), 0, nullptr},
    {"_inference", T_BOOL, offsetof(Tensor, inference), 0, nullptr},
    {"_retains_grad", T_BOOL, offsetof(Tensor, retains_grad), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef tensor_properties[] = {{"shape", get_shape, nullptr, nullptr, nullptr},
                                   {"ndim", get_ndim, nullptr, nullptr, nullptr},
                                   {"dtype", get_dtype, nullptr, nullptr, nullptr},
                                   {"_requires_grad", get_requires_grad, nullptr, nullptr, nullptr},
                                   {"_node", get_node, nullptr, nullptr, nullptr},
                                   {"_version", get_version, nullptr, nullptr, nullptr},
                                   {"_shared", get_shared, set_shared, nullptr, nullptr},
                                   {"_array", get_array, nullptr, nullptr, nullptr},
                                   {"_frozen", get_frozen, nullptr, nullptr, nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot tensor_slots[] = {{Py_tp_new, reinterpret_cast<void*>(tensor_new)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
                              {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
                              {Py_tp_members, tensor_members},
                              {Py_tp_getset, tensor_properties},
                              {Py_tp_doc, const_cast<char*>("The fields of a tensor.")},
                              {0, nullptr}};
PyType_Spec tensor_spec = {"tritorch._C.TensorBase", sizeof(Tensor), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                           tensor_slots};

// ---- what nodes and operators are ---------------------------------------------------------------

constexpr int kInputs = 16;  // beyond, an operator saves everything

struct Operator {
  PyObject_HEAD PyObject* node_type;
  // What the gradient of input i needs; bit j of entry i:
  unsigned saves[kInputs];      // input j
  unsigned shapes[kInputs];     // the shape of input j
  unsigned saves_out[kInputs];  // output j
  unsigned lends;               // bit j: input j, and bit 31: the output, is saved until written
  unsigned keeps;               // bit j: input j must not be written, though it is not saved
  char differentiable;
  char keeps_numbers;  // a number among operands is saved, so a second pass is one too many
  Placing placing;
  char masks;      // so many inputs at the start are not cast
  unsigned apart;  // bit j: input j, where it is a number, is no operand
};

// ---- NodeBase -----------------------------------------------------------------------------------

struct Node {
  PyObject_HEAD PyObject* op;
  PyObject* edges;       // for each input: a Node, a leaf Tensor, or None
  PyObject* outputs;     // which output of each edge's node; None when all are the first
  PyObject* saved;       // for each input: it, its shape or None, as the gradient needs
  PyObject* out;         // the output's array (or arrays, or None), when the gradient needs it
  PyObject* out_shared;  // the same outputs' Shared
  PyObject* params;      // the operator's other arguments
  PyObject* versions;    // of what is saved, when any is not 0
  PyObject* kept;        // (input, its Shared, version, shape, dtype) of what must not be written
  PyObject* shape;       // of the output; a tuple of shapes for several
  PyObject* dtype;
  PyObject* hooks;  // Python's business: hooks, metadata
  PyObject* stream;
  unsigned long long sequence;
  unsigned long long mark;  // of the last walk over the graph that came here
  long long out_version;    // of the output, when it was saved; of several, they are 0
  unsigned long flows;      // bit i: gradients flow through output i, of several
  int n_outputs;            // 0: one, not in a tuple
  char freed;
  char packed;
  char keeps_numbers;  // the operator's
};

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* n = reinterpret_cast<Node*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(n->op);
  Py_VISIT(n->edges);
  Py_VISIT(n->outputs);
  Py_VISIT(n->saved);
  Py_VISIT(n->out);
  Py_VISIT(n->out_shared);
  Py_VISIT(n->params);
  Py_VISIT(n->versions);
  Py_VISIT(n->kept);
  Py_VISIT(n->shape);
  Py_VISIT(n->dtype);
  Py_VISIT(n->hooks);
  Py_VISIT(n->stream);
  return 0;
}

int node_clear(PyObject* self) {
  auto* n = reinterpret_cast<Node*>(self);
  Py_CLEAR(n->op);
  Py_CLEAR(n->edges);
  Py_CLEAR(n->outputs);
  Py_CLEAR(n->saved);
  Py_CLEAR(n->out);
  Py_CLEAR(n->out_shared);
  Py_CLEAR(n->params);
  Py_CLEAR(n->versions);
  Py_CLEAR(n->kept);
  Py_CLEAR(n->shape);
  Py_CLEAR(n->dtype);
  Py_CLEAR(n->hooks);
  Py_CLEAR(n->stream);
  return 0;
}

void node_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  // A chain of nodes must not be a chain of C frames.
  Py_TRASHCAN_BEGIN(self, node_dealloc);
  node_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
  Py_TRASHCAN_END;
}

PyObject* node_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self) reinterpret_cast<Node*>(self)->sequence = next_sequence++;
  return self;
}

long long version_of(PyObject* object) {
  Tensor* t = as_tensor(object);
  return t && t->shared ? t->shared->version : 0;
}

// Whether what the node keeps an eye on is as it was.  False: a Python error is set.
bool check_kept(Node* n) {
  for (Py_ssize_t i = 0; is_set(n->kept) && i < PyTuple_GET_SIZE(n->kept); ++i) {
    PyObject* each = PyTuple_GET_ITEM(n->kept, i);
    auto* shared = reinterpret_cast<Shared*>(PyTuple_GET_ITEM(each, 1));
    if (shared->version == PyLong_AsLongLong(PyTuple_GET_ITEM(each, 2))) continue;
    PyObject* done =
        PyObject_CallFunction(raise_modified, "OO", reinterpret_cast<PyObject*>(n), each);
    Py_XDECREF(done);
    return false;
  }
  return true;
}

PyTypeObject* operator_base_type = nullptr;

constexpr const char* kDetached =
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
    "This is not supported, please use out-of-place `.detach()` instead";

// Whether a saved tensor is the argument of an edge, and has lost its history since.
bool was_detached(const Node* n, Py_ssize_t i) {
  // What a custom function saves need not be its arguments.
  if (!is_set(n->op) || !PyObject_TypeCheck(n->op, operator_base_type)) return false;
  const Tensor* t = as_tensor(PyTuple_GET_ITEM(n->saved, i));
  if (!t || i >= PyTuple_GET_SIZE(n->edges)) return false;
  PyObject* edge = PyTuple_GET_ITEM(n->edges, i);
  return edge != Py_None && !t->leaf && !is_set(t->node) && !as_tensor(edge) && !is_set(t->tangent);
}

// unpack() -> what was saved, after checking that none of it was modified since.
PyObject* node_unpack(PyObject* self, PyObject*) {
  auto* n = reinterpret_cast<Node*>(self);
  if (!check_kept(n)) return nullptr;
  if (n->packed) return PyObject_CallOneArg(unpack_saved, self);
  if (!is_set(n->saved)) return Py_NewRef(Py_None);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(n->saved); ++i) {
    long long now = version_of(PyTuple_GET_ITEM(n->saved, i));
    long long then = is_set(n->versions) ? PyLong_AsLongLong(PyTuple_GET_ITEM(n->versions, i)) : 0;
    if (now != then) return PyObject_CallFunction(raise_modified, "On", self, i);
    if (was_detached(n, i)) {
      PyErr_SetString(PyExc_RuntimeError, kDetached);
      return nullptr;
    }
  }
  return Py_NewRef(n->saved);
}

// One saved output as a tensor of its node, after checking that it was not modified since.
PyObject* saved_output(Node* n, PyObject* array, PyObject* shared, Py_ssize_t nr) {
  if (is_set(shared) && reinterpret_cast<Shared*>(shared)->version != n->out_version)
    return PyObject_CallFunction(raise_modified, "On", reinterpret_cast<PyObject*>(n), -1 - nr);
  Tensor* t = new_tensor(array);
  if (!t) return nullptr;
  if (!n->n_outputs || ((n->flows >> (nr < 63 ? nr : 63)) & 1)) {
    t->node = Py_NewRef(reinterpret_cast<PyObject*>(n));
    t->output = static_cast<int>(nr);
  }
  if (is_set(shared)) t->shared = reinterpret_cast<Shared*>(Py_NewRef(shared));
  return reinterpret_cast<PyObject*>(t);
}

// output() -> the saved output as a tensor of this node; of several a tuple, None where not saved.
PyObject* node_output(PyObject* self, PyObject*) {
  auto* n = reinterpret_cast<Node*>(self);
  if (!is_set(n->out)) return Py_NewRef(Py_None);
  if (!PyTuple_Check(n->out)) return saved_output(n, n->out, n->out_shared, 0);
  const Py_ssize_t count = PyTuple_GET_SIZE(n->out);
  PyObject* outs = PyTuple_New(count);
  for (Py_ssize_t i = 0; outs && i < count; ++i) {
    PyObject* array = PyTuple_GET_ITEM(n->out, i);
    PyObject* out = array == Py_None
                        ? Py_NewRef(Py_None)
                        : saved_output(n, array, PyTuple_GET_ITEM(n->out_shared, i), i);
    if (!out)
      Py_CLEAR(outs);
    else
      PyTuple_SET_ITEM(outs, i, out);
  }
  return outs;
}

// free(): what was saved; a node that keeps shapes and numbers alone can run again.
PyObject* node_free(PyObject* self, PyObject*) {
  auto* n = reinterpret_cast<Node*>(self);
  bool needed = is_set(n->out) || is_set(n->kept) || n->packed;
  for (Py_ssize_t i = 0; !needed && is_set(n->saved) && i < PyTuple_GET_SIZE(n->saved); ++i) {
    PyObject* saved = PyTuple_GET_ITEM(n->saved, i);
    needed = saved != Py_None &&
             (as_tensor(saved) ||
              !(PyTuple_CheckExact(saved) || (PyNumber_Check(saved) && !n->keeps_numbers)));
  }
  if (!needed) Py_RETURN_NONE;
  Py_CLEAR(n->saved);
  Py_CLEAR(n->out);
  Py_CLEAR(n->out_shared);
  Py_CLEAR(n->versions);
  Py_CLEAR(n->kept);
  n->freed = 1;
  n->packed = 0;
  Py_RETURN_NONE;
}

// Whether a pass that does not retain the graph has something to free.
PyObject* get_holds(PyObject* self, void*) {
  auto* n = reinterpret_cast<Node*>(self);
  return PyBool_FromLong(is_set(n->saved) || is_set(n->out) || is_set(n->kept) || n->packed);
}

PyGetSetDef node_properties[] = {{"holds", get_holds, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef node_members[] = {
    {"op", T_OBJECT, offsetof(Node, op), 0, nullptr},
    {"edges", T_OBJECT, offsetof(Node, edges), 0, nullptr},
    {"outputs", T_OBJECT, offsetof(Node, outputs), 0, nullptr},
    {"saved", T_OBJECT, offsetof(Node, saved), 0, nullptr},
    {"out", T_OBJECT, offsetof(Node, out), 0, nullptr},
    {"out_shared", T_OBJECT, offsetof(Node, out_shared), 0, nullptr},
    {"params", T_OBJECT, offsetof(Node, params), 0, nullptr},
    {"versions", T_OBJECT, offsetof(Node, versions), 0, nullptr},
    {"kept", T_OBJECT, offsetof(Node, kept), 0, nullptr},
    {"shape", T_OBJECT, offsetof(Node, shape), 0, nullptr},
    {"dtype", T_OBJECT, offsetof(Node, dtype), 0, nullptr},
    {"hooks", T_OBJECT, offsetof(Node, hooks), 0, nullptr},
    {"stream", T_OBJECT, offsetof(Node, stream), 0, nullptr},
    {"out_version", T_LONGLONG, offsetof(Node, out_version), READONLY, nullptr},
    {"sequence", T_ULONGLONG, offsetof(Node, sequence), 0, nullptr},
    {"n_outputs", T_INT, offsetof(Node, n_outputs), 0, nullptr},
    {"freed", T_BOOL, offsetof(Node, freed), 0, nullptr},
    {"packed", T_BOOL, offsetof(Node, packed), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef node_methods[] = {{"unpack", node_unpack, METH_NOARGS, nullptr},
                              {"output", node_output, METH_NOARGS, nullptr},
                              {"free", node_free, METH_NOARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};
PyType_Slot node_slots[] = {{Py_tp_new, reinterpret_cast<void*>(node_new)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
                            {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
                            {Py_tp_members, node_members},
                            {Py_tp_getset, node_properties},
                            {Py_tp_methods, node_methods},
                            {Py_tp_doc, const_cast<char*>("One recorded call of an operator.")},
                            {0, nullptr}};
PyType_Spec node_spec = {"tritorch._C.NodeBase", sizeof(Node), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, node_slots};
PyTypeObject* node_base_type = nullptr;

// ---- OperatorBase -------------------------------------------------------------------------------

int operator_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Operator*>(self)->node_type);
  return 0;
}

int operator_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Operator*>(self)->node_type);
  return 0;
}

void operator_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  operator_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

bool read_masks(PyObject* given, unsigned* masks) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given) && i < kInputs; ++i)
    masks[i] = static_cast<unsigned>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(given, i)));
  return !PyErr_Occurred();
}

// _define(node_type, saves, shapes, saves_out: tuples of masks, lends, keeps: masks,
// differentiable)
PyObject* operator_define(PyObject* self, PyObject* args) {
  auto* op = reinterpret_cast<Operator*>(self);
  PyObject *type, *saves, *shapes, *saves_out;
  int differentiable;
  if (!PyArg_ParseTuple(args, "OO!O!O!IIp", &type, &PyTuple_Type, &saves, &PyTuple_Type, &shapes,
                        &PyTuple_Type, &saves_out, &op->lends, &op->keeps, &differentiable))
    return nullptr;
  Py_XSETREF(op->node_type, Py_NewRef(type));
  op->differentiable = static_cast<char>(differentiable);
  if (!read_masks(saves, op->saves) || !read_masks(shapes, op->shapes) ||
      !read_masks(saves_out, op->saves_out))
    return nullptr;
  Py_RETURN_NONE;
}

// What is known of a call before it is recorded: which inputs want a gradient.
struct Wanted {
  bool any = false;
  unsigned saves = 0;
  unsigned shapes = 0;
  unsigned saves_out = 0;
};

bool find_wanted(const Operator* op, PyObject* const* inputs, Py_ssize_t n, Wanted* wanted) {
  if (!grad_enabled || !op->differentiable) return true;
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

constexpr const char* kSavedInference =
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference "
    "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
    "normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
    "`torch.inference_mode()`.";

// Notes inputs that PyTorch saves and this gradient does not need: see `keeps` in declare.py.
bool keep_inputs(const Operator* op, Node* node, PyObject* const* inputs, Py_ssize_t n,
                 unsigned saves) {
  node->kept = PyTuple_New(0);
  for (Py_ssize_t i = 0; node->kept && i < n; ++i) {
    const int bit = i < 31 ? static_cast<int>(i) : 31;
    Tensor* t = as_tensor(inputs[i]);
    if (!t || t->inference || !((op->keeps >> bit) & 1) || ((saves >> bit) & 1)) continue;
    if (!t->shared && !(t->shared = new_shared(array_of(t)))) return false;
    PyObject* shape = PyObject_GetAttr(array_of(t), str_shape);
    PyObject* dtype = PyObject_GetAttr(array_of(t), str_dtype);
    PyObject* each = shape && dtype
                         ? Py_BuildValue("(nOLNN)", i, reinterpret_cast<PyObject*>(t->shared),
                                         t->shared->version, shape, dtype)
                         : nullptr;
    if (!each) return false;
    const Py_ssize_t size = PyTuple_GET_SIZE(node->kept);
    if (_PyTuple_Resize(&node->kept, size + 1) < 0) return false;
    PyTuple_SET_ITEM(node->kept, size, each);
  }
  return node->kept != nullptr;
}

// The node of a call: edges and saved inputs.  Not yet its outputs.
Node* new_node(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
               const Wanted& wanted) {
  auto* type = reinterpret_cast<PyTypeObject*>(op->node_type);
  auto* node = reinterpret_cast<Node*>(type->tp_alloc(type, 0));
  if (!node) return nullptr;
  node->sequence = next_sequence++;
  node->op = Py_NewRef(reinterpret_cast<PyObject*>(op));
  node->params = Py_XNewRef(params);
  node->keeps_numbers = op->keeps_numbers;
  node->edges = PyTuple_New(n);
  const bool saves = wanted.saves | wanted.shapes;
  node->saved = saves ? PyTuple_New(n) : nullptr;
  if (!node->edges || (saves && !node->saved)) {
    Py_DECREF(node);
    return nullptr;
  }
  if (op->keeps && !keep_inputs(op, node, inputs, n, wanted.saves)) {
    Py_DECREF(node);
    return nullptr;
  }
  bool later_outputs = false, later_versions = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(inputs[i]);
    PyObject* edge = Py_None;
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
        if (!(kept = PyObject_GetAttr(array_of(t), str_shape))) {
          Py_DECREF(node);
          return nullptr;
        }
      } else {
        kept = Py_NewRef(save ? inputs[i] : Py_None);
        if (save && t && t->inference) {
          PyErr_SetString(PyExc_RuntimeError, kSavedInference);
          Py_DECREF(kept);
          Py_DECREF(node);
          return nullptr;
        }
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
  return node;
}

// Notes what is saved only until it is written: see Note [Lent tensors] in graph.py.
bool lend_saved(const Operator* op, Node* node) {
  const Py_ssize_t n = is_set(node->saved) ? PyTuple_GET_SIZE(node->saved) : 0;
  for (Py_ssize_t i = -1; i < n; ++i) {
    PyObject* shared = i < 0 ? node->out_shared : nullptr;
    Tensor* saved = i < 0 ? nullptr : as_tensor(PyTuple_GET_ITEM(node->saved, i));
    if (!((op->lends >> (i < 0 ? 31 : i)) & 1) || !(shared || saved)) continue;
    if (saved && !saved->shared && !(saved->shared = new_shared(array_of(saved)))) return false;
    if (saved) shared = reinterpret_cast<PyObject*>(saved->shared);
    PyObject* done =
        PyObject_CallFunction(lend, "OnO", reinterpret_cast<PyObject*>(node), i, shared);
    if (!done) return false;
    Py_DECREF(done);
  }
  return true;
}

// What only some nodes need, once the outputs are known.  Returns false on an error.
bool complete_node(Node* node, PyObject* array) {
  auto* self = reinterpret_cast<PyObject*>(node);
  auto* op = reinterpret_cast<Operator*>(node->op);
  if (op->lends && !lend_saved(op, node)) return false;
  if (Py_TYPE(array) != reinterpret_cast<PyTypeObject*>(ndarray_type) && stream_probe) {
    PyObject* stream = PyObject_CallOneArg(stream_probe, array);
    if (!stream) return false;
    Py_XSETREF(node->stream, stream);
  }
  for (PyObject* callback :
       {saving_hooks && (is_set(node->saved) || is_set(node->out)) ? pack_saved : nullptr,
        tracing_calls ? annotate_node : nullptr}) {
    if (!callback) continue;
    PyObject* done = PyObject_CallOneArg(callback, self);
    if (!done) return false;
    Py_DECREF(done);
  }
  return true;
}

bool attach(Tensor* out, Node* node) {
  node->shape = PyObject_GetAttr(out->array, str_shape);
  node->dtype = PyObject_GetAttr(out->array, str_dtype);
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

// The same of several outputs, of which those in `wanted` are needed.
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

PyObject* finish_one(Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                     PyObject* params, bool is_view = false) {
  Wanted wanted;
  if (!find_wanted(op, inputs, n, &wanted)) return nullptr;
  Tensor* out = new_tensor(array, is_view);
  if (!out || !wanted.any) return reinterpret_cast<PyObject*>(out);
  Node* node = new_node(op, inputs, n, params, wanted);
  bool good = node && attach(out, node) && (!wanted.saves_out || save_output(out, node)) &&
              complete_node(node, out->array);
  Py_XDECREF(node);
  if (good) return reinterpret_cast<PyObject*>(out);
  Py_DECREF(out);
  return nullptr;
}

// A result where its operator says that it lies: the array itself, or a copy with other strides.
// computed: the dtype that operands are cast to, or null.
PyObject* laid_out(const Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                   PyObject* computed = nullptr) {
  constexpr Py_ssize_t most = 8;
  PyObject* few[most];
  std::vector<PyObject*> many(static_cast<std::size_t>(n > most ? n : 0));
  PyObject** arrays = n > most ? many.data() : few;
  Inputs given{arrays, 0, false, computed, static_cast<std::size_t>(op->masks)};
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(inputs[i]);
    if (!t && op->placing == Placing::elementwise)
      given.numbers |= !((op->apart >> (i < 31 ? i : 31)) & 1);
    else
      arrays[given.n++] = t ? t->array : nullptr;
  }
  return place_result(op->placing, array, given);
}

// Whether a Python number among operands is an integer that no integer type holds.
bool any_too_large(PyObject* const* inputs, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!PyLong_CheckExact(inputs[i])) continue;
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(inputs[i], &overflow);
    if (overflow == 0) continue;
    if (overflow > 0) PyLong_AsUnsignedLongLong(inputs[i]);
    if (overflow < 0 || PyErr_Occurred()) {
      PyErr_SetString(PyExc_OverflowError, "int too big to convert");
      return true;
    }
  }
  return false;
}

PyObject* finish_laid_out(PyObject* self, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                          PyObject* params, PyObject* computed = nullptr) {
  auto* op = reinterpret_cast<Operator*>(self);
  if (op->placing == Placing::own) return finish_one(op, array, inputs, n, params);
  if (op->placing == Placing::elementwise && any_too_large(inputs, n)) return nullptr;
  PyObject* moved = laid_out(op, array, inputs, n, computed);
  if (!moved) return nullptr;
  PyObject* result = finish_one(op, moved, inputs, n, params);
  Py_DECREF(moved);
  return result;
}

// finish(array, *inputs) -> Tensor
PyObject* operator_finish(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return PyErr_Format(PyExc_TypeError, "finish(array, *inputs)");
  return finish_laid_out(self, args[0], args + 1, n - 1, nullptr);
}

// apply(function, *arguments, *inputs) -> Tensor: finish(function(*arguments), *inputs), as many
// arguments as inputs, NumPy's floating point errors ignored
PyObject* operator_apply(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const Py_ssize_t count = n / 2;
  if (n % 2 == 0) return PyErr_Format(PyExc_TypeError, "apply(function, *arguments, *inputs)");
  PyObject* array = call_quietly(args[0], args + 1, static_cast<size_t>(count), nullptr);
  if (!array) return nullptr;
  PyObject* result = finish_laid_out(self, array, args + 1 + count, count, nullptr);
  Py_DECREF(array);
  return result;
}

// finish_cast(array, dtype, *inputs) -> Tensor: finish for inputs that PyTorch casts to the dtype
PyObject* operator_finish_cast(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return PyErr_Format(PyExc_TypeError, "finish_cast(array, dtype, *inputs)");
  return finish_laid_out(self, args[0], args + 2, n - 2, nullptr, args[1]);
}

// finish_with(array, params, *inputs) -> Tensor
PyObject* operator_finish_with(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return PyErr_Format(PyExc_TypeError, "finish_with(array, params, *inputs)");
  return finish_laid_out(self, args[0], args + 2, n - 2, args[1]);
}

// finish_view(array, params, input) -> a Tensor that shares input's storage
PyObject* operator_finish_view(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  Tensor* input = n == 3 ? as_tensor(args[2]) : nullptr;
  if (!input) return PyErr_Format(PyExc_TypeError, "finish_view(array, params, input)");
  auto* op = reinterpret_cast<Operator*>(self);
  if (!place_view(op->placing, args[0], array_of(input), args[1])) return nullptr;
  PyObject* result = finish_one(op, args[0], args + 2, 1, args[1], true);
  if (!result) return nullptr;
  auto* out = reinterpret_cast<Tensor*>(result);
  if (!input->shared && !(input->shared = new_shared(array_of(input)))) {
    Py_DECREF(result);
    return nullptr;
  }
  auto* shared = reinterpret_cast<PyObject*>(input->shared);
  Py_XSETREF(out->shared, reinterpret_cast<Shared*>(Py_NewRef(shared)));
  out->base = Py_NewRef(is_set(input->base) ? input->base : args[2]);
  out->epoch = out->shared->version;
  out->inference = input->inference != 0;
  PyObject* created = is_set(input->created) ? input->created
                      : inference_mode       ? inference_view
                      : grad_enabled         ? nullptr
                                             : no_grad_view;
  out->created = Py_XNewRef(created);
  out->view = PyTuple_Pack(3, self, args[1], input->view ? input->view : Py_None);
  if (!out->view) {
    Py_DECREF(result);
    return nullptr;
  }
  return result;
}

// view_batch(function, array, params) -> an ndarray of the views that function(example, *params)
// gives of an array's examples, which its first dim counts: the first one's, with that dim in
// front. None where that is not known.
PyObject* operator_view_batch(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  constexpr Py_ssize_t most = 8;
  if (n != 3 || !PyTuple_Check(args[2]))
    return PyErr_Format(PyExc_TypeError, "view_batch(function, array, params)");
  const NDArray* batch = as_ndarray(args[1]);
  const Py_ssize_t count = PyTuple_GET_SIZE(args[2]);
  if (!batch || batch->nd == 0 || batch->dimensions[0] == 0 || count > most) Py_RETURN_NONE;
  PyObject* first =
      view_of(args[1], batch->nd - 1, batch->dimensions + 1, batch->strides + 1, batch->data);
  if (!first) return nullptr;
  PyObject* arguments[most + 1] = {first};
  for (Py_ssize_t i = 0; i < count; ++i) arguments[i + 1] = PyTuple_GET_ITEM(args[2], i);
  PyObject* found =
      PyObject_Vectorcall(args[0], arguments, static_cast<std::size_t>(count + 1), nullptr);
  const bool good =
      found && place_view(reinterpret_cast<Operator*>(self)->placing, found, first, args[2]);
  Py_DECREF(first);
  const NDArray* view = good ? as_ndarray(found) : nullptr;
  PyObject* whole = good ? Py_None : nullptr;
  if (view && view->nd < Layout::kMaxDims) {
    Py_ssize_t shape[Layout::kMaxDims] = {batch->dimensions[0]};
    Py_ssize_t strides[Layout::kMaxDims] = {batch->strides[0]};
    std::copy_n(view->dimensions, view->nd, shape + 1);
    std::copy_n(view->strides, view->nd, strides + 1);
    whole = view_of(found, view->nd + 1, shape, strides, view->data, view->descr);
  } else {
    Py_XINCREF(whole);
  }
  Py_XDECREF(found);
  return whole;
}

// Whether a tensor is among arguments or items of theirs, or the base of one.
bool reaches(PyObject* const* args, Py_ssize_t n, const PyObject* base) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (args[i] == base) return true;
    if (Tensor* t = as_tensor(args[i])) {
      if (t->base == base) return true;
    } else if (PyTuple_Check(args[i]) || PyList_Check(args[i])) {
      if (reaches(PySequence_Fast_ITEMS(args[i]), PySequence_Fast_GET_SIZE(args[i]), base))
        return true;
    }
  }
  return false;
}

void own_result(PyObject* result, PyObject* const* args, Py_ssize_t n) {
  if (Py_TYPE(result) != tensor_type) return;
  auto* t = reinterpret_cast<Tensor*>(result);
  if (!is_set(t->base) || reaches(args, n, t->base)) return;
  Py_CLEAR(t->base);
  Py_CLEAR(t->view);
  Py_CLEAR(t->created);
}

// finish_many(arrays, differentiable, params, *inputs) -> tuple of Tensors.
// differentiable: bit i says whether gradients flow through output i.
PyObject* operator_finish_many(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 3 || !PyTuple_Check(args[0]))
    return PyErr_Format(PyExc_TypeError, "finish_many(arrays, mask, params, *inputs)");
  auto* op = reinterpret_cast<Operator*>(self);
  PyObject* arrays = args[0];
  const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
  const unsigned long mask = PyLong_AsUnsignedLongMask(args[1]);
  if (PyErr_Occurred()) return nullptr;
  Wanted wanted;
  if (!find_wanted(op, args + 3, n - 3, &wanted)) return nullptr;
  Node* node = nullptr;
  PyObject* outs = PyTuple_New(count);
  if (!outs) return nullptr;
  if (wanted.any && !(node = new_node(op, args + 3, n - 3, args[2], wanted))) {
    Py_DECREF(outs);
    return nullptr;
  }
  bool good = true;
  if (node) {
    node->n_outputs = static_cast<int>(count);
    node->shape = PyTuple_New(count);
    node->dtype = PyTuple_New(count);
    node->flows = mask;
    good = node->shape && node->dtype;
  }
  PyObject* first = nullptr;
  for (Py_ssize_t i = 0; good && i < count; ++i) {
    PyObject* array = PyTuple_GET_ITEM(arrays, i);
    if (array == Py_None) {
      PyTuple_SET_ITEM(outs, i, Py_NewRef(Py_None));
      if (node) {
        PyTuple_SET_ITEM(node->shape, i, Py_NewRef(Py_None));
        PyTuple_SET_ITEM(node->dtype, i, Py_NewRef(Py_None));
      }
      continue;
    }
    PyObject* moved =
        op->placing != Placing::own ? laid_out(op, array, args + 3, n - 3) : Py_NewRef(array);
    Tensor* out = moved ? new_tensor(moved) : nullptr;
    Py_XDECREF(moved);
    if (!(good = out != nullptr)) break;
    PyTuple_SET_ITEM(outs, i, reinterpret_cast<PyObject*>(out));
    if (!node) continue;
    if (!first) first = out->array;
    PyObject* shape = PyObject_GetAttr(out->array, str_shape);
    PyObject* dtype = PyObject_GetAttr(out->array, str_dtype);
    if (shape) PyTuple_SET_ITEM(node->shape, i, shape);
    if (dtype) PyTuple_SET_ITEM(node->dtype, i, dtype);
    good = shape && dtype;
    if (good && ((mask >> (i < 63 ? i : 63)) & 1)) {
      out->node = Py_NewRef(reinterpret_cast<PyObject*>(node));
      out->output = static_cast<int>(i);
    }
  }
  if (good && node && wanted.saves_out) good = save_outputs(outs, wanted.saves_out, node);
  if (good && node) good = complete_node(node, first ? first : arrays);
  Py_XDECREF(node);
  if (good) return outs;
  Py_DECREF(outs);
  return nullptr;
}

// record(out: Tensor, params, *inputs): an existing tensor becomes the output of this call (an
// in-place operator).  Returns the node, or None when nothing is recorded.
PyObject* operator_record(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  Tensor* out = n >= 2 ? as_tensor(args[0]) : nullptr;
  if (!out) return PyErr_Format(PyExc_TypeError, "record(out, params, *inputs)");
  auto* op = reinterpret_cast<Operator*>(self);
  Wanted wanted;
  if (!find_wanted(op, args + 2, n - 2, &wanted)) return nullptr;
  if (!wanted.any) Py_RETURN_NONE;
  Node* node = new_node(op, args + 2, n - 2, args[1], wanted);
  if (!node) return nullptr;
  PyObject* array = array_of(out);
  node->shape = PyObject_GetAttr(array, str_shape);
  node->dtype = PyObject_GetAttr(array, str_dtype);
  bool good = node->shape && node->dtype && (!wanted.saves_out || save_output(out, node)) &&
              complete_node(node, array);
  if (!good) {
    Py_DECREF(node);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(node);
}

// wants(*inputs) -> whether a call on these would be recorded, or the first must be asked for
// before it is written
PyObject* operator_wants(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  Wanted wanted;
  Tensor* first = n ? as_tensor(args[0]) : nullptr;
  if (first && first->shared && is_set(first->shared->lent)) Py_RETURN_TRUE;
  if (!find_wanted(reinterpret_cast<Operator*>(self), args, n, &wanted)) return nullptr;
  return PyBool_FromLong(wanted.any);
}

#define FAST(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL
PyMethodDef operator_methods[] = {{"_define", operator_define, METH_VARARGS, nullptr},
                                  {"finish", FAST(operator_finish), nullptr},
                                  {"apply", FAST(operator_apply), nullptr},
                                  {"finish_cast", FAST(operator_finish_cast), nullptr},
                                  {"finish_with", FAST(operator_finish_with), nullptr},
                                  {"finish_view", FAST(operator_finish_view), nullptr},
                                  {"view_batch", FAST(operator_view_batch), nullptr},
                                  {"finish_many", FAST(operator_finish_many), nullptr},
                                  {"record", FAST(operator_record), nullptr},
                                  {"wants", FAST(operator_wants), nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
PyMemberDef operator_members[] = {
    {"node_type", T_OBJECT, offsetof(Operator, node_type), READONLY, nullptr},
    {"differentiable", T_BOOL, offsetof(Operator, differentiable), 0, nullptr},
    {"keeps_numbers", T_BOOL, offsetof(Operator, keeps_numbers), 0, nullptr},
    {"placing", T_BYTE, offsetof(Operator, placing), 0, nullptr},
    {"masks", T_BYTE, offsetof(Operator, masks), 0, nullptr},
    {"apart", T_UINT, offsetof(Operator, apart), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot operator_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_dealloc, reinterpret_cast<void*>(operator_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(operator_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(operator_clear)},
    {Py_tp_methods, operator_methods},
    {Py_tp_members, operator_members},
    {Py_tp_doc, const_cast<char*>("Turns backend results into tensors and records calls.")},
    {0, nullptr}};
PyType_Spec operator_spec = {"tritorch._C.OperatorBase", sizeof(Operator), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                             operator_slots};

// ---- functions ----------------------------------------------------------------------------------

PyObject* wrap(PyObject*, PyObject* array) {
  return reinterpret_cast<PyObject*>(new_tensor(array));
}

// alias(input, array=None) -> a tensor on the same storage, without history
PyObject* alias(PyObject*, PyObject* const* args, Py_ssize_t n) {
  Tensor* input = n >= 1 ? as_tensor(args[0]) : nullptr;
  if (!input) return PyErr_Format(PyExc_TypeError, "alias(tensor, array=None)");
  if (!input->shared && !(input->shared = new_shared(array_of(input)))) return nullptr;
  Tensor* out = new_tensor(n > 1 ? args[1] : array_of(input), true);
  if (!out) return nullptr;
  out->shared = reinterpret_cast<Shared*>(Py_NewRef(reinterpret_cast<PyObject*>(input->shared)));
  out->inference = input->inference && !inference_mode ? 2 : input->inference;
  return reinterpret_cast<PyObject*>(out);
}

// restride(array, strides) -> whether an array could be given these strides, in elements
PyObject* restride_array(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyTuple_Check(args[1]))
    return PyErr_Format(PyExc_TypeError, "restride(array, strides)");
  std::vector<std::int64_t> strides;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i)
    strides.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(args[1], i)));
  if (PyErr_Occurred()) return nullptr;
  const bool done = restride(args[0], strides);
  return PyErr_Occurred() ? nullptr : PyBool_FromLong(done);
}

// place(placing, out, *inputs) -> out, a new tensor, its elements moved to where `placing` says
PyObject* place_tensor(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return PyErr_Format(PyExc_TypeError, "place(placing, out, *inputs)");
  Tensor* out = as_tensor(args[1]);
  if (!out) return Py_NewRef(args[1]);
  const long placing = PyLong_AsLong(args[0]);
  if (PyErr_Occurred()) return nullptr;
  std::vector<PyObject*> arrays;
  for (Py_ssize_t i = 2; i < n; ++i) {
    Tensor* t = as_tensor(args[i]);
    arrays.push_back(t ? t->array : nullptr);
    if (t == out || (t && t->array == out->array)) return Py_NewRef(args[1]);
  }
  if (!out->array || is_set(out->base)) return Py_NewRef(args[1]);
  PyObject* moved =
      place_result(static_cast<Placing>(placing), out->array, {arrays.data(), arrays.size()});
  if (!moved) return nullptr;
  if (moved != out->array && out->shared) {
    Shared* apart = new_shared(moved);
    if (!apart) {
      Py_DECREF(moved);
      return nullptr;
    }
    apart->version = out->shared->version;
    Py_SETREF(out->shared, apart);
  }
  Py_SETREF(out->array, moved);
  return Py_NewRef(args[1]);
}

PyObject* bump_version(PyObject*, PyObject* object) {
  Tensor* t = as_tensor(object);
  if (!t) return PyErr_Format(PyExc_TypeError, "expected a tensor");
  if (!t->shared && !(t->shared = new_shared(array_of(t)))) return nullptr;
  ++t->shared->version;
  Py_RETURN_NONE;
}

// is_writable(tensor, *sources): whether a write needs no further look: no gradient is wanted,
// nobody is lent the memory, and it is no inference tensor outside of its mode
PyObject* is_writable(PyObject*, PyObject* const* args, Py_ssize_t n) {
  Tensor* first = n ? as_tensor(args[0]) : nullptr;
  if (!first || (first->inference == 1 && !inference_mode) ||
      (first->shared && is_set(first->shared->lent)))
    Py_RETURN_FALSE;
  for (Py_ssize_t i = 0; grad_enabled && i < n; ++i) {
    Tensor* t = as_tensor(args[i]);
    if (t && (t->leaf || is_set(t->node) || is_set(t->base))) {
      int needed = is_set(t->created) ? 1 : requires_grad(t);
      if (needed < 0) return nullptr;
      if (needed) Py_RETURN_FALSE;
    }
  }
  Py_RETURN_TRUE;
}

PyObject* any_requires_grad(PyObject*, PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(args[i]);
    int needed = t ? requires_grad(t) : 0;
    if (needed < 0) return nullptr;
    if (needed) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

// shared_leaves(tensors) -> {id(leaf): edges}, for leaves that several edges of the graph behind
// the tensors lead to.
PyObject* shared_leaves(PyObject*, PyObject* tensors) {
  static unsigned long long walks = 0;
  const unsigned long long walk = ++walks;
  PyObject* roots = PySequence_Fast(tensors, "expected a sequence of tensors");
  if (!roots) return nullptr;
  std::vector<Node*> open;
  std::unordered_map<PyObject*, long> edges;
  auto come = [&](PyObject* target) {
    if (as_tensor(target)) {
      ++edges[target];
    } else if (PyObject_TypeCheck(target, node_base_type)) {
      auto* node = reinterpret_cast<Node*>(target);
      if (node->mark == walk) return;
      node->mark = walk;
      open.push_back(node);
    }
  };
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(roots); ++i) {
    PyObject* root = PySequence_Fast_GET_ITEM(roots, i);
    Tensor* t = as_tensor(root);
    if (t) come(is_set(t->node) ? t->node : root);
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (Py_ssize_t i = 0; is_set(node->edges) && i < PyTuple_GET_SIZE(node->edges); ++i)
      come(PyTuple_GET_ITEM(node->edges, i));
  }
  Py_DECREF(roots);
  PyObject* shared = PyDict_New();
  for (const auto& [leaf, count] : edges) {
    if (!shared || count < 2) continue;
    PyObject* key = PyLong_FromVoidPtr(leaf);
    PyObject* value = PyLong_FromLong(count);
    if (!key || !value || PyDict_SetItem(shared, key, value) < 0) Py_CLEAR(shared);
    Py_XDECREF(key);
    Py_XDECREF(value);
  }
  return shared;
}

PyObject* get_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled); }
PyObject* get_inference(PyObject*, PyObject*) { return PyBool_FromLong(inference_mode); }

PyObject* set_bool(bool* flag, PyObject* value) {
  int truth = PyObject_IsTrue(value);
  if (truth < 0) return nullptr;
  bool before = *flag;
  *flag = truth != 0;
  return PyBool_FromLong(before);
}
PyObject* set_grad_enabled(PyObject*, PyObject* value) { return set_bool(&grad_enabled, value); }
PyObject* set_inference(PyObject*, PyObject* value) { return set_bool(&inference_mode, value); }
PyObject* set_saving_hooks(PyObject*, PyObject* value) { return set_bool(&saving_hooks, value); }
PyObject* set_tracing(PyObject*, PyObject* value) { return set_bool(&tracing_calls, value); }

// register_tensor_parts(name, object): what the native half calls or creates.
PyObject* register_part(PyObject*, PyObject* args) {
  const char* name;
  PyObject* object;
  if (!PyArg_ParseTuple(args, "sO", &name, &object)) return nullptr;
  struct {
    const char* name;
    PyObject** slot;
  } parts[] = {{"Size", &size_type},
               {"ndarray", &ndarray_type},
               {"generic", &generic_type},
               {"asarray", &asarray},
               {"refresh_view", &refresh_view},
               {"raise_modified", &raise_modified},
               {"pack_saved", &pack_saved},
               {"unpack_saved", &unpack_saved},
               {"annotate_node", &annotate_node},
               {"no_grad_view", &no_grad_view},
               {"inference_view", &inference_view},
               {"lend", &lend},
               {"stream_probe", &stream_probe},
               {"lay_out", &lay_out},
               {"dtype_map", &dtype_map},
               {"Tensor", reinterpret_cast<PyObject**>(&tensor_type)}};
  for (auto& part : parts) {
    if (std::string_view(part.name) != name) continue;
    Py_XSETREF(*part.slot, Py_NewRef(object));
    Py_RETURN_NONE;
  }
  return PyErr_Format(PyExc_KeyError, "no part is named '%s'", name);
}

PyMethodDef functions[] = {
    {"wrap", wrap, METH_O, "A tensor of an array, without history."},
    {"alias", FAST(alias), "A tensor on the same storage, without history."},
    {"restride", FAST(restride_array), "Other strides where nothing is read through them."},
    {"place", FAST(place_tensor), "Moves a new tensor's elements to where they belong."},
    {"bump_version", bump_version, METH_O, "The tensor's memory was written."},
    {"any_requires_grad", FAST(any_requires_grad), nullptr},
    {"shared_leaves", shared_leaves, METH_O, "Leaves that several edges lead to."},
    {"is_writable", FAST(is_writable), "Whether a write needs no further look."},
    {"is_grad_enabled", get_grad_enabled, METH_NOARGS, nullptr},
    {"set_grad_enabled", set_grad_enabled, METH_O, "Returns what it was."},
    {"is_inference_mode", get_inference, METH_NOARGS, nullptr},
    {"set_inference_mode", set_inference, METH_O, "Returns what it was."},
    {"set_saving_hooks", set_saving_hooks, METH_O, "Returns what it was."},
    {"set_tracing_calls", set_tracing, METH_O, "Returns what it was."},
    {"register_part", register_part, METH_VARARGS, "What the native half calls or creates."},
    {nullptr, nullptr, 0, nullptr}};
#undef FAST

}  // namespace

void own_results(PyObject* result, PyObject* const* args, Py_ssize_t n) {
  if (!PyTuple_Check(result)) return own_result(result, args, n);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i)
    own_result(PyTuple_GET_ITEM(result, i), args, n);
}

bool add_tensor_types(PyObject* module) {
  struct {
    PyTypeObject** type;
    PyType_Spec* spec;
    const char* name;
  } types[] = {{&shared_type, &shared_spec, "Shared"},
               {&tensor_base_type, &tensor_spec, "TensorBase"},
               {&node_base_type, &node_spec, "NodeBase"}};
  for (auto& each : types) {
    *each.type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(each.spec));
    if (!*each.type ||
        PyModule_AddObjectRef(module, each.name, reinterpret_cast<PyObject*>(*each.type)) < 0)
      return false;
  }
  PyObject* operator_type = PyType_FromSpec(&operator_spec);
  operator_base_type = reinterpret_cast<PyTypeObject*>(operator_type);
  if (!operator_type || PyModule_AddObjectRef(module, "OperatorBase", operator_type) < 0)
    return false;
  tensor_type =
      reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(tensor_base_type)));
  dtype_map = PyDict_New();
  str_shape = PyUnicode_InternFromString("shape");
  str_dtype = PyUnicode_InternFromString("dtype");
  str_ndim = PyUnicode_InternFromString("ndim");
  return dtype_map && str_shape && str_dtype && str_ndim &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch
