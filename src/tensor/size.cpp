// SizeBase: the tuple that a shape is.
#include <span>

#include "ref.h"
#include "tensor/fields.h"

namespace tritorch {
namespace {

// Size(sizes=()): ints are taken as they are; of anything else Python makes sizes.
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  const bool one = PyTuple_GET_SIZE(args) == 1 && !kwargs;
  PyObject* given = one ? PyTuple_GET_ITEM(args, 0) : nullptr;
  if (given && (PyTuple_CheckExact(given) || PyList_CheckExact(given))) {
    Py_ssize_t ints = 0;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(given);
    while (ints < n && PyLong_CheckExact(PySequence_Fast_ITEMS(given)[ints])) ++ints;
    if (ints == n) return PyTuple_Type.tp_new(type, args, nullptr);
  }
  const Ref sizes(PyObject_Call(registered.as_sizes, args, kwargs));
  const Ref only(sizes ? PyTuple_Pack(1, sizes.get()) : nullptr);
  return only ? PyTuple_Type.tp_new(type, only.get(), nullptr) : nullptr;
}

// A slice of a size is a size.
PyObject* size_item(PyObject* self, PyObject* key) {
  Ref item(PyTuple_Type.tp_as_mapping->mp_subscript(self, key));
  if (!item || !PySlice_Check(key)) return item.release();
  const Ref args(PyTuple_Pack(1, item.get()));
  auto* type = reinterpret_cast<PyTypeObject*>(registered.size_type);
  return args ? PyTuple_Type.tp_new(type, args.get(), nullptr) : nullptr;
}

int size_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return PyTuple_Type.tp_traverse(self, visit, arg);
}

void size_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyTuple_Type.tp_dealloc(self);
  Py_DECREF(type);
}

PyType_Slot size_slots[] = {{Py_tp_base, &PyTuple_Type},
                            {Py_tp_new, reinterpret_cast<void*>(size_new)},
                            {Py_tp_traverse, reinterpret_cast<void*>(size_traverse)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(size_dealloc)},
                            {Py_mp_subscript, reinterpret_cast<void*>(size_item)},
                            {Py_tp_doc, const_cast<char*>("The native half of a size.")},
                            {0, nullptr}};
PyType_Spec size_spec = {"tritorch._C.SizeBase", 0, 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, size_slots};

}  // namespace

PyObject* size_of(std::span<const std::int64_t> shape) {
  // A tuple of another class, whose items are known to be sizes: its __new__ need not look.
  auto* type = reinterpret_cast<PyTypeObject*>(registered.size_type);
  Ref size(type->tp_alloc(type, static_cast<Py_ssize_t>(shape.size())));
  if (!size) return nullptr;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    PyObject* item = PyLong_FromLongLong(shape[i]);
    if (!item) return nullptr;
    PyTuple_SET_ITEM(size.get(), static_cast<Py_ssize_t>(i), item);
  }
  return size.release();
}

bool add_size_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&size_spec);
  return type && PyModule_AddObjectRef(module, "SizeBase", type) == 0;
}

}  // namespace tritorch
