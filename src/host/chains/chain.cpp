// Note [Chains]
// A chain computes pointwise functions of arrays of one size in pieces that stay in the first
// cache.  Each step is the inner loop that NumPy itself runs for its function and dtypes, so an
// element gets the bits that NumPy gives; what only the chain reads has a buffer of one piece.
// Python is asked nothing in between, and the interpreter lock is free.  Rows of float32 arithmetic
// are one step, whose intermediate results stay in registers (Note [Accumulator]).
//
// Note [Pace]
// Threads share a call (Note [Workers]) where that pays, which depends on the functions as much as
// on sizes: an element of a sum takes 0.1 ns, one of a power 10.  So each chain measures itself.
// Cuts are where pieces end, whoever computes them: bits do not hang on it.
#include "host/chains/chain.h"

#include <structmember.h>

#include <algorithm>
#include <vector>

#include "host/chains/chain_body.h"
#include "host/chains/chain_run.h"
#include "ref.h"
#include "tensor/ndarray.h"

namespace tritorch {
namespace {

using namespace chains;

// Where an array's elements are, of which `needed` are walked; null with an error set.
char* checked(PyObject* given, const Place& place, std::size_t needed) {
  const NDArray* array = as_ndarray(given);
  if (array && array->is_contiguous() && (!place.step || needed <= array->size()))
    return array->data;
  PyErr_Format(PyExc_SystemError, "array %d of a chain lies otherwise", place.array);
  return nullptr;
}

// chain(low, high, *arrays): inputs, then outputs, all dense.
PyObject* chain_call(PyObject* self, PyObject* const* args, size_t flagged, PyObject*) {
  Body& body = *reinterpret_cast<Chain*>(self)->body;
  const Py_ssize_t n = PyVectorcall_NARGS(flagged);
  if (n != body.arrays + 2)
    return PyErr_Format(PyExc_TypeError, "the chain takes %d arrays", body.arrays);
  const Py_ssize_t low = PyLong_AsSsize_t(args[0]), high = PyLong_AsSsize_t(args[1]);
  if (PyErr_Occurred()) return nullptr;
  if (low < 0 || high < low) return PyErr_Format(PyExc_ValueError, "no range of elements");
  std::vector<char*> data(static_cast<std::size_t>(body.arrays));
  for (const Place& place : body.places) {
    if (place.array < 0) continue;
    char* address = checked(args[place.array + 2], place, static_cast<std::size_t>(high));
    if (!address) return nullptr;
    data[static_cast<std::size_t>(place.array)] = address;
  }
  if (body.reduces) return PyErr_Format(PyExc_TypeError, "the chain takes rows");
  return outcome(run_dense(body, data.data(), low, high));
}

// Some elements of a row of arrays: where each array is, and how many pieces are before them.
struct RowPart {
  std::vector<char*> data;
  Py_ssize_t low, high, before;
};

// Pieces [from, to) of parts, one after the other.
bool run_parts(const Body& body, const std::vector<RowPart>& parts, Py_ssize_t from, Py_ssize_t to,
               Scratch& scratch) {
  const auto after = [](Py_ssize_t at, const RowPart& part) { return at < part.before; };
  auto part = std::upper_bound(parts.begin(), parts.end(), from, after) - 1;
  for (; from < to; ++part) {
    const Py_ssize_t low = part->low + (from - part->before) * body.piece;
    const Py_ssize_t high = std::min(part->high, low + (to - from) * body.piece);
    if (!run(body, part->data.data(), low, high, scratch)) return false;
    from += (high - low + body.piece - 1) / body.piece;
  }
  return true;
}

// over(low, high, rows, shared): the chain of each row's arrays and those that all rows share, for
// elements [low, high) of the rows one after the other.
PyObject* chain_over(PyObject* self, PyObject* args) {
  Body& body = *reinterpret_cast<Chain*>(self)->body;
  Py_ssize_t low, high;
  PyObject *rows, *shared;
  if (!PyArg_ParseTuple(args, "nnO!O!", &low, &high, &PyList_Type, &rows, &PyList_Type, &shared))
    return nullptr;
  if (body.reduces) return PyErr_Format(PyExc_TypeError, "the chain takes rows");
  std::vector<RowPart> parts;
  Py_ssize_t at = 0, count = 0;  // elements of the rows before; pieces that are computed
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows) && at < high; ++i) {
    PyObject* row = PyList_GET_ITEM(rows, i);
    if (!PyList_Check(row)) return PyErr_Format(PyExc_TypeError, "a row is a list");
    const Py_ssize_t width = PyList_GET_SIZE(row);
    const NDArray* first = width ? as_ndarray(PyList_GET_ITEM(row, 0)) : nullptr;
    if (!first) return PyErr_Format(PyExc_TypeError, "a row begins with an array");
    const auto n = static_cast<Py_ssize_t>(first->size());
    const Py_ssize_t from = std::max<Py_ssize_t>(low - at, 0), to = std::min(high - at, n);
    at += n;
    if (from >= to) continue;
    RowPart part{std::vector<char*>(static_cast<std::size_t>(body.arrays)), from, to, count};
    count += (to - from + body.piece - 1) / body.piece;
    for (const Place& place : body.places) {
      if (place.array < 0) continue;
      const bool own = place.array < width;
      if (!own && place.array - width >= PyList_GET_SIZE(shared))
        return PyErr_Format(PyExc_TypeError, "the chain takes %d arrays", body.arrays);
      PyObject* array =
          own ? PyList_GET_ITEM(row, place.array) : PyList_GET_ITEM(shared, place.array - width);
      char* address = checked(array, place, static_cast<std::size_t>(n));
      if (!address) return nullptr;
      part.data[static_cast<std::size_t>(place.array)] = address;
    }
    parts.push_back(std::move(part));
  }
  const auto compute = [&](Py_ssize_t first, Py_ssize_t last, Scratch& scratch) {
    return run_parts(body, parts, first, last, scratch);
  };
  bool good = true;
  Py_BEGIN_ALLOW_THREADS;
  if (count)
    good = Work(body, body.piece, count,
                static_cast<double>(std::min(at, high) - low) / static_cast<double>(count), compute)
               .run(1);
  Py_END_ALLOW_THREADS;
  return outcome(good);
}

