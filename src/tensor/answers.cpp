#include "tensor/answers.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "array/array.h"
#include "compilation/region.h"
#include "launch/pack.h"
#include "ref.h"
#include "tensor/fields.h"

namespace tritorch {
namespace {

struct {
  PyObject *itemsize, *is_floating_point, *is_complex;
} of_dtype;

// The tensor, if no class of a user's may have something to say.
inline Tensor* plain(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == tensor_type || reinterpret_cast<PyObject*>(type) == registered.parameter
             ? reinterpret_cast<Tensor*>(object)
             : nullptr;
}

// Where a plain tensor's elements are, and how they lie; `known` is false for arrays that are
// described, sparse, nested or batched.
struct View {
  explicit View(PyObject* object) {
    Tensor* t = plain(object);
    PyObject* array = t ? array_of(t) : nullptr;
    if (!array) return;
    if ((host = as_ndarray(array))) {
      shape = host->shape();
    } else if ((device = as_array(array))) {
      shape = device->layout.shape();
    } else {
      return;
    }
    known = true;
  }
  NDArray* host = nullptr;
  const Array* device = nullptr;
  Sizes shape;
  bool known = false;
};

inline std::int64_t product(Sizes shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

PyObject* tuple_of(Sizes values, std::int64_t unit) {
  Ref out(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  if (!out) return nullptr;
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyObject* item = PyLong_FromLongLong(values[i] / unit);
    if (!item) return nullptr;
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), item);
  }
  return out.release();
}

// Which dim a plain int names; -1 for what Python's function has to look at.
int dim_of(PyObject* given, Sizes shape) {
  if (!PyLong_CheckExact(given)) return -1;
  int overflow;
  const long dim = PyLong_AsLongAndOverflow(given, &overflow);
  const long n = static_cast<long>(shape.size());
  if (overflow || dim < -n || dim >= n) return -1;
  return static_cast<int>(dim < 0 ? dim + n : dim);
}

// The element type: bytes, and the kind as kDTypeTable has it.
struct Kind {
  std::int64_t bytes = 0;  // 0: Python's function says
  char kind = 0;
};

// What our dtypes say of an ndarray's, by dtype: each is looked up once.
struct {
  PyObject* descr;  // kept, so that no other has its address
  Kind kind;
} kinds[64];

Kind kind_of(PyObject* object, const View& x) {
  if (x.device) {
    const DTypeInfo& info = kDTypeTable[static_cast<int>(x.device->dtype)];
    return {info.bytes, info.kind};
  }
  if (!x.host) return {};
  PyObject* descr = x.host->descr;
  auto& known = kinds[(reinterpret_cast<std::uintptr_t>(descr) >> 4) % std::size(kinds)];
  if (known.descr == descr) return known.kind;
  const Ref dtype(dtype_of_tensor(object));
  if (!dtype || reinterpret_cast<PyObject*>(Py_TYPE(dtype.get())) != registered.dtype_type)
    return {};
  const Ref bytes(PyObject_GetAttr(dtype.get(), of_dtype.itemsize));
  const Ref floating(bytes ? PyObject_GetAttr(dtype.get(), of_dtype.is_floating_point) : nullptr);
  const Ref complex(floating ? PyObject_GetAttr(dtype.get(), of_dtype.is_complex) : nullptr);
  if (!complex) return {};
  const Kind kind{PyLong_AsLongLong(bytes.get()), floating.get() == Py_True  ? 'f'
                                                  : complex.get() == Py_True ? 'c'
                                                                             : 0};
  Py_XSETREF(known.descr, Py_NewRef(descr));
  known.kind = kind;
  return kind;
}

// ---- methods ------------------------------------------------------------------------------------

PyObject* size(PyObject* const* args, Py_ssize_t n) {
  if (n < 1 || n > 2) return nullptr;
  const View x(args[0]);
  if (!x.known) return nullptr;
  if (n == 1) return size_of(x.shape);
  const int dim = dim_of(args[1], x.shape);
  return dim < 0 ? nullptr : PyLong_FromLongLong(x.shape[static_cast<std::size_t>(dim)]);
}

PyObject* stride(PyObject* const* args, Py_ssize_t n) {
  if (n < 1 || n > 2) return nullptr;
  const View x(args[0]);
  if (!x.known) return nullptr;
  const std::int64_t unit = x.host ? kind_of(args[0], x).bytes : 1;
  if (unit <= 0) return nullptr;
  const Sizes strides = x.host ? x.host->steps() : x.device->layout.strides();
  if (n == 1) return tuple_of(strides, unit);
  const int dim = dim_of(args[1], x.shape);
  return dim < 0 ? nullptr : PyLong_FromLongLong(strides[static_cast<std::size_t>(dim)] / unit);
}

PyObject* dim(PyObject* const* args, Py_ssize_t n) {
  if (n != 1) return nullptr;
  const View x(args[0]);
  return x.known ? PyLong_FromSize_t(x.shape.size()) : nullptr;
}

PyObject* numel(PyObject* const* args, Py_ssize_t n) {
  if (n != 1) return nullptr;
  const View x(args[0]);
  return x.known ? PyLong_FromLongLong(product(x.shape)) : nullptr;
}

PyObject* length(PyObject* const* args, Py_ssize_t n) {
  if (n != 1) return nullptr;
  const View x(args[0]);
  return x.known && !x.shape.empty() ? PyLong_FromLongLong(x.shape[0]) : nullptr;
}

PyObject* is_contiguous(PyObject* const* args, Py_ssize_t n) {
  if (n != 1) return nullptr;
  const View x(args[0]);
  if (!x.known) return nullptr;
  return PyBool_FromLong(x.host ? x.host->is_contiguous() : x.device->layout.is_contiguous());
}

PyObject* data_ptr(PyObject* const* args, Py_ssize_t n) {
  if (n != 1) return nullptr;
  const View x(args[0]);
  if (!x.known) return nullptr;
  if (product(x.shape) == 0) return PyLong_FromLong(0);
  expose(array_of(as_tensor(args[0])), true);
  return x.host ? PyLong_FromVoidPtr(x.host->data) : PyLong_FromUnsignedLongLong(x.device->data());
}

PyObject* element_size(PyObject* const* args, Py_ssize_t n) {
  const Kind kind = n == 1 ? kind_of(args[0], View(args[0])) : Kind{};
  return kind.bytes ? PyLong_FromLongLong(kind.bytes) : nullptr;
}

PyObject* is_floating_point(PyObject* const* args, Py_ssize_t n) {
  const Kind kind = n == 1 ? kind_of(args[0], View(args[0])) : Kind{};
  return kind.bytes ? PyBool_FromLong(kind.kind == 'f') : nullptr;
}

PyObject* is_complex(PyObject* const* args, Py_ssize_t n) {
  const Kind kind = n == 1 ? kind_of(args[0], View(args[0])) : Kind{};
  return kind.bytes ? PyBool_FromLong(kind.kind == 'c') : nullptr;
}

// ---- properties ---------------------------------------------------------------------------------

PyObject* device(PyObject* const* args, Py_ssize_t) {
  const View x(args[0]);
  if (x.host) return Py_XNewRef(registered.cpu_device);
  if (!x.known || !registered.cuda_device) return nullptr;
  static std::array<PyObject*, 16> devices;
  const int index = x.device->device();
  if (index < 0 || index >= static_cast<int>(devices.size())) return nullptr;
  PyObject*& known = devices[static_cast<std::size_t>(index)];
  if (!known) known = PyObject_CallFunction(registered.cuda_device, "i", index);
  return Py_XNewRef(known);
}

PyObject* is_cuda(PyObject* const* args, Py_ssize_t) {
  const View x(args[0]);
  return x.known ? PyBool_FromLong(x.device != nullptr) : nullptr;
}

PyObject* is_cpu(PyObject* const* args, Py_ssize_t) {
  const View x(args[0]);
  return x.known ? PyBool_FromLong(x.host != nullptr) : nullptr;
}

// What only tensors of other arrays are.
PyObject* never(PyObject* const* args, Py_ssize_t) {
  return View(args[0]).known ? Py_NewRef(Py_False) : nullptr;
}

PyObject* layout(PyObject* const* args, Py_ssize_t) {
  return View(args[0]).known ? Py_XNewRef(registered.strided) : nullptr;
}

PyObject* itemsize(PyObject* const* args, Py_ssize_t) { return element_size(args, 1); }

PyObject* wants_gradient(PyObject* const* args, Py_ssize_t) {
  return plain(args[0]) ? requires_grad_of_tensor(args[0]) : nullptr;
}

PyObject* is_leaf(PyObject* const* args, Py_ssize_t) {
  auto* t = reinterpret_cast<Tensor*>(args[0]);
  if (plain(args[0]) && is_deferred(t))
    return PyBool_FromLong(!deferred_needs_grad(t) || deferred_is_leaf(t));
  if (!View(args[0]).known || requires_grad(t) < 0) return nullptr;
  return PyBool_FromLong(!is_set(t->node));
}

PyObject* gradient(PyObject* const* args, Py_ssize_t) {
  auto* t = reinterpret_cast<Tensor*>(args[0]);
  if (!View(args[0]).known) return nullptr;
  if (is_set(t->grad)) return Py_NewRef(t->grad);
  return t->leaf || !(is_set(t->node) || is_set(t->base)) ? Py_NewRef(Py_None) : nullptr;
}

struct Answered {
  const char* name;
  Reply answer;
};
constexpr Answered kMethods[] = {
    {"size", size},
    {"stride", stride},
    {"dim", dim},
    {"numel", numel},
    {"__len__", length},
    {"is_contiguous", is_contiguous},
    {"data_ptr", data_ptr},
    {"element_size", element_size},
    {"is_floating_point", is_floating_point},
    {"is_complex", is_complex},
};
constexpr Answered kProperties[] = {
    {"device", device},       {"is_cuda", is_cuda},
    {"is_cpu", is_cpu},       {"is_meta", never},
    {"is_nested", never},     {"is_sparse", never},
    {"is_sparse_csr", never}, {"layout", layout},
    {"itemsize", itemsize},   {"requires_grad", wants_gradient},
    {"is_leaf", is_leaf},     {"grad", gradient},
};

Reply find(std::span<const Answered> table, PyObject* name) {
  for (const auto& each : table)
    if (PyUnicode_CompareWithASCIIString(name, each.name) == 0) return each.answer;
  return nullptr;
}

// ---- Property -----------------------------------------------------------------------------------

// What a Property has after the fields of a `property`, whose size is the interpreter's business.
struct Extra {
  Reply answer;
  PyObject* dict;  // where a property of another class has its __doc__
};
Extra* extra_of(PyObject* self) {
  return reinterpret_cast<Extra*>(reinterpret_cast<char*>(self) + PyProperty_Type.tp_basicsize);
}

// Property(name, property): answered natively where there is an answer to the name.
int property_init(PyObject* self, PyObject* args, PyObject*) {
  PyObject *name, *plain;
  if (!PyArg_ParseTuple(args, "UO!", &name, &PyProperty_Type, &plain)) return -1;
  const char* fields[] = {"fget", "fset", "fdel"};
  const Ref ways(PyTuple_New(3));
  if (!ways) return -1;
  for (Py_ssize_t i = 0; i < 3; ++i) {
    PyObject* way = PyObject_GetAttrString(plain, fields[i]);
    if (!way) return -1;
    PyTuple_SET_ITEM(ways.get(), i, way);
  }
  const Ref doc(PyObject_GetAttrString(plain, "__doc__"));
  const bool good = doc && PyProperty_Type.tp_init(self, ways.get(), nullptr) == 0 &&
                    PyObject_SetAttrString(self, "__doc__", doc.get()) == 0;
  extra_of(self)->answer = find(kProperties, name);
  return good ? 0 : -1;
}

PyObject* property_get(PyObject* self, PyObject* object, PyObject* type) {
  const Reply answer = extra_of(self)->answer;
  if (answer && object && object != Py_None) {
    PyObject* found = answer(&object, 1);
    if (found || PyErr_Occurred()) return found;
  }
  return PyProperty_Type.tp_descr_get(self, object, type);
}

// answers(name): whether a property of this name is answered natively
PyObject* property_answers(PyObject*, PyObject* name) {
  if (!PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "expected a name");
  return PyBool_FromLong(find(kProperties, name) != nullptr);
}
PyMethodDef property_methods[] = {{"answers", property_answers, METH_O | METH_STATIC,
                                   "Whether a property of this name is answered natively."},
                                  {nullptr, nullptr, 0, nullptr}};

int property_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(extra_of(self)->dict);
  return PyProperty_Type.tp_traverse(self, visit, arg);
}

