#include "nn/modules.h"

#include <cstddef>
#include <initializer_list>

#include "profiling/python.h"
#include "ref.h"
#include "tensor/tensor.h"

namespace tritorch {
namespace {

PyTypeObject* module_base = nullptr;
PyObject *own_getattr = nullptr, *own_call_impl = nullptr, *own_wrapped_impl = nullptr;
PyObject *object_getattribute = nullptr, *object_class = nullptr;

// What nn/modules/module.py registers.
struct {
  PyObject* set;     // (module, name, value): what only Python decides
  PyObject* failed;  // (error, module): notes where it was raised
  PyObject* hooks;   // a tuple of the dicts of all modules' hooks that look at calls
} python;

struct {
  PyObject *getattr, *getattribute, *cls, *parameters, *buffers, *modules, *forward, *compiled,
      *call_impl, *wrapped_impl;
  PyObject* hooks[4];
} words;

// ---- attributes ---------------------------------------------------------------------------------

// The instance's own dict, or null, without an error, where it has none.
PyObject* fields_of(PyObject* self) {
  PyObject** place = _PyObject_GetDictPtr(self);
  return place ? *place : nullptr;
}

// Borrowed; null, and perhaps an error, if it is not there.
inline PyObject* field(PyObject* fields, PyObject* name) {
  return PyDict_GetItemWithError(fields, name);
}

// A new reference to what one of the tables has under a name; null if none has it.
PyObject* find_registered(PyObject* fields, PyObject* name) {
  for (PyObject* key : {words.parameters, words.buffers, words.modules}) {
    PyObject* table = field(fields, key);
    if (!table || table == Py_None) {
      if (PyErr_Occurred()) return nullptr;
      continue;
    }
    if (PyDict_CheckExact(table) || PyODict_CheckExact(table)) {
      if (PyObject* found = PyDict_GetItemWithError(table, name)) return Py_NewRef(found);
      if (PyErr_Occurred()) return nullptr;
    } else {  // a mapping with ways of its own
      const Ref held = Ref::to(table);
      const int there = PySequence_Contains(table, name);
      if (there) return there > 0 ? PyObject_GetItem(table, name) : nullptr;
    }
  }
  return nullptr;
}

// __getattr__: what is registered under a name.
PyObject* get_registered(PyObject* self, PyObject* name) {
  if (PyObject* fields = fields_of(self)) {
    const Ref held = Ref::to(fields);
    PyObject* found = find_registered(fields, name);
    if (found || PyErr_Occurred()) return found;
  }
  const Ref kind(PyType_GetName(Py_TYPE(self)));
  if (kind)
    PyErr_Format(PyExc_AttributeError, "'%U' object has no attribute '%S'", kind.get(), name);
  return nullptr;
}

PyObject* module_getattro(PyObject* self, PyObject* name) {
  if (!_PyType_Lookup(Py_TYPE(self), name)) {
    if (PyObject* fields = fields_of(self)) {
      PyObject* found = PyDict_GetItemWithError(fields, name);
      if (found) return Py_NewRef(found);
      if (PyErr_Occurred()) return nullptr;
      return get_registered(self, name);
    }
  }
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return get_registered(self, name);
}

// Note [Reading a module's attributes]
void adopt(PyTypeObject* type) {
  if (type->tp_getattro != module_getattro && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
      _PyType_Lookup(type, words.getattr) == own_getattr &&
      _PyType_Lookup(type, words.getattribute) == object_getattribute)
    type->tp_getattro = module_getattro;
}

PyObject* module_getattr(PyObject* self, PyObject* name) {
  adopt(Py_TYPE(self));
  return get_registered(self, name);
}

// Whether a value's class may say that it is a Module, a Parameter or a Buffer.
bool may_be_registered(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  if (type == tensor_type) {  // _is_param or _is_buffer is an attribute of its own
    PyObject* fields = fields_of(value);
    return fields && PyDict_GET_SIZE(fields);
  }
  if (PyType_IsSubtype(type, tensor_type) || PyType_IsSubtype(type, module_base)) return true;
  return type->tp_getattro != PyObject_GenericGetAttr ||
         _PyType_Lookup(type, words.cls) != object_class;  // it may claim another class
}

// Whether a name is in one of the tables, or Python has to look; -1 on an error.
int is_registered(PyObject* self, PyObject* name) {
  PyObject* fields = fields_of(self);
  if (!fields) return 1;
  for (PyObject* key : {words.parameters, words.buffers, words.modules}) {
    PyObject* table = field(fields, key);
    if (!table) {
      if (PyErr_Occurred()) return -1;
      continue;  // before Module.__init__()
    }
    if (!PyDict_CheckExact(table) && !PyODict_CheckExact(table)) return 1;
    const int there = PyDict_Contains(table, name);
    if (there) return there;
  }
  return 0;
}

PyObject* module_setattr(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyUnicode_Check(args[0]))
    return PyErr_Format(PyExc_TypeError, "expected a name and a value");
  PyObject* mro = Py_TYPE(self)->tp_mro;  // a base behind ours, but for object, may set its own way
  const bool last =
      PyTuple_GET_ITEM(mro, PyTuple_GET_SIZE(mro) - 2) == reinterpret_cast<PyObject*>(module_base);
  if (last && !may_be_registered(args[1])) {
    const int registered = is_registered(self, args[0]);
    if (registered < 0) return nullptr;
    if (!registered) {
      if (PyObject_GenericSetAttr(self, args[0], args[1]) < 0) return nullptr;
      Py_RETURN_NONE;
    }
  }
  PyObject* all[] = {self, args[0], args[1]};
  return PyObject_Vectorcall(python.set, all, 3, nullptr);
}

// ---- calls --------------------------------------------------------------------------------------

// Whether nothing looks at a call before or after `forward` does; -1 on an error.
int is_unwatched(PyTypeObject* type, PyObject* fields) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(python.hooks); ++i)
    if (PyDict_GET_SIZE(PyTuple_GET_ITEM(python.hooks, i))) return 0;
  for (PyObject* kind : words.hooks) {
    PyObject* hooks = field(fields, kind);
    if (!hooks || !PyDict_Check(hooks)) return PyErr_Occurred() ? -1 : 0;
    if (PyDict_GET_SIZE(hooks)) return 0;
  }
  PyObject* compiled = field(fields, words.compiled);
  if (!compiled && PyErr_Occurred()) return -1;
  if (!compiled) compiled = _PyType_Lookup(type, words.compiled);
  if (compiled && compiled != Py_None) return 0;
  // A class, or an instance, may have its own way.
  if (_PyType_Lookup(type, words.call_impl) != own_call_impl ||
      _PyType_Lookup(type, words.wrapped_impl) != own_wrapped_impl)
    return 0;
  for (PyObject* name : {words.call_impl, words.wrapped_impl}) {
    const int there = PyDict_Contains(fields, name);
    if (there) return there < 0 ? -1 : 0;
  }
  return 1;
}

// An error passes; it learns in which module it was raised.
void note_error(PyObject* self) {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
  TakenError error;
  error.normalize();
  if (error.traceback()) PyException_SetTraceback(error.value(), error.traceback());
  const Ref done(PyObject_CallFunctionObjArgs(python.failed, error.value(), self, nullptr));
  if (done) error.restore();
}

// function(*args, **kwargs), or function(self, *args, **kwargs).
PyObject* call_with(PyObject* function, PyObject* self, PyObject* args, PyObject* kwargs) {
  const Py_ssize_t n = PyTuple_GET_SIZE(args), skip = self ? 1 : 0;
  PyObject* few[10];
  PyObject** all = few;
  if (n + 2 > 10 && !(all = static_cast<PyObject**>(
                          PyMem_Malloc(sizeof(PyObject*) * static_cast<std::size_t>(n + 2)))))
    return PyErr_NoMemory();
  if (self) all[1] = self;
  for (Py_ssize_t i = 0; i < n; ++i) all[i + 1 + skip] = PyTuple_GET_ITEM(args, i);
  PyObject* result = PyObject_VectorcallDict(
      function, all + 1, static_cast<std::size_t>(n + skip) | PY_VECTORCALL_ARGUMENTS_OFFSET,
      kwargs);
  if (all != few) PyMem_Free(all);
  return result;
}

PyObject* call_forward(PyObject* self, PyObject* fields, PyObject* args, PyObject* kwargs) {
  PyTypeObject* type = Py_TYPE(self);
  if (type->tp_getattro == module_getattro) {
    PyObject* method = _PyType_Lookup(type, words.forward);
    if (method && (Py_TYPE(method)->tp_flags & Py_TPFLAGS_METHOD_DESCRIPTOR)) {
      const int own = PyDict_Contains(fields, words.forward);
      if (own < 0) return nullptr;
      if (!own) {
        const Ref held = Ref::to(method);
        return call_with(method, self, args, kwargs);
      }
    }
  }
  const Ref function(PyObject_GetAttr(self, words.forward));
  return function ? call_with(function.get(), nullptr, args, kwargs) : nullptr;
}

