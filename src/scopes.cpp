// # Note [Scopes]
// Python runs signal handlers between bytecodes, so a Ctrl-C may arrive after an `__enter__`
// written in Python has set something and before `with` protects it, or in an `__exit__` before it
// is set back; `before = set(x)` in front of `try` has the same hole.  Between a native `__enter__`
// and the body, and between the body and a native `__exit__`, CPython looks for no signal.
//
// So whatever is set for a time is set by a Scope.  A class says by its attribute `changes` what it
// sets: a tuple, or a method that makes one each time; it runs before anything is set.  A change is
//   (function, value)         function(value) sets it and returns what sets it back;
//   (object, "name", value)   an attribute, or a dict's item, which may be missing before;
//   (enter, None, leave)      two functions without arguments, of which one may be None;
//   (function,)               is told that something is about to change, on both ways;
//   a Scope                   is entered.
// Functions must be native, and attributes plain: Python code may be interrupted.  Only a `leave`
// may be Python's, if it can be called again: where it is interrupted, it is.  What a change has
// found is kept in the scope, by thread, so a scope can be entered again inside of itself and in
// several threads.  If one change fails, those before it are taken back; on the way out all are,
// and then the first error is raised.
//
// Subclasses in Python may have an `__enter__` and an `__exit__` around the native ones; they are
// guarded: what such an `__enter__` has entered is left again where it fails.
#include "scopes.h"

#include <structmember.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "ref.h"

