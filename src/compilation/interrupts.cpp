#include "compilation/interrupts.h"

#include <csignal>

#include "ref.h"

namespace tritorch {
namespace {

// Of the thread that runs handlers: there is one.
PyObject *set_handler, *waiting_handler;
PyObject* held_from = nullptr;  // the handler whose call waits, borrowed; null: none is held from
bool arrived = false;

PyObject* call_handler(PyObject* handler, PyObject* number, PyObject* frame) {
  return PyObject_CallFunctionObjArgs(handler, number, frame, nullptr);
}

PyObject* hold(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "a handler takes two arguments");
  if (arrived && held_from) return call_handler(held_from, args[0], args[1]);
  arrived = true;
  Py_RETURN_NONE;
}

PyMethodDef hold_method = {"hold_interrupt",
                           reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(hold)),
                           METH_FASTCALL, "SIGINT's handler during a flush."};

bool find_functions() {
  if (set_handler) return true;
  const Ref module(PyImport_ImportModule("_signal"));
  set_handler = module ? PyObject_GetAttrString(module.get(), "signal") : nullptr;
  waiting_handler = PyCFunction_New(&hold_method, nullptr);
  return set_handler && waiting_handler;
}

PyObject* exchanged(PyObject* handler) {
  return PyObject_CallFunction(set_handler, "iO", SIGINT, handler);
}

}  // namespace

void Uninterrupted::begin() {
  if (held_from) return;
  Ref before(find_functions() ? exchanged(waiting_handler) : nullptr);
  if (!before && PyErr_ExceptionMatches(PyExc_ValueError)) {
    PyErr_Clear();  // not the main thread
    return;
  }
  if (!before) {  // it calls handlers first
    PyErr_Fetch(&type_, &value_, &trace_);
    before = Ref(set_handler ? exchanged(waiting_handler) : nullptr);
    if (!before) {
      PyErr_Clear();
      return;
    }
  }
  arrived = false;
  if (PyCallable_Check(before.get())) {
    before_ = held_from = before.release();
    return;
  }
  const Ref ours(exchanged(before.get()));  // the process ends, or does not hear of it
  if (!ours) PyErr_Clear();
}

bool Uninterrupted::finish(bool good) {
  if (!before_ && !type_) return good;
  TakenError error;
  if (before_) {
    const Ref ours(exchanged(before_));
    if (ours && ours.get() != waiting_handler)
      const Ref back(exchanged(ours.get()));  // it was set meanwhile
    held_from = nullptr;
    if (arrived && !PyErr_Occurred()) {
      const Ref number(PyLong_FromLong(SIGINT));
      const Ref done(number ? call_handler(before_, number.get(), Py_None) : nullptr);
    }
    Py_CLEAR(before_);
  }
  if (type_) PyErr_Restore(type_, value_, trace_);
  type_ = value_ = trace_ = nullptr;
  if (PyErr_Occurred()) return false;  // an interrupt stands before what failed
  error.restore();
  return good;
}

}  // namespace tritorch
