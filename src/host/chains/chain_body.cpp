#include "host/chains/chain_body.h"

#include <algorithm>
#include <string_view>

#include "host/chains/chain_loops.h"
#include "ref.h"
#include "tensor/ndarray.h"

namespace tritorch::chains {

constexpr const char* kCallInfo = "numpy_1.24_ufunc_call_info";

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
// two characters of a cast; a reduction's function and dtype; what a guard skips
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
  } else if (name == "reduce") {
    const char *function, *number;
    if (!PyArg_ParseTuple(detail, "ss", &function, &number)) return false;
    step.kind = Kind::kReduce;
    step.reduce = reduction(function, *number);
    fits = count == 2 && step.reduce &&
           body.places[static_cast<std::size_t>(step.places[0])].step &&
           !body.places[static_cast<std::size_t>(step.places[1])].step;
    body.reduces = true;
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
  if (step.kind != Kind::kGuard)
    body.places[static_cast<std::size_t>(step.places.back())].written = true;
  body.steps.push_back(std::move(step));
  return true;
}

namespace {

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
      if (next > i + 1) {  // of one alone, NumPy's loop is as fast
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

}  // namespace

void join_arithmetic(Body& body) { Rows rows(body); }

}  // namespace tritorch::chains
