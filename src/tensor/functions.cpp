// The functions on tensors: storages shared, places in memory, modes, what Python registers.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compilation/region.h"
#include "plans/trace.h"
#include "ref.h"
#include "tensor/fields.h"

namespace tritorch {
namespace {

// The tensor, computed if it was deferred; null, with or without a Python error, if it is none.
Tensor* computed(PyObject* object) {
  Tensor* t = as_tensor(object);
  return t && is_deferred(t) && !force(t) ? nullptr : t;
}

PyObject* refuse(const char* usage) {
  return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_TypeError, usage);
}

PyObject* wrap(PyObject*, PyObject* array) {
  auto* made = reinterpret_cast<PyObject*>(new_tensor(array));
  plans::told_wrapped(array, made);
  return made;
}

// alias(input, array=None) -> a tensor on the same storage, without history
PyObject* alias(PyObject*, PyObject* const* args, Py_ssize_t n) {
  Tensor* input = n >= 1 ? computed(args[0]) : nullptr;
  if (!input) return refuse("alias(tensor, array=None)");
  PyObject* array = n > 1 ? args[1] : array_of(input);
  PyObject* made = make_alias(input, array);
  plans::told_alias(args[0], array, made);
  return made;
}

// restride(array, strides) -> whether an array could be given these strides, in elements
PyObject* restride_array(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2 || !PyTuple_Check(args[1]))
    return PyErr_Format(PyExc_TypeError, "restride(array, strides)");
  std::vector<std::int64_t> strides;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i)
    strides.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(args[1], i)));
  if (PyErr_Occurred()) return nullptr;
  const bool done = restride(args[0], strides);
  return PyErr_Occurred() ? nullptr : PyBool_FromLong(done);
}

// place(placing, out, *inputs) -> out, a new tensor, its elements moved to where `placing` says
PyObject* place_tensor(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return PyErr_Format(PyExc_TypeError, "place(placing, out, *inputs)");
  Tensor* out = as_tensor(args[1]);
  if (!out) return Py_NewRef(args[1]);
  const long placing = PyLong_AsLong(args[0]);
  if (PyErr_Occurred()) return nullptr;
  std::vector<PyObject*> arrays;
  for (Py_ssize_t i = 2; i < n; ++i) {
    Tensor* t = as_tensor(args[i]);
    arrays.push_back(t ? t->array : nullptr);
    if (t == out || (t && t->array == out->array)) return Py_NewRef(args[1]);
  }
  if (!out->array || is_set(out->base)) return Py_NewRef(args[1]);
  Ref moved(
      place_result(static_cast<Placing>(placing), out->array, {arrays.data(), arrays.size()}));
  if (!moved) return nullptr;
  if (moved.get() != out->array && out->shared) {
    Shared* apart = new_shared(moved.get());
    if (!apart) return nullptr;
    apart->version = out->shared->version;
    Py_SETREF(out->shared, apart);
  }
  Py_SETREF(out->array, moved.release());
  return Py_NewRef(args[1]);
}

// swap(a, b): each has what the other had: memory, history, gradient; who holds them is not asked.
PyObject* swap_tensors(PyObject*, PyObject* const* args, Py_ssize_t n) {
  Tensor* a = n == 2 ? computed(args[0]) : nullptr;
  Tensor* b = n == 2 ? computed(args[1]) : nullptr;
  if (!a || !b) return refuse("expected two tensors");
  if (!flushed()) return nullptr;
  std::swap(a->array, b->array);
  std::swap(a->shadow, b->shadow);
  std::swap(a->node, b->node);
  std::swap(a->grad, b->grad);
  std::swap(a->shared, b->shared);
  std::swap(a->base, b->base);
  std::swap(a->view, b->view);
  std::swap(a->created, b->created);
  std::swap(a->tangent, b->tangent);
  std::swap(a->hooks, b->hooks);
  std::swap(a->epoch, b->epoch);
  std::swap(a->output, b->output);
  std::swap(a->leaf, b->leaf);
  std::swap(a->inference, b->inference);
  std::swap(a->retains_grad, b->retains_grad);
  Py_RETURN_NONE;
}

