#include "launch/descriptor.h"

#include <structmember.h>

#include <new>
#include <string>

#include "launch/pack.h"
#include "ref.h"

namespace tritorch {
namespace {

PyTypeObject* descriptor_type = nullptr;

[[noreturn]] void refuse(const std::string& why) {
  PyErr_SetString(PyExc_ValueError, ("a descriptor " + why).c_str());
  throw PythonError{};
}

// Fills everything but base; throws PythonError.
void describe(Descriptor& d, const Array& array, PyObject* block) {
  d.array = &array;
  d.rank = array.layout.ndim();
  if (d.rank < 1 || d.rank > Descriptor::kMaxRank)
    refuse("has one to five dimensions, got " + std::to_string(d.rank));
  if (!PyTuple_Check(block) || PyTuple_GET_SIZE(block) != d.rank)
    refuse("needs a tuple with one block size for each of its " + std::to_string(d.rank) +
           " dimensions");
  auto shape = array.layout.shape(), strides = array.layout.strides();
  auto size = static_cast<std::int64_t>(item_size(array.dtype));
  if (array.data() % 16) refuse("needs an address that is a multiple of 16");
  std::int64_t reach = 0;  // of the dims inside, in elements, rounded up to 16 bytes
  for (int i = 0; i < d.rank; ++i) {
    int dim = d.rank - 1 - i;
    long long edge = PyLong_AsLongLong(PyTuple_GET_ITEM(block, dim));
    if (edge == -1 && PyErr_Occurred()) throw PythonError{};
    if (edge < 1 || edge > 0x7fffffff) refuse("has blocks of one element or more");
    if (shape[dim] < 1) refuse("has dimensions of one element or more");
    d.block[i] = static_cast<std::uint32_t>(edge);
    d.shape[i] = shape[dim];
    d.strides[i] = i > 0 && shape[dim] == 1 ? reach : strides[dim];
    if (i == 0 && shape[dim] == 1) d.strides[0] = 1;
    if (i == 0 && d.strides[0] != 1) refuse("needs a last stride of 1");
    if (i > 0 && (d.strides[i] <= 0 || d.strides[i] * size % 16))
      refuse("needs strides that are multiples of 16 bytes, got " +
             std::to_string(d.strides[i] * size));
    std::int64_t here = (d.shape[i] * d.strides[i] * size + 15) / 16 * 16 / size;
    reach = here > reach ? here : reach;
  }
}

PyObject* descriptor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  PyObject *base, *block;
  if (kwargs && PyDict_GET_SIZE(kwargs)) {
    PyErr_SetString(PyExc_TypeError, "Descriptor takes no keyword arguments");
    return nullptr;
  }
  if (!PyArg_ParseTuple(args, "OO", &base, &block)) return nullptr;
  const Array* array = as_array(base);
  if (!array) {
    PyErr_SetString(PyExc_TypeError, "a descriptor describes an array on the GPU");
    return nullptr;
  }
  Ref self(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self.as<Descriptor>()->base = Py_NewRef(base);
  try {
    describe(*self.as<Descriptor>(), *array, block);
  } catch (const PythonError&) {
    return nullptr;
  }
  return self.release();
}

void descriptor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<Descriptor*>(self)->base);
  type->tp_free(self);
  Py_DECREF(type);
}

// A tuple of the first `rank` values, outermost dimension first.
template <class Values>
PyObject* outermost_first(const Values& values, int rank) {
  PyObject* out = PyTuple_New(rank);
  for (int i = 0; out && i < rank; ++i)
    PyTuple_SET_ITEM(out, rank - 1 - i, PyLong_FromLongLong(values[i]));
  return out;
}

PyObject* get_shape(PyObject* self, void*) {
  auto* d = reinterpret_cast<Descriptor*>(self);
  return outermost_first(d->shape, d->rank);
}
PyObject* get_strides(PyObject* self, void*) {
  auto* d = reinterpret_cast<Descriptor*>(self);
  return outermost_first(d->strides, d->rank);
}
PyObject* get_block_shape(PyObject* self, void*) {
  auto* d = reinterpret_cast<Descriptor*>(self);
  return outermost_first(d->block, d->rank);
}

PyMemberDef members[] = {{"base", T_OBJECT, offsetof(Descriptor, base), READONLY, "the array"},
                         {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef properties[] = {
    {"shape", get_shape, nullptr, nullptr, nullptr},
    {"strides", get_strides, nullptr, "in elements", nullptr},
    {"block_shape", get_block_shape, nullptr, "of one load or store", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(descriptor_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(descriptor_dealloc)},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_doc, const_cast<char*>("Descriptor(array, block): an array in blocks, for TMA.")},
    {0, nullptr}};
PyType_Spec spec = {"tritorch._C.Descriptor", sizeof(Descriptor), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace

const Descriptor* as_descriptor(PyObject* object) noexcept {
  return Py_TYPE(object) == descriptor_type ? reinterpret_cast<Descriptor*>(object) : nullptr;
}

bool add_descriptor_type(PyObject* module) {
  descriptor_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return descriptor_type &&
         PyModule_AddObjectRef(module, "Descriptor",
                               reinterpret_cast<PyObject*>(descriptor_type)) == 0;
}

}  // namespace tritorch
