#include "following/program.h"

#include <structmember.h>

#include "following/region.h"
#include "following/replay.h"

namespace tritorch {

PyTypeObject* program_type = nullptr;

namespace {

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
  Ref finish;
  std::size_t most = 0;  // arguments of a call
  std::unique_ptr<Replay> replay;
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
  PyObject *function, *constants, *values, *results, *dropped;
  if (!PyArg_ParseTuple(item, "OO!O!O!O!", &function, &PyTuple_Type, &constants, &PyTuple_Type,
                        &values, &PyTuple_Type, &results, &PyTuple_Type, &dropped))
    return false;
  Call call;
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

// Program(size, inputs, calls, outputs, written, finish)
PyObject* program_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *inputs, *calls, *outputs, *written, *finish;
  int size;
  if (!PyArg_ParseTuple(args, "iO!O!O!O!O", &size, &PyTuple_Type, &inputs, &PyTuple_Type, &calls,
                        &PyTuple_Type, &outputs, &PyTuple_Type, &written, &finish))
    return nullptr;
  auto* self = reinterpret_cast<Program*>(type->tp_alloc(type, 0));
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
  if (finish != Py_None) body.finish = Ref::to(finish);
  if (good) return reinterpret_cast<PyObject*>(self);
  Py_DECREF(self);
  return nullptr;
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
  for (const Call& call : body->calls) Py_VISIT(call.function.get());
  Py_VISIT(body->finish.get());
  return 0;
}

}  // namespace

bool make_call(const Call& call, std::vector<Ref>& values, PyObject** args) {
  const std::size_t n = call.values.size();
  for (std::size_t i = 0; i < n; ++i)
    args[i] = call.values[i] < 0 ? call.constants[i].get()
                                 : values[static_cast<std::size_t>(call.values[i])].get();
  Ref result(PyObject_Vectorcall(call.function.get(), args, n, nullptr));
  if (!result) return false;
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
  for (int value : call.dropped) values[static_cast<std::size_t>(value)] = Ref();
  return true;
}

namespace {

bool make_calls(const Body& body, std::vector<Ref>& values) {
  if (body.replay) return body.replay->compute(values);
  PyObject* few[16];
  std::vector<PyObject*> many(body.most > 16 ? body.most : 0);
  PyObject** args = body.most > 16 ? many.data() : few;
  for (const Call& call : body.calls)
    if (!make_call(call, values, args)) return false;
  return true;
}

PyObject* as_list(const std::vector<Ref>& values) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(values.size()));
  for (std::size_t i = 0; list && i < values.size(); ++i)
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i),
                    Py_NewRef(values[i] ? values[i].get() : Py_None));
  return list;
}

// run(*arrays) -> the values at the end, a list: a program without slots; its inputs are the first
// values.
PyObject* program_run(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const Body& body = *reinterpret_cast<Program*>(self)->body;
  std::vector<Ref> values(static_cast<std::size_t>(body.size));
  for (Py_ssize_t i = 0; i < n && i < body.size; ++i)
    values[static_cast<std::size_t>(i)] = Ref::to(args[i]);
  if (!make_calls(body, values)) return nullptr;
  return as_list(values);
}

// as_graph(tell, most_changed): from now on it is recorded, and replayed as a CUDA graph.
PyObject* program_as_graph(PyObject* self, PyObject* args) {
  Body& body = *reinterpret_cast<Program*>(self)->body;
  PyObject* tell;
  double most_changed;
  if (!PyArg_ParseTuple(args, "Od", &tell, &most_changed)) return nullptr;
  body.replay = std::make_unique<Replay>(body.calls, body.most, Ref::to(tell), most_changed);
  Py_RETURN_NONE;
}

PyObject* program_graph(PyObject* self, void*) {
  const Body& body = *reinterpret_cast<Program*>(self)->body;
  if (!body.replay) Py_RETURN_NONE;
  return body.replay->describe();
}

PyGetSetDef program_properties[] = {
    {"graph", program_graph, nullptr, "what became of its CUDA graph, or None", nullptr},
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
    PyObject* object =
        i < tensors.size() && tensors[i] ? tensors[i].get() : reinterpret_cast<PyObject*>(slots[i]);
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
  if (!make_calls(body, values)) return false;
  for (const Output& output : body.outputs) {
    Tensor* t = slots[static_cast<std::size_t>(output.slot)];
    if (!t || t->array) continue;
    t->array = Py_NewRef(values[static_cast<std::size_t>(output.value)].get());
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