PyObject* bump_version(PyObject*, PyObject* object) {
  Tensor* t = computed(object);
  if (!t) return refuse("expected a tensor");
  if (!t->shared && !(t->shared = new_shared(array_of(t)))) return nullptr;
  ++t->shared->version;
  plans::told_written(object);
  Py_RETURN_NONE;
}

// The number in an array of one; null without an error if there is no such number.
PyObject* number_in(const NDArray* array) {
  if (array->kind() != 'f' || array->size() != 1) return nullptr;
  PyObject* item = PyObject_CallMethod(reinterpret_cast<PyObject*>(const_cast<NDArray*>(array)),
                                       "item", nullptr);
  if (!item) PyErr_Clear();
  return item;
}

// host_row(p, grad, state, names, scalars, grad_written): of a parameter whose arrays are NumPy's,
// real, dense and of one shape: its count's numbers, (parameter, gradient, *state), and the counts'
// arrays; state without a name is None.  All that is written has a new version then.  None if the
// arrays are otherwise.
PyObject* host_row(PyObject*, PyObject* const* args, Py_ssize_t n) {
  constexpr Py_ssize_t kMost = 12;
  if (n != 6 || !PyDict_CheckExact(args[2]) || !PyList_CheckExact(args[3]) ||
      !PyTuple_CheckExact(args[4]))
    return refuse("host_row() takes a parameter, its gradient, a dict, a list and a tuple");
  const Py_ssize_t kept = PyList_GET_SIZE(args[3]) + 2, counted = PyTuple_GET_SIZE(args[4]);
  if (kept + counted > kMost) Py_RETURN_NONE;
  Tensor* tensors[kMost] = {};
  for (Py_ssize_t i = 0; i < kept + counted; ++i) {
    PyObject* tensor = i < 2 ? args[i] : nullptr;
    if (!tensor) {
      PyObject* name =
          i < kept ? PyList_GET_ITEM(args[3], i - 2) : PyTuple_GET_ITEM(args[4], i - kept);
      if (PyUnicode_GET_LENGTH(name) == 0) continue;
      tensor = PyDict_GetItemWithError(args[2], name);
    }
    Tensor* t = tensor ? as_tensor(tensor) : nullptr;
    NDArray* array = t && is_set(t->array) ? as_ndarray(t->array) : nullptr;
    if (!array) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
    if (i < kept) {
      const NDArray* first = i ? as_ndarray(tensors[0]->array) : array;
      if (!array->is_contiguous() || array->kind() == 'c' ||
          !std::ranges::equal(array->shape(), first->shape()))
        Py_RETURN_NONE;
    }
    tensors[i] = t;
  }
  const Ref numbers(PyTuple_New(counted)), row(PyList_New(kept)), counts(PyList_New(counted));
  bool good = numbers && row && counts, plain = true;
  for (Py_ssize_t i = 0; good && plain && i < counted; ++i) {
    PyObject* array = tensors[kept + i]->array;
    PyObject* number = number_in(as_ndarray(array));
    PyList_SET_ITEM(counts.get(), i, Py_NewRef(array));
    if (number)
      PyTuple_SET_ITEM(numbers.get(), i, number);
    else
      plain = false;
  }
  for (Py_ssize_t i = 0; good && plain && i < kept; ++i)
    PyList_SET_ITEM(row.get(), i, Py_NewRef(tensors[i] ? tensors[i]->array : Py_None));
  for (Py_ssize_t i = 0; good && plain && i < kept + counted; ++i) {
    Tensor* t = tensors[i];
    if (!t || (i == 1 && args[5] != Py_True)) continue;
    good = t->shared || (t->shared = new_shared(t->array));
    if (good) ++t->shared->version;
  }
  if (!good) return nullptr;
  if (!plain) Py_RETURN_NONE;
  return PyTuple_Pack(3, numbers.get(), row.get(), counts.get());
}

