// OperatorBase: how a backend's result becomes a tensor, and its call a node.
#include <algorithm>
#include <vector>

#include "array/array.h"
#include "compilation/region.h"
#include "plans/trace.h"
#include "profiling/python.h"
#include "ref.h"
#include "tensor/fields.h"
#include "tensor/quiet.h"

namespace tritorch {

PyTypeObject* operator_base_type = nullptr;

namespace {

using OperatorFields = Collected<Operator, &Operator::node_type>;

bool read_masks(PyObject* given, unsigned* masks) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given) && i < kInputs; ++i)
    masks[i] = static_cast<unsigned>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(given, i)));
  return !PyErr_Occurred();
}

// _define(saves, shapes, saves_out: tuples of masks, lends, keeps: masks, differentiable)
PyObject* operator_define(PyObject* self, PyObject* args) {
  auto* op = reinterpret_cast<Operator*>(self);
  PyObject *saves, *shapes, *saves_out;
  int differentiable;
  if (!PyArg_ParseTuple(args, "O!O!O!IIp", &PyTuple_Type, &saves, &PyTuple_Type, &shapes,
                        &PyTuple_Type, &saves_out, &op->lends, &op->keeps, &differentiable))
    return nullptr;
  op->differentiable = static_cast<char>(differentiable);
  if (!read_masks(saves, op->saves) || !read_masks(shapes, op->shapes) ||
      !read_masks(saves_out, op->saves_out))
    return nullptr;
  Py_RETURN_NONE;
}

[[gnu::noinline]] void note_call(Operator* op) {
  if (!op->profiled) {
    const std::uint32_t number = profiling::number_of_record(reinterpret_cast<PyObject*>(op));
    op->profiled = number == profiling::kUnnamed ? number : number + 1;
  }
  if (op->profiled != profiling::kUnnamed) profiling::note_record(op->profiled - 1);
}

}  // namespace

PyObject* make_one(Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                   PyObject* params, bool is_view) {
  if (profiling::enabled) [[unlikely]]
    note_call(op);
  Wanted wanted;
  if (!find_wanted(op, inputs, n, &wanted)) return nullptr;
  Tensor* out = new_tensor(array, is_view);
  Ref result(reinterpret_cast<PyObject*>(out));
  if (!out || !wanted.any) return result.release();
  const int flows = has_gradients(array);
  if (flows <= 0) return flows < 0 ? nullptr : result.release();
  Node* node = new_node(op, inputs, n, params, wanted);
  const Ref kept(reinterpret_cast<PyObject*>(node));
  const bool good = node && attach(out, node) && (!wanted.saves_out || save_output(out, node)) &&
                    complete_node(node, out->array);
  return good ? result.release() : nullptr;
}

PyObject* make_view(Operator* op, PyObject* array, PyObject* params, PyObject* of) {
  auto* input = reinterpret_cast<Tensor*>(of);
  Ref result(make_one(op, array, &of, 1, params, true));
  if (!result) return nullptr;
  auto* out = result.as<Tensor>();
  if (!input->shared && !(input->shared = new_shared(array_of(input)))) return nullptr;
  auto* shared = reinterpret_cast<PyObject*>(input->shared);
  Py_XSETREF(out->shared, reinterpret_cast<Shared*>(Py_NewRef(shared)));
  out->base = Py_NewRef(is_set(input->base) ? input->base : of);
  out->epoch = out->shared->version;
  out->inference = input->inference != 0;
  PyObject* created = is_set(input->created) ? input->created
                      : modes.inference_mode ? registered.inference_view
                      : modes.grad_enabled   ? nullptr
                                             : registered.no_grad_view;
  out->created = Py_XNewRef(created);
  out->view =
      PyTuple_Pack(3, reinterpret_cast<PyObject*>(op), params, input->view ? input->view : Py_None);
  return out->view ? result.release() : nullptr;
}

