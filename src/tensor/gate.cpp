#include "tensor/gate.h"

#include <structmember.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "compilation/region.h"
#include "plans/table.h"
#include "profiling/functions.h"
#include "profiling/python.h"
#include "ref.h"
#include "tensor/answers.h"
#include "tensor/fields.h"

namespace tritorch {
namespace {

// ---- state --------------------------------------------------------------------------------------

struct State {
  bool modes = false;     // function modes are active
  bool autocast = false;  // for some device
  bool overrides = true;  // subclasses may override
};
thread_local State state;

PyObject* override_handler = nullptr;  // (gate, *args, **kwargs): a mode or an override may act
PyObject* autocast_handler = nullptr;  // (gate, *args, **kwargs): casts, then calls
PyObject* error_handler = nullptr;     // (error): what PyTorch raises instead, or None
PyObject* mistake_handler = nullptr;   // (gate, error, args, kwargs): the same, or None
PyObject* number_handler = nullptr;    // (gate, *args, **kwargs): calls with numbers for tensors
PyObject* doc_handler = nullptr;       // (gate): its __doc__
PyObject* wants_handler = nullptr;     // (gate): where tensors and where numbers stand
PyObject* builtin_dtypes = nullptr;    // {float: torch.float64, ...}
PyObject* no_override = nullptr;       // what a class says to have no override
PyObject* str_override = nullptr;

// ---- which types override -----------------------------------------------------------------------

// Answers by type; the version tag changes when the type or a base does, and is never used twice.
struct Answer {
  PyTypeObject* type = nullptr;
  unsigned version = 0;
  bool overrides = false;
};
std::array<Answer, 64> answers;

bool ask_type(PyTypeObject* type) {
  Answer& answer = answers[(reinterpret_cast<std::uintptr_t>(type) >> 5) % answers.size()];
  if (answer.type == type && answer.version != 0 && answer.version == type->tp_version_tag)
    return answer.overrides;
  const Ref found(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), str_override));
  if (!found) PyErr_Clear();
  answer = {type, type->tp_version_tag, found && found.get() != no_override};
  return answer.overrides;
}

inline bool type_overrides(PyTypeObject* type) {
  return type != tensor_type && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && ask_type(type);
}

// Whether an argument, or an item of a list or tuple, is of a type that overrides.
bool overridden(PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyTypeObject* type = Py_TYPE(args[i]);
    if (type == tensor_type) continue;
    if (type == &PyTuple_Type || type == &PyList_Type) {
      const Py_ssize_t size = PySequence_Fast_GET_SIZE(args[i]);
      for (Py_ssize_t k = 0; k < size && k < PySequence_Fast_GET_SIZE(args[i]); ++k)
        if (type_overrides(Py_TYPE(PySequence_Fast_ITEMS(args[i])[k]))) return true;
    } else if (type_overrides(type)) {
      return true;
    }
  }
  return false;
}

enum Planning : char { kNever, kPlanned, kMakes };  // kMakes: without a tensor among arguments, too

// ---- Gate ---------------------------------------------------------------------------------------

struct Gate {
  PyObject_HEAD vectorcallfunc call;
  PyObject* function;
  PyObject* name;
  PyObject* qualname;
  PyObject* module;
  PyObject* shown;   // the gate that overrides are told: Tensor.add for Tensor.__add__
  PyObject* policy;  // autocast's; None: it leaves the call alone
  PyObject* nested;  // (gate, *args, **kwargs): takes its place where an argument is nested
  PyObject* weak;
  plans::Table* plans;  // of its calls; null: there are none yet
  char planned;         // whether its calls may have plans: a `Planning`
  Reply reply;          // the function's own, without Python, where it has one
  long wants;    // the positions where only tensors may stand, as bits; negative: not asked yet
  long numbers;  // the positions where a number is meant, as bits; known with `wants`
  PyObject* number_names;  // the same by keyword, a tuple; null: none
  char describes;          // it reads the description of a tensor
  std::uint32_t profiled;  // the number of its name in profiles plus one, or kUnnamed; 0: not asked
  std::uint32_t builtin;   // the number of what Python calls it plus one; 0: not asked
};

