// Note [Chains]
// A chain computes pointwise functions of arrays of one size in pieces that stay in the first
// cache.  Each step is the inner loop that NumPy itself runs for its function and dtypes, so an
// element gets the bits that NumPy gives; what only the chain reads has a buffer of one piece.
// Python is asked nothing in between, and the interpreter lock is free.  Rows of float32 arithmetic
// are one step, whose intermediate results stay in registers (Note [Accumulator]).
#include "following/chain.h"

#include <structmember.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "following/arithmetic.h"
#include "following/chain_loops.h"
#include "following/pattern.h"
#include "tensor/ndarray.h"

namespace tritorch {
namespace {

constexpr const char* kCallInfo = "numpy_1.24_ufunc_call_info";
constexpr Py_ssize_t kPiece = 2048;  // elements, at most
constexpr Py_ssize_t kLeast = 256;
constexpr std::size_t kMostArgs = 8, kLine = 64, kCache = 32 << 10;  // bytes

// What NumPy's capsule of that name holds.
struct CallInfo {
  int (*loop)(void* context, char* const* data, const Py_ssize_t* dims, const Py_ssize_t* strides,
              void* auxdata);
  void* context;
  void* auxdata;
  unsigned char requires_pyapi, no_floatingpoint_errors;
};

enum class Kind { kLoop, kSelect, kCast, kGuard, kRow };

// A move of a row, of a place.
struct Operand {
  Act act;
  int place = -1;
};

// One function; places of its operands, the result's last.
struct Step {
  Kind kind;
  Ref capsule;
  CallInfo* info = nullptr;
  char from = 0, to = 0;  // of a cast: dtypes' characters
  int skipped = 0;        // of a guard: so many steps, if all numbers are finite
  std::vector<int> places;
  std::string arithmetic;    // of a loop: the function's name, if it may be part of a row
  std::vector<Operand> row;  // of a row
};

// Where a value is: an array that is given, a number, or a buffer.
struct Place {
  int array = -1, buffer = -1;
  Ref number;  // an array without dims
  Py_ssize_t step = 0, itemsize = 0;
  int line = -1;  // of a number that a row reads: where it is repeated
};

struct alignas(kLine) Line {
  float numbers[kLanes];
};

struct Body {
  int arrays = 0, lines = 0;  // inputs and outputs; repeated numbers
  std::size_t longest = 0;    // moves of a row
  std::vector<Place> places;
  std::vector<Step> steps;
  std::size_t buffers = 0, widest = 1;
  Py_ssize_t piece = kPiece;

  // Makes pieces so small that those of all arrays and buffers stay in the first cache.
  void fit() {
    std::size_t bytes = buffers * widest;
    for (const Place& place : places)
      if (place.array >= 0) bytes += static_cast<std::size_t>(place.step);
    while (piece > kLeast && static_cast<std::size_t>(piece) * bytes > kCache) piece /= 2;
  }
  std::size_t room() const { return buffers * static_cast<std::size_t>(piece) * widest; }
};

struct Chain {
  PyObject_HEAD vectorcallfunc call;
  Body* body;
};

// ---- running ------------------------------------------------------------------------------------

// Memory of a call.
class Scratch {
 public:
  // NumPy's functions may look at what lies beside the last element of a vector's width.
  explicit Scratch(const Body& body)
      : memory_(new char[body.room() + 2 * kLine]),
        lines(static_cast<std::size_t>(body.lines)),
        moves(body.longest) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    buffers = memory_.get() + (kLine - address % kLine) % kLine;
  }

 private:
  std::unique_ptr<char[]> memory_;

 public:
  char* buffers;
  std::vector<Line> lines;
  std::vector<Move> moves;
};

// One piece of a call: elements from `low` on.
struct Piece {
  const Body& body;
  char* const* arrays;
  Scratch& scratch;
  Py_ssize_t low;

  const Place& place(int i) const { return body.places[static_cast<std::size_t>(i)]; }

