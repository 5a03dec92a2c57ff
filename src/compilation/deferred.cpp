// Deferred: it stands for the array of a deferred tensor, one whose call is not computed yet.
#include "compilation/state.h"

namespace tritorch {

PyTypeObject* deferred_type = nullptr;

namespace {

PyObject* deferred_get(PyObject* self, void* field) {
  auto* deferred = reinterpret_cast<Deferred*>(self);
  return Py_NewRef(PyTuple_GET_ITEM(deferred->spec, reinterpret_cast<std::intptr_t>(field)));
}
PyObject* deferred_ndim(PyObject* self, void*) {
  return PyLong_FromSsize_t(
      PyTuple_GET_SIZE(PyTuple_GET_ITEM(reinterpret_cast<Deferred*>(self)->spec, kShape)));
}
// Dense in row-major order, of dims of more than one.
PyObject* deferred_is_contiguous(PyObject* self, PyObject*) {
  PyObject* spec = reinterpret_cast<Deferred*>(self)->spec;
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
PyMethodDef deferred_methods[] = {{"is_contiguous", deferred_is_contiguous, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
void deferred_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* deferred = reinterpret_cast<Deferred*>(self);
  Py_CLEAR(deferred->spec);
  Py_CLEAR(deferred->region);
  type->tp_free(self);
  Py_DECREF(type);
}
PyGetSetDef deferred_properties[] = {
    {"shape", deferred_get, nullptr, nullptr, reinterpret_cast<void*>(kShape)},
    {"dtype", deferred_get, nullptr, nullptr, reinterpret_cast<void*>(kDtype)},
    {"strides", deferred_get, nullptr, nullptr, reinterpret_cast<void*>(kStrides)},
    {"device", deferred_get, nullptr, nullptr, reinterpret_cast<void*>(kDevice)},
    {"ndim", deferred_ndim, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot deferred_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(deferred_dealloc)},
    {Py_tp_getset, deferred_properties},
    {Py_tp_methods, deferred_methods},
    {Py_tp_doc, const_cast<char*>("The description of a deferred tensor, in place of its array.")},
    {0, nullptr}};
PyType_Spec deferred_spec = {"tritorch._C.Deferred", sizeof(Deferred), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             deferred_slots};

}  // namespace

PyObject* new_deferred(PyObject* spec, Region* r) {
  auto* deferred = reinterpret_cast<Deferred*>(deferred_type->tp_alloc(deferred_type, 0));
  if (!deferred) return nullptr;
  deferred->spec = Py_NewRef(spec);
  deferred->region = Py_XNewRef(reinterpret_cast<PyObject*>(r));
  return reinterpret_cast<PyObject*>(deferred);
}

// A deferred tensor becomes what was computed, with its history.
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

// Tells of a graph break: a value of this thread's function is wanted before its end; false: it may
// not be.
bool tell_of_look(Region* r) {
  if (r != region || !r->entered || r->busy || r->steps->empty()) return true;
  ++r->busy;
  const Ref told{PyObject_CallOneArg(look_handler, reinterpret_cast<PyObject*>(r))};
  --r->busy;
  return static_cast<bool>(told);
}

bool force(Tensor* t) {
  auto* deferred = reinterpret_cast<Deferred*>(t->shadow);
  const Ref owner =
      Ref::to(deferred->region ? deferred->region
                               : reinterpret_cast<PyObject*>(region_of(t->mark >> kSlotBits)));
  auto* r = reinterpret_cast<Region*>(owner.get());
  bool good = !r || (tell_of_look(r) && compute(r));
  if (good && is_deferred(t)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "this tensor has no values: the compiled function that was to compute it has "
                    "failed, or was interrupted");
    good = false;
  }
  return good;
}

bool is_lost(const Tensor* t) {
  if (!is_deferred(t)) return false;
  auto* own = reinterpret_cast<Deferred*>(t->shadow)->region;
  const auto* r = own ? reinterpret_cast<const Region*>(own) : region_of(t->mark >> kSlotBits);
  return !r || (r->steps->empty() && !r->computing);
}

int deferred_needs_grad(const Tensor* t) {
  return PyTuple_GET_ITEM(reinterpret_cast<Deferred*>(t->shadow)->spec, kNeedsGrad) == Py_True;
}

bool deferred_is_leaf(const Tensor* t) {
  return PyTuple_GET_ITEM(reinterpret_cast<Deferred*>(t->shadow)->spec, kLeaf) == Py_True;
}

bool add_deferred_type(PyObject* module) {
  deferred_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&deferred_spec));
  return deferred_type &&
         PyModule_AddObjectRef(module, "Deferred", reinterpret_cast<PyObject*>(deferred_type)) == 0;
}

}  // namespace tritorch