PyObject* call_handler(PyObject* handler, PyObject* gate, PyObject* const* args, Py_ssize_t n,
                       PyObject* names) {
  const Py_ssize_t total = n + (names ? PyTuple_GET_SIZE(names) : 0);
  PyObject* few[8];
  PyObject** all =
      total < 8 ? few : static_cast<PyObject**>(PyMem_Malloc(sizeof(PyObject*) * (total + 1)));
  if (!all) return PyErr_NoMemory();
  all[0] = gate;
  for (Py_ssize_t i = 0; i < total; ++i) all[i + 1] = args[i];
  PyObject* result = PyObject_Vectorcall(handler, all, static_cast<std::size_t>(n + 1), names);
  if (all != few) PyMem_Free(all);
  return result;
}

// What NumPy or some of PyTorch's overloads call an argument that a function calls otherwise.
constexpr struct {
  const char* numpy;
  const char* ours;
} kSpellings[] = {{"axis", "dim"},
                  {"keepdims", "keepdim"},
                  {"x", "input"},
                  {"a", "input"},
                  {"x1", "input"},
                  {"x2", "other"},
                  {"A", "input"},
                  {"input", "self"},
                  {"axis0", "dim0"},
                  {"axis1", "dim1"},
                  {"indices", "indices_or_sections"},
                  {"sections", "indices_or_sections"},
                  {"tensor_indices_or_sections", "indices_or_sections"}};

// Keywords with NumPy's spellings replaced; null, and no error, where there is none of them.
PyObject* respelled(PyObject* names) {
  Ref out;
  const Py_ssize_t n = PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < n; ++i) {
    for (const auto& each : kSpellings) {
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), each.numpy) != 0) continue;
      if (!out) {
        out = Ref(PyTuple_New(n));
        if (!out) return nullptr;
        for (Py_ssize_t k = 0; k < n; ++k)
          PyTuple_SET_ITEM(out.get(), k, Py_NewRef(PyTuple_GET_ITEM(names, k)));
      }
      PyObject* ours = PyUnicode_InternFromString(each.ours);
      if (!ours) return nullptr;
      Py_SETREF(PyTuple_GET_ITEM(out.get(), i), ours);
      break;
    }
  }
  return out.release();
}

// The package of a module's name: "numpy" of "numpy.core.numeric".  A new reference, or null.
PyObject* package_of(PyObject* name) {
  const Py_ssize_t dot = PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1);
  return dot < 0 ? Py_NewRef(name) : PyUnicode_Substring(name, 0, dot);
}

// Whether a frame runs a program's code, not the package's, NumPy's or the standard library's.
bool is_of_program(PyObject* frame) {
  const Ref globals(PyObject_GetAttrString(frame, "f_globals"));
  PyObject* name = globals ? PyDict_GetItemString(globals.get(), "__name__") : nullptr;
  const Ref package(name && PyUnicode_Check(name) ? package_of(name) : nullptr);
  PyObject* standard = PySys_GetObject("stdlib_module_names");
  bool of_program = true;
  if (package)
    of_program = PyUnicode_CompareWithASCIIString(package.get(), "tritorch") != 0 &&
                 PyUnicode_CompareWithASCIIString(package.get(), "numpy") != 0 &&
                 !(standard && PySet_Contains(standard, package.get()) == 1);
  PyErr_Clear();
  return of_program;
}

// Whether an error came up in code of the program's that a call has run: a hook, a callback.  It is
// raised as it is, and nothing is called again for it.
bool is_programs_error(PyObject* traceback) {
  for (auto* at = reinterpret_cast<PyTracebackObject*>(traceback); at; at = at->tb_next)
    if (is_of_program(reinterpret_cast<PyObject*>(at->tb_frame))) return true;
  return false;
}

