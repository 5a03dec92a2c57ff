#include "host/chains/chain_run.h"

#include <cfenv>

#include "host/chains/chain_loops.h"
#include "tensor/ndarray.h"

namespace tritorch::chains {

PyTypeObject* chain_type = nullptr;

namespace {

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
    return scratch.buffers + static_cast<std::size_t>(place.buffer) * scratch.width;
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

  // All steps of n elements; false if one failed, with a Python error set.
  bool run_all(Py_ssize_t n) const {
    for (std::size_t at = 0; at < body.steps.size(); ++at) {
      const Step& step = body.steps[at];
      if (step.kind == Kind::kGuard)
        at += is_finite(step, n) ? static_cast<std::size_t>(step.skipped) : 0;
      else if (!run(step, n))
        return false;
    }
    return true;
  }
};

}  // namespace

bool run(const Body& body, char* const* arrays, Py_ssize_t low, Py_ssize_t high, Scratch& scratch) {
  Piece piece{body, arrays, scratch, low};
  for (const Place& place : body.places)
    if (place.line >= 0)
      repeat(piece.address(place), scratch.lines[static_cast<std::size_t>(place.line)]);
  // A store across two lines takes twice as long: all pieces but the first begin where lines do.
  Py_ssize_t length = body.piece;
  if (body.written > 0) {
    const char* first = arrays[body.arrays - 1] + low * body.written;
    length -=
        static_cast<Py_ssize_t>(reinterpret_cast<std::uintptr_t>(first) % kLine) / body.written;
  }
  for (; piece.low < high; piece.low += length, length = body.piece) {
    if (!piece.run_all(std::min(length, high - piece.low))) return false;
  }
  return true;
}

bool run_dense(Body& body, char* const* arrays, Py_ssize_t low, Py_ssize_t high) {
  if (high - low <= kPiece) {  // as fast as it is to give the lock away
    Scratch scratch(body, body.piece);
    return run(body, arrays, low, high, scratch);
  }
  const auto compute = [&](Py_ssize_t from, Py_ssize_t to, Scratch& scratch) {
    return run(body, arrays, low + from, low + to, scratch);
  };
  bool good;
  Py_BEGIN_ALLOW_THREADS;
  good = Work(body, body.piece, high - low, 1, compute).run(body.piece);
  Py_END_ALLOW_THREADS;
  return good;
}

PyObject* outcome(bool good) {
  std::feclearexcept(FE_ALL_EXCEPT);  // nobody asked for NumPy's warnings
  if (good) Py_RETURN_NONE;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a loop of NumPy's failed");
  return nullptr;
}

}  // namespace tritorch::chains