PyObject* make_many(Operator* op, PyObject* arrays, unsigned long mask, PyObject* params,
                    PyObject* const* inputs, Py_ssize_t n) {
  const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
  if (profiling::enabled) [[unlikely]]
    note_call(op);
  Wanted wanted;
  if (!find_wanted(op, inputs, n, &wanted)) return nullptr;
  Node* node = nullptr;
  Ref outs(PyTuple_New(count));
  if (!outs) return nullptr;
  if (wanted.any && !(node = new_node(op, inputs, n, params, wanted))) return nullptr;
  const Ref kept(reinterpret_cast<PyObject*>(node));
  bool good = true;
  if (node) {
    node->n_outputs = static_cast<int>(count);
    node->shape = PyTuple_New(count);
    node->dtype = PyTuple_New(count);
    node->flows = mask;
    good = node->shape && node->dtype;
  }
  PyObject* first = nullptr;
  for (Py_ssize_t i = 0; good && i < count; ++i) {
    PyObject* array = PyTuple_GET_ITEM(arrays, i);
    if (array == Py_None) {
      PyTuple_SET_ITEM(outs.get(), i, Py_NewRef(Py_None));
      if (node) {
        PyTuple_SET_ITEM(node->shape, i, Py_NewRef(Py_None));
        PyTuple_SET_ITEM(node->dtype, i, Py_NewRef(Py_None));
      }
      continue;
    }
    Tensor* out = new_tensor(array);
    if (!(good = out != nullptr)) break;
    PyTuple_SET_ITEM(outs.get(), i, reinterpret_cast<PyObject*>(out));
    if (!node) continue;
    if (!first) first = out->array;
    PyObject* shape = PyObject_GetAttr(out->array, names.shape);
    PyObject* dtype = PyObject_GetAttr(out->array, names.dtype);
    if (shape) PyTuple_SET_ITEM(node->shape, i, shape);
    if (dtype) PyTuple_SET_ITEM(node->dtype, i, dtype);
    good = shape && dtype;
    const int flows = good && ((mask >> (i < 63 ? i : 63)) & 1) ? has_gradients(out->array) : 0;
    good &= flows >= 0;
    if (flows > 0) {
      out->node = Py_NewRef(reinterpret_cast<PyObject*>(node));
      out->output = static_cast<int>(i);
    }
  }
  if (good && node && wanted.saves_out) good = save_outputs(outs.get(), wanted.saves_out, node);
  if (good && node) good = complete_node(node, first ? first : arrays);
  return good ? outs.release() : nullptr;
}

namespace {

// A result where its operator says that it lies: the array itself, or a copy with other strides.
// computed: the dtype that operands are cast to, or null.
PyObject* laid_out(const Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                   PyObject* computed = nullptr) {
  constexpr Py_ssize_t most = 8;
  PyObject* few[most];
  std::vector<PyObject*> many(static_cast<std::size_t>(n > most ? n : 0));
  PyObject** arrays = n > most ? many.data() : few;
  Inputs given{arrays, 0, false, computed, static_cast<std::size_t>(op->masks), op->deciding};
  for (Py_ssize_t i = 0; i < n; ++i) {
    Tensor* t = as_tensor(inputs[i]);
    if (!t && op->placing == Placing::elementwise)
      given.numbers |= !((op->apart >> (i < 31 ? i : 31)) & 1);
    else
      arrays[given.n++] = t ? t->array : nullptr;
  }
  return place_result(op->placing, array, given);
}

// Whether a Python number among operands is an integer that no integer type holds.
bool any_too_large(PyObject* const* inputs, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!PyLong_CheckExact(inputs[i])) continue;
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(inputs[i], &overflow);
    if (overflow == 0) continue;
    if (overflow > 0) PyLong_AsUnsignedLongLong(inputs[i]);
    if (overflow < 0 || PyErr_Occurred()) {
      PyErr_SetString(PyExc_OverflowError, "int too big to convert");
      return true;
    }
  }
  return false;
}

PyObject* finish_laid_out(PyObject* self, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                          PyObject* params, PyObject* computed = nullptr) {
  auto* op = reinterpret_cast<Operator*>(self);
  if (op->placing == Placing::elementwise && any_too_large(inputs, n)) return nullptr;
  const Ref moved(op->placing == Placing::own ? Py_NewRef(array)
                                              : laid_out(op, array, inputs, n, computed));
  if (!moved) return nullptr;
  return plans::told_one(op, inputs, n, params, array, computed,
                         make_one(op, moved.get(), inputs, n, params, false), plans::Made::one);
}

// finish(array, *inputs) -> Tensor
PyObject* operator_finish(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return PyErr_Format(PyExc_TypeError, "finish(array, *inputs)");
  return finish_laid_out(self, args[0], args + 1, n - 1, nullptr);
}