PyObject* chain_rows(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  return run_rows(*reinterpret_cast<Chain*>(self)->body, args, n);
}

// ---- building -----------------------------------------------------------------------------------

// Chain(places, steps)
PyObject* chain_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *places, *steps;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &places, &PyTuple_Type, &steps))
    return nullptr;
  Ref made(type->tp_alloc(type, 0));
  auto* self = made.as<Chain>();
  if (!self) return nullptr;
  self->call = chain_call;
  self->body = new Body;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(places); ++i)
    good = read_place(PyTuple_GET_ITEM(places, i), *self->body);
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(steps); ++i)
    good = read_step(PyTuple_GET_ITEM(steps, i), *self->body);
  if (!good) return nullptr;
  join_arithmetic(*self->body);
  self->body->fit();
  return made.release();
}

void chain_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<Chain*>(self)->body;
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef chain_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Chain, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef chain_methods[] = {
    {"over", chain_over, METH_VARARGS,
     "over(low, high, rows, shared): elements [low, high) of rows of arrays, one after the other."},
    {"rows", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(chain_rows)), METH_FASTCALL,
     "rows(*arrays): arrays of up to 3 dims, dense along the last one, which broadcast."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot chain_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(chain_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(chain_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, chain_members},
    {Py_tp_methods, chain_methods},
    {Py_tp_doc, const_cast<char*>("Pointwise functions in pieces that stay in the cache.")},
    {0, nullptr}};
PyType_Spec chain_spec = {"tritorch._C.Chain", sizeof(Chain), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, chain_slots};

}  // namespace

bool add_chain_type(PyObject* module) {
  const Ref type(PyType_FromSpec(&chain_spec));
  if (!type) return false;
  chains::chain_type = type.as<PyTypeObject>();
  return PyModule_AddObjectRef(module, "Chain", type.get()) == 0 && chains::add_table_type(module);
}

}  // namespace tritorch
