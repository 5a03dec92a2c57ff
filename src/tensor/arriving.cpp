// Gradients that arrive at leaves: the usual case of tritorch/autograd/engine.py.
#include <algorithm>

#include "tensor/fields.h"

namespace tritorch {

long latest_pass = -1;

namespace {

// Whether nobody else leads to an ndarray's memory: it is no view, or the only one of all of it.
bool has_own_memory(const NDArray* array) {
  if (Py_REFCNT(array) != 1) return false;
  if (!array->base) return true;
  const NDArray* whole = as_ndarray(array->base);
  return whole && !whole->base && whole->size() == array->size() && Py_REFCNT(whole) == 1;
}

// Whether a leaf may take a gradient over as it is: its first one, laid out as the leaf, which
// nobody has but `results`, and of which nobody hears.
bool may_take(const Tensor* leaf, const Tensor* g) {
  if (is_set(leaf->grad) || is_set(leaf->hooks) || !leaf->array || Py_TYPE(g) != tensor_type ||
      !g->array || is_set(g->node) || Py_REFCNT(g) != 1)
    return false;
  const NDArray *like = as_ndarray(leaf->array), *array = as_ndarray(g->array);
  return like && array && array->descr == like->descr && like->is_contiguous() &&
         std::ranges::equal(array->shape(), like->shape()) &&
         std::ranges::equal(array->steps(), like->steps()) && has_own_memory(array);
}

// arrive(edges, results, i, shared) -> the first edge from i on over which no gradient came that its
// leaf could take over; shared: the ids of leaves to which others lead, a dict.
PyObject* arrive(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 4 || !PyTuple_CheckExact(args[0]) || !PyLong_CheckExact(args[2]) ||
      !PyDict_CheckExact(args[3]))
    return PyErr_Format(PyExc_TypeError, "arrive(edges, results, i, shared)");
  PyObject *edges = args[0], *results = args[1], *shared = args[3];
  Py_ssize_t i = PyLong_AsSsize_t(args[2]);
  if (!PyList_CheckExact(results) && !PyTuple_CheckExact(results)) return Py_NewRef(args[2]);
  const Py_ssize_t end = std::min(PyTuple_GET_SIZE(edges), PySequence_Fast_GET_SIZE(results));
  for (; i < end; ++i) {
    PyObject* edge = PyTuple_GET_ITEM(edges, i);
    if (edge == Py_None) continue;
    if (PyDict_GET_SIZE(shared)) {
      PyObject* id = PyLong_FromVoidPtr(edge);
      const int found = id ? PyDict_Contains(shared, id) : -1;
      Py_XDECREF(id);
      if (found < 0) return nullptr;
      if (found) break;
    }
    PyObject* grad = PySequence_Fast_ITEMS(results)[i];
    if (grad == Py_None) continue;
    Tensor *leaf = as_tensor(edge), *g = as_tensor(grad);
    if (!leaf || !g || !may_take(leaf, g)) break;
    Py_XSETREF(leaf->grad, Py_NewRef(grad));
  }
  return PyLong_FromSsize_t(i);
}

PyObject* set_latest_pass(PyObject*, PyObject* number) {
  latest_pass = PyLong_AsLong(number);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}
PyObject* get_latest_pass(PyObject*, PyObject*) { return PyLong_FromLong(latest_pass); }

PyMethodDef functions[] = {
    {"set_latest_pass", set_latest_pass, METH_O, "The number of a backward pass that begins."},
    {"latest_pass", get_latest_pass, METH_NOARGS, "That of the one that began last."},
    {"arrive", TRITORCH_FASTCALL(arrive), "Gives leaves their first gradients."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_arriving(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch
