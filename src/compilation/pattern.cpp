#include "compilation/pattern.h"

#include <algorithm>
#include <cstring>

#include "array/array.h"
#include "launch/pack.h"

namespace tritorch {
namespace {

void set_layout(std::vector<std::int64_t>& layout, std::span<const std::int64_t> sizes,
                std::span<const std::int64_t> steps) {
  layout.assign(sizes.begin(), sizes.end());
  layout.insert(layout.end(), steps.begin(), steps.end());
}

bool is_sequence(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == &PyTuple_Type || type == &PyList_Type ||
         reinterpret_cast<PyObject*>(type) == registered.size_type;
}

}  // namespace

bool InputSpec::read(Tensor* t) {
  if (!t->array || is_set(t->tangent)) return false;
  type = Ref::to(reinterpret_cast<PyObject*>(Py_TYPE(t)));
  array_type = Ref::to(reinterpret_cast<PyObject*>(Py_TYPE(t->array)));
  if (const NDArray* a = as_ndarray(t->array)) {
    dtype = Ref::to(a->descr);
    set_layout(layout, a->shape(), a->steps());
    const Ref size(PyObject_GetAttrString(a->descr, "itemsize"));
    unit = size ? PyLong_AsLongLong(size.get()) : -1;
    if (unit < 0) return false;
  } else if (const Array* d = as_array(t->array)) {
    dtype = Ref(PyLong_FromLong(static_cast<long>(d->dtype)));
    set_layout(layout, d->layout.shape(), d->layout.strides());
    device = d->device();
  } else {
    return false;
  }
  const int needed = wants_grad(t);
  if (needed < 0) return false;
  needs_grad = needed;
  leaf = t->leaf;
  view = is_set(t->base);
  inference = t->inference;
  return true;
}

bool DynamicLayout::read(PyObject* pair) {
  PyObject *sizes, *steps;
  if (!PyArg_ParseTuple(pair, "O!O!", &PyTuple_Type, &sizes, &PyTuple_Type, &steps)) return false;
  const auto take = [](PyObject* tuple, std::vector<Expr>& exprs) {
    exprs.resize(static_cast<std::size_t>(PyTuple_GET_SIZE(tuple)));
    for (std::size_t i = 0; i < exprs.size(); ++i)
      if (!exprs[i].take(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)))) return false;
    return true;
  };
  return take(sizes, shape) && take(steps, strides);
}

bool DynamicLayout::compute(const std::vector<Number>& numbers, std::vector<std::int64_t>& sizes,
                            std::vector<std::int64_t>& steps) const {
  sizes.resize(shape.size());
  steps.resize(strides.size());
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].compute(numbers, sizes[i])) return false;
  for (std::size_t i = 0; i < strides.size(); ++i)
    if (!strides[i].compute(numbers, steps[i])) return false;
  return true;
}

bool InputSpec::lies(std::span<const std::int64_t> sizes, std::span<const std::int64_t> steps,
                     std::vector<Number>& numbers) const {
  if (!dynamic) {
    const std::size_t n = sizes.size();
    if (layout.size() != 2 * n) return false;
    for (std::size_t i = 0; i < n; ++i)
      if (layout[i] != sizes[i] || layout[n + i] != steps[i]) return false;
    return true;
  }
  if (sizes.size() != dynamic->shape.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t wanted;
    if (dynamic->shape[i].symbol() == static_cast<int>(numbers.size())) {
      if (sizes[i] < kLeastDynamic) return false;
      numbers.push_back({false, sizes[i], 0});
    } else if (!dynamic->shape[i].compute(numbers, wanted) || wanted != sizes[i]) {
      return false;
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (dynamic->strides[i].symbol() == static_cast<int>(numbers.size())) {
      if (steps[i] < kLeastDynamic * unit || steps[i] % unit != 0) return false;
      numbers.push_back({false, steps[i] / unit, 0});
    }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::int64_t wanted;
    if (!dynamic->strides[i].compute(numbers, wanted) || wanted * unit != steps[i]) return false;
  }
  return true;
}

// Whether two floats, or two complex numbers, are the same to the bit: 0.0 and -0.0 are not.
static bool same_bits(PyObject* a, PyObject* b) {
  const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
  return std::memcmp(&x, &y, sizeof x) == 0;
}

bool InputSpec::fits(Tensor* t, std::vector<Number>& numbers) const {
  if (!t->array || reinterpret_cast<PyObject*>(Py_TYPE(t->array)) != array_type.get() ||
      is_set(t->tangent) || leaf != static_cast<bool>(t->leaf) || view != is_set(t->base) ||
      inference != t->inference)
    return false;
  if (const NDArray* a = as_ndarray(t->array)) {
    if (!lies(a->shape(), a->steps(), numbers)) return false;
    if (a->descr != dtype.get() && PyObject_RichCompareBool(a->descr, dtype.get(), Py_EQ) != 1) {
      PyErr_Clear();
      return false;
    }
  } else if (const Array* d = as_array(t->array)) {
    if (PyLong_AsLong(dtype.get()) != static_cast<long>(d->dtype) || d->device() != device ||
        !lies(d->layout.shape(), d->layout.strides(), numbers))
      return false;
  }
  const int needed = wants_grad(t);
  if (needed < 0) PyErr_Clear();
  return needed == static_cast<int>(needs_grad);
}

bool make_pattern(PyObject* argument, Met& met, Pattern& p) {
  if (const Expr* expr = as_dynamic(argument)) {
    p.kind = Pattern::computed;
    p.with_more().expr = *expr;
    return true;
  }
  if (Tensor* t = as_tensor(argument)) {
    if (t->mark >> kSlotBits == met.serial) {
      p.kind = Pattern::slot;
      p.number = slot_of(t);
      return true;
    }
    p.kind = Pattern::fresh;
    p.number = met.next;
    if (!p.with_more().input.read(t)) return false;
    met.meet(t);
    return true;
  }
  if (argument == Py_None || PyBool_Check(argument) || argument == Py_Ellipsis ||
      PyType_Check(argument)) {
    p.kind = Pattern::same;
  } else if (PyLong_CheckExact(argument)) {
    int overflow = 0;
    p.whole = PyLong_AsLongLongAndOverflow(argument, &overflow);
    p.kind = overflow ? Pattern::equal : Pattern::integer;
  } else if (PyFloat_CheckExact(argument)) {
    p.kind = Pattern::real;
    p.value = PyFloat_AS_DOUBLE(argument);
  } else if (PyUnicode_CheckExact(argument) || PyComplex_CheckExact(argument)) {
    p.kind = Pattern::equal;
  } else if (is_sequence(argument)) {
    p.kind = Pattern::sequence;
    p.object = Ref::to(reinterpret_cast<PyObject*>(Py_TYPE(argument)));
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(argument);
    p.with_more().items.resize(static_cast<std::size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i)
      if (!make_pattern(PySequence_Fast_ITEMS(argument)[i], met,
                        p.items()[static_cast<std::size_t>(i)]))
        return false;
    return true;
  } else if (PySlice_Check(argument)) {
    auto* s = reinterpret_cast<PySliceObject*>(argument);
    p.kind = Pattern::slice;
    p.with_more().items.resize(3);
    return make_pattern(s->start, met, p.items()[0]) && make_pattern(s->stop, met, p.items()[1]) &&
           make_pattern(s->step, met, p.items()[2]);
  } else if (PyObject* known = PyObject_GetAttrString(
                 reinterpret_cast<PyObject*>(Py_TYPE(argument)), "_told_by_value")) {
    // Dtypes, devices, layouts, memory formats: plain values that never change.
    Py_DECREF(known);
    p.kind = Pattern::equal;
  } else {
    PyErr_Clear();
    return false;
  }
  p.object = Ref::to(argument);
  return true;
}

bool fits(const Pattern& p, PyObject* argument, Met& met) {
  if (p.is_object() && argument == p.object.get()) return true;
  switch (p.kind) {
    case Pattern::slot: {
      Tensor* t = as_tensor(argument);
      return t && t->mark == mark_of(met.serial, p.number);
    }
    case Pattern::fresh: {
      const InputSpec& input = p.more->input;
      if (reinterpret_cast<PyObject*>(Py_TYPE(argument)) != input.type.get()) return false;
      auto* t = reinterpret_cast<Tensor*>(argument);
      if (t->mark >> kSlotBits == met.serial || !input.fits(t, met.numbers)) return false;
      met.meet(t);
      return true;
    }
    case Pattern::same:
      return false;
    case Pattern::integer: {
      if (!PyLong_CheckExact(argument)) return false;
      int overflow = 0;
      return PyLong_AsLongLongAndOverflow(argument, &overflow) == p.whole && !overflow;
    }
    case Pattern::real: {
      if (!PyFloat_CheckExact(argument)) return false;
      const double value = PyFloat_AS_DOUBLE(argument);
      return std::memcmp(&value, &p.value, sizeof value) == 0;
    }
    case Pattern::dynamic: {
      Number n;
      if (!read_number(argument, n) || n.real != p.more->expr.is_real() ||
          (!n.real && n.whole < kLeastDynamic))
        return false;
      met.numbers.push_back(n);
      return true;
    }
    case Pattern::computed: {
      Number n, wanted;
      return read_number(argument, n) && p.more->expr.compute(met.numbers, wanted) &&
             same_number(n, wanted);
    }
    case Pattern::equal: {
      if (Py_TYPE(argument) != Py_TYPE(p.object.get())) return false;
      if (PyFloat_CheckExact(argument) || PyComplex_CheckExact(argument))
        return same_bits(argument, p.object.get());
      const int same = PyObject_RichCompareBool(argument, p.object.get(), Py_EQ);
      if (same < 0) PyErr_Clear();
      return same == 1;
    }
    case Pattern::sequence: {
      if (reinterpret_cast<PyObject*>(Py_TYPE(argument)) != p.object.get() ||
          PySequence_Fast_GET_SIZE(argument) != static_cast<Py_ssize_t>(p.items().size()))
        return false;
      for (std::size_t i = 0; i < p.items().size(); ++i)
        if (!fits(p.items()[i], PySequence_Fast_ITEMS(argument)[i], met)) return false;
      return true;
    }
    case Pattern::slice: {
      if (!PySlice_Check(argument)) return false;
      auto* s = reinterpret_cast<PySliceObject*>(argument);
      return fits(p.items()[0], s->start, met) && fits(p.items()[1], s->stop, met) &&
             fits(p.items()[2], s->step, met);
    }
  }
  return false;
}

PyObject* of_type(PyObject* type, Ref list) {
  if (type == reinterpret_cast<PyObject*>(&PyList_Type)) return list.release();
  if (type == reinterpret_cast<PyObject*>(&PyTuple_Type)) return PyList_AsTuple(list.get());
  if (PyObject_HasAttrString(type, "_make"))
    return PyObject_CallMethod(type, "_make", "O", list.get());
  return PyObject_CallOneArg(type, list.get());
}

PyObject* build(const Pattern& p, const std::vector<Ref>& values,
                const std::vector<Number>& numbers) {
  switch (p.kind) {
    case Pattern::slot:
    case Pattern::fresh: {
      PyObject* value = values[static_cast<std::size_t>(p.number)].get();
      if (!value) return PyErr_Format(PyExc_SystemError, "tensor %d was not computed", p.number);
      return Py_NewRef(value);
    }
    case Pattern::sequence:
      return build_sequence(p, [&](const Pattern& item) { return build(item, values, numbers); });
    case Pattern::slice: {
      Ref parts[3];
      for (std::size_t i = 0; i < 3; ++i) parts[i] = Ref(build(p.items()[i], values, numbers));
      return parts[0] && parts[1] && parts[2]
                 ? PySlice_New(parts[0].get(), parts[1].get(), parts[2].get())
                 : nullptr;
    }
    case Pattern::dynamic:
    case Pattern::computed: {
      Number n;
      if (p.more->expr.compute(numbers, n)) return number_object(n);
      return PyErr_Format(PyExc_SystemError, "a number of a compiled function has no value");
    }
    default:
      return Py_NewRef(p.object.get());
  }
}

}  // namespace tritorch