PyObject* answer_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyTypeObject* type = Py_TYPE(self);
  adopt(type);
  PyObject* fields = fields_of(self);
  const int unwatched = fields ? is_unwatched(type, fields) : 0;
  if (unwatched < 0) return nullptr;
  if (!unwatched) {
    const Ref watched(PyObject_GetAttr(self, words.wrapped_impl));
    return watched ? call_with(watched.get(), nullptr, args, kwargs) : nullptr;
  }
  PyObject* result = call_forward(self, fields, args, kwargs);
  if (!result) note_error(self);
  return result;
}

PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (!profiling::enabled || !(profiling::options.modules || profiling::options.functions))
    return answer_call(self, args, kwargs);
  profiling::ModuleScope scope(self);
  return answer_call(self, args, kwargs);
}

// ---- the type -----------------------------------------------------------------------------------

// register_module(set, failed, hooks, call_impl, wrapped_call_impl)
PyObject* register_module(PyObject*, PyObject* args) {
  PyObject *set, *failed, *hooks, *impl, *wrapped;
  if (!PyArg_ParseTuple(args, "OOO!OO", &set, &failed, &PyTuple_Type, &hooks, &impl, &wrapped))
    return nullptr;
  Py_XSETREF(python.set, Py_NewRef(set));
  Py_XSETREF(python.failed, Py_NewRef(failed));
  Py_XSETREF(python.hooks, Py_NewRef(hooks));
  Py_XSETREF(own_call_impl, Py_NewRef(impl));
  Py_XSETREF(own_wrapped_impl, Py_NewRef(wrapped));
  Py_RETURN_NONE;
}

PyMethodDef module_methods[] = {
    {"__getattr__", module_getattr, METH_O,
     "__getattr__($self, name, /)\n--\n\n"
     "The parameter, buffer or submodule that is registered under a name."},
    {"__setattr__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(module_setattr)),
     METH_FASTCALL,
     "__setattr__($self, name, value, /)\n--\n\n"
     "Registers parameters, buffers and submodules; sets what is none."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot module_slots[] = {{Py_tp_call, reinterpret_cast<void*>(module_call)},
                              {Py_tp_methods, module_methods},
                              {Py_tp_doc, const_cast<char*>("The native half of a module.")},
                              {0, nullptr}};
PyType_Spec module_spec = {"tritorch._C.ModuleBase", sizeof(PyObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, module_slots};
PyMethodDef functions[] = {
    {"register_module", register_module, METH_VARARGS,
     "(set, failed, hooks, call_impl, wrapped_call_impl): Python's half of modules."},
    {nullptr, nullptr, 0, nullptr}};

bool intern_names() {
  struct {
    PyObject** place;
    const char* text;
  } all[] = {{&words.getattr, "__getattr__"},
             {&words.getattribute, "__getattribute__"},
             {&words.cls, "__class__"},
             {&words.parameters, "_parameters"},
             {&words.buffers, "_buffers"},
             {&words.modules, "_modules"},
             {&words.forward, "forward"},
             {&words.compiled, "_compiled_call_impl"},
             {&words.call_impl, "_call_impl"},
             {&words.wrapped_impl, "_wrapped_call_impl"},
             {&words.hooks[0], "_backward_hooks"},
             {&words.hooks[1], "_backward_pre_hooks"},
             {&words.hooks[2], "_forward_hooks"},
             {&words.hooks[3], "_forward_pre_hooks"}};
  for (auto& each : all)
    if (!(*each.place = PyUnicode_InternFromString(each.text))) return false;
  return true;
}

}  // namespace

bool add_module_type(PyObject* module) {
  if (!intern_names()) return false;
  module_base = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&module_spec));
  if (!module_base) return false;
  own_getattr = Py_XNewRef(_PyType_Lookup(module_base, words.getattr));
  object_getattribute = Py_XNewRef(_PyType_Lookup(&PyBaseObject_Type, words.getattribute));
  object_class = Py_XNewRef(_PyType_Lookup(&PyBaseObject_Type, words.cls));
  return own_getattr && object_getattribute && object_class &&
         PyModule_AddObjectRef(module, "ModuleBase", reinterpret_cast<PyObject*>(module_base)) ==
             0 &&
         PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch
