// A program computes a segment: functions of arrays, one after the other, as
// tritorch/compilation/plan/plans.py wrote them down.
#pragma once

#include <Python.h>

#include <memory>
#include <vector>

#include "compilation/pattern.h"

namespace tritorch {

extern PyTypeObject* program_type;

struct Call {
  Ref function;
  std::vector<Ref> constants;  // null where a value goes
  std::vector<int> values;     // negative where a constant goes
  std::vector<int> results;    // one, or those of the tuple that it returns; negative: nobody asks
  std::vector<int> dropped;    // values that nobody needs any more
  // Of a program with dynamic sizes: the layouts of results, and the function for other ones.
  std::vector<std::unique_ptr<DynamicLayout>> expected;
  Ref fallback;
};

// Makes one call; its results are values then.  args: room for its arguments.
bool make_call(const Call& call, std::vector<Ref>& values, const std::vector<Number>& numbers,
               PyObject** args);
// Lets go of the values that nobody needs after it.
inline void let_go(const Call& call, std::vector<Ref>& values) {
  for (int value : call.dropped) values[static_cast<std::size_t>(value)] = Ref();
}

// A list of the tensors of all slots: those given, and those that somebody holds.
PyObject* tensors_by_slot(const std::vector<Ref>& tensors, const std::vector<Tensor*>& slots);

// Runs a program on the arrays of tensors by slot; results become the arrays of `slots`' tensors.
// Calls finish(region, values, tensors) at the end, where the program has that.
bool run_program(PyObject* program, PyObject* region, const std::vector<Ref>& values,
                 const std::vector<Tensor*>& slots);

bool add_program_type(PyObject* module);

}  // namespace tritorch