void property_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_CLEAR(extra_of(self)->dict);
  PyProperty_Type.tp_dealloc(self);
  Py_DECREF(type);
}

}  // namespace

Reply find_reply(PyObject* name) { return find(kMethods, name); }

bool add_property_type(PyObject* module) {
  of_dtype = {PyUnicode_InternFromString("itemsize"),
              PyUnicode_InternFromString("is_floating_point"),
              PyUnicode_InternFromString("is_complex")};
  const Py_ssize_t size = PyProperty_Type.tp_basicsize;
  PyMemberDef members[] = {
      {"__dictoffset__", T_PYSSIZET, size + static_cast<Py_ssize_t>(offsetof(Extra, dict)),
       READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  PyType_Slot slots[] = {
      {Py_tp_base, &PyProperty_Type},
      {Py_tp_init, reinterpret_cast<void*>(property_init)},
      {Py_tp_descr_get, reinterpret_cast<void*>(property_get)},
      {Py_tp_traverse, reinterpret_cast<void*>(property_traverse)},
      {Py_tp_dealloc, reinterpret_cast<void*>(property_dealloc)},
      {Py_tp_members, members},
      {Py_tp_methods, property_methods},
      {Py_tp_doc, const_cast<char*>("A property of tensors that is answered natively.")},
      {0, nullptr}};
  PyType_Spec spec = {"tritorch._C.Property", static_cast<int>(size + sizeof(Extra)), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
  PyObject* type = PyType_FromSpec(&spec);
  return of_dtype.itemsize && of_dtype.is_floating_point && of_dtype.is_complex && type &&
         PyModule_AddObjectRef(module, "Property", type) == 0;
}

}  // namespace tritorch
