#include "compilation/program.h"

#include <structmember.h>

#include <algorithm>

#include "array/array.h"
#include "compilation/replay.h"
#include "compilation/state.h"
#include "launch/pack.h"

namespace tritorch {

PyTypeObject* program_type = nullptr;

namespace {

// A value that is computed of a region's numbers: a size, a shape, a factor.
struct Computed {
  int value;
  Pattern pattern;
};

struct Given {
  int slot, value;
};
struct Output {
  int slot, value;
  long long version;
  int inference;  // whether it was made in inference mode
};
struct Written {
  int slot;
  long long times;
};

struct Body {
  int size = 0;
  std::vector<Given> inputs;
  std::vector<Call> calls;
  std::vector<Output> outputs;
  std::vector<Written> written;
  std::vector<Computed> numbers;
  Ref finish;
  std::size_t most = 0;  // arguments of a call
  std::unique_ptr<Replays> replays;
};

struct Program {
  PyObject_HEAD Body* body;
};

bool read_numbers(PyObject* tuple, std::vector<int>& numbers) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i)
    numbers.push_back(static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(tuple, i))));
  return !PyErr_Occurred();
}

bool read_call(PyObject* item, Body& body) {
  PyObject *function, *constants, *values, *results, *dropped, *expected = nullptr,
                                                               *fallback = Py_None;
  if (!PyArg_ParseTuple(item, "OO!O!O!O!|O!O", &function, &PyTuple_Type, &constants, &PyTuple_Type,
                        &values, &PyTuple_Type, &results, &PyTuple_Type, &dropped, &PyTuple_Type,
                        &expected, &fallback))
    return false;
  Call call;
  for (Py_ssize_t i = 0; expected && i < PyTuple_GET_SIZE(expected); ++i) {
    PyObject* layout = PyTuple_GET_ITEM(expected, i);
    call.expected.push_back(layout == Py_None ? nullptr : std::make_unique<DynamicLayout>());
    if (layout != Py_None && !call.expected.back()->read(layout)) return false;
  }
  if (expected && fallback != Py_None) call.fallback = Ref::to(fallback);
  call.function = Ref::to(function);
  if (!read_numbers(values, call.values) || !read_numbers(results, call.results) ||
      !read_numbers(dropped, call.dropped))
    return false;
  for (std::size_t i = 0; i < call.values.size(); ++i)
    call.constants.push_back(call.values[i] < 0
                                 ? Ref::to(PyTuple_GET_ITEM(constants, static_cast<Py_ssize_t>(i)))
                                 : Ref());
  body.most = std::max(body.most, call.values.size());
  body.calls.push_back(std::move(call));
  return true;
}

bool read_computed(PyObject* item, Body& body) {
  PyObject* structure;
  std::vector<Number> none;
  Met met{0, 0, none};
  Computed& computed = body.numbers.emplace_back();
  if (!PyArg_ParseTuple(item, "iO", &computed.value, &structure)) return false;
  if (make_pattern(structure, met, computed.pattern)) return true;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected numbers");
  return false;
}

// Program(size, inputs, calls, outputs, written, finish, numbers)
PyObject* program_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *inputs, *calls, *outputs, *written, *finish, *numbers;
  int size;
  if (!PyArg_ParseTuple(args, "iO!O!O!O!OO!", &size, &PyTuple_Type, &inputs, &PyTuple_Type, &calls,
                        &PyTuple_Type, &outputs, &PyTuple_Type, &written, &finish, &PyTuple_Type,
                        &numbers))
    return nullptr;
  Ref made(type->tp_alloc(type, 0));
  auto* self = made.as<Program>();
  if (!self) return nullptr;
  self->body = new Body;
  Body& body = *self->body;
  body.size = size;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(inputs); ++i) {
    Given given;
    good = PyArg_ParseTuple(PyTuple_GET_ITEM(inputs, i), "ii", &given.slot, &given.value);
    body.inputs.push_back(given);
  }
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(calls); ++i)
    good = read_call(PyTuple_GET_ITEM(calls, i), body);
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(outputs); ++i) {
    Output output;
    good = PyArg_ParseTuple(PyTuple_GET_ITEM(outputs, i), "iiLi", &output.slot, &output.value,
                            &output.version, &output.inference);
    body.outputs.push_back(output);
  }
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(written); ++i) {
    Written each;
    good = PyArg_ParseTuple(PyTuple_GET_ITEM(written, i), "iL", &each.slot, &each.times);
    body.written.push_back(each);
  }
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(numbers); ++i)
    good = read_computed(PyTuple_GET_ITEM(numbers, i), body);
  if (finish != Py_None) body.finish = Ref::to(finish);
  return good ? made.release() : nullptr;
}

void program_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<Program*>(self)->body;
  type->tp_free(self);
  Py_DECREF(type);
}

