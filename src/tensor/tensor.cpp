// Shared and TensorBase.
#include "array/array.h"
#include "launch/pack.h"
#include "ref.h"
#include "tensor/fields.h"

namespace tritorch {

PyTypeObject* tensor_type = nullptr;
PyTypeObject *shared_type = nullptr, *tensor_base_type = nullptr;
constinit thread_local Modes modes;
Registered registered;
Names names;
bool any_classed = false;

namespace {

using SharedFields = Collected<Shared, &Shared::array, &Shared::storage, &Shared::lent>;

PyMemberDef shared_members[] = {
    {"array", T_OBJECT, offsetof(Shared, array), 0, nullptr},
    {"storage", T_OBJECT, offsetof(Shared, storage), 0, nullptr},
    {"lent", T_OBJECT, offsetof(Shared, lent), 0, nullptr},
    {"version", T_LONGLONG, offsetof(Shared, version), 0, nullptr},
    {"fixed", T_BOOL, offsetof(Shared, fixed), 0, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Shared, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
void shared_dealloc(PyObject* self) {
  if (reinterpret_cast<Shared*>(self)->weak) PyObject_ClearWeakRefs(self);
  SharedFields::dealloc(self);
}
PyType_Slot shared_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_dealloc, reinterpret_cast<void*>(shared_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(SharedFields::traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(SharedFields::clear)},
    {Py_tp_members, shared_members},
    {Py_tp_doc, const_cast<char*>("What all views of one storage share.")},
    {0, nullptr}};

using TensorFields = Collected<Tensor, &Tensor::array, &Tensor::shadow, &Tensor::node,
                               &Tensor::grad, &Tensor::shared, &Tensor::base, &Tensor::view,
                               &Tensor::created, &Tensor::tangent, &Tensor::hooks>;

bool has_history(PyObject* base) {
  auto* t = reinterpret_cast<Tensor*>(base);
  return t->leaf || is_set(t->node);
}

// Computes a deferred tensor.
bool flush(PyObject* self) {
  auto* t = reinterpret_cast<Tensor*>(self);
  return !is_deferred(t) || force(t);
}

void tensor_dealloc(PyObject* self) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (t->mark) forget(t);
  TensorFields::dealloc(self);
}

PyObject* tensor_new(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

PyObject* get_shape(PyObject* self, void*) {
  auto* t = reinterpret_cast<Tensor*>(self);
  PyObject* array = array_of(t);
  if (!array) return PyErr_Format(PyExc_RuntimeError, "the tensor is not initialised");
  if (const NDArray* host = as_ndarray(array)) return size_of(host->shape());
  if (const Array* device = as_array(array)) return size_of(device->layout.shape());
  const Ref shape(PyObject_GetAttr(array, names.shape));
  const Ref args(shape ? PyTuple_Pack(1, shape.get()) : nullptr);
  auto* type = reinterpret_cast<PyTypeObject*>(registered.size_type);
  return args ? PyTuple_Type.tp_new(type, args.get(), nullptr) : nullptr;
}

PyObject* get_ndim(PyObject* self, void*) {
  PyObject* array = array_of(reinterpret_cast<Tensor*>(self));
  if (!array) return PyErr_Format(PyExc_RuntimeError, "the tensor is not initialised");
  return PyObject_GetAttr(array, names.ndim);
}

PyObject* get_dtype(PyObject* self, void*) {
  PyObject* array = array_of(reinterpret_cast<Tensor*>(self));
  if (!array) return PyErr_Format(PyExc_RuntimeError, "the tensor is not initialised");
  if (const NDArray* host = as_ndarray(array)) {
    PyObject* ours = PyDict_GetItemWithError(registered.dtype_map, host->descr);
    return ours || PyErr_Occurred() ? Py_XNewRef(ours) : Py_NewRef(host->descr);
  }
  Ref dtype(PyObject_GetAttr(array, names.dtype));
  PyObject* ours = dtype ? PyDict_GetItemWithError(registered.dtype_map, dtype.get()) : nullptr;
  if (ours) return Py_NewRef(ours);
  return PyErr_Occurred() ? nullptr : dtype.release();  // a device array has our dtypes itself
}

PyObject* get_requires_grad(PyObject* self, void*) {
  const int needed = wants_grad(reinterpret_cast<Tensor*>(self));
  return needed < 0 ? nullptr : PyBool_FromLong(needed);
}

PyObject* get_node(PyObject* self, void*) {
  if (!flush(self)) return nullptr;
  auto* t = reinterpret_cast<Tensor*>(self);
  if (requires_grad(t) < 0) return nullptr;
  return Py_NewRef(t->node ? t->node : Py_None);
}

PyObject* get_version(PyObject* self, void*) {
  if (!flush(self)) return nullptr;
  auto* t = reinterpret_cast<Tensor*>(self);
  if (t->inference == 1)
    return PyErr_Format(PyExc_RuntimeError, "Inference tensors do not track version counter.");
  return PyLong_FromLongLong(t->shared ? t->shared->version : 0);
}

PyObject* get_shared(PyObject* self, void*) {
  if (!flush(self)) return nullptr;
  auto* t = reinterpret_cast<Tensor*>(self);
  if (!t->shared && !(t->shared = new_shared(array_of(t)))) return nullptr;
  return Py_NewRef(reinterpret_cast<PyObject*>(t->shared));
}

int set_shared(PyObject* self, PyObject* value, void*) {
  if (!flush(self)) return -1;
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
  if (!flush(self)) return nullptr;
  return PyBool_FromLong(reinterpret_cast<Tensor*>(self)->inference == 1 && !modes.inference_mode);
}

// The array, or what describes it where that is known, but not computed.
PyObject* get_described(PyObject* self, void*) {
  PyObject* array = array_of(reinterpret_cast<Tensor*>(self));
  return Py_NewRef(array ? array : Py_None);
}

// The array, wherever it is.
PyObject* get_array(PyObject* self, void*) {
  if (!flush(self)) return nullptr;
  PyObject* array = array_of(reinterpret_cast<Tensor*>(self));
  return Py_NewRef(array ? array : Py_None);
}

// The fields that are known of a deferred tensor, too: those that others have not.
PyMemberDef tensor_members[] = {
    {"_a", T_OBJECT_EX, offsetof(Tensor, array), 0, nullptr},
    {"_grad", T_OBJECT, offsetof(Tensor, grad), 0, nullptr},
    {"_tangent", T_OBJECT, offsetof(Tensor, tangent), 0, nullptr},
    {"_hooks", T_OBJECT, offsetof(Tensor, hooks), 0, nullptr},
    {"_retains_grad", T_BOOL, offsetof(Tensor, retains_grad), 0, nullptr},
    {"output_nr", T_INT, offsetof(Tensor, output), 0, nullptr},
    {"_mark", T_ULONGLONG, offsetof(Tensor, mark), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
// The others: who reads or writes one has the tensor computed.
PyMemberDef flushed_members[] = {{"_shadow", T_OBJECT_EX, offsetof(Tensor, shadow), 0, nullptr},
                                 {"_raw_node", T_OBJECT, offsetof(Tensor, node), 0, nullptr},
                                 {"_base", T_OBJECT, offsetof(Tensor, base), 0, nullptr},
                                 {"_view", T_OBJECT, offsetof(Tensor, view), 0, nullptr},
                                 {"_created", T_OBJECT, offsetof(Tensor, created), 0, nullptr},
                                 {"_epoch", T_LONGLONG, offsetof(Tensor, epoch), 0, nullptr},
                                 {"_leaf", T_BOOL, offsetof(Tensor, leaf), 0, nullptr},
                                 {"_inference", T_BOOL, offsetof(Tensor, inference), 0, nullptr}};
PyObject* get_field(PyObject* self, void* member) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (is_deferred(t) && !force(t)) return nullptr;
  return PyMember_GetOne(reinterpret_cast<const char*>(self), static_cast<PyMemberDef*>(member));
}
int set_field(PyObject* self, PyObject* value, void* member) {
  auto* t = reinterpret_cast<Tensor*>(self);
  if (is_deferred(t) && !force(t)) return -1;
  return PyMember_SetOne(reinterpret_cast<char*>(self), static_cast<PyMemberDef*>(member), value);
}

PyGetSetDef tensor_properties[] = {
    {"shape", get_shape, nullptr, nullptr, nullptr},
    {"ndim", get_ndim, nullptr, nullptr, nullptr},
    {"dtype", get_dtype, nullptr, nullptr, nullptr},
    {"_requires_grad", get_requires_grad, nullptr, nullptr, nullptr},
    {"_node", get_node, nullptr, nullptr, nullptr},
    {"_version", get_version, nullptr, nullptr, nullptr},
    {"_shared", get_shared, set_shared, nullptr, nullptr},
    {"_array", get_array, nullptr, nullptr, nullptr},
    {"_described", get_described, nullptr, nullptr, nullptr},
    {"_frozen", get_frozen, nullptr, nullptr, nullptr},
    {"_shadow", get_field, set_field, nullptr, &flushed_members[0]},
    {"_raw_node", get_field, set_field, nullptr, &flushed_members[1]},
    {"_base", get_field, set_field, nullptr, &flushed_members[2]},
    {"_view", get_field, set_field, nullptr, &flushed_members[3]},
    {"_created", get_field, set_field, nullptr, &flushed_members[4]},
    {"_epoch", get_field, set_field, nullptr, &flushed_members[5]},
    {"_leaf", get_field, set_field, nullptr, &flushed_members[6]},
    {"_inference", get_field, set_field, nullptr, &flushed_members[7]},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot tensor_slots[] = {{Py_tp_new, reinterpret_cast<void*>(tensor_new)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
                              {Py_tp_traverse, reinterpret_cast<void*>(TensorFields::traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(TensorFields::clear)},
                              {Py_tp_members, tensor_members},
                              {Py_tp_getset, tensor_properties},
                              {Py_tp_doc, const_cast<char*>("The fields of a tensor.")},
                              {0, nullptr}};

}  // namespace

PyType_Spec shared_spec = {"tritorch._C.Shared", sizeof(Shared), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, shared_slots};

PyType_Spec tensor_spec = {"tritorch._C.TensorBase", sizeof(Tensor), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                           tensor_slots};

PyObject* dtype_of_tensor(PyObject* tensor) { return get_dtype(tensor, nullptr); }
PyObject* requires_grad_of_tensor(PyObject* tensor) { return get_requires_grad(tensor, nullptr); }

Shared* new_shared(PyObject* array) {
  auto* s = reinterpret_cast<Shared*>(shared_type->tp_alloc(shared_type, 0));
  if (s) s->array = Py_XNewRef(array);
  return s;
}

int wants_grad(Tensor* t) {
  if (is_set(t->created) && !is_deferred(t) &&
      (t->leaf || is_set(t->node) || (is_set(t->base) && has_history(t->base))))
    return 1;
  return requires_grad(t);
}

int requires_grad(Tensor* t) {
  if (is_deferred(t)) return deferred_needs_grad(t);
  if (is_set(t->base) && t->shared && t->epoch != t->shared->version &&
      (is_set(t->node) || has_history(t->base))) {
    const Ref done(PyObject_CallOneArg(registered.refresh_view, reinterpret_cast<PyObject*>(t)));
    if (!done) return -1;
  }
  if (t->leaf || is_set(t->node)) return 1;
  // PyTorch's rule: a view without history (made in no_grad mode, or before its base required grad)
  // seems to require grad when its base does.
  return is_set(t->base) ? requires_grad(reinterpret_cast<Tensor*>(t->base)) : 0;
}

bool holds_classed(PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (Tensor* t = as_tensor(args[i])) {
      PyObject* array = array_of(t);
      if (array && reinterpret_cast<PyObject*>(Py_TYPE(array)) == registered.classed) return true;
    } else if (PyTuple_CheckExact(args[i]) || PyList_CheckExact(args[i])) {
      if (holds_classed(PySequence_Fast_ITEMS(args[i]), PySequence_Fast_GET_SIZE(args[i])))
        return true;
    }
  }
  return false;
}

// A tensor of an array that says what class it is of, and what it shares with `array.values`.
static Tensor* new_classed(PyObject* array) {
  any_classed = true;
  const Ref cls(PyObject_GetAttr(array, names.tensor_class));
  const Ref values(cls ? PyObject_GetAttr(array, names.values) : nullptr);
  Tensor* source = values ? as_tensor(values.get()) : nullptr;
  Tensor* t = nullptr;
  if (source && (source->shared || (source->shared = new_shared(array_of(source))))) {
    auto* type = cls.as<PyTypeObject>();
    t = reinterpret_cast<Tensor*>(type->tp_alloc(type, 0));
    if (t)
      t->shared = reinterpret_cast<Shared*>(Py_NewRef(reinterpret_cast<PyObject*>(source->shared)));
  } else if (!PyErr_Occurred()) {
    PyErr_SetString(PyExc_TypeError, "the values of a nested array are no tensor");
  }
  return t;
}

Tensor* new_tensor(PyObject* array, bool exact) {
  Ref owned;
  if (Py_TYPE(array) != reinterpret_cast<PyTypeObject*>(ndarray_type) &&
      PyType_IsSubtype(Py_TYPE(array), reinterpret_cast<PyTypeObject*>(registered.generic_type))) {
    // NumPy answers 0-d questions with scalars.
    owned = Ref(PyObject_CallOneArg(registered.asarray, array));
    if (!owned) return nullptr;
    array = owned.get();
  }
  if (!exact && !give_strides(array)) return nullptr;
  const bool classed = reinterpret_cast<PyObject*>(Py_TYPE(array)) == registered.classed && !owned;
  Tensor* t = classed ? new_classed(array)
                      : reinterpret_cast<Tensor*>(tensor_type->tp_alloc(tensor_type, 0));
  if (t) {
    t->array = Py_NewRef(array);
    t->inference = modes.inference_mode;
  }
  return t;
}

NDArray* plain_array(Tensor* tensor) {
  static PyObject* name = PyUnicode_InternFromString("_a");
  static PyObject* own = _PyType_Lookup(tensor_base_type, name);
  if (!tensor->array || _PyType_Lookup(Py_TYPE(tensor), name) != own) return nullptr;
  return as_ndarray(tensor->array);
}

unsigned long long serial_of(Tensor* tensor) {
  static unsigned long long last = 0;
  if (!tensor->serial) tensor->serial = ++last;
  return tensor->serial;
}

bool add_tensor_types(PyObject* module) {
  struct {
    PyTypeObject** type;
    PyType_Spec* spec;
    const char* name;
  } types[] = {{&shared_type, &shared_spec, "Shared"},
               {&tensor_base_type, &tensor_spec, "TensorBase"},
               {&node_base_type, &node_spec, "NodeBase"},
               {&operator_base_type, &operator_spec, "OperatorBase"}};
  for (auto& each : types) {
    *each.type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(each.spec));
    if (!*each.type ||
        PyModule_AddObjectRef(module, each.name, reinterpret_cast<PyObject*>(*each.type)) < 0)
      return false;
  }
  tensor_type =
      reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(tensor_base_type)));
  registered.dtype_map = PyDict_New();
  names = {PyUnicode_InternFromString("shape"), PyUnicode_InternFromString("dtype"),
           PyUnicode_InternFromString("ndim"), PyUnicode_InternFromString("tensor_class"),
           PyUnicode_InternFromString("values")};
  return registered.dtype_map && names.shape && names.dtype && names.ndim && names.tensor_class &&
         names.values && add_tensor_functions(module) && add_arriving(module) &&
         add_size_type(module);
}

}  // namespace tritorch
