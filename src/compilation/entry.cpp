// Entry: a compiled function as it is called.
#include <Python.h>
#include <structmember.h>

#include <cstddef>

#include "compilation/state.h"
#include "ref.h"

namespace tritorch {
namespace {

PyTypeObject* entry_type = nullptr;

struct Entry {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  PyObject* follower;  // Python's
  PyObject* trace_tree;
  PyObject* closing;  // (region): a run that was a new trace is at its end
  Region* spare;      // of the last run, for the next
  long long runs;
};

Region* fresh_region(Entry* e) {
  Ref spare(reinterpret_cast<PyObject*>(std::exchange(e->spare, nullptr)));
  if (spare && Py_REFCNT(spare.get()) == 1) {
    start_again(spare.as<Region>());
    return reinterpret_cast<Region*>(spare.release());
  }
  return reinterpret_cast<Region*>(PyObject_CallFunctionObjArgs(
      reinterpret_cast<PyObject*>(region_type), e->trace_tree, e->follower, nullptr));
}

// The end of a run whose function raised: deferred calls come first, and may raise themselves.
void leave_with_error(Region* r) {
  TakenError error;
  if (leave(r)) error.restore();
}

PyObject* entry_call(PyObject* self, PyObject* const* args, std::size_t n, PyObject* names) {
  auto* e = reinterpret_cast<Entry*>(self);
  if (region) return PyObject_Vectorcall(e->function, args, n, names);  // a part of that one
  Region* r = fresh_region(e);
  if (!r) return nullptr;
  ++e->runs;
  PyObject* result = nullptr;
  if (enter(r)) {
    result = PyObject_Vectorcall(e->function, args, n, names);
    if (result && r->learns) {
      const Ref done(PyObject_CallOneArg(e->closing, reinterpret_cast<PyObject*>(r)));
      if (!done) Py_CLEAR(result);
    }
    if (!result)
      leave_with_error(r);
    else if (!leave(r))
      Py_CLEAR(result);
  }
  if (e->spare)  // of a call within this one
    Py_DECREF(reinterpret_cast<PyObject*>(r));
  else
    e->spare = r;
  return result;
}

// Entry(function, follower, trace_tree, closing)
PyObject* entry_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *follower, *trace_tree, *closing;
  if (!PyArg_ParseTuple(args, "OOO!O", &function, &follower, step_type, &trace_tree, &closing))
    return nullptr;
  auto* e = reinterpret_cast<Entry*>(type->tp_alloc(type, 0));
  if (!e) return nullptr;
  e->call = entry_call;
  e->function = Py_NewRef(function);
  e->follower = Py_NewRef(follower);
  e->trace_tree = Py_NewRef(trace_tree);
  e->closing = Py_NewRef(closing);
  return reinterpret_cast<PyObject*>(e);
}

int entry_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* e = reinterpret_cast<Entry*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(e->function);
  Py_VISIT(e->follower);
  Py_VISIT(e->trace_tree);
  Py_VISIT(e->closing);
  Py_VISIT(reinterpret_cast<PyObject*>(e->spare));
  return 0;
}

int entry_clear(PyObject* self) {
  auto* e = reinterpret_cast<Entry*>(self);
  Py_CLEAR(e->function);
  Py_CLEAR(e->follower);
  Py_CLEAR(e->trace_tree);
  Py_CLEAR(e->closing);
  auto* spare = reinterpret_cast<PyObject*>(std::exchange(e->spare, nullptr));
  Py_XDECREF(spare);
  return 0;
}

void entry_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  entry_clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef entry_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Entry, call), READONLY, nullptr},
    {"runs", T_LONGLONG, offsetof(Entry, runs), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot entry_slots[] = {{Py_tp_new, reinterpret_cast<void*>(entry_new)},
                             {Py_tp_dealloc, reinterpret_cast<void*>(entry_dealloc)},
                             {Py_tp_traverse, reinterpret_cast<void*>(entry_traverse)},
                             {Py_tp_clear, reinterpret_cast<void*>(entry_clear)},
                             {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                             {Py_tp_members, entry_members},
                             {Py_tp_doc, const_cast<char*>("A compiled function as it is called.")},
                             {0, nullptr}};
PyType_Spec entry_spec = {"tritorch._C.Entry", sizeof(Entry), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                          entry_slots};

}  // namespace

bool add_entry_type(PyObject* module) {
  entry_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&entry_spec));
  return entry_type &&
         PyModule_AddObjectRef(module, "Entry", reinterpret_cast<PyObject*>(entry_type)) == 0;
}

}  // namespace tritorch