int program_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const Body* body = reinterpret_cast<Program*>(self)->body;
  if (!body) return 0;
  for (const Call& call : body->calls) {
    Py_VISIT(call.function.get());
    Py_VISIT(call.fallback.get());
    for (const Ref& constant : call.constants) Py_VISIT(constant.get());
  }
  Py_VISIT(body->finish.get());
  return 0;
}

bool lies_so(PyObject* array, const DynamicLayout& layout, const std::vector<Number>& numbers) {
  std::vector<std::int64_t> sizes, steps;
  if (!layout.compute(numbers, sizes, steps)) return false;
  if (const NDArray* a = as_ndarray(array)) {
    const Ref size(PyObject_GetAttrString(a->descr, "itemsize"));
    const std::int64_t unit = size ? PyLong_AsLongLong(size.get()) : -1;
    if (unit < 0) return false;
    for (std::int64_t& step : steps) step *= unit;
    return std::ranges::equal(sizes, a->shape()) && std::ranges::equal(steps, a->steps());
  }
  const Array* d = as_array(array);
  return d && std::ranges::equal(sizes, d->layout.shape()) &&
         std::ranges::equal(steps, d->layout.strides());
}

bool lies_as_expected(const Call& call, PyObject* result, const std::vector<Number>& numbers) {
  const bool several = call.results.size() > 1;
  if (several && (!PyTuple_Check(result) ||
                  PyTuple_GET_SIZE(result) != static_cast<Py_ssize_t>(call.results.size())))
    return false;
  for (std::size_t i = 0; i < call.expected.size(); ++i) {
    PyObject* item = several ? PyTuple_GET_ITEM(result, static_cast<Py_ssize_t>(i)) : result;
    if (call.expected[i] && !lies_so(item, *call.expected[i], numbers)) return false;
  }
  return true;
}

}  // namespace

bool make_call(const Call& call, std::vector<Ref>& values, const std::vector<Number>& numbers,
               PyObject** args) {
  const std::size_t n = call.values.size();
  for (std::size_t i = 0; i < n; ++i) {
    args[i] = call.values[i] < 0 ? call.constants[i].get()
                                 : values[static_cast<std::size_t>(call.values[i])].get();
    if (!args[i]) {
      PyErr_Format(PyExc_SystemError, "argument %zu of %R is value %d, which no call has given", i,
                   call.function.get(), call.values[i]);
      return false;
    }
  }
  Ref result(PyObject_Vectorcall(call.function.get(), args, n, nullptr));
  if (!result) return false;
  if (call.fallback && !lies_as_expected(call, result.get(), numbers)) {
    result = Ref(PyObject_Vectorcall(call.fallback.get(), args, n, nullptr));
    if (!result) return false;
  }
  if (call.results.size() == 1) {
    if (call.results[0] >= 0) {
      PyTypeObject* type = Py_TYPE(result.get());
      if (type != reinterpret_cast<PyTypeObject*>(ndarray_type) &&
          PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(registered.generic_type)))
        result = Ref(PyObject_CallOneArg(registered.asarray, result.get()));
      if (!result) return false;
      values[static_cast<std::size_t>(call.results[0])] = std::move(result);
    }
  } else if (!call.results.empty()) {
    if (!PyTuple_Check(result.get()) ||
        PyTuple_GET_SIZE(result.get()) != static_cast<Py_ssize_t>(call.results.size())) {
      PyErr_SetString(PyExc_SystemError, "a program's function gave another number of results");
      return false;
    }
    for (std::size_t i = 0; i < call.results.size(); ++i)
      if (call.results[i] >= 0)
        values[static_cast<std::size_t>(call.results[i])] =
            Ref::to(PyTuple_GET_ITEM(result.get(), static_cast<Py_ssize_t>(i)));
  }
  return true;
}

namespace {

bool make_calls(const Body& body, std::vector<Ref>& values, const std::vector<Number>& numbers) {
  for (const Computed& each : body.numbers) {
    Ref& value = values[static_cast<std::size_t>(each.value)];
    if (value) continue;  // it was given
    value = Ref(build(each.pattern, values, numbers));
    if (!value) return false;
  }
  if (body.replays)
    if (Replay* replay = body.replays->find(numbers)) return replay->compute(values, numbers);
  PyObject* few[16];
  std::vector<PyObject*> many(body.most > 16 ? body.most : 0);
  PyObject** args = body.most > 16 ? many.data() : few;
  for (const Call& call : body.calls) {
    if (!make_call(call, values, numbers, args)) return false;
    let_go(call, values);
  }
  return true;
}

PyObject* as_list(const std::vector<Ref>& values) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(values.size()));
  for (std::size_t i = 0; list && i < values.size(); ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i),
                    Py_NewRef(values[i] ? values[i].get() : Py_None));
  return list;
}

// run(numbers, *arrays) -> the values at the end, a list: a program without slots; its inputs are
// the first values.
PyObject* program_run(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const Body& body = *reinterpret_cast<Program*>(self)->body;
  if (n < 1 || !PyTuple_Check(args[0]))
    return PyErr_Format(PyExc_TypeError, "run(numbers, *arrays)");
  std::vector<Number> numbers(static_cast<std::size_t>(PyTuple_GET_SIZE(args[0])));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    read_number(PyTuple_GET_ITEM(args[0], static_cast<Py_ssize_t>(i)), numbers[i]);
  std::vector<Ref> values(static_cast<std::size_t>(body.size));
  for (Py_ssize_t i = 1; i < n && i <= body.size; ++i)
    values[static_cast<std::size_t>(i - 1)] = Ref::to(args[i]);
  if (!make_calls(body, values, numbers)) return nullptr;
  return as_list(values);
}

// as_graph(tell, most_changed): from now on it is recorded, and replayed as CUDA graphs.
PyObject* program_as_graph(PyObject* self, PyObject* args) {
  Body& body = *reinterpret_cast<Program*>(self)->body;
  PyObject* tell;
  double most_changed;
  if (!PyArg_ParseTuple(args, "Od", &tell, &most_changed)) return nullptr;
  bool dynamic = !body.numbers.empty();
  for (const Call& call : body.calls) dynamic |= static_cast<bool>(call.fallback);
  std::vector<int> computed;
  for (const Computed& each : body.numbers) computed.push_back(each.value);
  body.replays = std::make_unique<Replays>(body.calls, body.most, computed, dynamic, Ref::to(tell),
                                           most_changed);
  Py_RETURN_NONE;
}

PyObject* program_graphs(PyObject* self, void*) {
  const Body& body = *reinterpret_cast<Program*>(self)->body;
  return body.replays ? body.replays->describe() : PyList_New(0);
}

PyGetSetDef program_properties[] = {
    {"graphs", program_graphs, nullptr,
     "its CUDA graphs, one for each set of numbers, and their counts", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef program_methods[] = {{"as_graph", program_as_graph, METH_VARARGS, nullptr},
                                 {"run", TRITORCH_FASTCALL(program_run), nullptr},
                                 {nullptr, nullptr, 0, nullptr}};
PyType_Slot program_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(program_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(program_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(program_traverse)},
    {Py_tp_methods, program_methods},
    {Py_tp_getset, program_properties},
    {Py_tp_doc, const_cast<char*>("Functions of arrays, one after the other.")},
    {0, nullptr}};
PyType_Spec program_spec = {"tritorch._C.Program", sizeof(Program), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, program_slots};

}  // namespace

PyObject* tensors_by_slot(const std::vector<Ref>& tensors, const std::vector<Tensor*>& slots) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(slots.size()));
  for (std::size_t i = 0; list && i < slots.size(); ++i) {
    PyObject* object = i < tensors.size() && tensors[i]
                           ? tensors[i].get()
                           : reinterpret_cast<PyObject*>(alive(slots[i]));
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), Py_NewRef(object ? object : Py_None));
  }
  return list;
}

bool run_program(PyObject* program, PyObject* region, const std::vector<Ref>& tensors,
                 const std::vector<Tensor*>& slots) {
  const Body& body = *reinterpret_cast<Program*>(program)->body;
  std::vector<Ref> values(static_cast<std::size_t>(body.size));
  for (const Given& given : body.inputs) {
    Tensor* t = as_tensor(tensors[static_cast<std::size_t>(given.slot)].get());
    if (!t || !t->array) {
      PyErr_Format(PyExc_SystemError, "tensor %d has no array", given.slot);
      return false;
    }
    values[static_cast<std::size_t>(given.value)] = Ref::to(t->array);
  }
  if (!make_calls(body, values, *reinterpret_cast<Region*>(region)->numbers)) return false;
  for (const Output& output : body.outputs) {
    Tensor* t = alive(slots[static_cast<std::size_t>(output.slot)]);
    if (!t || t->array) continue;
    PyObject* array = values[static_cast<std::size_t>(output.value)].get();
    if (!array) {
      PyErr_Format(PyExc_SystemError, "a program gave no value %d", output.value);
      return false;
    }
    t->array = Py_NewRef(array);
    Py_CLEAR(t->shadow);
    t->inference = static_cast<char>(output.inference);
    if (output.version != 0) {
      if (!t->shared && !(t->shared = new_shared(t->array))) return false;
      t->shared->version = output.version;
    }
  }
  for (const Written& each : body.written) {
    Tensor* t = as_tensor(tensors[static_cast<std::size_t>(each.slot)].get());
    if (!t->shared && !(t->shared = new_shared(t->array))) return false;
    t->shared->version += each.times;
  }
  if (!body.finish) return true;
  Ref list(as_list(values)), by_slot(tensors_by_slot(tensors, slots));
  if (!list || !by_slot) return false;
  Ref done(
      PyObject_CallFunctionObjArgs(body.finish.get(), region, list.get(), by_slot.get(), nullptr));
  return static_cast<bool>(done);
}

bool add_program_type(PyObject* module) {
  program_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&program_spec));
  return program_type &&
         PyModule_AddObjectRef(module, "Program", reinterpret_cast<PyObject*>(program_type)) == 0;
}

}  // namespace tritorch