namespace tritorch {

thread_local int restoring = 0;

namespace {

struct Record {
  unsigned long thread;
  Ref changes, before;  // tuples
};

struct Scope {
  PyObject_HEAD PyObject* changes;  // a tuple, or null: the class says it
  std::vector<Record>* records;     // innermost last
  bool fresh;                       // of one that sets when it is made: nobody has entered it yet
};

PyTypeObject *scope_type, *made_type, *guarded_type;
PyObject *missing, *changes_name, *decorate_name, *decorates_name, *enter_name, *exit_name,
    *choices_name, *mode_name;

Scope* as_scope(PyObject* object) { return reinterpret_cast<Scope*>(object); }
bool is_scope(PyObject* object) { return PyObject_TypeCheck(object, scope_type); }

// The error that is set, which comes back at the end, in front of those of what is done meanwhile.
class Held {
 public:
  Held() { PyErr_Fetch(&type_, &value_, &trace_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (may_use_python()) PyErr_Restore(type_, value_, trace_);
  }
  // Keeps the error of a step, if it is the first.
  void keep() {
    if (!PyErr_Occurred()) return;
    if (type_)
      PyErr_Clear();
    else
      PyErr_Fetch(&type_, &value_, &trace_);
  }

 private:
  PyObject *type_, *value_, *trace_;
};

// Where it has been entered; most scopes never are (a device is one).
std::vector<Record>& records_of(PyObject* scope) {
  static std::vector<Record> none;
  auto* records = as_scope(scope)->records;
  return records ? *records : none;
}

bool enter(PyObject* scope);
bool leave(PyObject* scope);

bool is_notice(PyObject* change) {
  return PyTuple_CheckExact(change) && PyTuple_GET_SIZE(change) == 1;
}

PyObject* called(PyObject* function) {
  return function == Py_None ? Py_NewRef(Py_None) : PyObject_CallNoArgs(function);
}

// Calls what sets back; again, if it was interrupted, and then raises that.
void call_to_end(PyObject* function) {
  const Ref done(called(function));
  if (!done && !PyErr_ExceptionMatches(PyExc_Exception)) {
    Held error;
    const Ref again(called(function));
    error.keep();
  }
}

// -> what sets the change back.
PyObject* applied(PyObject* change) {
  if (is_scope(change)) return enter(change) ? Py_NewRef(Py_None) : nullptr;
  const Py_ssize_t n = PyTuple_CheckExact(change) ? PyTuple_GET_SIZE(change) : 0;
  PyObject* first = n ? PyTuple_GET_ITEM(change, 0) : nullptr;
  if (n == 1) return called(first);
  if (n == 2) return PyObject_CallOneArg(first, PyTuple_GET_ITEM(change, 1));
  if (n != 3) {
    PyErr_SetString(PyExc_TypeError, "a change of a scope is a Scope, or a tuple of 1 to 3 items");
    return nullptr;
  }
  PyObject* name = PyTuple_GET_ITEM(change, 1);
  if (name == Py_None) return called(first);
  if (PyDict_CheckExact(first)) {
    PyObject* item = PyDict_GetItemWithError(first, name);
    if (!item && PyErr_Occurred()) return nullptr;
    PyObject* former = Py_NewRef(item ? item : missing);
    if (PyDict_SetItem(first, name, PyTuple_GET_ITEM(change, 2)) < 0) Py_CLEAR(former);
    return former;
  }
  PyObject* before = PyObject_GetAttr(first, name);
  if (!before) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return nullptr;
    PyErr_Clear();
    before = Py_NewRef(missing);
  }
  if (PyObject_SetAttr(first, name, PyTuple_GET_ITEM(change, 2)) < 0) Py_CLEAR(before);
  return before;
}

void take_back(PyObject* change, PyObject* before) {
  if (is_scope(change)) {
    leave(change);
    return;
  }
  PyObject* first = PyTuple_GET_ITEM(change, 0);
  if (PyTuple_GET_SIZE(change) == 1) return;
  if (PyTuple_GET_SIZE(change) == 2) {
    const Ref done(PyObject_CallOneArg(first, before));
    return;
  }
  PyObject* name = PyTuple_GET_ITEM(change, 1);
  if (name == Py_None)
    call_to_end(PyTuple_GET_ITEM(change, 2));
  else if (PyDict_CheckExact(first))
    before == missing ? PyDict_DelItem(first, name) : PyDict_SetItem(first, name, before);
  else
    PyObject_SetAttr(first, name, before == missing ? nullptr : before);
}

// Takes back the first n changes, the last one first, whatever fails.
void take_back(PyObject* changes, PyObject* before, Py_ssize_t n) {
  Held error;
  ++restoring;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (PyObject* change = PyTuple_GET_ITEM(changes, i); is_notice(change)) {
      const Ref done(called(PyTuple_GET_ITEM(change, 0)));
      error.keep();
    }
  for (Py_ssize_t i = n; i-- > 0;) {
    take_back(PyTuple_GET_ITEM(changes, i), PyTuple_GET_ITEM(before, i));
    error.keep();
  }
  --restoring;
}

PyObject* changes_of(PyObject* self) {
  if (PyObject* own = as_scope(self)->changes) return Py_NewRef(own);
  Ref said(PyObject_GetAttr(self, changes_name));
  if (!said || PyTuple_CheckExact(said.get())) return said.release();
  Ref found(called(said.get()));
  if (!found || PyTuple_CheckExact(found.get())) return found.release();
  return PySequence_Tuple(found.get());
}

// Whether a change is a value, which may be set twice.
bool is_value(PyObject* change) {
  return PyTuple_CheckExact(change) &&
         (PyTuple_GET_SIZE(change) != 3 || PyTuple_GET_ITEM(change, 1) != Py_None);
}

// -> what sets all of them back; again: those that are no values are there.
PyObject* applied_all(PyObject* changes, bool again = false) {
  const Py_ssize_t n = PyTuple_GET_SIZE(changes);
  Ref before(PyTuple_New(n));
  for (Py_ssize_t i = 0; before && i < n; ++i) {
    PyObject* change = PyTuple_GET_ITEM(changes, i);
    PyObject* found = again && !is_value(change) ? Py_NewRef(Py_None) : applied(change);
    if (!found) {
      take_back(changes, before.get(), i);
      return nullptr;
    }
    PyTuple_SET_ITEM(before.get(), i, found);
  }
  return before.release();
}

// Enters by these changes.
bool enter_by(PyObject* self, Ref changes) {
  if (!as_scope(self)->records) as_scope(self)->records = new std::vector<Record>;
  auto& records = records_of(self);
  records.reserve(records.size() + 1);
  Ref before(applied_all(changes.get()));
  if (!before) return false;
  records.push_back({PyThread_get_thread_ident(), std::move(changes), std::move(before)});
  return true;
}

bool enter(PyObject* self) {
  Ref changes(changes_of(self));
  return changes && enter_by(self, std::move(changes));
}

// Leaves what was entered last in this thread; where nothing was, in any.
bool leave(PyObject* self) {
  auto& records = records_of(self);
  if (records.empty()) {
    PyErr_Format(PyExc_RuntimeError, "%s was left, but not entered", Py_TYPE(self)->tp_name);
    return false;
  }
  size_t i = records.size();
  const unsigned long mine = PyThread_get_thread_ident();
  while (i > 0 && records[i - 1].thread != mine) --i;
  if (i == 0) i = records.size();
  Record record = std::move(records[i - 1]);
  records.erase(records.begin() + static_cast<std::ptrdiff_t>(i - 1));
  take_back(record.changes.get(), record.before.get(), PyTuple_GET_SIZE(record.changes.get()));
  const bool good = !PyErr_Occurred();
  const Held error;
  record = {};
  return good;
}

// ---- Scope
// ---------------------------------------------------------------------------------------

// A class with `decorates` also decorates a function without parentheses: `@no_grad`.
PyObject* decorated(PyObject* self, PyObject* args, PyObject* names) {
  const Py_ssize_t given = names ? PyDict_GET_SIZE(names) : 0;
  PyObject *first = nullptr, *name;
  if (Py_ssize_t at = 0; PyTuple_GET_SIZE(args) == 1 && given == 0)
    first = PyTuple_GET_ITEM(args, 0);
  else if (PyTuple_GET_SIZE(args) == 0 && given == 1)
    PyDict_Next(names, &at, &name, &first);
  if (!first || PyBool_Check(first) || !PyCallable_Check(first)) return self;
  const Ref decorate(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(self)), decorates_name));
  if (!decorate && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    return self;
  }
  const Ref made(self);
  return decorate ? PyObject_CallFunctionObjArgs(decorate.get(), self, first, nullptr) : nullptr;
}

