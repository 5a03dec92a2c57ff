#include "plans/host.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "launch/pack.h"
#include "tensor/fields.h"
#include "tensor/quiet.h"

namespace tritorch::plans {
namespace {

constexpr std::size_t kMostArgs = 16;  // of a function of arrays

// The module; PyImport_ImportModule would look into the globals of whatever function runs.
PyObject* numpy_module() {
  const Ref name(PyUnicode_FromString("numpy"));
  return name ? PyImport_GetModule(name.get()) : nullptr;
}

// Where an array's memory begins and ends.
std::pair<char*, char*> extent(const NDArray* array) {
  if (array->is_empty()) return {array->data, array->data};
  Py_ssize_t low = 0, high = 0;
  for (int i = 0; i < array->nd; ++i) {
    const Py_ssize_t reach = (array->dimensions[i] - 1) * array->strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const Ref size(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(const_cast<NDArray*>(array)), "itemsize"));
  return {array->data + low, array->data + high + (size ? PyLong_AsSsize_t(size.get()) : 0)};
}

// Whether an array owns its memory and nobody may write it: a table that depends on sizes alone.
bool is_constant(PyObject* object) {
  const NDArray* array = as_ndarray(object);
  return array && !array->base && !array->is_writeable();
}

// A result that is no array, by which the code after the call may go another way.
bool is_answer(PyObject* object) {
  return object == Py_None || PyBool_Check(object) || PyLong_CheckExact(object);
}

// Fills memory with what is neither zero nor a likely result.
void poison(PyObject* object) {
  if (const NDArray* array = as_ndarray(object)) {
    const auto [low, high] = extent(array);
    std::memset(low, 0xA5, static_cast<std::size_t>(high - low));
  }
}

bool is_number_of_numpy(PyObject* object) {
  return registered.generic_type &&
         PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(registered.generic_type));
}

}  // namespace

PyObject* owner_of(PyObject* array) {
  for (;;) {
    const NDArray* each = as_ndarray(array);
    if (!each || !each->base) return array;
    array = each->base;
  }
}

PyObject* copy_of(PyObject* array) {
  const NDArray* from = as_ndarray(array);
  const auto [low, high] = extent(from);
  const Ref memory(PyByteArray_FromStringAndSize(low, high - low));
  const Ref numpy(memory ? numpy_module() : nullptr);
  const Ref bytes(numpy ? PyObject_CallMethod(numpy.get(), "frombuffer", "Os", memory.get(), "u1")
                        : nullptr);
  if (!bytes) return nullptr;
  char* data = as_ndarray(bytes.get())->data + (from->data - low);
  return view_of(bytes.get(), from->nd, from->dimensions, from->strides, data, from->descr);
}

bool same_contents(PyObject* a, PyObject* b) {
  const Ref numpy(numpy_module());
  const auto bytes = [&](PyObject* array) {
    const Ref plain(numpy ? PyObject_CallMethod(numpy.get(), "asarray", "O", array) : nullptr);
    return Ref(plain ? PyObject_CallMethod(plain.get(), "tobytes", nullptr) : nullptr);
  };
  const Ref first = bytes(a), second = bytes(b);
  return first && second && PyObject_RichCompareBool(first.get(), second.get(), Py_EQ) == 1;
}

bool same_objects(const Ref& a, const Ref& b) {
  if (a.get() == b.get()) return true;
  if (!a || !b || Py_TYPE(a.get()) != Py_TYPE(b.get())) return false;
  const int equal = PyObject_RichCompareBool(a.get(), b.get(), Py_EQ);
  PyErr_Clear();
  return equal == 1;
}

bool holds_tensor(PyObject* object) {
  if (as_tensor(object) || as_array(object) || as_ndarray(object)) return true;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      if (holds_tensor(PySequence_Fast_ITEMS(object)[i])) return true;
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(object, &at, &key, &value))
      if (holds_tensor(value)) return true;
  }
  return false;
}

bool Value::operator==(const Value& other) const {
  return kind == other.kind && index == other.index && output == other.output &&
         same_objects(value, other.value) && items == other.items && shape == other.shape &&
         strides == other.strides && delta == other.delta;
}

bool HostProgram::Call::operator==(const Call& other) const {
  return function.get() == other.function.get() && same_objects(names, other.names) &&
         same_objects(answer, other.answer) && args == other.args;
}

bool HostProgram::operator==(const HostProgram& other) const { return calls_ == other.calls_; }

// ---- from calls that were seen ------------------------------------------------------------------

// An array that is known, and the whole of whose memory `array` lies in.
bool HostProgram::find_source(PyObject* array, Value& found) const {
  PyObject* owner = owner_of(array);
  const auto [low, high] = extent(as_ndarray(array));
  const auto holds = [&](PyObject* known) {
    if (!as_ndarray(known) || owner_of(known) != owner) return false;
    const auto [first, last] = extent(as_ndarray(known));
    return first <= low && high <= last;
  };
  const auto is_view = [&](PyObject* known, Value source) {
    if (!holds(known)) return false;
    const NDArray* view = as_ndarray(array);
    found.kind = Value::view;
    found.delta = view->data - as_ndarray(known)->data;
    found.shape.assign(view->dimensions, view->dimensions + view->nd);
    found.strides.assign(view->strides, view->strides + view->nd);
    found.value = Ref::to(view->descr);
    found.items.push_back(std::move(source));
    return true;
  };
  for (std::size_t i = 0; i < known_arrays_.size(); ++i)
    if (is_view(known_arrays_[i], {Value::argument, static_cast<int>(i), -1, {}, {}, {}, {}, 0}))
      return true;
  for (std::size_t i = 0; i < so_far_; ++i) {
    PyObject* result = (*seen_)[i].result.get();
    const int call = static_cast<int>(i);
    if (is_view(result, {Value::result, call, -1, {}, {}, {}, {}, 0})) return true;
    for (Py_ssize_t k = 0; PyTuple_Check(result) && k < PyTuple_GET_SIZE(result); ++k)
      if (is_view(PyTuple_GET_ITEM(result, k),
                  {Value::result, call, static_cast<int>(k), {}, {}, {}, {}, 0}))
        return true;
  }
  return false;
}

bool HostProgram::describe(PyObject* object, Value& found, const char*& why) const {
  for (std::size_t i = 0; i < known_arrays_.size(); ++i)
    if (known_arrays_[i] == object) {
      found.kind = Value::argument;
      found.index = static_cast<int>(i);
      return true;
    }
  const bool several = PyTuple_CheckExact(object) || PyList_CheckExact(object);
  const bool array = as_ndarray(object) || is_number_of_numpy(object);
  const bool number = PyFloat_CheckExact(object);
  for (std::size_t i = 0; (array || several || number) && i < so_far_; ++i) {
    PyObject* result = (*seen_)[i].result.get();
    found.kind = Value::result;
    found.index = static_cast<int>(i);
    if (result == object) return true;
    for (Py_ssize_t k = 0; PyTuple_Check(result) && k < PyTuple_GET_SIZE(result); ++k)
      if (PyTuple_GET_ITEM(result, k) == object) {
        found.output = static_cast<int>(k);
        return true;
      }
  }
  found = {};
  if (several) {
    found.kind = PyList_CheckExact(object) ? Value::list : Value::tuple;
    found.items.resize(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(object)));
    for (std::size_t i = 0; i < found.items.size(); ++i)
      if (!describe(PySequence_Fast_ITEMS(object)[i], found.items[i], why)) return false;
    const auto is_object = [](const Value& item) { return item.kind == Value::object; };
    if (found.kind == Value::tuple && std::ranges::all_of(found.items, is_object))
      found = {.value = Ref::to(object)};
    return true;
  }
  if (array) {
    if (as_ndarray(object) && find_source(object, found)) return true;
    if (is_constant(object)) {
      found.value = Ref::to(object);
      return true;
    }
    why = "a function gets an array that nobody has seen being made";
    return false;
  }
  if (holds_tensor(object)) {
    why = "a function of arrays gets a tensor";
    return false;
  }
  found.value = Ref::to(object);
  return true;
}

bool HostProgram::take(std::span<PyObject* const> arrays, const std::vector<SeenCall>& seen,
                       const char*& why) {
  known_arrays_.assign(arrays.begin(), arrays.end());
  seen_ = &seen;
  for (const SeenCall& each : seen) {
    Call call{each.function, each.names, {}, each.contents, {}};
    if (is_answer(each.result.get())) call.answer = each.result;
    if (each.args.size() > kMostArgs) {
      why = "a function of arrays gets too many arguments";
      return false;
    }
    for (const Ref& arg : each.args)
      if (!describe(arg.get(), call.args.emplace_back(), why)) return false;
    calls_.push_back(std::move(call));
    ++so_far_;
  }
  return true;
}

