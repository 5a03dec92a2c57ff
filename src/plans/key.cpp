#include "plans/key.h"

#include <cstring>

#include "compilation/state.h"
#include "interpreter.h"
#include "launch/pack.h"
#include "plans/table.h"

namespace tritorch::plans {
namespace {

constexpr int kDepth = 4;                   // of tuples and lists in each other
constexpr Py_ssize_t kMostBytes = 1 << 20;  // of a call's ndarrays

bool is_plain_type(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  return type == &PyUnicode_Type || object == registered.dtype_type ||
         (plain_types && PySequence_Contains(plain_types, object) == 1);
}

// True if the keyword "device" names a GPU: a string, a number or a device.
bool names_gpu(PyObject* const* values, PyObject* names) {
  static PyObject* const device = PyUnicode_InternFromString("device");
  static PyObject* const type = PyUnicode_InternFromString("type");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    if (PyTuple_GET_ITEM(names, i) != device) continue;
    if (PyLong_CheckExact(values[i])) return true;
    const Ref name(PyUnicode_CheckExact(values[i]) ? Py_NewRef(values[i])
                                                   : PyObject_GetAttr(values[i], type));
    PyErr_Clear();  // None, or something that the function refuses
    return name && PyUnicode_Check(name.get()) && PyUnicode_GET_LENGTH(name.get()) >= 4 &&
           PyUnicode_READ_CHAR(name.get(), 0) == 'c' && PyUnicode_READ_CHAR(name.get(), 1) == 'u';
  }
  return false;
}

}  // namespace

bool Key::add_modes() {
  const long ambient = ambient_now();
  if (ambient < 0) return false;
  const std::uint64_t flags = static_cast<std::uint64_t>(modes.grad_enabled) |
                              static_cast<std::uint64_t>(modes.inference_mode) << 1;
  return add(static_cast<std::uint64_t>(ambient) << 8 | flags);
}

bool Key::add_object(PyObject* object) {
  if (n_objects_ == kObjects) return false;
  objects_[n_objects_++] = object;
  return add(kObject) && add(reinterpret_cast<std::uintptr_t>(object));
}

Key::~Key() {
  if (!may_use_python()) return;  // Note [Threads at exit]
  for (int i = 0; i < n_tensors_; ++i) {
    Py_DECREF(held_[i]);
    Py_DECREF(reinterpret_cast<PyObject*>(tensors_[i]));
  }
}

void Key::hold(Tensor* t, const Array* array) {
  tensors_[n_tensors_] = reinterpret_cast<Tensor*>(Py_NewRef(reinterpret_cast<PyObject*>(t)));
  arrays_[n_tensors_] = array;
  held_[n_tensors_++] = Py_NewRef(t->array);
}

// What of a tensor decides beside its array, in a few bits.
std::uint64_t Key::flags_of(Tensor* t, bool& fits) const {
  bool wants = t->leaf || is_set(t->node);
  if (is_set(t->base) && modes.grad_enabled) {  // else a view must not be asked: it may refuse
    const int needed = requires_grad(t);
    fits = fits && needed >= 0;
    wants = needed > 0;
  } else if (is_set(t->base)) {
    const auto* base = reinterpret_cast<const Tensor*>(t->base);
    wants = wants || base->leaf || is_set(base->node);
  }
  std::uint64_t word = 0;
  for (const bool each : {Py_TYPE(t) != tensor_type, wants, t->leaf != 0, is_set(t->base),
                          is_set(t->created), t->inference == 1, t->inference == 2})
    word = word << 1 | static_cast<std::uint64_t>(each);
  return word;
}

bool Key::add_tensor(Tensor* t) {
  if (n_tensors_ == kTensors || is_set(t->tangent) || !t->array) return false;
  for (int i = 0; i < n_tensors_; ++i)
    if (tensors_[i] == t) return add(kSame | static_cast<std::uint64_t>(i) << 8);
  const NDArray* host = as_ndarray(t->array);
  if (n_tensors_ == 0)
    on_host_ = host != nullptr;
  else if (on_host_ != (host != nullptr))
    return false;
  if (host) return add_host_tensor(t, host);
  const Array* array = as_array(t->array);
  if (!array) return false;
  if (device_ < 0) {
    device_ = array->device();
  } else if (device_ != array->device()) {
    return false;
  }
  bool fits = true;
  const std::uint64_t flags = flags_of(t, fits) << 1 | (array->data() % 16 == 0);
  if (!fits || !add(kTensor | static_cast<std::uint64_t>(array->dtype) << 8 |
                    static_cast<std::uint64_t>(array->layout.ndim()) << 16 |
                    static_cast<std::uint64_t>(array->device()) << 24 | flags << 32))
    return false;
  for (const std::int64_t size : array->layout.shape())
    if (!add(static_cast<std::uint64_t>(size))) return false;
  // Of dims of one the strides may be any: programs see them.
  for (const std::int64_t stride : array->layout.strides())
    if (!add(static_cast<std::uint64_t>(stride))) return false;
  const Storage* storage = array->storage.get();
  int memory = 0;
  while (memory < n_memories_ && memories_[memory].storage != storage) ++memory;
  if (memory == n_memories_) {
    memories_[n_memories_++] = {storage, n_tensors_};
  } else {
    const Array* first = arrays_[memories_[memory].tensor];
    if (!add(kSame | static_cast<std::uint64_t>(memory) << 8) ||
        !add(array->data() - first->data()))
      return false;
  }
  hold(t, array);
  return true;
}