// apply(function, *arguments, *inputs) -> Tensor: finish(function(*arguments), *inputs), as many
// arguments as inputs, NumPy's floating point errors ignored
PyObject* operator_apply(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const Py_ssize_t count = n / 2;
  if (n % 2 == 0) return PyErr_Format(PyExc_TypeError, "apply(function, *arguments, *inputs)");
  const Ref array(call_quietly(args[0], args + 1, static_cast<size_t>(count), nullptr));
  return array ? finish_laid_out(self, array.get(), args + 1 + count, count, nullptr) : nullptr;
}

// Whether a ufunc computes with operands as PyTorch does, as far as their dtypes do not say it:
// ndarrays that broadcast, and numbers that the arrays' type holds.
bool are_computable(PyObject* const* operands, Py_ssize_t n) {
  const NDArray* first = nullptr;
  for (Py_ssize_t i = 0; i < n; ++i)
    if ((first = as_ndarray(operands[i]))) break;
  if (!first) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (const NDArray* array = as_ndarray(operands[i])) {
      for (int k = 1; k <= std::min(first->nd, array->nd); ++k) {
        const Py_ssize_t one = first->dimensions[first->nd - k];
        const Py_ssize_t other = array->dimensions[array->nd - k];
        if (one != other && one != 1 && other != 1) return false;
      }
    } else if (PyLong_CheckExact(operands[i])) {
      if (!first->dtype()->holds(operands[i])) return false;
    } else if (!PyFloat_CheckExact(operands[i]) && !PyBool_Check(operands[i]) &&
               !PyComplex_CheckExact(operands[i])) {
      return false;
    }
  }
  return true;
}

// computable(*operands) -> whether a ufunc computes with them as PyTorch does
PyObject* operator_computable(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return PyBool_FromLong(are_computable(args, n));
}

// finish_cast(array, dtype, *inputs) -> Tensor: finish for inputs that PyTorch casts to the dtype
PyObject* operator_finish_cast(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return PyErr_Format(PyExc_TypeError, "finish_cast(array, dtype, *inputs)");
  return finish_laid_out(self, args[0], args + 2, n - 2, nullptr, args[1]);
}

// finish_with(array, params, *inputs) -> Tensor
PyObject* operator_finish_with(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return PyErr_Format(PyExc_TypeError, "finish_with(array, params, *inputs)");
  return finish_laid_out(self, args[0], args + 2, n - 2, args[1]);
}

// finish_view(array, params, input) -> a Tensor that shares input's storage
PyObject* operator_finish_view(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  Tensor* input = n == 3 ? as_tensor(args[2]) : nullptr;
  if (!input) return PyErr_Format(PyExc_TypeError, "finish_view(array, params, input)");
  auto* op = reinterpret_cast<Operator*>(self);
  if (!place_view(op->placing, args[0], array_of(input), args[1])) return nullptr;
  return plans::told_one(op, args + 2, 1, args[1], args[0], nullptr,
                         make_view(op, args[0], args[1], args[2]), plans::Made::view);
}

// view_batch(function, array, params) -> an ndarray of the views that function(example, *params)
// gives of an array's examples, which its first dim counts: the first one's, with that dim in
// front. None where that is not known.
PyObject* operator_view_batch(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  constexpr Py_ssize_t most = 8;
  if (n != 3 || !PyTuple_Check(args[2]))
    return PyErr_Format(PyExc_TypeError, "view_batch(function, array, params)");
  const NDArray* batch = as_ndarray(args[1]);
  const Py_ssize_t count = PyTuple_GET_SIZE(args[2]);
  if (!batch || batch->nd == 0 || batch->dimensions[0] == 0 || count > most) Py_RETURN_NONE;
  const Ref first(
      view_of(args[1], batch->nd - 1, batch->dimensions + 1, batch->strides + 1, batch->data));
  if (!first) return nullptr;
  PyObject* arguments[most + 1] = {first.get()};
  for (Py_ssize_t i = 0; i < count; ++i) arguments[i + 1] = PyTuple_GET_ITEM(args[2], i);
  const Ref found(
      PyObject_Vectorcall(args[0], arguments, static_cast<std::size_t>(count + 1), nullptr));
  if (!found ||
      !place_view(reinterpret_cast<Operator*>(self)->placing, found.get(), first.get(), args[2]))
    return nullptr;
  const NDArray* view = as_ndarray(found.get());
  if (!view || view->nd >= Layout::kMaxDims) Py_RETURN_NONE;
  Py_ssize_t shape[Layout::kMaxDims] = {batch->dimensions[0]};
  Py_ssize_t strides[Layout::kMaxDims] = {batch->strides[0]};
  std::copy_n(view->dimensions, view->nd, shape + 1);
  std::copy_n(view->strides, view->nd, strides + 1);
  return view_of(found.get(), view->nd + 1, shape, strides, view->data, view->descr);
}