// The call again with PyTorch's names for arguments, after it was refused with NumPy's; the first
// error if it is refused once more.
PyObject* call_respelled(Gate* gate, PyObject* const* args, std::size_t flagged, PyObject* names) {
  TakenError first;
  if (is_programs_error(first.traceback())) {
    first.restore();
    return nullptr;
  }
  const Ref ours(respelled(names));
  PyObject* result =
      ours ? PyObject_Vectorcall(gate->function, args, flagged, ours.get()) : nullptr;
  if (!result && (!ours || PyErr_ExceptionMatches(PyExc_TypeError))) {
    TakenError other;
    (is_programs_error(other.traceback()) ? other : first).restore();
  }
  return result;
}

// Asks what PyTorch raises where an argument of the wrong type had `error` come up.
PyObject* ask_mistake(PyObject* gate, PyObject* error, PyObject* const* args, Py_ssize_t n,
                      PyObject* names) {
  const Ref positional(PyTuple_New(n)), keywords(PyDict_New());
  if (!positional || !keywords) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(names, i), args[n + i]) < 0) return nullptr;
  return PyObject_CallFunctionObjArgs(mistake_handler, gate, error, positional.get(),
                                      keywords.get(), nullptr);
}

// NumPy's errors about sizes and memory become PyTorch's, and so do those that come up inside of a
// function that was given an argument of the wrong type.
void translate_error(PyObject* gate, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const bool size =
      PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_MemoryError);
  const bool mistake =
      PyErr_ExceptionMatches(PyExc_AttributeError) || PyErr_ExceptionMatches(PyExc_TypeError) ||
      PyErr_ExceptionMatches(PyExc_LookupError) || PyErr_ExceptionMatches(PyExc_AssertionError);
  if (!error_handler || !(size || mistake)) return;
  TakenError error;
  if (is_programs_error(error.traceback())) return error.restore();
  error.normalize();
  const Ref other(mistake ? ask_mistake(gate, error.value(), args, n, names)
                          : PyObject_CallOneArg(error_handler, error.value()));
  if (!other || other.get() == Py_None) {
    PyErr_Clear();
    error.restore();
  } else {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(other.get())), other.get());
  }
}

// Whether something else stands where only a tensor may.
inline bool lacks_tensor(unsigned long wants, PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n && wants; ++i, wants >>= 1) {
    if (!(wants & 1) || Py_TYPE(args[i]) == tensor_type) continue;
    if (!PyType_IsSubtype(Py_TYPE(args[i]), tensor_type)) return true;
  }
  return false;
}

// Raises what PyTorch does about an argument that is no tensor; false if it has nothing to say.
bool refuse_arguments(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const Ref error(ask_mistake(self, Py_None, args, n, names));
  if (error.get() == Py_None) return false;
  if (error) PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())), error.get());
  return true;
}

bool ask_wants(Gate* gate) {
  if (!wants_handler) {
    gate->wants = 0;
    return true;
  }
  const Ref answer(PyObject_CallOneArg(wants_handler, reinterpret_cast<PyObject*>(gate)));
  if (!answer) return false;
  PyObject* names;
  const bool ok =
      PyArg_ParseTuple(answer.get(), "llO!", &gate->wants, &gate->numbers, &PyTuple_Type, &names);
  if (ok && PyTuple_GET_SIZE(names) > 0) Py_XSETREF(gate->number_names, Py_NewRef(names));
  return ok;
}

// Whether a keyword is one of a function's that mean numbers.
[[gnu::noinline]] bool means_number(PyObject* number_names, PyObject* name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(number_names); ++i) {
    PyObject* each = PyTuple_GET_ITEM(number_names, i);
    if (each == name || PyUnicode_Compare(each, name) == 0) return true;
  }
  return false;
}

