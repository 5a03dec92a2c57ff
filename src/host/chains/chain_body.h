// What a chain is made of: its places and steps.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "compilation/pattern.h"
#include "host/chains/arithmetic.h"
#include "host/chains/reductions.h"
#include "ref.h"

namespace tritorch::chains {

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

enum class Kind { kLoop, kSelect, kCast, kGuard, kRow, kReduce };

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
  Reduce reduce = nullptr;
  std::vector<int> places;
  std::string arithmetic;    // of a loop: the function's name, if it may be part of a row
  std::vector<Operand> row;  // of a row
};

// Where a value is: an array that is given, a number, or a buffer.
struct Place {
  int array = -1, buffer = -1;
  Ref number;  // an array without dims
  Py_ssize_t step = 0, itemsize = 0;
  bool written = false;
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
  bool reduces = false;         // rows to one number each: Note [Rows]
  Py_ssize_t written = 0;       // bytes of an element of the last array
  std::atomic<double> pace{0};  // nanoseconds of an element; 0 while nobody knows

  // Makes pieces so small that those of all arrays and buffers stay in the first cache.
  void fit() {
    std::size_t bytes = buffers * widest;
    for (const Place& place : places)
      if (place.array >= 0) {
        bytes += static_cast<std::size_t>(place.step);
        if (place.array == arrays - 1) written = place.step;
      }
    while (piece > kLeast && static_cast<std::size_t>(piece) * bytes > kCache) piece /= 2;
  }
  // What was measured of elements' time takes the least: Note [Pace] in chain.cpp.
  void note_pace(double nanoseconds) {
    const double known = pace.load(std::memory_order_relaxed);
    if (known == 0 || nanoseconds < known) pace.store(nanoseconds, std::memory_order_relaxed);
  }
  // Bytes of each buffer, of so many elements.
  std::size_t width(Py_ssize_t elements) const {
    return (static_cast<std::size_t>(elements) * widest + kLine - 1) / kLine * kLine;
  }
};

// Appends what a tuple says; false with a Python error set.
bool read_place(PyObject* item, Body& body);
bool read_step(PyObject* item, Body& body);
// Makes rows of arithmetic of steps.
void join_arithmetic(Body& body);

}  // namespace tritorch::chains
