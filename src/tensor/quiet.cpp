#include "tensor/quiet.h"

#include <structmember.h>

#include <cstddef>
#include <vector>

#include "plans/trace.h"
#include "profiling/python.h"
#include "ref.h"
#include "tensor/fields.h"

namespace tritorch {
namespace {

struct Quiet {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  plans::Contents contents;  // of a Seen: of its results
};

// Contexts that no call is in.  One can be entered once at a time: calls within calls and calls in
// other threads take others.  The interpreter lock guards the list.
std::vector<Ref>& idle() {
  static auto* contexts = new std::vector<Ref>;  // outlives the interpreter
  return *contexts;
}

PyObject* new_context() {
  Ref context(PyContext_New());
  const Ref numpy(context ? PyImport_ImportModule("numpy") : nullptr);
  const Ref ignore(numpy ? PyObject_GetAttrString(numpy.get(), "seterr") : nullptr);
  if (!ignore || PyContext_Enter(context.get()) < 0) return nullptr;
  const Ref done(PyObject_CallFunction(ignore.get(), "s", "ignore"));
  const bool good = done && profiling::note_host_memory();
  return PyContext_Exit(context.get()) == 0 && good ? context.release() : nullptr;
}

}  // namespace

void forget_contexts() { std::vector<Ref>().swap(idle()); }

QuietScope::QuietScope() {
  if (idle().empty()) {
    context_ = Ref(new_context());
  } else {
    context_ = std::move(idle().back());
    idle().pop_back();
  }
  entered_ = context_ && PyContext_Enter(context_.get()) == 0;
}

QuietScope::~QuietScope() {
  if (!may_use_python()) return;                 // Note [Threads at exit]
  if (entered_) PyContext_Exit(context_.get());  // which fails only if it is not entered
  if (context_) idle().push_back(std::move(context_));
}

PyObject* call_quietly(PyObject* function, PyObject* const* args, size_t n, PyObject* names) {
  const QuietScope quiet;
  if (!quiet.entered()) return nullptr;
  return plans::trace ? plans::watched_call(function, args, n, names)
                      : PyObject_Vectorcall(function, args, n, names);
}

namespace {

PyObject* quiet_call(PyObject* self, PyObject* const* args, size_t n, PyObject* names) {
  return call_quietly(reinterpret_cast<Quiet*>(self)->function, args, n, names);
}

PyObject* seen_call(PyObject* self, PyObject* const* args, size_t n, PyObject* names) {
  const auto* seen = reinterpret_cast<Quiet*>(self);
  if (plans::trace) [[unlikely]]
    return plans::watched_call(seen->function, args, n, names, seen->contents);
  return PyObject_Vectorcall(seen->function, args, n, names);
}

PyObject* parts_call(PyObject* self, PyObject* const* args, size_t n, PyObject* names) {
  return PyObject_Vectorcall(reinterpret_cast<Quiet*>(self)->function, args, n, names);
}

PyTypeObject* parts_type = nullptr;

// A callable of one of the types here: type(function), or type(function, contents).
PyObject* made(PyTypeObject* type, PyObject* args, vectorcallfunc call) {
  PyObject* function;
  unsigned char contents = 0;
  if (!PyArg_ParseTuple(args, "O|b", &function, &contents)) return nullptr;
  auto* self = reinterpret_cast<Quiet*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = call;
  self->function = Py_NewRef(function);
  self->contents = static_cast<plans::Contents>(contents);
  return reinterpret_cast<PyObject*>(self);
}

template <vectorcallfunc Call>
PyObject* new_of(PyTypeObject* type, PyObject* args, PyObject*) {
  return made(type, args, Call);
}

using Fields = Collected<Quiet, &Quiet::function>;

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

// A type of such functions, whose calls are made by `Call`.
template <vectorcallfunc Call>
PyObject* type_of(const char* name) {
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_of<Call>)},
                         {Py_tp_dealloc, reinterpret_cast<void*>(Fields::dealloc)},
                         {Py_tp_traverse, reinterpret_cast<void*>(Fields::traverse)},
                         {Py_tp_clear, reinterpret_cast<void*>(Fields::clear)},
                         {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_getattro, reinterpret_cast<void*>(quiet_getattr)},
                         {Py_tp_members, quiet_members},
                         {0, nullptr}};
  PyType_Spec spec = {name, sizeof(Quiet), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  return PyType_FromSpec(&spec);
}

// call_seen(function, *args): a call of a function of arrays, as that of a `Seen` one.
PyObject* call_seen(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return PyErr_Format(PyExc_TypeError, "call_seen(function, *args)");
  const auto count = static_cast<size_t>(n - 1);
  return plans::trace ? plans::watched_call(args[0], args + 1, count, nullptr)
                      : PyObject_Vectorcall(args[0], args + 1, count, nullptr);
}

PyMethodDef functions[] = {
    {"call_seen", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_seen)),
     METH_FASTCALL, "(function, *args): a call that is part of call plans."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool is_parts(PyObject* function) { return Py_TYPE(function) == parts_type; }

bool add_quiet_type(PyObject* module) {
  const Ref type(type_of<quiet_call>("tritorch._C.Quiet"));
  const Ref seen(type_of<seen_call>("tritorch._C.Seen"));
  Ref parts(type_of<parts_call>("tritorch._C.Parts"));
  parts_type = parts.as<PyTypeObject>();
  const auto name = [&](const char* word, plans::Contents contents) {
    const Ref number(PyLong_FromLong(static_cast<long>(contents)));
    return seen && number && PyObject_SetAttrString(seen.get(), word, number.get()) == 0;
  };
  return name("UNWRITTEN", plans::Contents::unwritten) &&
         name("SCRATCH", plans::Contents::scratch) && type && parts_type &&
         PyModule_AddFunctions(module, functions) == 0 &&
         PyModule_AddObjectRef(module, "Quiet", type.get()) == 0 &&
         PyModule_AddObjectRef(module, "Seen", seen.get()) == 0 &&
         PyModule_AddObjectRef(module, "Parts", parts.release()) == 0;
}

}  // namespace tritorch