  char* address(const Place& place) const {
    if (place.array >= 0) return arrays[place.array] + low * place.step;
    if (place.buffer < 0) return reinterpret_cast<NDArray*>(place.number.get())->data;
    const std::size_t width = static_cast<std::size_t>(body.piece) * body.widest;
    return scratch.buffers + static_cast<std::size_t>(place.buffer) * width;
  }

  void run_row(const Step& step, Py_ssize_t n) const {
    Move* move = scratch.moves.data();
    for (const Operand& operand : step.row) {
      *move = Move{operand.act};
      if (operand.place >= 0) {
        const Place& at = place(operand.place);
        move->walked = at.line < 0;
        move->data =
            move->walked
                ? address(at)
                : reinterpret_cast<char*>(&scratch.lines[static_cast<std::size_t>(at.line)]);
      }
      ++move;
    }
    accumulate(scratch.moves.data(), move, n);
  }

  // False if the step failed, with a Python error set.
  bool run(const Step& step, Py_ssize_t n) const {
    if (step.kind == Kind::kRow) return run_row(step, n), true;
    char* data[kMostArgs];
    Py_ssize_t by[kMostArgs];
    for (std::size_t i = 0; i < step.places.size(); ++i) {
      by[i] = place(step.places[i]).step;
      data[i] = address(place(step.places[i]));
    }
    if (step.kind == Kind::kLoop)
      return step.info->loop(step.info->context, data, &n, by, step.info->auxdata) >= 0;
    if (step.kind == Kind::kSelect)
      return select_any(place(step.places.back()).itemsize, data, by, n);
    return converter(step.from, step.to)(data, by, n), true;
  }

  // Whether the steps after a guard are left out.
  bool is_finite(const Step& step, Py_ssize_t n) const {
    const Place& looked_at = place(step.places.back());
    return tritorch::is_finite(looked_at.itemsize, address(looked_at), n);
  }
};

// Computes elements [low, high); false if a loop failed, with a Python error set.
bool run(const Body& body, char* const* arrays, Py_ssize_t low, Py_ssize_t high, Scratch& scratch) {
  Piece piece{body, arrays, scratch, low};
  for (const Place& place : body.places)
    if (place.line >= 0) {
      float number;
      std::memcpy(&number, piece.address(place), sizeof number);
      std::fill_n(scratch.lines[static_cast<std::size_t>(place.line)].numbers, kLanes, number);
    }
  for (; piece.low < high; piece.low += body.piece) {
    const Py_ssize_t n = std::min(body.piece, high - piece.low);
    for (std::size_t at = 0; at < body.steps.size(); ++at) {
      const Step& step = body.steps[at];
      if (step.kind == Kind::kGuard)
        at += piece.is_finite(step, n) ? static_cast<std::size_t>(step.skipped) : 0;
      else if (!piece.run(step, n))
        return false;
    }
  }
  return true;
}

// None, or null with a Python error set.
PyObject* outcome(bool good) {
  std::feclearexcept(FE_ALL_EXCEPT);  // nobody asked for NumPy's warnings
  if (good) Py_RETURN_NONE;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a loop of NumPy's failed");
  return nullptr;
}

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
  const Body& body = *reinterpret_cast<Chain*>(self)->body;
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
  Scratch scratch(body);
  bool good;
  Py_BEGIN_ALLOW_THREADS;
  good = run(body, data.data(), low, high, scratch);
  Py_END_ALLOW_THREADS;
  return outcome(good);
}

// Some elements of a row of arrays: where each array is.
struct Part {
  std::vector<char*> data;
  Py_ssize_t low, high;
};

