#include "tensor/quiet.h"

#include <structmember.h>

#include <cstddef>
#include <vector>

#include "profiling/python.h"

namespace tritorch {
namespace {

struct Quiet {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
};

// Contexts that no call is in.  One can be entered once at a time: calls within calls and calls in
// other threads take others.  The interpreter lock guards the list.
std::vector<PyObject*>& idle() {
  static auto* contexts = new std::vector<PyObject*>;  // outlives the interpreter
  return *contexts;
}

PyObject* new_context() {
  PyObject* context = PyContext_New();
  PyObject* numpy = context ? PyImport_ImportModule("numpy") : nullptr;
  PyObject* ignore = numpy ? PyObject_GetAttrString(numpy, "seterr") : nullptr;
  PyObject* done = nullptr;
  if (ignore && PyContext_Enter(context) == 0) {
    done = PyObject_CallFunction(ignore, "s", "ignore");
    if (done && !profiling::note_host_memory()) Py_CLEAR(done);
    if (PyContext_Exit(context) < 0) Py_CLEAR(done);
  }
  if (!done) Py_CLEAR(context);
  Py_XDECREF(done);
  Py_XDECREF(ignore);
  Py_XDECREF(numpy);
  return context;
}

}  // namespace

void forget_contexts() {
  for (PyObject* each : idle()) Py_DECREF(each);
  idle().clear();
}

PyObject* call_quietly(PyObject* function, PyObject* const* args, size_t n, PyObject* names) {
  PyObject* context;
  if (idle().empty()) {
    context = new_context();
    if (!context) return nullptr;
  } else {
    context = idle().back();
    idle().pop_back();
  }
  PyObject* result = nullptr;
  if (PyContext_Enter(context) == 0) {
    result = PyObject_Vectorcall(function, args, n, names);
    if (PyContext_Exit(context) < 0) Py_CLEAR(result);
  }
  idle().push_back(context);
  return result;
}

namespace {

PyObject* quiet_call(PyObject* self, PyObject* const* args, size_t n, PyObject* names) {
  return call_quietly(reinterpret_cast<Quiet*>(self)->function, args, n, names);
}

PyObject* quiet_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* function;
  if (!PyArg_ParseTuple(args, "O", &function)) return nullptr;
  auto* self = reinterpret_cast<Quiet*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = quiet_call;
  self->function = Py_NewRef(function);
  return reinterpret_cast<PyObject*>(self);
}

int quiet_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Quiet*>(self)->function);
  return 0;
}

int quiet_clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Quiet*>(self)->function);
  return 0;
}

void quiet_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  quiet_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// The function's own attributes, __name__ and __doc__ among them.
PyObject* quiet_getattr(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GetAttr(reinterpret_cast<Quiet*>(self)->function, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GenericGetAttr(self, name);
}

PyMemberDef quiet_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Quiet, call), READONLY, nullptr},
    {"__wrapped__", T_OBJECT, offsetof(Quiet, function), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot quiet_slots[] = {{Py_tp_new, reinterpret_cast<void*>(quiet_new)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(quiet_dealloc)},
                             {Py_tp_traverse, reinterpret_cast<void*>(quiet_traverse)},
                             {Py_tp_clear, reinterpret_cast<void*>(quiet_clear)},
                             {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                             {Py_tp_getattro, reinterpret_cast<void*>(quiet_getattr)},
                             {Py_tp_members, quiet_members},
                             {0, nullptr}};
PyType_Spec quiet_spec = {"tritorch._C.Quiet", sizeof(Quiet), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                          quiet_slots};

}  // namespace

bool add_quiet_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&quiet_spec);
  if (!type) return false;
  const bool added = PyModule_AddObjectRef(module, "Quiet", type) == 0;
  Py_DECREF(type);
  return added;
}

}  // namespace tritorch
