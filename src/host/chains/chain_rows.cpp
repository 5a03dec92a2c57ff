// Note [Rows]
// Rows that fit a piece run together, as many as do: a step of what lies dense, or of one number a
// row alone, runs once, any other row by row; of short rows, NumPy's loops run once, too, and
// numbers of rows are repeated before.  Where a step makes one number of a row (Note [Reductions]),
// buffers hold rows whole, however long they are.
#include <algorithm>
#include <vector>

#include "host/chains/chain_loops.h"
#include "host/chains/chain_run.h"
#include "tensor/ndarray.h"

namespace tritorch::chains {
namespace {

constexpr Py_ssize_t kShort = 64;  // elements of a row

// Sizes that arrays of at most 3 dims broadcast to.
struct Sizes {
  Py_ssize_t of[3] = {1, 1, 1};

  void join(const NDArray& array) {
    for (int i = 0; i < array.nd; ++i)
      if (array.dimensions[i] != 1) of[3 - array.nd + i] = array.dimensions[i];
  }
  bool empty() const { return !of[0] || !of[1] || !of[2]; }
};

// How an array is walked that broadcasts to `sizes`; false with an error set.
bool read_walk(const NDArray& array, const Place& place, const Sizes& sizes, Walk& walk) {
  Py_ssize_t of[3] = {1, 1, 1}, steps[3] = {0, 0, 0};
  for (int i = 0, dim = 3 - array.nd; i < array.nd; ++i, ++dim) {
    of[dim] = array.dimensions[i];
    steps[dim] = of[dim] == 1 ? 0 : array.strides[i];
  }
  const auto covers = [&](int dim) {
    return of[dim] == sizes.of[dim] || (of[dim] == 1 && !place.written);
  };
  bool fits = covers(0) && covers(1) && of[2] == (place.step ? sizes.of[2] : 1);
  if (fits && place.step) fits = of[2] == 1 || steps[2] == place.step;
  if (!fits) {
    PyErr_Format(PyExc_SystemError, "array %d of a chain lies otherwise", place.array);
    return false;
  }
  walk = {array.data, steps[0], steps[1]};
  return true;
}

// Reads how all arrays are walked; false with an error set.
bool read_walks(const Body& body, PyObject* const* args, Sizes& sizes, std::vector<Walk>& walks) {
  for (int i = 0; i < body.arrays; ++i) {
    const NDArray* array = as_ndarray(args[i]);
    if (!array || array->nd < 1 || array->nd > 3) {
      PyErr_Format(PyExc_TypeError, "array %d of a chain has not 1 to 3 dims", i);
      return false;
    }
    sizes.join(*array);
  }
  if (sizes.empty()) return true;
  for (const Place& place : body.places)
    if (place.array >= 0 && !read_walk(*as_ndarray(args[place.array]), place, sizes,
                                       walks[static_cast<std::size_t>(place.array)]))
      return false;
  return true;
}

// Some rows of a matrix.
class Group {
 public:
  Group(const Body& body, const std::vector<Walk>& walks, Scratch& scratch, Py_ssize_t length,
        Py_ssize_t outer, Py_ssize_t first, Py_ssize_t count)
      : body_(body),
        walks_(walks),
        scratch_(scratch),
        length_(length),
        outer_(outer),
        first_(first),
        count_(count) {}

  // False if a loop failed, with a Python error set.
  bool run() {
    for (const Place& place : body_.places)
      if (place.line >= 0 && is_fixed(place)) fill(place, 0);
    for (std::size_t at = 0; at < body_.steps.size(); ++at) {
      const Step& step = body_.steps[at];
      if (step.kind == Kind::kGuard)
        at += is_finite(step) ? static_cast<std::size_t>(step.skipped) : 0;
      else if (!run(step))
        return false;
    }
    return true;
  }

 private:
  const Place& place(int i) const { return body_.places[static_cast<std::size_t>(i)]; }
  const Walk& walk(const Place& place) const {
    return walks_[static_cast<std::size_t>(place.array)];
  }

  // Bytes from a row's first element to the next one's.
  Py_ssize_t apart(const Place& place) const {
    if (place.array >= 0) return walk(place).inner;
    if (place.buffer < 0) return 0;
    return place.step ? place.step * length_ : place.itemsize;
  }
  char* address(const Place& place, Py_ssize_t row) const {
    if (place.array >= 0)
      return walk(place).data + outer_ * walk(place).outer + (first_ + row) * walk(place).inner;
    if (place.buffer < 0) return reinterpret_cast<NDArray*>(place.number.get())->data;
    return scratch_.buffers + static_cast<std::size_t>(place.buffer) * scratch_.width +
           row * apart(place);
  }
  // One number for all rows, which no step changes.
  bool is_fixed(const Place& place) const {
    return !place.step && !place.written && (count_ == 1 || !apart(place));
  }
  bool is_dense(const Place& place) const {
    return place.step && (count_ == 1 || apart(place) == place.step * length_);
  }

  void fill(const Place& place, Py_ssize_t row) const {
    repeat(address(place, row), scratch_.lines[static_cast<std::size_t>(place.line)]);
  }

  bool is_finite(const Step& step) const {
    const Place& looked_at = place(step.places.back());
    if (is_dense(looked_at))
      return tritorch::is_finite(looked_at.itemsize, address(looked_at, 0), count_ * length_);
    for (Py_ssize_t row = 0; row < count_; ++row)
      if (!tritorch::is_finite(looked_at.itemsize, address(looked_at, row), length_)) return false;
    return true;
  }

  bool run(const Step& step) const {
    if (step.kind == Kind::kRow) return run_row(step), true;
    if (step.kind == Kind::kReduce) return reduce(step), true;
    bool dense = true, columns = true;
    for (const int i : step.places) {
      const Place& at = place(i);
      const bool fixed = is_fixed(at);
      dense = dense && (fixed || is_dense(at));
      columns = columns && !at.step && (fixed || apart(at) == at.itemsize || count_ == 1);
    }
    char* data[kMostArgs];
    Py_ssize_t by[kMostArgs];
    if (!dense && !columns && step.kind == Kind::kLoop && spread(step, data, by))
      return compute(step, data, by, length_ * count_);
    const bool column = !place(step.places.back()).step;
    const Py_ssize_t times = dense || columns ? 1 : count_;
    const Py_ssize_t n = (column ? 1 : length_) * (count_ / times);
    for (std::size_t i = 0; i < step.places.size(); ++i) {
      const Place& at = place(step.places[i]);
      by[i] = !columns ? at.step : is_fixed(at) ? 0 : at.itemsize;
    }
    for (Py_ssize_t row = 0; row < times; ++row) {
      for (std::size_t i = 0; i < step.places.size(); ++i)
        data[i] = address(place(step.places[i]), row);
      if (!compute(step, data, by, n)) return false;
    }
    return true;
  }

  // The operands of all rows at once, those with one number a row in spare buffers; false if rows
  // are long, or lie otherwise, or the function is no arithmetic: NumPy's loop may compute it
  // otherwise where an operand is one number.
  bool spread(const Step& step, char** data, Py_ssize_t* by) const {
    if (length_ > kShort || !act_of(step.arithmetic, false) || body_.widest < sizeof(float))
      return false;
    std::size_t spread = 0;
    for (std::size_t i = 0; i < step.places.size(); ++i) {
      const Place& at = place(step.places[i]);
      data[i] = address(at, 0);
      by[i] = at.step;
      if (is_fixed(at) || is_dense(at)) continue;
      if (at.step || spread == kSpare || i + 1 == step.places.size()) return false;
      char* to = scratch_.buffers + (body_.buffers + spread++) * scratch_.width;
      for (Py_ssize_t row = 0; row < count_; ++row)
        std::fill_n(reinterpret_cast<float*>(to) + row * length_, length_,
                    *reinterpret_cast<const float*>(address(at, row)));
      data[i] = to;
      by[i] = sizeof(float);
    }
    return true;
  }

  bool compute(const Step& step, char* const* data, const Py_ssize_t* by, Py_ssize_t n) const {
    if (step.kind == Kind::kLoop)
      return step.info->loop(step.info->context, data, &n, by, step.info->auxdata) >= 0;
    if (step.kind == Kind::kSelect)
      return select_any(place(step.places.back()).itemsize, data, by, n);
    return converter(step.from, step.to)(data, by, n), true;
  }

  void reduce(const Step& step) const {
    const Place &from = place(step.places[0]), &to = place(step.places[1]);
    for (Py_ssize_t row = 0; row < count_; ++row)
      step.reduce(address(from, row), length_, address(to, row));
  }

  void run_row(const Step& step) const {
    bool dense = true;
    for (const Operand& operand : step.row)
      if (operand.place >= 0) {
        const Place& at = place(operand.place);
        dense = dense && (is_fixed(at) || is_dense(at));
      }
    const Py_ssize_t times = dense ? 1 : count_;
    for (Py_ssize_t row = 0; row < times; ++row) {
      Move* move = scratch_.moves.data();
      for (const Operand& operand : step.row) {
        *move = Move{operand.act};
        if (operand.place >= 0) {
          const Place& at = place(operand.place);
          move->walked = at.line < 0;
          if (!move->walked && !is_fixed(at)) fill(at, row);
          move->data =
              move->walked
                  ? address(at, row)
                  : reinterpret_cast<char*>(&scratch_.lines[static_cast<std::size_t>(at.line)]);
        }
        ++move;
      }
      accumulate(scratch_.moves.data(), move, length_ * (count_ / times));
    }
  }

  const Body& body_;
  const std::vector<Walk>& walks_;
  Scratch& scratch_;
  const Py_ssize_t length_, outer_, first_, count_;
};

// Runs units of rows, over threads where that pays.
template <class Compute>
bool shared(Body& body, Py_ssize_t piece, Py_ssize_t units, Py_ssize_t length,
            const Compute& compute) {
  if (units * length <= kPiece) {  // as fast as it is to give the lock away
    Scratch scratch(body, piece);
    return compute(0, units, scratch);
  }
  bool good;
  Py_BEGIN_ALLOW_THREADS;
  good = Work(body, piece, units, static_cast<double>(length), compute).run(1);
  Py_END_ALLOW_THREADS;
  return good;
}

// Rows that are computed together.
bool run_groups(Body& body, const std::vector<Walk>& walks, const Py_ssize_t (&sizes)[3]) {
  const Py_ssize_t length = sizes[2], rows = sizes[1];
  const Py_ssize_t most = std::min(rows, std::max<Py_ssize_t>(body.piece / length, 1));
  const Py_ssize_t groups = (rows + most - 1) / most;
  const auto compute = [&](Py_ssize_t from, Py_ssize_t to, Scratch& scratch) {
    for (; from < to; ++from) {
      const Py_ssize_t first = from % groups * most;
      if (!Group(body, walks, scratch, length, from / groups, first, std::min(most, rows - first))
               .run())
        return false;
    }
    return true;
  };
  return shared(body, most * length, sizes[0] * groups, most * length, compute);
}

// Long rows, piece by piece.
bool run_long(Body& body, const std::vector<Walk>& walks, const Py_ssize_t (&sizes)[3]) {
  const Py_ssize_t length = std::min(sizes[2], kFirst / body.piece * body.piece);
  const Py_ssize_t cuts = (sizes[2] + length - 1) / length;
  const auto compute = [&](Py_ssize_t from, Py_ssize_t to, Scratch& scratch) {
    std::vector<char*> data(walks.size());
    for (; from < to; ++from) {
      const Py_ssize_t row = from / cuts, low = from % cuts * length;
      const Py_ssize_t i = row / sizes[1], j = row % sizes[1];
      for (std::size_t k = 0; k < walks.size(); ++k)
        data[k] = walks[k].data + i * walks[k].outer + j * walks[k].inner;
      if (!run(body, data.data(), low, std::min(low + length, sizes[2]), scratch)) return false;
    }
    return true;
  };
  return shared(body, body.piece, sizes[0] * sizes[1] * cuts, length, compute);
}

}  // namespace

bool run_walks(Body& body, const std::vector<Walk>& walks, const Py_ssize_t (&sizes)[3]) {
  const bool together = body.reduces || sizes[2] <= body.piece;
  return together ? run_groups(body, walks, sizes) : run_long(body, walks, sizes);
}

PyObject* run_rows(Body& body, PyObject* const* args, Py_ssize_t n) {
  if (n != body.arrays || n < 1)
    return PyErr_Format(PyExc_TypeError, "the chain takes %d arrays", body.arrays);
  Sizes sizes;
  std::vector<Walk> walks(static_cast<std::size_t>(n));
  if (!read_walks(body, args, sizes, walks)) return nullptr;
  if (sizes.empty()) return outcome(true);
  return outcome(run_walks(body, walks, sizes.of));
}

}  // namespace tritorch::chains