// is_writable(tensor, *sources): whether a write needs no further look: no gradient is wanted,
// nobody is lent the memory, and it is no inference tensor outside of its mode
PyObject* is_writable(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (!flushed()) return nullptr;  // deferred calls may read the memory
  Tensor* first = n ? as_tensor(args[0]) : nullptr;
  if (!first || (first->inference == 1 && !modes.inference_mode) ||
      (first->shared && is_set(first->shared->lent)))
    Py_RETURN_FALSE;
  for (Py_ssize_t i = 0; modes.grad_enabled && i < n; ++i) {
    Tensor* t = as_tensor(args[i]);
    if (t && (t->leaf || is_set(t->node) || is_set(t->base))) {
      int needed = is_set(t->created) ? 1 : requires_grad(t);
      if (needed < 0) return nullptr;
      if (needed) Py_RETURN_FALSE;
    }
  }
  Py_RETURN_TRUE;
}

PyObject* any_requires_grad(PyObject*, PyObject* const* args, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(args[i]);
    int needed = t ? requires_grad(t) : 0;
    if (needed < 0) return nullptr;
    if (needed) Py_RETURN_TRUE;
  }
  Py_RETURN_FALSE;
}

// Of a divided node: edges_of(output), or edges_from((output, ...)).
Ref edges_by(Node* node, const char* method, const Ref& outputs) {
  if (!outputs) return Ref();
  return Ref(PyObject_CallMethod(reinterpret_cast<PyObject*>(node), method, "(O)", outputs.get()));
}

// shared_leaves(tensors) -> {id(leaf): edges}, for leaves that several edges of the graph behind
// the tensors lead to.
PyObject* shared_leaves(PyObject*, PyObject* tensors) {
  static unsigned long long walks = 0;
  const unsigned long long walk = ++walks;
  const Ref roots(PySequence_Fast(tensors, "expected a sequence of tensors"));
  if (!roots) return nullptr;
  std::vector<Node*> open;
  std::vector<std::pair<Node*, long>> open_parts;  // of divided nodes: an output
  std::map<Node*, std::set<long>> parts;
  std::unordered_map<PyObject*, long> edges;
  auto come = [&](PyObject* target, auto output) {
    if (as_tensor(target)) {
      ++edges[target];
    } else if (PyObject_TypeCheck(target, node_base_type)) {
      auto* node = reinterpret_cast<Node*>(target);
      if (node->divided) {
        const long nr = output();
        if (parts[node].insert(nr).second) open_parts.emplace_back(node, nr);
      } else if (node->mark != walk) {
        node->mark = walk;
        open.push_back(node);
      }
    }
  };
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(roots.get()); ++i) {
    PyObject* root = PySequence_Fast_GET_ITEM(roots.get(), i);
    Tensor* t = as_tensor(root);
    if (t) come(is_set(t->node) ? t->node : root, [&] { return static_cast<long>(t->output); });
  }
  bool good = true;
  while (good && (!open.empty() || !open_parts.empty())) {
    if (!open.empty()) {
      Node* node = open.back();
      open.pop_back();
      for (Py_ssize_t i = 0; is_set(node->edges) && i < PyTuple_GET_SIZE(node->edges); ++i)
        come(PyTuple_GET_ITEM(node->edges, i), [&] {
          return is_set(node->outputs) ? PyLong_AsLong(PyTuple_GET_ITEM(node->outputs, i)) : 0;
        });
    } else {
      const auto [node, nr] = open_parts.back();
      open_parts.pop_back();
      const Ref found = edges_by(node, "edges_of", Ref(PyLong_FromLong(nr)));
      good = static_cast<bool>(found);
      for (Py_ssize_t i = 0; good && i < PyList_GET_SIZE(found.get()); ++i) {
        PyObject* pair = PyList_GET_ITEM(found.get(), i);  // (where to, which output of that)
        PyObject* edge = PyTuple_GET_ITEM(pair, 0);
        if (!as_tensor(edge)) come(edge, [&] { return PyLong_AsLong(PyTuple_GET_ITEM(pair, 1)); });
      }
    }
  }
  for (const auto& [node, reached] : parts) {  // an edge counts once, however many outputs reach it
    if (!good) break;
    const Ref outputs(PyTuple_New(static_cast<Py_ssize_t>(reached.size())));
    Py_ssize_t i = 0;
    for (const long nr : reached)
      if (outputs) PyTuple_SET_ITEM(outputs.get(), i++, PyLong_FromLong(nr));
    const Ref found = edges_by(node, "edges_from", outputs);
    good = static_cast<bool>(found);
    for (i = 0; good && i < PyTuple_GET_SIZE(found.get()); ++i)
      if (PyObject* edge = PyTuple_GET_ITEM(found.get(), i); as_tensor(edge)) ++edges[edge];
  }
  Ref shared(good ? PyDict_New() : nullptr);
  for (const auto& [leaf, count] : edges) {
    if (!shared || count < 2) continue;
    const Ref key(PyLong_FromVoidPtr(leaf)), value(PyLong_FromLong(count));
    if (!key || !value || PyDict_SetItem(shared.get(), key.get(), value.get()) < 0) shared = Ref();
  }
  return shared.release();
}