PyObject* new_scope(PyTypeObject* type, PyObject* args, PyObject* names) {
  PyObject* self = type->tp_alloc(type, 0);
  return self && (names || PyTuple_GET_SIZE(args)) ? decorated(self, args, names) : self;
}

// Scope(*changes): a subclass that says its own takes any arguments.
int init_scope(PyObject* self, PyObject* args, PyObject*) {
  if (Py_TYPE(self) == scope_type) Py_XSETREF(as_scope(self)->changes, Py_NewRef(args));
  return 0;
}

int visit_scope(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_scope(self)->changes);
  for (const Record& each : records_of(self)) {
    Py_VISIT(each.changes.get());
    Py_VISIT(each.before.get());
  }
  return 0;
}

int clear_scope(PyObject* self) {
  Py_CLEAR(as_scope(self)->changes);
  if (!as_scope(self)->records) return 0;
  std::vector<Record>().swap(*as_scope(self)->records);
  return 0;
}

void free_scope(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Scope* scope = as_scope(self);
  // See set_when_made; and a generator that was left behind would end.
  const bool dropped =
      scope->fresh
          ? PyErr_Occurred() != nullptr
          : scope->records && !scope->records->empty() && !PyObject_TypeCheck(self, made_type) &&
                PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "left_when_dropped");
  if (dropped) {
    const Held error;
    if (!leave(self)) PyErr_WriteUnraisable(self);
  }
  clear_scope(self);
  delete scope->records;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* scope_enter(PyObject* self, PyObject*) {
  if (!enter(self)) return nullptr;
  Py_RETURN_NONE;
}
PyObject* scope_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  if (!leave(self)) return nullptr;
  Py_RETURN_NONE;
}

// What the first change found, where the scope was entered last; None: nowhere.
PyObject* scope_prev(PyObject* self, void*) {
  const auto& records = records_of(self);
  PyObject* before = records.empty() ? nullptr : records.back().before.get();
  return Py_NewRef(before && PyTuple_GET_SIZE(before) ? PyTuple_GET_ITEM(before, 0) : Py_None);
}