// over(low, high, rows, shared): the chain of each row's arrays and those that all rows share, for
// elements [low, high) of the rows one after the other.
PyObject* chain_over(PyObject* self, PyObject* args) {
  const Body& body = *reinterpret_cast<Chain*>(self)->body;
  Py_ssize_t low, high;
  PyObject *rows, *shared;
  if (!PyArg_ParseTuple(args, "nnO!O!", &low, &high, &PyList_Type, &rows, &PyList_Type, &shared))
    return nullptr;
  std::vector<Part> parts;
  Py_ssize_t at = 0;  // elements of the rows before
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
    Part part{std::vector<char*>(static_cast<std::size_t>(body.arrays)), from, to};
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
  Scratch scratch(body);
  bool good = true;
  Py_BEGIN_ALLOW_THREADS;
  for (const Part& part : parts)
    good = good && run(body, part.data.data(), part.low, part.high, scratch);
  Py_END_ALLOW_THREADS;
  return outcome(good);
}

// How an array is walked, row by row: see chain_rows.
struct Walk {
  char* data = nullptr;
  Py_ssize_t outer = 0, inner = 0;  // bytes from matrix to matrix, and from row to row
};

// Of an array of at most 3 dims that broadcasts to `sizes`; false with an error set.
bool read_walk(PyObject* given, const Place& place, const Py_ssize_t (&sizes)[3], Walk& walk) {
  const NDArray* array = as_ndarray(given);
  Py_ssize_t steps[3] = {0, 0, 0};
  bool fits = array && array->nd <= 3;
  for (int i = 0; fits && i < array->nd; ++i) {
    const int dim = 3 - array->nd + i;
    const Py_ssize_t n = array->dimensions[i];
    fits = n == sizes[dim] || (n == 1 && (dim < 2 || !place.step));
    steps[dim] = n == 1 ? 0 : array->strides[i];
  }
  if (fits && place.step) fits = sizes[2] == 1 || steps[2] == place.step;
  if (fits && !place.step) fits = steps[2] == 0;
  if (!fits) {
    PyErr_Format(PyExc_SystemError, "array %d of a chain lies otherwise", place.array);
    return false;
  }
  walk = {array->data, steps[0], steps[1]};
  return true;
}

// rows(*arrays): the chain of arrays of up to 3 dims, of which the last one has all sizes.
PyObject* chain_rows(PyObject* self, PyObject* const* args, Py_ssize_t n) {
  const Body& body = *reinterpret_cast<Chain*>(self)->body;
  const NDArray* whole = n == body.arrays && n > 0 ? as_ndarray(args[n - 1]) : nullptr;
  if (!whole || whole->nd < 1 || whole->nd > 3)
    return PyErr_Format(PyExc_TypeError, "the chain takes %d arrays", body.arrays);
  Py_ssize_t sizes[3] = {1, 1, 1};
  std::copy_n(whole->dimensions, whole->nd, sizes + 3 - whole->nd);
  const auto count = static_cast<std::size_t>(body.arrays);
  std::vector<Walk> walks(count);
  for (const Place& place : body.places)
    if (place.array >= 0 &&
        !read_walk(args[place.array], place, sizes, walks[static_cast<std::size_t>(place.array)]))
      return nullptr;
  Scratch scratch(body);
  std::vector<char*> data(count);
  bool good = true;
  Py_BEGIN_ALLOW_THREADS;
  for (Py_ssize_t i = 0; i < sizes[0] && good; ++i)
    for (Py_ssize_t j = 0; j < sizes[1] && good; ++j) {
      for (std::size_t k = 0; k < count; ++k)
        data[k] = walks[k].data + i * walks[k].outer + j * walks[k].inner;
      good = run(body, data.data(), 0, sizes[2], scratch);
    }
  Py_END_ALLOW_THREADS;
  return outcome(good);
}

// ---- building -----------------------------------------------------------------------------------

// (array, buffer, number or None, step, itemsize)
bool read_place(PyObject* item, Body& body) {
  Place place;
  PyObject* number;
  if (!PyArg_ParseTuple(item, "iiOnn", &place.array, &place.buffer, &number, &place.step,
                        &place.itemsize))
    return false;
  const bool is_number = place.array < 0 && place.buffer < 0;
  if (is_number) {
    if (!as_ndarray(number) || place.step != 0) {
      PyErr_SetString(PyExc_TypeError, "a number's place is an array that is not walked");
      return false;
    }
    place.number = Ref::to(number);
  }
  if (place.itemsize < 1 || place.itemsize > 16) {
    PyErr_SetString(PyExc_ValueError, "elements of a chain have 1 to 16 bytes");
    return false;
  }
  body.arrays = std::max(body.arrays, place.array + 1);
  if (place.buffer >= 0) {
    body.buffers = std::max(body.buffers, static_cast<std::size_t>(place.buffer) + 1);
    body.widest = std::max(body.widest, static_cast<std::size_t>(place.itemsize));
  }
  body.places.push_back(std::move(place));
  return true;
}

// (kind, detail, places): a loop's capsule, with the function's name if it is one of float32; the
// two characters of a cast; what a guard skips
bool read_step(PyObject* item, Body& body) {
  const char* kind;
  PyObject *detail, *places;
  if (!PyArg_ParseTuple(item, "sOO!", &kind, &detail, &PyTuple_Type, &places)) return false;
  Step step;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(places); ++i) {
    const long place = PyLong_AsLong(PyTuple_GET_ITEM(places, i));
    if (PyErr_Occurred()) return false;
    if (place < 0 || static_cast<std::size_t>(place) >= body.places.size()) {
      PyErr_SetString(PyExc_IndexError, "a step names a place that there is not");
      return false;
    }
    step.places.push_back(static_cast<int>(place));
  }
  const std::string_view name = kind;
  std::size_t count = step.places.size();
  bool fits = false;
  if (name == "loop") {
    step.kind = Kind::kLoop;
    if (PyTuple_Check(detail)) {
      const char* function;
      if (!PyArg_ParseTuple(detail, "Os", &detail, &function)) return false;
      step.arithmetic = function;
    }
    step.capsule = Ref::to(detail);
    step.info = static_cast<CallInfo*>(PyCapsule_GetPointer(detail, kCallInfo));
    if (!step.info) return false;
    fits = step.info->loop && !step.info->requires_pyapi && count >= 2 && count <= kMostArgs;
  } else if (name == "select") {
    step.kind = Kind::kSelect;
    fits = count == 4 && body.places[static_cast<std::size_t>(step.places[3])].itemsize <= 8;
  } else if (name == "cast") {
    step.kind = Kind::kCast;
    const char* kinds = PyUnicode_AsUTF8(detail);
    if (!kinds) return false;
    step.from = kinds[0];
    step.to = kinds[0] ? kinds[1] : 0;
    fits = count == 2 && converter(step.from, step.to);
  } else if (name == "guard") {
    step.kind = Kind::kGuard;
    step.skipped = static_cast<int>(PyLong_AsLong(detail));
    if (PyErr_Occurred()) return false;
    const Place* place =
        count == 1 ? &body.places[static_cast<std::size_t>(step.places[0])] : nullptr;
    fits =
        place && place->step && (place->itemsize == 4 || place->itemsize == 8) && step.skipped >= 0;
  }
  if (!fits) {
    PyErr_Format(PyExc_ValueError, "no step of a chain: %s of %zu places", kind, count);
    return false;
  }
  body.steps.push_back(std::move(step));
  return true;
}

// Makes rows of arithmetic.
class Rows {
 public:
  explicit Rows(Body& body) : body_(body), old_(std::move(body.steps)) {
    body_.steps.clear();
    add(0, old_.size());
  }

 private:
  Place& place(int i) { return body_.places[static_cast<std::size_t>(i)]; }

  // The old steps [low, high), of which none are left out without the others.
  void add(std::size_t low, std::size_t high) {
    for (std::size_t i = low; i < high; ++i) {
      const std::size_t at = body_.steps.size();
      std::size_t next = i;
      while (next < high && is_arithmetic(old_[next])) ++next;
      if (next > i) {
        body_.steps.push_back(row(i, next));
        i = next - 1;
      } else if (old_[i].kind == Kind::kGuard) {
        const auto skipped = static_cast<std::size_t>(old_[i].skipped);
        body_.steps.push_back(std::move(old_[i]));
        add(i + 1, i + 1 + skipped);
        body_.steps[at].skipped = static_cast<int>(body_.steps.size() - at - 1);
        i += skipped;
      } else {
        body_.steps.push_back(std::move(old_[i]));
      }
    }
  }