bool HostProgram::Call::gets(int argument) const {
  const auto leads = [&](const auto& self, const Value& value) -> bool {
    if (value.kind == Value::argument) return value.index == argument;
    return std::ranges::any_of(value.items, [&](const Value& item) { return self(self, item); });
  };
  return std::ranges::any_of(args, [&](const Value& arg) { return leads(leads, arg); });
}

bool HostProgram::gets(int argument) const {
  return std::ranges::any_of(calls_, [&](const Call& call) { return call.gets(argument); });
}

bool HostProgram::has_answers() const { return std::ranges::any_of(calls_, &Call::asks); }

bool HostProgram::asks_after_writing(std::span<const int> written) const {
  const auto first = std::ranges::find_if(calls_, [&](const Call& call) {
    return std::ranges::any_of(written, [&](int argument) { return call.gets(argument); });
  });
  return first != calls_.end() && std::any_of(first + 1, calls_.end(), std::mem_fn(&Call::asks));
}

bool HostProgram::is_unwritten(const Value& value) const {
  const Value& source = value.kind == Value::view ? value.items[0] : value;
  if (source.kind != Value::result ||
      calls_[static_cast<std::size_t>(source.index)].contents != Contents::unwritten)
    return false;
  const auto leads = [&](const auto& self, const Value& each) -> bool {
    if (each.kind == Value::result) return each.index == source.index;
    return std::ranges::any_of(each.items, [&](const Value& item) { return self(self, item); });
  };
  return std::ranges::none_of(calls_, [&](const Call& call) {
    return std::ranges::any_of(call.args, [&](const Value& arg) { return leads(leads, arg); });
  });
}

// ---- runs ---------------------------------------------------------------------------------------

Ref HostProgram::at(const Value& value, std::span<PyObject* const> arrays,
                    const Refs& results) const {
  switch (value.kind) {
    case Value::object:
      return value.value;
    case Value::argument:
      return Ref::to(arrays[static_cast<std::size_t>(value.index)]);
    case Value::result: {
      PyObject* result = results[static_cast<std::size_t>(value.index)].get();
      if (value.output < 0) return Ref::to(result);
      if (!PyTuple_Check(result) || value.output >= PyTuple_GET_SIZE(result)) {
        PyErr_SetString(PyExc_SystemError, "a function gives other results than before");
        return {};
      }
      return Ref::to(PyTuple_GET_ITEM(result, value.output));
    }
    case Value::view: {
      const Ref source = at(value.items[0], arrays, results);
      const NDArray* array = source ? as_ndarray(source.get()) : nullptr;
      if (!array) {
        if (source) PyErr_SetString(PyExc_SystemError, "a function gives no array any more");
        return {};
      }
      return Ref(view_of(source.get(), static_cast<int>(value.shape.size()), value.shape.data(),
                         value.strides.data(), array->data + value.delta, value.value.get()));
    }
    case Value::list:
    case Value::tuple:
      break;
  }
  const auto n = static_cast<Py_ssize_t>(value.items.size());
  const bool list = value.kind == Value::list;
  Ref made(list ? PyList_New(n) : PyTuple_New(n));
  for (Py_ssize_t i = 0; made && i < n; ++i) {
    Ref item = at(value.items[static_cast<std::size_t>(i)], arrays, results);
    if (!item) return {};
    list ? PyList_SET_ITEM(made.get(), i, item.release())
         : PyTuple_SET_ITEM(made.get(), i, item.release());
  }
  return made;
}

bool HostProgram::run(std::span<PyObject* const> arrays, Refs& results, bool poisoned) const {
  const QuietScope quiet;
  if (!quiet.entered()) return false;
  results.reserve(calls_.size());
  for (const Call& call : calls_) {
    Ref kept[kMostArgs];
    PyObject* args[kMostArgs];
    const std::size_t n = call.args.size();
    for (std::size_t i = 0; i < n; ++i) {
      kept[i] = at(call.args[i], arrays, results);
      if (!(args[i] = kept[i].get())) return false;
    }
    const std::size_t named =
        call.names ? static_cast<std::size_t>(PyTuple_GET_SIZE(call.names.get())) : 0;
    Ref result(PyObject_Vectorcall(call.function.get(), args, n - named, call.names.get()));
    if (!result) return false;
    if (call.answer && result.get() != call.answer.get() && !same_objects(result, call.answer))
      return false;
    if (poisoned && call.contents != Contents::result) poison(result.get());
    results.push_back(std::move(result));
  }
  return true;
}

}  // namespace tritorch::plans