PyObject* init_subclass(PyObject* cls, PyObject*, PyObject*) {
  PyObject* fields = reinterpret_cast<PyTypeObject*>(cls)->tp_dict;
  for (PyObject* name : {enter_name, exit_name}) {
    PyObject* function = PyDict_GetItemWithError(fields, name);
    if (!function) {
      if (PyErr_Occurred()) return nullptr;
      continue;
    }
    if (!PyFunction_Check(function)) continue;
    const Ref guarded(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(guarded_type),
                                                   function, name, nullptr));
    if (!guarded || PyObject_SetAttr(cls, name, guarded.get()) < 0) return nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef scope_methods[] = {
    {"__enter__", scope_enter, METH_NOARGS, "Sets it, and gives None."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(scope_exit)),
     METH_FASTCALL, "Sets it back."},
    {"__init_subclass__",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(init_subclass)),
     METH_CLASS | METH_VARARGS | METH_KEYWORDS, "Guards what a class does around it."},
    {nullptr, nullptr, 0, nullptr}};
PyObject* scope_entered(PyObject* self, void*) {
  return PyBool_FromLong(!records_of(self).empty());
}

PyGetSetDef scope_properties[] = {
    {"entered", scope_entered, nullptr, "Whether it is entered, in any thread.", nullptr},
    {"prev", scope_prev, nullptr, "What the first change found; None outside.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot scope_slots[] = {
    {Py_tp_doc, const_cast<char*>("What is set for a time, natively: Note [Scopes].")},
    {Py_tp_new, reinterpret_cast<void*>(new_scope)},
    {Py_tp_init, reinterpret_cast<void*>(init_scope)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_scope)},
    {Py_tp_traverse, reinterpret_cast<void*>(visit_scope)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_scope)},
    {Py_tp_methods, scope_methods},
    {Py_tp_getset, scope_properties},
    {0, nullptr}};
PyType_Spec scope_spec = {"tritorch._C.Scope", sizeof(Scope), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                          scope_slots};

// ---- a Scope that gives itself
// -------------------------------------------------------------------

PyObject* mode_enter(PyObject* self, PyObject*) { return enter(self) ? Py_NewRef(self) : nullptr; }

