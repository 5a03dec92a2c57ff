// How a chain runs: its memory, and who computes which part.
#pragma once

#include <Python.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "host/chains/arithmetic.h"
#include "host/chains/chain_body.h"
#include "workers.h"

namespace tritorch::chains {

constexpr double kWorth = 16'000, kPart = 4'000;  // nanoseconds: of what is shared, and of a part
constexpr std::size_t kSpare = 2;                 // buffers that no value has
constexpr Py_ssize_t kFirst = 8192;               // elements that are measured before

struct Chain {
  PyObject_HEAD vectorcallfunc call;
  Body* body;
};

extern PyTypeObject* chain_type;  // which lives as long as its module

// Adds the type of tables of chains: false with a Python error set.
bool add_table_type(PyObject* module);

// Memory of a call.
class Scratch {
 public:
  // NumPy's functions may look at what lies beside the last element of a vector's width.
  Scratch(const Body& body, Py_ssize_t piece)
      : width(body.width(piece)),
        memory_(new char[(body.buffers + kSpare) * width + 2 * kLine]),
        lines(static_cast<std::size_t>(body.lines)),
        moves(body.longest) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    buffers = memory_.get() + (kLine - address % kLine) % kLine;
  }

  const std::size_t width;  // bytes of a buffer

 private:
  std::unique_ptr<char[]> memory_;

 public:
  char* buffers;
  std::vector<Line> lines;
  std::vector<Move> moves;
};

// Repeats a number in a line that a row reads.
inline void repeat(const char* number, Line& line) {
  float found;
  std::memcpy(&found, number, sizeof found);
  std::fill_n(line.numbers, kLanes, found);
}

// Computes elements [low, high) of dense arrays; false if a loop failed, with a Python error set.
bool run(const Body& body, char* const* arrays, Py_ssize_t low, Py_ssize_t high, Scratch& scratch);

// The same, over threads where that pays, without the interpreter lock.
bool run_dense(Body& body, char* const* arrays, Py_ssize_t low, Py_ssize_t high);

// How an array is walked, row by row.
struct Walk {
  char* data = nullptr;
  Py_ssize_t outer = 0, inner = 0;  // bytes from matrix to matrix, and from row to row
};

// Computes rows of the last of 3 sizes, none of which is 0, over threads where that pays.
bool run_walks(Body& body, const std::vector<Walk>& walks, const Py_ssize_t (&sizes)[3]);

// chain.rows(*arrays): the chain of arrays of up to 3 dims, whose results have all sizes, or one
// number a row.
PyObject* run_rows(Body& body, PyObject* const* args, Py_ssize_t n);

// A call's work: compute(from, to, scratch) for units [0, n) of `weight` elements.
template <class Compute>
class Work {
 public:
  Work(Body& body, Py_ssize_t piece, Py_ssize_t n, double weight, const Compute& compute)
      : body_(body), piece_(piece), n_(n), weight_(weight), compute_(compute) {}

  // False if a loop failed.  Parts begin at multiples of `unit`.
  bool run(Py_ssize_t unit) {
    Scratch scratch(body_, piece_);
    Py_ssize_t at = 0;
    if (body_.pace == 0) {
      at = std::min(n_, whole(unit, static_cast<double>(kFirst)));
      if (!run_timed(0, at, scratch)) return false;
    }
    const double left = static_cast<double>(n_ - at) * weight_ * body_.pace;
    if (workers() == 1 || left < kWorth) return at == n_ || run_timed(at, n_, scratch);
    const Py_ssize_t per = whole(unit, kPart / body_.pace);
    std::atomic<bool> good{true};
    share((n_ - at + per - 1) / per, [&](Parts& parts) {
      Py_ssize_t i = parts.take();
      if (i < 0) return;
      for (Scratch own(body_, piece_); i >= 0; i = parts.take()) {
        const Py_ssize_t from = at + i * per;
        if (good && !run_timed(from, std::min(from + per, n_), own)) good = false;
      }
    });
    return good;
  }

 private:
  // Units of so many elements, about, and at least one: a multiple.
  Py_ssize_t whole(Py_ssize_t unit, double elements) const {
    const auto times = static_cast<Py_ssize_t>(elements / weight_ / static_cast<double>(unit));
    return std::max<Py_ssize_t>(times, 1) * unit;
  }

  bool run_timed(Py_ssize_t from, Py_ssize_t to, Scratch& scratch) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const bool good = compute_(from, to, scratch);
    const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
    body_.note_pace(taken.count() / (static_cast<double>(to - from) * weight_));
    return good;
  }

  Body& body_;
  Py_ssize_t piece_, n_;
  double weight_;
  const Compute& compute_;
};

// None, or null with a Python error set.
PyObject* outcome(bool good);

}  // namespace tritorch::chains