// Whether a tensor stands where a number is meant.
inline bool has_tensor_for_number(const Gate* gate, PyObject* const* args, Py_ssize_t n,
                                  PyObject* names) {
  auto numbers = static_cast<unsigned long>(gate->numbers);
  for (Py_ssize_t i = 0; i < n && numbers; ++i, numbers >>= 1)
    if ((numbers & 1) && PyType_IsSubtype(Py_TYPE(args[i]), tensor_type)) return true;
  if (!names || !gate->number_names) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (PyType_IsSubtype(Py_TYPE(args[n + i]), tensor_type) &&
        means_number(gate->number_names, PyTuple_GET_ITEM(names, i)))
      return true;
  return false;
}

// Whether an argument is a type, which may be one of Python's that stands for a dtype.
inline bool names_type(PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i)
    if (Py_TYPE(args[i]) == &PyType_Type) return true;
  return false;
}

PyObject* gate_call(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* names);

// The call with dtypes for float, int, bool and complex; null, and no error, where none is there.
PyObject* call_with_dtypes(PyObject* self, PyObject* const* args, std::size_t flagged,
                           PyObject* names) {
  auto* gate = reinterpret_cast<Gate*>(self);
  if (PyObject_HasAttrString(gate->function, "takes_types")) return nullptr;
  const Py_ssize_t total = PyVectorcall_NARGS(flagged) + (names ? PyTuple_GET_SIZE(names) : 0);
  bool found = false;
  auto** all = static_cast<PyObject**>(PyMem_Malloc(sizeof(PyObject*) * (total + 1)));
  if (!all) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < total; ++i) {
    all[i] = args[i];
    if (Py_TYPE(args[i]) != &PyType_Type) continue;
    if (PyObject* dtype = PyDict_GetItem(builtin_dtypes, args[i])) {
      all[i] = dtype;
      found = true;
    }
  }
  PyObject* result =
      found ? gate_call(self, all, flagged & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names) : nullptr;
  PyMem_Free(all);
  return result;
}

PyObject* call_planned(Gate* gate, PyObject* const* args, std::size_t flagged, PyObject* names) {
  if (!gate->plans) gate->plans = new plans::Table;
  return gate->plans->call(gate->function, args, flagged, names);
}

inline PyObject* answer_call(PyObject* self, PyObject* const* args, std::size_t flagged,
                             PyObject* names) {
  auto* gate = reinterpret_cast<Gate*>(self);
  const Py_ssize_t n = PyVectorcall_NARGS(flagged);
  const State& now = state;
  if (gate->wants < 0 && !ask_wants(gate)) return nullptr;
  if (has_tensor_for_number(gate, args, n, names)) [[unlikely]] {
    const Py_ssize_t total = n + (names ? PyTuple_GET_SIZE(names) : 0);
    if (number_handler && !now.modes && !(now.overrides && overridden(args, total))) {
      Ref result(call_handler(number_handler, self, args, n, names));
      if (result.get() != Py_NotImplemented) return result.release();
    }
  }
  Region* const here = region;  // thread-locals are asked for once
  if (here && follows(here) && !gate->describes) [[unlikely]] {
    if (now.modes || is_overheard(here) ||
        overridden(args, n + (names ? PyTuple_GET_SIZE(names) : 0))) {
      if (!flushed()) return nullptr;
    } else if (now.autocast && is_set(gate->policy)) {  // what it casts is followed by itself
      return call_handler(autocast_handler, self, args, n, names);
    } else {
      return follow(here, self, args, n, names);
    }
  }
  if (now.modes || (now.overrides && overridden(args, n + (names ? PyTuple_GET_SIZE(names) : 0))))
    return call_handler(override_handler, self, args, n, names);
  if (gate->reply && !names) {
    PyObject* answer = gate->reply(args, n);
    if (answer || PyErr_Occurred()) return answer;
  }
  if (gate->nested && any_classed && gate->nested != Py_None &&
      holds_classed(args, n + (names ? PyTuple_GET_SIZE(names) : 0))) [[unlikely]]
    return call_handler(gate->nested, self, args, n, names);
  if (builtin_dtypes && names_type(args, n + (names ? PyTuple_GET_SIZE(names) : 0))) [[unlikely]] {
    PyObject* result = call_with_dtypes(self, args, flagged, names);
    if (result || PyErr_Occurred()) return result;
  }
  if (lacks_tensor(static_cast<unsigned long>(gate->wants), args, n) &&
      refuse_arguments(self, args, n, names))
    return nullptr;
  PyObject* result;
  if (now.autocast && gate->policy && gate->policy != Py_None) {
    result = call_handler(autocast_handler, self, args, n, names);
  } else {
    result = gate->planned && plans::may_plan(args, n, names, gate->planned == kMakes)
                 ? call_planned(gate, args, flagged, names)
                 : PyObject_Vectorcall(gate->function, args, flagged, names);
    if (!result && names && PyErr_ExceptionMatches(PyExc_TypeError))
      result = call_respelled(gate, args, flagged, names);
  }
  if (result)
    own_results(result, args, n + (names ? PyTuple_GET_SIZE(names) : 0));
  else
    translate_error(self, args, n, names);
  return result;
}