bool Key::add_host_tensor(Tensor* t, const NDArray* array) {
  // The bytes of an element and its type: of NumPy's own by number, of others by identity.
  const NDArray::Descr* dtype = array->dtype();
  const bool own = dtype->number < 24 && dtype->byteorder != '>';
  const auto number = static_cast<std::uint64_t>(own ? dtype->number : 255);
  if (!own && !add_object(array->descr)) return false;
  bytes_ += static_cast<Py_ssize_t>(array->size()) * 8;
  if (bytes_ > kMostBytes) return false;  // its time is not the host's calls
  bool fits = true;
  std::uint64_t flags = flags_of(t, fits);
  for (const bool each : {reinterpret_cast<std::uintptr_t>(array->data) % 16 == 0,
                          array->is_writeable(), array->base == nullptr})
    flags = flags << 1 | static_cast<std::uint64_t>(each);
  if (!fits ||
      !add(kHostTensor | number << 8 | static_cast<std::uint64_t>(array->nd) << 16 | flags << 32))
    return false;
  for (int i = 0; i < array->nd; ++i)
    if (!add(static_cast<std::uint64_t>(array->dimensions[i]))) return false;
  for (int i = 0; i < array->nd; ++i)
    if (!add(static_cast<std::uint64_t>(array->strides[i]))) return false;
  for (int i = 0; i < n_tensors_; ++i) {
    const NDArray* other = as_ndarray(tensors_[i]->array);
    if (!share_memory(other, array, 1)) continue;
    if (!add(kSame | static_cast<std::uint64_t>(i) << 8) ||
        !add(static_cast<std::uint64_t>(array->data - other->data)))
      return false;
  }
  hold(t, nullptr);
  return true;
}

bool Key::add_value(PyObject* value, int depth) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == tensor_type || reinterpret_cast<PyObject*>(type) == registered.parameter)
    return add_tensor(reinterpret_cast<Tensor*>(value));
  if (value == Py_None) return add(kNone);
  if (value == Py_True) return add(kTrue);
  if (value == Py_False) return add(kFalse);
  if (type == &PyLong_Type) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && add(kInt) && add(static_cast<std::uint64_t>(number));
  }
  if (type == &PyFloat_Type) {
    const double number = PyFloat_AS_DOUBLE(value);
    std::uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return add(kFloat) && add(bits);
  }
  if (type == &PyTuple_Type || type == &PyList_Type ||
      reinterpret_cast<PyObject*>(type) == registered.size_type) {
    if (depth == kDepth) return false;
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    const Tag tag = type == &PyList_Type ? kList : kTuple;
    if (!add(tag | static_cast<std::uint64_t>(size) << 8)) return false;
    for (Py_ssize_t i = 0; i < size; ++i)
      if (!add_value(PySequence_Fast_ITEMS(value)[i], depth + 1)) return false;
    return true;
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return add(kSlice) && add_value(slice->start, kDepth) && add_value(slice->stop, kDepth) &&
           add_value(slice->step, kDepth);
  }
  if (value == Py_Ellipsis) return add(kEllipsis);
  if (!is_plain_type(type)) return false;
  if (!PyTuple_Check(value)) return add_object(value);
  if (depth == kDepth || !add_object(reinterpret_cast<PyObject*>(type))) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i)
    if (!add_value(PyTuple_GET_ITEM(value, i), depth + 1)) return false;
  return true;
}

bool Key::take(PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (!add_modes()) return false;
  const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
  if (!add(static_cast<std::uint64_t>(n) << 8 | static_cast<std::uint64_t>(named))) return false;
  for (Py_ssize_t i = 0; i < n + named; ++i) {
    if (i >= n && !add_object(PyTuple_GET_ITEM(names, i - n))) return false;
    if (!add_value(args[i], 0)) return false;
  }
  if (n_tensors_ == 0) on_host_ = !(names && names_gpu(args + n, names));
  return true;
}

std::uint64_t Key::hash() const {
  std::uint64_t h = 0x9E3779B97F4A7C15u;
  for (int i = 0; i < count_; ++i) h = (h ^ words_[i]) * 0xFF51AFD7ED558CCDu, h ^= h >> 32;
  return h;
}

bool Key::equals(const std::vector<std::uint64_t>& words) const {
  return words.size() == static_cast<std::size_t>(count_) &&
         std::memcmp(words.data(), words_, sizeof(std::uint64_t) * words.size()) == 0;
}

std::vector<Ref> Key::objects() const {
  std::vector<Ref> kept;
  for (int i = 0; i < n_objects_; ++i) kept.push_back(Ref::to(objects_[i]));
  return kept;
}

}  // namespace tritorch::plans