// place(array, computed, *inputs) -> the array, or a copy, where the record's result lies; inputs
// are arrays, numbers or None.  computed: the dtype that they are cast to, or None.
PyObject* operator_place(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 2) return PyErr_Format(PyExc_TypeError, "place(array, computed, *inputs)");
  auto* op = reinterpret_cast<Operator*>(self);
  std::vector<PyObject*> arrays;
  Inputs given{nullptr,
               0,
               false,
               args[1] == Py_None ? nullptr : args[1],
               static_cast<std::size_t>(op->masks),
               op->deciding};
  for (Py_ssize_t i = 2; i < n; ++i) {
    const bool number = PyNumber_Check(args[i]) && !PyObject_HasAttr(args[i], names.ndim);
    if (number && op->placing == Placing::elementwise)
      given.numbers |= !((op->apart >> (i - 2 < 31 ? i - 2 : 31)) & 1);
    else
      arrays.push_back(args[i] == Py_None || number ? nullptr : args[i]);
  }
  given.arrays = arrays.data();
  given.n = arrays.size();
  return op->placing == Placing::own ? Py_NewRef(args[0])
                                     : place_result(op->placing, args[0], given);
}

// place_view(array, params, source) -> the array, a new view of source, with PyTorch's strides
PyObject* operator_place_view(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n != 3) return PyErr_Format(PyExc_TypeError, "place_view(array, params, source)");
  if (!place_view(reinterpret_cast<Operator*>(self)->placing, args[0], args[2], args[1]))
    return nullptr;
  return Py_NewRef(args[0]);
}

// Whether a tensor is among arguments or items of theirs, or the base of one.
bool reaches(PyObject* const* args, Py_ssize_t n, const PyObject* base) {
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (args[i] == base) return true;
    if (Tensor* t = as_tensor(args[i])) {
      if (t->base == base) return true;
    } else if (PyTuple_Check(args[i]) || PyList_Check(args[i])) {
      if (reaches(PySequence_Fast_ITEMS(args[i]), PySequence_Fast_GET_SIZE(args[i]), base))
        return true;
    }
  }
  return false;
}

void own_result(PyObject* result, PyObject* const* args, Py_ssize_t n) {
  if (Py_TYPE(result) != tensor_type) return;
  auto* t = reinterpret_cast<Tensor*>(result);
  if (!is_set(t->base) || reaches(args, n, t->base)) return;
  Py_CLEAR(t->base);
  Py_CLEAR(t->view);
  Py_CLEAR(t->created);
}

// finish_many(arrays, differentiable, params, *inputs) -> tuple of Tensors.
// differentiable: bit i says whether gradients flow through output i.
PyObject* operator_finish_many(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (n < 3 || !PyTuple_Check(args[0]))
    return PyErr_Format(PyExc_TypeError, "finish_many(arrays, mask, params, *inputs)");
  const unsigned long mask = PyLong_AsUnsignedLongMask(args[1]);
  if (PyErr_Occurred()) return nullptr;
  return finish_many(reinterpret_cast<Operator*>(self), args[0], mask, args[2], args + 3, n - 3);
}