// Whether a program names the function: `x.add(y)`, not `x + y`.
bool is_called_by_name(const Gate* gate) {
  return PyUnicode_GET_LENGTH(gate->name) < 2 || PyUnicode_READ_CHAR(gate->name, 0) != '_' ||
         PyUnicode_READ_CHAR(gate->name, 1) != '_';
}

// Whether an override or a mode of the program's may be asked.
bool may_call_programs(PyObject* const* args, Py_ssize_t n, PyObject* names) {
  return state.modes || overridden(args, n + (names ? PyTuple_GET_SIZE(names) : 0));
}

std::uint32_t number_of_builtin(Gate* gate) {
  if (!gate->builtin) {
    const Ref text(PyUnicode_FromFormat("<built-in function %U>", gate->qualname));
    const std::uint32_t number = text ? profiling::number_of(text.get()) : 0;
    PyErr_Clear();  // an event is not worth an error
    gate->builtin = number + 1;
  }
  return gate->builtin - 1;
}

// The same as an event of the profile.
[[gnu::noinline]] PyObject* profile_call(PyObject* self, PyObject* const* args, std::size_t flagged,
                                         PyObject* names) {
  auto* gate = reinterpret_cast<Gate*>(self);
  if (!gate->profiled) {
    const std::uint32_t number =
        gate->describes ? profiling::kUnnamed : profiling::number_of_gate(self);
    gate->profiled = number == profiling::kUnnamed ? number : number + 1;
  }
  if (gate->profiled == profiling::kUnnamed) return answer_call(self, args, flagged, names);
  profiling::Scope scope(profiling::Kind::op, gate->profiled - 1);
  profiling::describe_call(scope.event, args, PyVectorcall_NARGS(flagged), names);
  std::optional<profiling::Unseen> unseen;
  if (profiling::options.functions) {
    if (is_called_by_name(gate) && profiling::calls_are_shown())
      scope.event->detail = number_of_builtin(gate) + 1;
    if (!may_call_programs(args, PyVectorcall_NARGS(flagged), names)) unseen.emplace();
  }
  const std::uint64_t place = next_sequence();
  PyObject* result = answer_call(self, args, flagged, names);
  unseen.reset();
  if (next_sequence() != place && scope.lasts())
    scope.event->sequence = static_cast<std::int64_t>(place);  // of the first node that it made
  if (result && scope.lasts()) profiling::describe_result(scope.event, result);
  return result;
}

PyObject* gate_call(PyObject* self, PyObject* const* args, std::size_t flagged, PyObject* names) {
  return profiling::enabled ? profile_call(self, args, flagged, names)
                            : answer_call(self, args, flagged, names);
}

bool is_in(PyObject* module, const char* package) {
  const Ref prefix(PyUnicode_FromString(package));
  return prefix && PyUnicode_Tailmatch(module, prefix.get(), 0, PY_SSIZE_T_MAX, -1) == 1;
}