  bool is_arithmetic(const Step& step) {
    return step.kind == Kind::kLoop && act_of(step.arithmetic, false) &&
           std::all_of(step.places.begin(), step.places.end(),
                       [this](int i) { return place(i).itemsize == 4; }) &&
           place(step.places.back()).step;
  }

  Step row(std::size_t low, std::size_t high) {
    Step found;
    found.kind = Kind::kRow;
    int held = -1;  // whose value is in the accumulator
    for (std::size_t i = low; i < high; ++i) {
      const std::vector<int>& places = old_[i].places;
      const bool right = taken(old_[i], held) == 1;
      if (places[0] != held && !right) read(found, Act::kLoad, places[0]);
      const Act act = *act_of(old_[i].arithmetic, right);
      if (places.size() == 2)
        found.row.push_back({act});
      else
        read(found, act, places[right ? 0 : 1]);
      held = places.back();
      if (is_read(i + 1, high, held)) found.row.push_back({Act::kStore, held});
    }
    body_.longest = std::max(body_.longest, found.row.size());
    return found;
  }

  void read(Step& step, Act act, int i) {
    if (!place(i).step && place(i).line < 0) place(i).line = body_.lines++;
    step.row.push_back({act, i});
  }

  // Which operand of a step is taken from the accumulator; -1 if none is.
  int taken(const Step& step, int held) {
    const std::vector<int>& places = step.places;
    if (places[0] == held) return 0;
    return places.size() == 3 && places[1] == held && act_of(step.arithmetic, true) ? 1 : -1;
  }

  // Whether what was just written is read from memory by steps from i on, or by the caller; the
  // next step of its row, up to `high`, may take it from the accumulator.
  bool is_read(std::size_t i, std::size_t high, int written) {
    if (place(written).array >= 0) return true;
    bool sure = true;  // that a step runs
    for (std::size_t next = i, until = 0; next < old_.size(); ++next) {
      const Step& step = old_[next];
      if (next >= until) sure = true;
      const std::size_t operands = step.places.size() - (step.kind == Kind::kGuard ? 0 : 1);
      const int held = next == i && i < high ? taken(step, written) : -1;
      for (std::size_t k = 0; k < operands; ++k)
        if (static_cast<int>(k) != held && place(step.places[k]).buffer == place(written).buffer)
          return true;
      if (step.kind == Kind::kGuard) {
        sure = false;
        until = next + 1 + static_cast<std::size_t>(step.skipped);
      } else if (sure && place(step.places.back()).buffer == place(written).buffer) {
        return false;
      }
    }
    return false;
  }

  Body& body_;
  std::vector<Step> old_;
};

// Chain(places, steps)
PyObject* chain_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *places, *steps;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &places, &PyTuple_Type, &steps))
    return nullptr;
  auto* self = reinterpret_cast<Chain*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = chain_call;
  self->body = new Body;
  bool good = true;
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(places); ++i)
    good = read_place(PyTuple_GET_ITEM(places, i), *self->body);
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(steps); ++i)
    good = read_step(PyTuple_GET_ITEM(steps, i), *self->body);
  if (!good) {
    Py_DECREF(self);
    return nullptr;
  }
  Rows(*self->body);
  self->body->fit();
  return reinterpret_cast<PyObject*>(self);
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
     "rows(*arrays): arrays of up to 3 dims, dense along the last one; the last has all sizes."},
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
  PyObject* type = PyType_FromSpec(&chain_spec);
  if (!type) return false;
  const bool added = PyModule_AddObjectRef(module, "Chain", type) == 0;
  Py_DECREF(type);
  return added;
}

}  // namespace tritorch