// What the CPU's function gives for ndarrays and params; null with a Python error set.
PyObject* compute_on_host(PyObject* self, PyObject* const* arrays, Py_ssize_t n, PyObject* params) {
  constexpr Py_ssize_t most = 24;
  static PyObject* cpu = PyUnicode_InternFromString("cpu");
  const Ref function(PyObject_GetAttr(self, cpu));
  if (!function) return nullptr;
  const bool variadic = reinterpret_cast<Operator*>(self)->variadic;
  const Py_ssize_t leading = variadic ? 1 : n, count = leading + PyTuple_GET_SIZE(params);
  PyObject* few[most];
  std::vector<PyObject*> many(static_cast<std::size_t>(count > most ? count : 0));
  PyObject** all = count > most ? many.data() : few;
  Ref list;
  if (variadic) {
    list = Ref(PyList_New(n));
    for (Py_ssize_t i = 0; list && i < n; ++i) PyList_SET_ITEM(list.get(), i, Py_NewRef(arrays[i]));
    if (!list) return nullptr;
    all[0] = list.get();
  } else {
    std::copy_n(arrays, n, all);
  }
  for (Py_ssize_t i = leading; i < count; ++i) all[i] = PyTuple_GET_ITEM(params, i - leading);
  return PyObject_Vectorcall(function.get(), all, static_cast<std::size_t>(count), nullptr);
}

// call_on_host(tensors, params) -> the call on tensors of plain ndarrays, or None for others
PyObject* operator_call_on_host(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  constexpr Py_ssize_t most = 16;
  if (n != 2 || !PyTuple_Check(args[1]))
    return PyErr_Format(PyExc_TypeError, "call_on_host(tensors, params)");
  const bool listed = PyTuple_Check(args[0]) || PyList_Check(args[0]);
  const Py_ssize_t count = listed ? PySequence_Fast_GET_SIZE(args[0]) : most;
  if (count >= most || count == 0) Py_RETURN_NONE;
  PyObject *arrays[most], *all[most + 2];
  Ref inputs[most];
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* input = PySequence_Fast_ITEMS(args[0])[i];
    inputs[i] = Ref::to(input);
    if (input == Py_None) {
      arrays[i] = input;
      continue;
    }
    Tensor* tensor = as_tensor(input);
    if (!tensor || !plain_array(tensor)) Py_RETURN_NONE;
    arrays[i] = tensor->array;
  }
  auto* op = reinterpret_cast<Operator*>(self);
  const Ref result(compute_on_host(self, arrays, count, args[1]));
  if (!result) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) all[i + 2] = inputs[i].get();
  if (PyTuple_CheckExact(result.get())) {
    PyObject* many[most + 3] = {result.get(), nullptr, args[1]};
    static PyObject* outputs = PyUnicode_InternFromString("outputs");
    const Ref flows(PyObject_GetAttr(self, outputs));
    if (!(many[1] = flows.get())) return nullptr;
    std::copy_n(all + 2, count, many + 3);
    return operator_finish_many(self, many, count + 3);
  }
  all[0] = result.get(), all[1] = args[1];
  return op->is_view ? operator_finish_view(self, all, 3)
                     : operator_finish_with(self, all, count + 2);
}

// record(out: Tensor, params, *inputs): an existing tensor becomes the output of this call (an
// in-place operator).  Returns the node, or None when nothing is recorded.
PyObject* operator_record(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  Tensor* out = n >= 2 ? as_tensor(args[0]) : nullptr;
  if (!out) return PyErr_Format(PyExc_TypeError, "record(out, params, *inputs)");
  auto* op = reinterpret_cast<Operator*>(self);
  Wanted wanted;
  if (!find_wanted(op, args + 2, n - 2, &wanted)) return nullptr;
  if (!wanted.any) Py_RETURN_NONE;
  Node* node = new_node(op, args + 2, n - 2, args[1], wanted);
  if (!node) return nullptr;
  Ref made(reinterpret_cast<PyObject*>(node));
  PyObject* array = array_of(out);
  node->shape = PyObject_GetAttr(array, names.shape);
  node->dtype = PyObject_GetAttr(array, names.dtype);
  const bool good = node->shape && node->dtype && (!wanted.saves_out || save_output(out, node)) &&
                    complete_node(node, array);
  plans::told_unfit("its write is recorded");
  return good ? made.release() : nullptr;
}

// wants(*inputs) -> whether a call on these would be recorded, or the first must be asked for
// before it is written
PyObject* operator_wants(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  if (!flushed()) return nullptr;  // deferred calls may read what is written then
  Wanted wanted;
  Tensor* first = n ? as_tensor(args[0]) : nullptr;
  if (first && first->shared && is_set(first->shared->lent)) Py_RETURN_TRUE;
  if (!find_wanted(reinterpret_cast<Operator*>(self), args, n, &wanted)) return nullptr;
  return PyBool_FromLong(wanted.any);
}

PyMethodDef operator_methods[] = {
    {"_define", operator_define, METH_VARARGS, nullptr},
    {"finish", TRITORCH_FASTCALL(operator_finish), nullptr},
    {"apply", TRITORCH_FASTCALL(operator_apply), nullptr},
    {"computable", TRITORCH_FASTCALL(operator_computable), nullptr},
    {"finish_cast", TRITORCH_FASTCALL(operator_finish_cast), nullptr},
    {"finish_with", TRITORCH_FASTCALL(operator_finish_with), nullptr},
    {"finish_view", TRITORCH_FASTCALL(operator_finish_view), nullptr},
    {"place", TRITORCH_FASTCALL(operator_place), nullptr},
    {"place_view", TRITORCH_FASTCALL(operator_place_view), nullptr},
    {"view_batch", TRITORCH_FASTCALL(operator_view_batch), nullptr},
    {"finish_many", TRITORCH_FASTCALL(operator_finish_many), nullptr},
    {"call_on_host", TRITORCH_FASTCALL(operator_call_on_host), nullptr},
    {"record", TRITORCH_FASTCALL(operator_record), nullptr},
    {"wants", TRITORCH_FASTCALL(operator_wants), nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef operator_members[] = {
    {"node_type", T_OBJECT, offsetof(Operator, node_type), READONLY, nullptr},
    {"differentiable", T_BOOL, offsetof(Operator, differentiable), 0, nullptr},
    {"describes", T_BOOL, offsetof(Operator, describes), 0, nullptr},
    {"keeps_numbers", T_BOOL, offsetof(Operator, keeps_numbers), 0, nullptr},
    {"is_view", T_BOOL, offsetof(Operator, is_view), 0, nullptr},
    {"variadic", T_BOOL, offsetof(Operator, variadic), 0, nullptr},
    {"placing", T_BYTE, offsetof(Operator, placing), 0, nullptr},
    {"deciding", T_UINT, offsetof(Operator, deciding), 0, nullptr},
    {"masks", T_BYTE, offsetof(Operator, masks), 0, nullptr},
    {"apart", T_UINT, offsetof(Operator, apart), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot operator_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
    {Py_tp_dealloc, reinterpret_cast<void*>(OperatorFields::dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(OperatorFields::traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(OperatorFields::clear)},
    {Py_tp_methods, operator_methods},
    {Py_tp_members, operator_members},
    {Py_tp_doc, const_cast<char*>("Turns backend results into tensors and records calls.")},
    {0, nullptr}};

}  // namespace

PyObject* finish_one(Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                     PyObject* params, PyObject* computed) {
  return finish_laid_out(reinterpret_cast<PyObject*>(op), array, inputs, n, params, computed);
}

PyObject* finish_many(Operator* op, PyObject* arrays, unsigned long mask, PyObject* params,
                      PyObject* const* inputs, Py_ssize_t n) {
  Ref placed = Ref::to(arrays);
  if (op->placing != Placing::own) {
    const Py_ssize_t count = PyTuple_GET_SIZE(arrays);
    placed = Ref(PyTuple_New(count));
    for (Py_ssize_t i = 0; placed && i < count; ++i) {
      PyObject* array = PyTuple_GET_ITEM(arrays, i);
      PyObject* moved = array == Py_None ? Py_NewRef(array) : laid_out(op, array, inputs, n);
      if (!moved) return nullptr;
      PyTuple_SET_ITEM(placed.get(), i, moved);
    }
    if (!placed) return nullptr;
  }
  return plans::told_many(op, inputs, n, params, mask, arrays,
                          make_many(op, placed.get(), mask, params, inputs, n));
}

PyType_Spec operator_spec = {"tritorch._C.OperatorBase", sizeof(Operator), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                             operator_slots};

PyObject* finish_computed(Operator* op, PyObject* array, PyObject* const* inputs, Py_ssize_t n,
                          PyObject* computed) {
  return finish_laid_out(reinterpret_cast<PyObject*>(op), array, inputs, n, nullptr, computed);
}

void own_results(PyObject* result, PyObject* const* args, Py_ssize_t n) {
  if (!PyTuple_Check(result)) return own_result(result, args, n);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i)
    own_result(PyTuple_GET_ITEM(result, i), args, n);
}

}  // namespace tritorch
