// Gradients that arrive at leaves: the usual case of tritorch/autograd/engine.py.
#include <algorithm>

#include "ref.h"
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

// arrive(edges, results, i, shared) -> the first edge from i on over which no gradient came that
// its leaf could take over; shared: the ids of leaves to which others lead, a dict.
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
      const Ref id(PyLong_FromVoidPtr(edge));
      const int found = id ? PyDict_Contains(shared, id.get()) : -1;
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

// gradient_edges(tensors, counts) -> (edges, outputs): to each tensor so many, by which its
// gradients arrive: its node, or itself for a leaf, or None; and which of the node's outputs it is.
PyObject* gradient_edges(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[1]) ||
      PyList_GET_SIZE(args[0]) != PyList_GET_SIZE(args[1]))
    return PyErr_Format(PyExc_TypeError, "gradient_edges(tensors, counts)");
  Py_ssize_t total = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[1]); ++i)
    total += PyLong_AsSsize_t(PyList_GET_ITEM(args[1], i));
  if (PyErr_Occurred()) return nullptr;
  const Ref edges(PyTuple_New(total)), outputs(PyTuple_New(total));
  if (!edges || !outputs) return nullptr;
  Py_ssize_t at = 0;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[0]); ++i) {
    Tensor* t = as_tensor(PyList_GET_ITEM(args[0], i));
    if (!t || (is_deferred(t) && !force(t)) || requires_grad(t) < 0) {
      if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected tensors");
      return nullptr;
    }
    PyObject* edge = is_set(t->node) ? t->node : t->leaf ? reinterpret_cast<PyObject*>(t) : Py_None;
    for (Py_ssize_t k = PyLong_AsSsize_t(PyList_GET_ITEM(args[1], i)); k > 0 && at < total; --k) {
      PyTuple_SET_ITEM(edges.get(), at, Py_NewRef(edge));
      PyTuple_SET_ITEM(outputs.get(), at++, PyLong_FromLong(t->leaf ? 0 : t->output));
    }
  }
  return PyTuple_Pack(2, edges.get(), outputs.get());
}

PyObject* set_latest_pass(PyObject*, PyObject* number) {
  latest_pass = PyLong_AsLong(number);
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}
PyObject* get_latest_pass(PyObject*, PyObject*) { return PyLong_FromLong(latest_pass); }

PyMethodDef functions[] = {
    {"gradient_edges", TRITORCH_FASTCALL(gradient_edges), "By which gradients of tensors arrive."},
    {"set_latest_pass", set_latest_pass, METH_O, "The number of a backward pass that begins."},
    {"latest_pass", get_latest_pass, METH_NOARGS, "That of the one that began last."},
    {"arrive", TRITORCH_FASTCALL(arrive), "Gives leaves their first gradients."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_arriving(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch
