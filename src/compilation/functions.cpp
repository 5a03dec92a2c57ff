// Python's functions of compiled regions.
#include "compilation/program.h"
#include "compilation/replay.h"
#include "compilation/state.h"
#include "host/chains/chain.h"

namespace tritorch {
namespace {

PyObject* new_trace_tree(PyObject*, PyObject*) {
  return reinterpret_cast<PyObject*>(new_step(nullptr));
}

PyObject* current_region(PyObject*, PyObject*) {
  return Py_NewRef(region ? reinterpret_cast<PyObject*>(region) : Py_None);
}

PyObject* flush(PyObject*, PyObject*) {
  if (!flushed()) return nullptr;
  Py_RETURN_NONE;
}

// A setting of Python's is about to change.
PyObject* ambient_changes(PyObject*, PyObject*) {
  ++ambient_epoch;
  if (!flushed()) return nullptr;
  Py_RETURN_NONE;
}

// ambient() -> a number for what is set in Python
PyObject* ambient_number(PyObject*, PyObject*) {
  const long number = ambient_now();
  return number < 0 ? nullptr : PyLong_FromLong(number);
}

// expose(array): a program got hold of an array's memory.
PyObject* expose_array(PyObject*, PyObject* array) {
  expose(array, false);
  Py_RETURN_NONE;
}
PyObject* expose_address(PyObject*, PyObject* array) {
  expose(array, true);
  Py_RETURN_NONE;
}

PyObject* set_following_handlers(PyObject*, PyObject* args) {
  PyObject *missing, *specifying, *ambient, *computing, *looking;
  if (!PyArg_ParseTuple(args, "OOOOO", &missing, &specifying, &ambient, &computing, &looking))
    return nullptr;
  Py_XSETREF(look_handler, Py_NewRef(looking));
  Py_XSETREF(compute_handler, Py_NewRef(computing));
  Py_XSETREF(miss_handler, Py_NewRef(missing));
  Py_XSETREF(spec_handler, Py_NewRef(specifying));
  Py_XSETREF(ambient_handler, Py_NewRef(ambient));
  Py_RETURN_NONE;
}

// force(*tensors) -> whether one of them was deferred; it is computed now
PyObject* force_tensors(PyObject*, PyObject* const* args, Py_ssize_t n) {
  bool any = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(args[i]);
    if (!t || !is_deferred(t)) continue;
    any = true;
    if (!force(t)) return nullptr;
  }
  return PyBool_FromLong(any);
}

// become(tensor, computed): a deferred tensor is what was computed
PyObject* tensor_become(PyObject*, PyObject* const* args, Py_ssize_t n) {
  Tensor* t = n == 2 ? as_tensor(args[0]) : nullptr;
  if (!t || !become(t, args[1])) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "become(tensor, computed)");
    return nullptr;
  }
  Py_RETURN_NONE;
}

// Adds to a count -> the number that takes it back.
PyObject* counted(int& count, PyObject* by) {
  const int number = static_cast<int>(PyLong_AsLong(by));
  if (PyErr_Occurred()) return nullptr;
  count += number;
  return PyLong_FromLong(-number);
}

// unfollow(by) -> -by: nothing is followed in this thread while the sum is not 0
PyObject* unfollow(PyObject*, PyObject* by) {
  return set_flushed([by] { return counted(unfollowed, by); });
}

// hold_flushes(by) -> -by: this thread flushes nothing while the sum is not 0
PyObject* hold_flushes(PyObject*, PyObject* by) { return counted(flushes_held, by); }

// follow_counts() -> the two sums
PyObject* follow_counts(PyObject*, PyObject*) {
  return Py_BuildValue("ii", unfollowed, flushes_held);
}

PyObject* tensor_is_deferred(PyObject*, PyObject* object) {
  Tensor* t = as_tensor(object);
  return PyBool_FromLong(t && is_deferred(t));
}

// is_lost(tensor): whether it was deferred, and what was to compute it has failed
PyObject* tensor_is_lost(PyObject*, PyObject* object) {
  Tensor* t = as_tensor(object);
  return PyBool_FromLong(t && is_lost(t));
}

PyMethodDef functions[] = {
    {"is_lost", tensor_is_lost, METH_O,
     "True if what was to compute a deferred tensor has failed."},
    {"new_trace_tree", new_trace_tree, METH_NOARGS, "A step before all others."},
    {"current_region", current_region, METH_NOARGS, "The one that this thread is in, or None."},
    {"flush", flush, METH_NOARGS, "Computes all deferred calls."},
    {"ambient_changes", ambient_changes, METH_NOARGS, "A setting of Python's is about to change."},
    {"ambient", ambient_number, METH_NOARGS, "A number for what is set in Python."},
    {"expose", expose_array, METH_O, "A program got hold of an array, which has its memory."},
    {"expose_address", expose_address, METH_O, "A program knows where an array's memory is."},
    {"force", TRITORCH_FASTCALL(force_tensors),
     "True if one of these tensors was deferred; it is computed now."},
    {"become", TRITORCH_FASTCALL(tensor_become), nullptr},
    {"unfollow", unfollow, METH_O, "Counts the reasons for which this thread follows nothing."},
    {"follow_counts", follow_counts, METH_NOARGS, "Both of these counts."},
    {"hold_flushes", hold_flushes, METH_O,
     "Counts the reasons for which this thread flushes nothing."},
    {"is_deferred", tensor_is_deferred, METH_O, "True if a tensor is not computed yet."},
    {"set_following_handlers", set_following_handlers, METH_VARARGS,
     "(missing, specifying, ambient, computing, looking)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_following(PyObject* module) {
  return add_dynamic_number_type(module) && add_step_type(module) && add_deferred_type(module) &&
         add_region_type(module) && add_entry_type(module) && add_program_type(module) &&
         add_chain_type(module) && add_replay_functions(module) &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch
