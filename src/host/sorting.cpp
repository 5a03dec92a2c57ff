// The first few of rows in order.
#include <cstdint>
#include <cstring>

#include "host/functions.h"
#include "tensor/fields.h"

namespace tritorch::host {
namespace {

// Whether a comes before b: equals keep their order, and NaN is larger than all numbers.
template <class T, bool Largest>
bool is_before(T a, T b) {
  if (Largest) return a > b || (a != a && b == b);
  return a < b || (b != b && a == a);
}

template <class T, bool Largest>
void first_of_row(const T* x, Py_ssize_t n, Py_ssize_t k, T* values, std::int64_t* places) {
  Py_ssize_t held = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    const T given = x[i];
    if (held == k && !is_before<T, Largest>(given, values[k - 1])) continue;
    Py_ssize_t at = held < k ? held++ : k - 1;
    for (; at && is_before<T, Largest>(given, values[at - 1]); --at) {
      values[at] = values[at - 1];
      places[at] = places[at - 1];
    }
    values[at] = given;
    places[at] = i;
  }
}

struct Rows {
  Py_ssize_t count, n, k;
};

template <class T>
void first_of_rows(const Rows& rows, bool largest, const char* data, char* made,
                   std::int64_t* places) {
  const T* x = reinterpret_cast<const T*>(data);
  T* values = reinterpret_cast<T*>(made);
  const double cost = static_cast<double>(rows.n + rows.k * rows.k);
  in_parts(rows.count, cost, [=](Py_ssize_t from, Py_ssize_t to) {
    for (Py_ssize_t i = from; i < to; ++i) {
      const auto run = largest ? first_of_row<T, true> : first_of_row<T, false>;
      run(x + i * rows.n, rows.n, rows.k, values + i * rows.k, places + i * rows.k);
    }
  });
}

// first_of_rows(x, values, places, rows, n, k, largest, kind)
PyObject* top(PyObject*, PyObject* args) {
  PyObject *given, *made, *indices;
  Rows rows;
  int largest;
  const char* kind;
  if (!PyArg_ParseTuple(args, "OOOnnnps", &given, &made, &indices, &rows.count, &rows.n, &rows.k,
                        &largest, &kind))
    return nullptr;
  if (rows.k < 1 || rows.k > rows.n) return PyErr_Format(PyExc_ValueError, "k is out of range");
  const NDArray* x = dense(given, rows.count * rows.n, "what is looked through");
  const NDArray* values = x ? dense(made, rows.count * rows.k, "the values") : nullptr;
  const NDArray* index = values ? dense(indices, rows.count * rows.k, "the indices") : nullptr;
  if (!index) return nullptr;
  auto* places = reinterpret_cast<std::int64_t*>(index->data);
  switch (*kind) {
    case 'f':
      first_of_rows<float>(rows, largest, x->data, values->data, places);
      break;
    case 'd':
      first_of_rows<double>(rows, largest, x->data, values->data, places);
      break;
    case 'i':
      first_of_rows<std::int32_t>(rows, largest, x->data, values->data, places);
      break;
    case 'l':
      first_of_rows<std::int64_t>(rows, largest, x->data, values->data, places);
      break;
    default:
      return PyErr_Format(PyExc_ValueError, "numbers of dtype '%s'", kind);
  }
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"first_of_rows", top, METH_VARARGS, "The k largest or smallest of each row, in order."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_sorting(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