PyMethodDef mode_methods[] = {
    {"__enter__", mode_enter, METH_NOARGS, "Sets it, and gives the scope."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot mode_slots[] = {
    {Py_tp_doc, const_cast<char*>("A Scope whose `with` gives the scope itself.")},
    {Py_tp_methods, mode_methods},
    {0, nullptr}};
PyType_Spec mode_spec = {"tritorch._C.ScopeItself", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                         mode_slots};

// ---- a Scope that sets when it is made
// -----------------------------------------------------------

// A class whose only argument is a bool may have `choices`, the changes of False and of True; the
// argument is its `mode`.  -> null without an error: `changes` is to be called.
PyObject* chosen_changes(PyObject* self, PyObject* args, PyObject* names) {
  if (names || PyTuple_GET_SIZE(args) != 1 || !PyBool_Check(PyTuple_GET_ITEM(args, 0)))
    return nullptr;
  PyObject* mode = PyTuple_GET_ITEM(args, 0);
  const Ref choices(PyObject_GetAttr(self, choices_name));
  if (!choices || !PyTuple_CheckExact(choices.get()) || PyTuple_GET_SIZE(choices.get()) != 2)
    return nullptr;
  if (PyObject_SetAttr(self, mode_name, mode) < 0) return nullptr;
  return Py_NewRef(PyTuple_GET_ITEM(choices.get(), mode == Py_True));
}

// `set_grad_enabled(False)` is a call that sets, and what it gives is a context that sets it back.
// A Ctrl-C may arrive between the call and `with`; then the value is dropped while the exception is
// on its way, and takes back what it has set.  What was dropped without one has set for good.
int set_when_made(PyObject* self, PyObject* args, PyObject* names) {
  Ref changes(chosen_changes(self, args, names));
  if (!changes && !PyErr_Occurred()) {
    const Ref method(PyObject_GetAttr(self, changes_name));
    if (method) changes = Ref(PyObject_Call(method.get(), args, names));
  }
  if (!changes) return -1;
  if (!PyTuple_CheckExact(changes.get())) {
    PyErr_SetString(PyExc_TypeError, "`changes` makes a tuple");
    return -1;
  }
  if (!enter_by(self, std::move(changes))) return -1;
  as_scope(self)->fresh = true;
  return 0;
}

// The record of what was found when it was made stays: it may be entered again.
Record* made_record(PyObject* self) {
  auto& records = records_of(self);
  if (records.empty()) PyErr_SetString(PyExc_RuntimeError, "nothing was set");
  return records.empty() ? nullptr : &records.front();
}

PyObject* made_enter(PyObject* self, PyObject*) {
  const Record* record = made_record(self);
  const Ref before(record ? applied_all(record->changes.get(), as_scope(self)->fresh) : nullptr);
  if (!before) return nullptr;
  as_scope(self)->fresh = false;
  Py_RETURN_NONE;
}

PyObject* made_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  const Record* record = made_record(self);
  if (!record) return nullptr;
  as_scope(self)->fresh = false;
  take_back(record->changes.get(), record->before.get(), PyTuple_GET_SIZE(record->changes.get()));
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

// As a decorator it sets nothing here.
PyObject* made_call(PyObject* self, PyObject* args, PyObject* names) {
  const Ref done(made_exit(self, nullptr, 0));
  const Ref decorate(done ? PyObject_GetAttr(self, decorate_name) : nullptr);
  return decorate ? PyObject_Call(decorate.get(), args, names) : nullptr;
}

PyObject* made_fresh(PyObject* self, void*) { return PyBool_FromLong(as_scope(self)->fresh); }

PyGetSetDef made_properties[] = {
    {"fresh", made_fresh, nullptr, "Whether it has been neither entered nor left.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef made_methods[] = {
    {"__enter__", made_enter, METH_NOARGS, "Sets it again."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(made_exit)),
     METH_FASTCALL, "Sets it back to what it was when this was made."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot made_slots[] = {
    {Py_tp_doc, const_cast<char*>("A Scope that sets when it is made: a call, or a context.")},
    {Py_tp_init, reinterpret_cast<void*>(set_when_made)},
    {Py_tp_call, reinterpret_cast<void*>(made_call)},
    {Py_tp_methods, made_methods},
    {Py_tp_getset, made_properties},
    {0, nullptr}};
PyType_Spec made_spec = {"tritorch._C.ScopeWhenMade", 0, 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, made_slots};

// ---- an __enter__ or __exit__ in Python
// ----------------------------------------------------------

struct Guarded {
  PyObject_HEAD PyObject *function, *name, *fields;
  vectorcallfunc call;
};

Guarded* as_guarded(PyObject* object) { return reinterpret_cast<Guarded*>(object); }

// Calls it; where it fails, what it has entered of its scope, or should have left, is left.
PyObject* call_guarded(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  Guarded* guarded = as_guarded(self);
  const Py_ssize_t n = PyVectorcall_NARGS(flags);
  PyObject* scope = n > 0 && is_scope(args[0]) ? args[0] : nullptr;
  const size_t before = scope ? records_of(scope).size() : 0;
  PyObject* result = PyObject_Vectorcall(guarded->function, args, flags, names);
  if (result || !scope) return result;
  const size_t kept = before - (guarded->name == exit_name && before > 0 ? 1 : 0);
  Held error;
  while (records_of(scope).size() > kept) {
    leave(scope);
    error.keep();
  }
  return nullptr;
}

PyObject* new_guarded(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *name;
  if (!PyArg_ParseTuple(args, "OU", &function, &name)) return nullptr;
  Ref fields(PyObject_GetAttrString(function, "__dict__"));
  PyObject* self = fields ? type->tp_alloc(type, 0) : nullptr;
  if (!self) return nullptr;
  Guarded* guarded = as_guarded(self);
  guarded->function = Py_NewRef(function);
  guarded->name = PyUnicode_Compare(name, exit_name) == 0 ? exit_name : enter_name;
  guarded->fields = fields.release();
  guarded->call = call_guarded;
  return self;
}

int visit_guarded(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_guarded(self)->function);
  Py_VISIT(as_guarded(self)->fields);
  return 0;
}
int clear_guarded(PyObject* self) {
  Py_CLEAR(as_guarded(self)->function);
  Py_CLEAR(as_guarded(self)->fields);
  return 0;
}
void free_guarded(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear_guarded(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* bound(PyObject* self, PyObject* object, PyObject*) {
  return object ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyObject* guarded_get(PyObject* self, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(self, name);
  if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(as_guarded(self)->function, name);  // its name, code, docstring
}

PyMemberDef guarded_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(Guarded, function), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Guarded, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot guarded_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_guarded)},
                               {Py_tp_dealloc, reinterpret_cast<void*>(free_guarded)},
                               {Py_tp_traverse, reinterpret_cast<void*>(visit_guarded)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_guarded)},
                               {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                               {Py_tp_descr_get, reinterpret_cast<void*>(bound)},
                               {Py_tp_getattro, reinterpret_cast<void*>(guarded_get)},
                               {Py_tp_members, guarded_members},
                               {0, nullptr}};
PyType_Spec guarded_spec = {"tritorch._C.Guarded", sizeof(Guarded), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                Py_TPFLAGS_METHOD_DESCRIPTOR,
                            guarded_slots};

// ---- functions
// -----------------------------------------------------------------------------------

// set_collecting(on) -> whether garbage was collected
PyObject* set_collecting(PyObject*, PyObject* on) {
  const int truth = PyObject_IsTrue(on);
  if (truth < 0) return nullptr;
  return PyBool_FromLong(truth ? PyGC_Enable() : PyGC_Disable());
}

// What is told of every operator makes the class Tensor watched: Note [Watching] in
// tritorch/core/dispatching.py.
PyObject *watching, *watched, *watched_name, *watched_value;

// set_watched(watching, cls, name, value): while the list has items, the class has that attribute.
PyObject* set_watched(PyObject*, PyObject* args) {
  PyObject *list, *cls, *name, *value;
  if (!PyArg_ParseTuple(args, "O!OUO", &PyList_Type, &list, &cls, &name, &value)) return nullptr;
  Py_XSETREF(watching, Py_NewRef(list));
  Py_XSETREF(watched, Py_NewRef(cls));
  Py_XSETREF(watched_name, Py_NewRef(name));
  Py_XSETREF(watched_value, Py_NewRef(value));
  Py_RETURN_NONE;
}

// watch(1) -> -1, watch(-1) -> 1
PyObject* watch(PyObject*, PyObject* by) {
  const long more = PyLong_AsLong(by);
  if (more == -1 && PyErr_Occurred()) return nullptr;
  const Py_ssize_t n = PyList_GET_SIZE(watching);
  if (more > 0) {
    if (PyObject_SetAttr(watched, watched_name, watched_value) < 0 ||
        PyList_Append(watching, Py_None) < 0)
      return nullptr;
  } else {
    if (PyList_SetSlice(watching, n - 1, n, nullptr) < 0 ||
        (n == 1 && PyObject_DelAttr(watched, watched_name) < 0))
      return nullptr;
  }
  return PyLong_FromLong(-more);
}

PyMethodDef functions[] = {
    {"set_watched", set_watched, METH_VARARGS, "The attribute by which a class is watched."},
    {"watch", watch, METH_O, "One watches more, or one less; returns what takes it back."},
    {"set_collecting", set_collecting, METH_O,
     "Whether garbage is collected; returns what it was."},
    {nullptr, nullptr, 0, nullptr}};

PyTypeObject* added(PyObject* module, PyType_Spec* spec, PyTypeObject* base) {
  PyObject* type = PyType_FromSpecWithBases(spec, reinterpret_cast<PyObject*>(base));
  if (!type) return nullptr;
  const char* name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  for (const char* at = name; *at; ++at)
    if (*at == '.') name = at + 1;
  if (PyModule_AddObjectRef(module, name, type) < 0) Py_CLEAR(type);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

bool is_watched() { return watching && PyList_GET_SIZE(watching) > 0; }

bool add_scope_types(PyObject* module) {
  missing = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  changes_name = PyUnicode_InternFromString("changes");
  decorate_name = PyUnicode_InternFromString("decorate");
  decorates_name = PyUnicode_InternFromString("decorates");
  enter_name = PyUnicode_InternFromString("__enter__");
  exit_name = PyUnicode_InternFromString("__exit__");
  choices_name = PyUnicode_InternFromString("choices");
  mode_name = PyUnicode_InternFromString("mode");
  if (!choices_name || !mode_name || !missing || !changes_name || !decorate_name ||
      !decorates_name || !enter_name || !exit_name)
    return false;
  scope_type = added(module, &scope_spec, nullptr);
  return scope_type && added(module, &mode_spec, scope_type) &&
         (made_type = added(module, &made_spec, scope_type)) &&
         (guarded_type = added(module, &guarded_spec, nullptr)) &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch
