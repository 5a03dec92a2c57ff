// NodeBase: what one recorded call keeps, and how its gradient gets at it.
#include "compilation/region.h"
#include "ref.h"
#include "tensor/fields.h"

namespace tritorch {

PyTypeObject* node_base_type = nullptr;

static std::uint64_t next = 0;

std::uint64_t next_sequence() { return next; }

PyObject* reserve_sequence_numbers(PyObject*, PyObject* count) {
  const auto n = PyLong_AsUnsignedLongLong(count);
  if (PyErr_Occurred()) return nullptr;
  next += n;
  Py_RETURN_NONE;
}

bool number(Node* n) {
  if (region && follows(region) && !flushed()) return false;
  n->sequence = next++;
  return true;
}

namespace {

using NodeFields =
    Collected<Node, &Node::op, &Node::edges, &Node::outputs, &Node::saved, &Node::out,
              &Node::out_shared, &Node::params, &Node::versions, &Node::kept, &Node::shape,
              &Node::dtype, &Node::hooks, &Node::call, &Node::stream>;

PyObject* node_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self && !number(reinterpret_cast<Node*>(self))) Py_CLEAR(self);
  return self;
}
// Whether what the node keeps an eye on is as it was.  False: a Python error is set.
bool check_kept(Node* n) {
  for (Py_ssize_t i = 0; is_set(n->kept) && i < PyTuple_GET_SIZE(n->kept); ++i) {
    PyObject* each = PyTuple_GET_ITEM(n->kept, i);
    auto* shared = reinterpret_cast<Shared*>(PyTuple_GET_ITEM(each, 1));
    if (shared->version == PyLong_AsLongLong(PyTuple_GET_ITEM(each, 2))) continue;
    const Ref done(PyObject_CallFunction(registered.raise_modified, "OO",
                                         reinterpret_cast<PyObject*>(n), each));
    return false;
  }
  return true;
}

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
  if (n->packed) return PyObject_CallOneArg(registered.unpack_saved, self);
  if (!is_set(n->saved)) return Py_NewRef(Py_None);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(n->saved); ++i) {
    long long now = version_of(PyTuple_GET_ITEM(n->saved, i));
    long long then = is_set(n->versions) ? PyLong_AsLongLong(PyTuple_GET_ITEM(n->versions, i)) : 0;
    if (now != then) return PyObject_CallFunction(registered.raise_modified, "On", self, i);
    if (was_detached(n, i)) {
      PyErr_SetString(PyExc_RuntimeError, kDetached);
      return nullptr;
    }
  }
  return Py_NewRef(n->saved);
}

// raise_modified(i): saved input i was written.
PyObject* node_raise_modified(PyObject* self, PyObject* position) {
  return PyObject_CallFunctionObjArgs(registered.raise_modified, self, position, nullptr);
}

// One saved output as a tensor of its node, after checking that it was not modified since.
PyObject* saved_output(Node* n, PyObject* array, PyObject* shared, Py_ssize_t nr) {
  if (is_set(shared) && reinterpret_cast<Shared*>(shared)->version != n->out_version)
    return PyObject_CallFunction(registered.raise_modified, "On", reinterpret_cast<PyObject*>(n),
                                 -1 - nr);
  // Of a class that dispatches the tensor itself is kept, without history.
  const Tensor* kept = as_tensor(array);
  Ref made(kept ? PyObject_CallMethod(array, "detach", nullptr)
                : reinterpret_cast<PyObject*>(new_tensor(array)));
  Tensor* t = made ? as_tensor(made.get()) : nullptr;
  if (!t) {
    if (made) PyErr_SetString(PyExc_TypeError, "detach() of a tensor gave no tensor");
    return nullptr;
  }
  if (!n->n_outputs || ((n->flows >> (nr < 63 ? nr : 63)) & 1)) {
    t->node = Py_NewRef(reinterpret_cast<PyObject*>(n));
    t->output = static_cast<int>(nr);
  }
  if (is_set(shared) && !kept) t->shared = reinterpret_cast<Shared*>(Py_NewRef(shared));
  return made.release();
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

// Whether a node cannot run again once what it saved is freed: it keeps more than shapes and
// numbers.
bool runs_once(const Node* n) {
  bool needed = is_set(n->out) || is_set(n->kept) || n->packed;
  for (Py_ssize_t i = 0; !needed && is_set(n->saved) && i < PyTuple_GET_SIZE(n->saved); ++i) {
    PyObject* saved = PyTuple_GET_ITEM(n->saved, i);
    needed = saved != Py_None &&
             (as_tensor(saved) ||
              !(PyTuple_Check(saved) || (PyNumber_Check(saved) && !n->keeps_numbers)));
  }
  return needed;
}

PyObject* get_runs_once(PyObject* self, void*) {
  return PyBool_FromLong(runs_once(reinterpret_cast<Node*>(self)));
}

// free(): what was saved.
PyObject* node_free(PyObject* self, PyObject*) {
  auto* n = reinterpret_cast<Node*>(self);
  const bool needed = runs_once(n);
  if (is_set(n->call)) Py_SETREF(n->call, Py_NewRef(Py_False));
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
  const bool called = is_set(n->call) && n->call != Py_False;
  return PyBool_FromLong(is_set(n->saved) || is_set(n->out) || is_set(n->kept) || n->packed ||
                         called);
}

PyGetSetDef node_properties[] = {{"_node_holds", get_holds, nullptr, nullptr, nullptr},
                                 {"_node_runs_once", get_runs_once, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef node_members[] = {
    {"_node_op", T_OBJECT, offsetof(Node, op), 0, nullptr},
    {"_node_edges", T_OBJECT, offsetof(Node, edges), 0, nullptr},
    {"_node_outputs", T_OBJECT, offsetof(Node, outputs), 0, nullptr},
    {"_node_saved", T_OBJECT, offsetof(Node, saved), 0, nullptr},
    {"_node_out", T_OBJECT, offsetof(Node, out), 0, nullptr},
    {"_node_out_shared", T_OBJECT, offsetof(Node, out_shared), 0, nullptr},
    {"_node_params", T_OBJECT, offsetof(Node, params), 0, nullptr},
    {"_node_versions", T_OBJECT, offsetof(Node, versions), 0, nullptr},
    {"_node_kept", T_OBJECT, offsetof(Node, kept), 0, nullptr},
    {"_node_shape", T_OBJECT, offsetof(Node, shape), 0, nullptr},
    {"_node_dtype", T_OBJECT, offsetof(Node, dtype), 0, nullptr},
    {"_node_hooks", T_OBJECT, offsetof(Node, hooks), 0, nullptr},
    {"_node_call", T_OBJECT, offsetof(Node, call), 0, nullptr},
    {"_node_stream", T_OBJECT, offsetof(Node, stream), 0, nullptr},
    {"_node_out_version", T_LONGLONG, offsetof(Node, out_version), READONLY, nullptr},
    {"_node_sequence", T_ULONGLONG, offsetof(Node, sequence), 0, nullptr},
    {"_node_numbers", T_UINT, offsetof(Node, numbers), READONLY, nullptr},
    {"_node_absent", T_UINT, offsetof(Node, absent), READONLY, nullptr},
    {"_node_n_outputs", T_INT, offsetof(Node, n_outputs), 0, nullptr},
    {"_node_flows", T_ULONG, offsetof(Node, flows), READONLY, nullptr},
    {"_node_freed", T_BOOL, offsetof(Node, freed), 0, nullptr},
    {"_node_packed", T_BOOL, offsetof(Node, packed), 0, nullptr},
    {"_node_divided", T_BOOL, offsetof(Node, divided), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef node_methods[] = {{"_node_unpack", node_unpack, METH_NOARGS, nullptr},
                              {"_node_raise_modified", node_raise_modified, METH_O, nullptr},
                              {"_node_output", node_output, METH_NOARGS, nullptr},
                              {"_node_free", node_free, METH_NOARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};
PyType_Slot node_slots[] = {{Py_tp_new, reinterpret_cast<void*>(node_new)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(NodeFields::dealloc)},
                            {Py_tp_traverse, reinterpret_cast<void*>(NodeFields::traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(NodeFields::clear)},
                            {Py_tp_members, node_members},
                            {Py_tp_getset, node_properties},
                            {Py_tp_methods, node_methods},
                            {Py_tp_doc, const_cast<char*>("One recorded call of an operator.")},
                            {0, nullptr}};

}  // namespace

PyType_Spec node_spec = {"tritorch._C.NodeBase", sizeof(Node), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, node_slots};

long long version_of(PyObject* object) {
  Tensor* t = as_tensor(object);
  return t && t->shared ? t->shared->version : 0;
}

}  // namespace tritorch
