// Lazy: what a tensor has in place of an array while its computation waits.
#include "compilation/state.h"

namespace tritorch {

PyTypeObject* lazy_type = nullptr;

namespace {

PyObject* lazy_get(PyObject* self, void* field) {
  auto* lazy = reinterpret_cast<Lazy*>(self);
  return Py_NewRef(PyTuple_GET_ITEM(lazy->spec, reinterpret_cast<std::intptr_t>(field)));
}
PyObject* lazy_ndim(PyObject* self, void*) {
  return PyLong_FromSsize_t(
      PyTuple_GET_SIZE(PyTuple_GET_ITEM(reinterpret_cast<Lazy*>(self)->spec, kShape)));
}
// Dense in row-major order, of dims of more than one.
PyObject* lazy_is_contiguous(PyObject* self, PyObject*) {
  PyObject* spec = reinterpret_cast<Lazy*>(self)->spec;
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
PyMethodDef lazy_methods[] = {{"is_contiguous", lazy_is_contiguous, METH_NOARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};
void lazy_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* lazy = reinterpret_cast<Lazy*>(self);
  Py_CLEAR(lazy->spec);
  Py_CLEAR(lazy->region);
  type->tp_free(self);
  Py_DECREF(type);
}
PyGetSetDef lazy_properties[] = {
    {"shape", lazy_get, nullptr, nullptr, reinterpret_cast<void*>(kShape)},
    {"dtype", lazy_get, nullptr, nullptr, reinterpret_cast<void*>(kDtype)},
    {"strides", lazy_get, nullptr, nullptr, reinterpret_cast<void*>(kStrides)},
    {"device", lazy_get, nullptr, nullptr, reinterpret_cast<void*>(kDevice)},
    {"ndim", lazy_ndim, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot lazy_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(lazy_dealloc)},
    {Py_tp_getset, lazy_properties},
    {Py_tp_methods, lazy_methods},
    {Py_tp_doc, const_cast<char*>("What a tensor has in place of an array while it waits.")},
    {0, nullptr}};
PyType_Spec lazy_spec = {"tritorch._C.Lazy", sizeof(Lazy), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, lazy_slots};

}  // namespace

PyObject* new_lazy(PyObject* spec, Region* r) {
  auto* lazy = reinterpret_cast<Lazy*>(lazy_type->tp_alloc(lazy_type, 0));
  if (!lazy) return nullptr;
  lazy->spec = Py_NewRef(spec);
  lazy->region = Py_XNewRef(reinterpret_cast<PyObject*>(r));
  return reinterpret_cast<PyObject*>(lazy);
}

// A tensor that waited becomes what was computed, with its history.
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

// Says that what this thread's function computes is wanted before its end; false: it may not be.
bool tell_of_look(Region* r) {
  if (r != region || !r->open || r->busy || r->steps->empty()) return true;
  ++r->busy;
  const Ref told{PyObject_CallOneArg(look_handler, reinterpret_cast<PyObject*>(r))};
  --r->busy;
  return static_cast<bool>(told);
}

bool force(Tensor* t) {
  auto* lazy = reinterpret_cast<Lazy*>(t->shadow);
  const Ref owner = Ref::to(
      lazy->region ? lazy->region : reinterpret_cast<PyObject*>(region_of(t->mark >> kSlotBits)));
  auto* r = reinterpret_cast<Region*>(owner.get());
  bool good = !r || (tell_of_look(r) && compute(r));
  if (good && is_lazy(t)) {
    PyErr_SetString(PyExc_RuntimeError,
                    "this tensor has no values: the compiled function that was to compute it has "
                    "failed, or was interrupted");
    good = false;
  }
  return good;
}

bool is_lost(const Tensor* t) {
  if (!is_lazy(t)) return false;
  auto* own = reinterpret_cast<Lazy*>(t->shadow)->region;
  const auto* r = own ? reinterpret_cast<const Region*>(own) : region_of(t->mark >> kSlotBits);
  return !r || (r->steps->empty() && !r->computing);
}

int lazy_needs_grad(const Tensor* t) {
  return PyTuple_GET_ITEM(reinterpret_cast<Lazy*>(t->shadow)->spec, kNeedsGrad) == Py_True;
}

bool lazy_is_leaf(const Tensor* t) {
  return PyTuple_GET_ITEM(reinterpret_cast<Lazy*>(t->shadow)->spec, kLeaf) == Py_True;
}

bool add_lazy_type(PyObject* module) {
  lazy_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&lazy_spec));
  return lazy_type &&
         PyModule_AddObjectRef(module, "Lazy", reinterpret_cast<PyObject*>(lazy_type)) == 0;
}

}  // namespace tritorch
