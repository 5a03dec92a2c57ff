// Arguments of calls in the words of their thread.
#define PY_SSIZE_T_CLEAN
#include <algorithm>
#include <cstring>

#include "array/array.h"
#include "launch/pack.h"
#include "profiling/python.h"
#include "ref.h"
#include "tensor/fields.h"
#include "traces.h"

namespace tritorch::profiling {
namespace {

// Note [Arguments as words]: the number of arguments; then of each the number of its keyword's name
// plus one (0: it has none) and its tag, with a number's value, a tensor's dtype (a name's number),
// dims, sizes and strides in elements, or a list's length and items behind it.  Where memory is
// written down, a tensor's serial, the address of its memory, the device's number plus one and
// whether it requires gradients follow.  Of a tensor of another layout: its dtype's and layout's
// names, dims and sizes.  A text is a name's number.
enum Tag : std::int64_t {
  none,
  tensor,
  integer,
  number,
  truth,
  list,
  other,
  text,
  known_tensor,
  other_layout
};
constexpr Py_ssize_t kLongList = 30;  // of what is longer only the length is kept
constexpr int kDeepest = 3;           // lists in lists, of which an operator has two

// What is asked once for each dtype, a NumPy descr or one of ours.
struct Elements {
  const void* dtype = nullptr;
  std::uint32_t name = 0;
  std::int64_t bytes = 1;
};
Elements known_elements[64];

const Elements& elements_of(PyObject* tensor, const void* dtype, PyObject* descr) {
  Elements& known = known_elements[(reinterpret_cast<std::uintptr_t>(dtype) >> 4) % 64];
  if (known.dtype == dtype) return known;
  const Ref ours(dtype_of_tensor(tensor));
  const Ref text(ours ? PyObject_Str(ours.get()) : nullptr);
  const Ref bytes(descr ? PyObject_GetAttrString(descr, "itemsize") : nullptr);
  const std::uint32_t name = text ? number_of(text.get()) : kUnnamed;
  const std::int64_t size = bytes ? PyLong_AsLongLong(bytes.get()) : 1;
  if (descr) Py_INCREF(descr);  // no other one has its address
  known = {dtype, name == kUnnamed ? 0 : name, size > 0 ? size : 1};
  PyErr_Clear();
  return known;
}

// Where the memory begins that an array is a part of; 0 if it has none.
std::int64_t address_of(const NDArray* host, const Array* device) {
  if (device) return static_cast<std::int64_t>(device->storage->address);
  while (const NDArray* base = host->base ? as_ndarray(host->base) : nullptr) host = base;
  if (std::ranges::count(host->shape(), 0)) return 0;
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(host->data));
}

// The number of what an attribute of a tensor is as text.
std::uint32_t number_of_attribute(PyObject* tensor, const char* name) {
  const Ref found(PyObject_GetAttrString(tensor, name));
  const Ref text(found ? PyObject_Str(found.get()) : nullptr);
  const std::uint32_t number = text ? number_of(text.get()) : kUnnamed;
  PyErr_Clear();  // an event is not worth an error
  return number == kUnnamed ? 0 : number;
}

void write_other_layout(std::vector<std::int64_t>& words, PyObject* object) {
  const Ref shape(PyObject_GetAttrString(object, "shape"));
  PyErr_Clear();
  if (!shape || !PyTuple_Check(shape.get())) return words.push_back(other);
  const Py_ssize_t dims = PyTuple_GET_SIZE(shape.get());
  words.insert(words.end(), {other_layout, number_of_attribute(object, "dtype"),
                             number_of_attribute(object, "layout"), dims});
  for (Py_ssize_t i = 0; i < dims; ++i) {
    words.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape.get(), i)));  // -1: a symbol
    PyErr_Clear();
  }
}

void write_tensor(std::vector<std::int64_t>& words, PyObject* object, const Tensor* t,
                  bool identified) {
  PyObject* array = array_of(t);
  NDArray* host = array ? as_ndarray(array) : nullptr;
  const Array* device = array && !host ? as_array(array) : nullptr;
  if (!host && !device) return write_other_layout(words, object);
  const Elements& of = host ? elements_of(object, host->descr, host->descr)
                            : elements_of(object, &kDTypeTable[int(device->dtype)], nullptr);
  const std::span<const std::int64_t> shape = host ? host->shape() : device->layout.shape();
  words.insert(words.end(), {identified ? known_tensor : tensor, of.name,
                             static_cast<std::int64_t>(shape.size())});
  words.insert(words.end(), shape.begin(), shape.end());
  for (const std::int64_t step : host ? host->steps() : device->layout.strides())
    words.push_back(host ? step / of.bytes : step);
  if (identified)
    words.insert(words.end(),
                 {static_cast<std::int64_t>(serial_of(const_cast<Tensor*>(t))),
                  address_of(host, device), device ? device->device() + 1 : 0, t->leaf || t->node});
}

void write_value(std::vector<std::int64_t>& words, PyObject* object, int depth, bool identified) {
  if (object == Py_None) return words.push_back(none);
  if (const Tensor* t = as_tensor(object)) return write_tensor(words, object, t, identified);
  if (depth && identified && PyUnicode_Check(object)) {
    words.insert(words.end(), {text, std::int64_t{number_of(object)}});
  } else if (PyBool_Check(object)) {
    words.insert(words.end(), {truth, object == Py_True});
  } else if (PyLong_CheckExact(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return words.push_back(other);
    words.insert(words.end(), {integer, value});
  } else if (PyFloat_CheckExact(object)) {
    std::int64_t bits;
    const double value = PyFloat_AS_DOUBLE(object);
    std::memcpy(&bits, &value, sizeof bits);
    words.insert(words.end(), {number, bits});
  } else if ((PyTuple_Check(object) || PyList_Check(object)) && depth < kDeepest) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(object);
    const Py_ssize_t kept = n > kLongList ? 0 : n;
    words.insert(words.end(), {list, n, kept});
    for (Py_ssize_t i = 0; i < kept; ++i)
      write_value(words, PySequence_Fast_ITEMS(object)[i], depth + 1, identified);
  } else {
    words.push_back(other);
  }
}

}  // namespace

void write_call(Event* event, PyObject* const* args, Py_ssize_t n, PyObject* names,
                bool identified) {
  std::vector<std::int64_t>& words = here().words;
  event->shapes = static_cast<std::uint32_t>(words.size() + 1);
  const Py_ssize_t total = n + (names ? PyTuple_GET_SIZE(names) : 0);
  words.push_back(total);
  for (Py_ssize_t i = 0; i < total; ++i) {
    words.push_back(i < n ? 0 : 1 + std::int64_t{number_of(PyTuple_GET_ITEM(names, i - n))});
    write_value(words, args[i], 0, identified);
  }
}

void describe_call(Event* event, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (options.stacks) event->stack = static_cast<std::uint32_t>(capture_trace());
  if (options.shapes) write_call(event, args, n, names, options.memory);
}

void describe_result(Event* event, PyObject* result) {
  if (!options.shapes || !options.memory) return;
  const Tensor* t = as_tensor(result);
  if (!t) return;
  std::vector<std::int64_t>& words = here().words;
  event->extra = static_cast<std::uint32_t>(words.size() + 1);
  write_tensor(words, result, t, true);
}

}  // namespace tritorch::profiling
