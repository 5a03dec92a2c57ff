#include "bindings/convert.h"

#include <string>

#include "launch/pack.h"

namespace tritorch {
namespace {

PyObject* dtype_objects[kDTypes];

std::int64_t to_int(PyObject* item) {
  if (PyLong_CheckExact(item)) {
    std::int64_t value = PyLong_AsLongLong(item);
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    return value;
  }
  PyObject* index = PyNumber_Index(item);
  if (!index) throw nb::python_error();
  nb::object owned = nb::steal(index);
  std::int64_t value = PyLong_AsLongLong(index);
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

}  // namespace

DType dtype_of(nb::handle object) {
  for (int code = 0; code < kDTypes; ++code)
    if (dtype_objects[code] == object.ptr()) return static_cast<DType>(code);
  throw nb::type_error(
      ("expected a tritorch dtype, got " + std::string(nb::repr(object).c_str())).c_str());
}

nb::object dtype_object(DType dtype) { return nb::borrow(dtype_objects[static_cast<int>(dtype)]); }

std::vector<std::int64_t> ints(nb::handle sequence) {
  if (PyLong_Check(sequence.ptr())) return {to_int(sequence.ptr())};
  PyObject* fast = PySequence_Fast(sequence.ptr(), "a sequence of integers is needed");
  if (!fast) throw nb::python_error();
  nb::object owned = nb::steal(fast);
  std::vector<std::int64_t> out(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast)));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = to_int(PySequence_Fast_GET_ITEM(fast, static_cast<Py_ssize_t>(i)));
  return out;
}

nb::tuple tuple_of(Sizes sizes) {
  PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(sizes.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  return nb::steal<nb::tuple>(out);
}

void bind_dtypes(nb::module_& m) {
  m.def("dtypes", [] {
    nb::list table;
    for (const DTypeInfo& each : kDTypeTable)
      table.append(nb::make_tuple(each.name, each.bytes, nb::str(&each.kind, 1)));
    return table;
  });
  m.def(
      "set_dtypes",
      [](nb::list dtypes) {
        if (dtypes.size() != kDTypes)
          throw std::domain_error("one object for each dtype code is needed");
        for (int i = 0; i < kDTypes; ++i) dtype_objects[i] = Py_NewRef(dtypes[i].ptr());
      },
      "dtypes"_a);
}

}  // namespace tritorch