PyObject* get_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(modes.grad_enabled); }
PyObject* get_inference(PyObject*, PyObject*) { return PyBool_FromLong(modes.inference_mode); }

PyObject* set_bool(bool* flag, PyObject* value) {
  int truth = PyObject_IsTrue(value);
  if (truth < 0) return nullptr;
  bool before = *flag;
  *flag = truth != 0;
  return PyBool_FromLong(before);
}

PyObject* set_grad_enabled(PyObject*, PyObject* value) {
  return set_bool(&modes.grad_enabled, value);
}

PyObject* set_inference(PyObject*, PyObject* value) {
  return set_bool(&modes.inference_mode, value);
}

PyObject* set_saving_hooks(PyObject*, PyObject* value) {
  return set_flushed([value] { return set_bool(&modes.saving_hooks, value); });
}

PyObject* set_tracing(PyObject*, PyObject* value) {
  return set_flushed([value] { return set_bool(&modes.tracing_calls, value); });
}

// name_type(type, name, final): what errors call a class of Python; `__name__` stays the last part.
// A final one takes no subclasses from here on.
PyObject* name_type(PyObject*, PyObject* args) {
  PyTypeObject* type;
  const char* name;
  int final = 0;
  if (!PyArg_ParseTuple(args, "O!s|p", &PyType_Type, &type, &name, &final)) return nullptr;
  const std::size_t size = std::strlen(name) + 1;
  char* kept = static_cast<char*>(std::malloc(size));  // as long as the class: for ever
  if (!kept) return PyErr_NoMemory();
  type->tp_name = static_cast<const char*>(std::memcpy(kept, name, size));
  if (final) type->tp_flags &= ~Py_TPFLAGS_BASETYPE;
  PyType_Modified(type);
  Py_RETURN_NONE;
}