// Functions of operators alone have plans: what else a program may call reads more than arguments.
// Collectives have none: others wait for each call of one.
char planned_as(PyObject* function) {
  char found = kNever;
  const Ref module(PyObject_GetAttrString(function, "__module__"));
  if (module && PyUnicode_Check(module.get()) && is_in(module.get(), "tritorch.ops.") &&
      !is_in(module.get(), "tritorch.ops.collectives")) {
    const bool makes = is_in(module.get(), "tritorch.ops.shape.factory") ||
                       is_in(module.get(), "tritorch.ops.shape.ranges") ||
                       is_in(module.get(), "tritorch.ops.random.");
    found = makes ? kMakes : kPlanned;
  }
  PyErr_Clear();
  return found;
}

PyObject* gate_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *function, *name, *qualname, *module;
  if (!PyArg_ParseTuple(args, "OUUU", &function, &name, &qualname, &module)) return nullptr;
  auto* gate = reinterpret_cast<Gate*>(type->tp_alloc(type, 0));
  if (!gate) return nullptr;
  gate->call = gate_call;
  gate->wants = -1;
  gate->describes = PyObject_HasAttrString(function, "describes");
  gate->planned = planned_as(function);
  gate->function = Py_NewRef(function);
  gate->name = Py_NewRef(name);
  gate->qualname = Py_NewRef(qualname);
  gate->module = Py_NewRef(module);
  return reinterpret_cast<PyObject*>(gate);
}

int gate_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* gate = reinterpret_cast<Gate*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(gate->function);
  Py_VISIT(gate->shown);
  Py_VISIT(gate->policy);
  Py_VISIT(gate->nested);
  return 0;
}

int gate_clear(PyObject* self) {
  auto* gate = reinterpret_cast<Gate*>(self);
  Py_CLEAR(gate->function);
  Py_CLEAR(gate->name);
  Py_CLEAR(gate->qualname);
  Py_CLEAR(gate->module);
  Py_CLEAR(gate->shown);
  Py_CLEAR(gate->policy);
  Py_CLEAR(gate->nested);
  Py_CLEAR(gate->number_names);
  return 0;
}

void gate_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (reinterpret_cast<Gate*>(self)->weak) PyObject_ClearWeakRefs(self);
  gate_clear(self);
  delete reinterpret_cast<Gate*>(self)->plans;
  type->tp_free(self);
  Py_DECREF(type);
}

// A method, when it is found in a class.
PyObject* gate_bind(PyObject* self, PyObject* object, PyObject*) {
  return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

// What the gate does not have itself (__wrapped__'s attributes, __doc__, ...) is the function's.
PyObject* gate_getattr(PyObject* self, PyObject* name) {
  if (PyUnicode_CompareWithASCIIString(name, "__module__") == 0)  // not the type's
    return Py_NewRef(reinterpret_cast<Gate*>(self)->module);
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GetAttr(reinterpret_cast<Gate*>(self)->function, name);
}

// The module alone can be set: a program that says torch knows the gate by torch's name.
int gate_setattr(PyObject* self, PyObject* name, PyObject* value) {
  auto* gate = reinterpret_cast<Gate*>(self);
  if (!value || !PyUnicode_Check(value) ||
      PyUnicode_CompareWithASCIIString(name, "__module__") != 0)
    return PyObject_GenericSetAttr(self, name, value);
  Py_SETREF(gate->module, Py_NewRef(value));
  return 0;
}

PyObject* gate_doc(PyObject* self, void*) {
  if (doc_handler) return PyObject_CallOneArg(doc_handler, self);
  return PyObject_GetAttrString(reinterpret_cast<Gate*>(self)->function, "__doc__");
}

PyObject* gate_plans(PyObject* self, void*) {
  const plans::Table* table = reinterpret_cast<Gate*>(self)->plans;
  return table ? table->describe() : plans::Table().describe();
}

PyObject* gate_repr(PyObject* self) {
  auto* gate = reinterpret_cast<Gate*>(self);
  return PyUnicode_FromFormat("<function %U.%U>", gate->module, gate->qualname);
}

// Pickled and copied by name.
PyObject* gate_reduce(PyObject* self, PyObject*) {
  return Py_NewRef(reinterpret_cast<Gate*>(self)->qualname);
}

PyMemberDef gate_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Gate, call), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Gate, weak), READONLY, nullptr},
    {"__wrapped__", T_OBJECT, offsetof(Gate, function), READONLY, nullptr},
    {"__name__", T_OBJECT, offsetof(Gate, name), READONLY, nullptr},
    {"__qualname__", T_OBJECT, offsetof(Gate, qualname), READONLY, nullptr},
    {"shown", T_OBJECT, offsetof(Gate, shown), 0, nullptr},
    {"policy", T_OBJECT, offsetof(Gate, policy), 0, nullptr},
    {"nested", T_OBJECT, offsetof(Gate, nested), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef gate_properties[] = {{"__doc__", gate_doc, nullptr, nullptr, nullptr},
                                 {"plans", gate_plans, nullptr, "the call plans", nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
// compute(*args, **kwargs): the function's call, at which no mode, override or autocast is asked.
PyObject* gate_compute(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  auto* gate = reinterpret_cast<Gate*>(self);
  const auto flagged = static_cast<std::size_t>(n);
  return gate->planned && plans::may_plan(args, n, names, gate->planned == kMakes)
             ? call_planned(gate, args, flagged, names)
             : PyObject_Vectorcall(gate->function, args, flagged, names);
}

// Has the gate of a method of Tensor be answered without Python, where a native answer is known.
PyObject* gate_answer(PyObject* self, PyObject* name) {
  if (!PyUnicode_Check(name)) return PyErr_Format(PyExc_TypeError, "expected a name");
  reinterpret_cast<Gate*>(self)->reply = find_reply(name);
  return PyBool_FromLong(reinterpret_cast<Gate*>(self)->reply != nullptr);
}

PyMethodDef gate_methods[] = {
    {"compute", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(gate_compute)),
     METH_FASTCALL | METH_KEYWORDS, "The function's call, without modes, overrides and autocast."},
    {"__reduce__", gate_reduce, METH_NOARGS, nullptr},
    {"answer", gate_answer, METH_O, "(name): asks the native method of this name first."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot gate_slots[] = {{Py_tp_new, reinterpret_cast<void*>(gate_new)},
                            {Py_tp_dealloc, reinterpret_cast<void*>(gate_dealloc)},
                            {Py_tp_traverse, reinterpret_cast<void*>(gate_traverse)},
                            {Py_tp_clear, reinterpret_cast<void*>(gate_clear)},
                            {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                            {Py_tp_descr_get, reinterpret_cast<void*>(gate_bind)},
                            {Py_tp_getattro, reinterpret_cast<void*>(gate_getattr)},
                            {Py_tp_setattro, reinterpret_cast<void*>(gate_setattr)},
                            {Py_tp_repr, reinterpret_cast<void*>(gate_repr)},
                            {Py_tp_members, gate_members},
                            {Py_tp_getset, gate_properties},
                            {Py_tp_methods, gate_methods},
                            {0, nullptr}};
PyType_Spec gate_spec = {"tritorch._C.Gate", sizeof(Gate), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                             Py_TPFLAGS_METHOD_DESCRIPTOR,
                         gate_slots};

// ---- functions ----------------------------------------------------------------------------------

PyObject* set_flag(bool* flag, PyObject* value) {
  const int truth = PyObject_IsTrue(value);
  if (truth < 0) return nullptr;
  const bool before = *flag;
  *flag = truth != 0;
  return PyBool_FromLong(before);
}
}  // namespace

bool set_modes_asked(bool asked) { return std::exchange(state.modes, asked); }

namespace {

PyObject* set_function_modes(PyObject*, PyObject* value) {
  return set_flushed([value] { return set_flag(&state.modes, value); });
}
// follow(gate, *args, **kwargs): a call whose arguments autocast has cast
PyObject* follow_cast(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  return follow(region, args[0], args + 1, n - 1, names);
}
PyObject* follows_now(PyObject*, PyObject*) {
  return PyBool_FromLong(region && follows(region) && !state.modes && !is_overheard(region));
}
PyObject* set_autocast(PyObject*, PyObject* value) { return set_flag(&state.autocast, value); }
PyObject* set_overrides(PyObject*, PyObject* value) { return set_flag(&state.overrides, value); }
PyObject* overrides_enabled(PyObject*, PyObject*) { return PyBool_FromLong(state.overrides); }

// has_override(*objects): whether any is of a type that overrides, or holds one that is
PyObject* has_override(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return PyBool_FromLong(state.overrides && overridden(args, n));
}

PyObject* type_has_override(PyObject*, PyObject* type) {
  if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "expected a type");
  return PyBool_FromLong(type_overrides(reinterpret_cast<PyTypeObject*>(type)));
}

// Never called: a class that has it as `__torch_function__` does not override.
PyObject* disabled_impl(PyObject*, PyObject*, PyObject*) {
  return PyErr_Format(PyExc_RuntimeError, "this class has no __torch_function__");
}

PyObject* set_gate_handlers(PyObject*, PyObject* args) {
  PyObject *overriding, *casting, *translating, *mistaking, *wanting, *numbering, *documenting;
  PyObject* dtypes;
  if (!PyArg_ParseTuple(args, "OOOOOOOO!", &overriding, &casting, &translating, &mistaking,
                        &wanting, &numbering, &documenting, &PyDict_Type, &dtypes))
    return nullptr;
  Py_XSETREF(builtin_dtypes, Py_NewRef(dtypes));
  Py_XSETREF(override_handler, Py_NewRef(overriding));
  Py_XSETREF(error_handler, Py_NewRef(translating));
  Py_XSETREF(mistake_handler, Py_NewRef(mistaking));
  Py_XSETREF(autocast_handler, Py_NewRef(casting));
  Py_XSETREF(wants_handler, Py_NewRef(wanting));
  Py_XSETREF(number_handler, Py_NewRef(numbering));
  Py_XSETREF(doc_handler, Py_NewRef(documenting));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_function_modes", set_function_modes, METH_O, "Returns what it was."},
    {"follow", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(follow_cast)),
     METH_FASTCALL | METH_KEYWORDS, "A call of a gate whose arguments autocast has cast."},
    {"follows", follows_now, METH_NOARGS, "Whether the calls of this thread are followed."},
    {"set_autocast", set_autocast, METH_O, "Returns what it was."},
    {"set_overrides", set_overrides, METH_O, "Returns what it was."},
    {"overrides_enabled", overrides_enabled, METH_NOARGS, nullptr},
    {"has_override", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(has_override)),
     METH_FASTCALL, nullptr},
    {"type_has_override", type_has_override, METH_O, nullptr},
    {"_disabled_torch_function_impl",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(disabled_impl)),
     METH_VARARGS | METH_KEYWORDS, "A class's `__torch_function__` when it overrides nothing."},
    {"set_gate_handlers", set_gate_handlers, METH_VARARGS,
     "(overriding, casting, translating, mistaking, wanting, numbering, documenting, dtypes)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_gate_type(PyObject* module) {
  str_override = PyUnicode_InternFromString("__torch_function__");
  PyObject* type = PyType_FromSpec(&gate_spec);
  if (!str_override || !type || PyModule_AddObjectRef(module, "Gate", type) < 0 ||
      PyModule_AddFunctions(module, functions) < 0)
    return false;
  no_override = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
  return no_override != nullptr;
}

}  // namespace tritorch