// register_part(name, object): what the native half calls or creates.
PyObject* register_part(PyObject*, PyObject* args) {
  const char* name;
  PyObject* object;
  if (!PyArg_ParseTuple(args, "sO", &name, &object)) return nullptr;
  struct {
    const char* name;
    PyObject** slot;
  } parts[] = {{"Size", &registered.size_type},
               {"ndarray", &ndarray_type},
               {"generic", &registered.generic_type},
               {"asarray", &registered.asarray},
               {"refresh_view", &registered.refresh_view},
               {"raise_modified", &registered.raise_modified},
               {"pack_saved", &registered.pack_saved},
               {"unpack_saved", &registered.unpack_saved},
               {"annotate_node", &registered.annotate_node},
               {"integral", &registered.integral},
               {"no_grad_view", &registered.no_grad_view},
               {"inference_view", &registered.inference_view},
               {"describe", &registered.describe},
               {"stream_probe", &registered.stream_probe},
               {"lay_out", &lay_out},
               {"dtype_map", &registered.dtype_map},
               {"classed", &registered.classed},
               {"dtype", &registered.dtype_type},
               {"Parameter", &registered.parameter},
               {"cpu_device", &registered.cpu_device},
               {"cuda_device", &registered.cuda_device},
               {"strided", &registered.strided},
               {"as_sizes", &registered.as_sizes},
               {"Tensor", reinterpret_cast<PyObject**>(&tensor_type)}};
  for (auto& part : parts) {
    if (std::string_view(part.name) != name) continue;
    Py_XSETREF(*part.slot, Py_NewRef(object));
    Py_RETURN_NONE;
  }
  return PyErr_Format(PyExc_KeyError, "no part is named '%s'", name);
}

// holds_nested(*objects): whether a tensor among them, or among items of theirs, is nested
PyObject* holds_nested(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return PyBool_FromLong(any_classed && holds_classed(args, n));
}

PyObject* serial(PyObject*, PyObject* tensor) {
  Tensor* t = as_tensor(tensor);
  if (!t) return PyErr_Format(PyExc_TypeError, "serial(tensor)");
  return PyLong_FromUnsignedLongLong(serial_of(t));
}

PyMethodDef functions[] = {
    {"wrap", wrap, METH_O, "A tensor of an array, without history."},
    {"alias", TRITORCH_FASTCALL(alias), "A tensor on the same storage, without history."},
    {"restride", TRITORCH_FASTCALL(restride_array),
     "Other strides where nothing is read through them."},
    {"place", TRITORCH_FASTCALL(place_tensor),
     "Moves a new tensor's elements to where they belong."},
    {"bump_version", bump_version, METH_O, "The tensor's memory was written."},
    {"serial", serial, METH_O, "What tells a tensor from any other that is or was."},
    {"host_row", TRITORCH_FASTCALL(host_row),
     "A parameter's arrays, as an optimizer's step has them."},
    {"any_requires_grad", TRITORCH_FASTCALL(any_requires_grad), nullptr},
    {"holds_nested", TRITORCH_FASTCALL(holds_nested), nullptr},
    {"reserve_sequence_numbers", reserve_sequence_numbers, METH_O,
     "Numbers that later nodes leave free."},
    {"shared_leaves", shared_leaves, METH_O, "Leaves that several edges lead to."},
    {"is_writable", TRITORCH_FASTCALL(is_writable), "Whether a write needs no further look."},
    {"is_grad_enabled", get_grad_enabled, METH_NOARGS, nullptr},
    {"set_grad_enabled", set_grad_enabled, METH_O, "Returns what it was."},
    {"is_inference_mode", get_inference, METH_NOARGS, nullptr},
    {"swap_tensors", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(swap_tensors)),
     METH_FASTCALL, "(a, b): each has what the other had."},
    {"set_inference_mode", set_inference, METH_O, "Returns what it was."},
    {"set_saving_hooks", set_saving_hooks, METH_O, "Returns what it was."},
    {"set_tracing_calls", set_tracing, METH_O, "Returns what it was."},
    {"name_type", name_type, METH_VARARGS, "(type, name, final): what errors call a class."},
    {"register_part", register_part, METH_VARARGS, "What the native half calls or creates."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* make_alias(Tensor* input, PyObject* array) {
  if (!input->shared && !(input->shared = new_shared(array_of(input)))) return nullptr;
  Tensor* out = new_tensor(array, true);
  if (!out) return nullptr;
  out->shared = reinterpret_cast<Shared*>(Py_NewRef(reinterpret_cast<PyObject*>(input->shared)));
  out->inference = input->inference && !modes.inference_mode ? 2 : input->inference;
  return reinterpret_cast<PyObject*>(out);
}

bool add_tensor_functions(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch
