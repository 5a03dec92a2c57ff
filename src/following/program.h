// A program computes what waited: functions of arrays, one after the other, as
// tritorch/_following/plans.py wrote them down.
#pragma once

#include <Python.h>

#include <vector>

#include "following/pattern.h"

namespace tritorch {

extern PyTypeObject* program_type;

// A list of the tensors of all slots: those given, and those that somebody holds.
PyObject* tensors_by_slot(const std::vector<Ref>& tensors, const std::vector<Tensor*>& slots);

// Runs a program on the arrays of tensors by slot; results become the arrays of `slots`' tensors.
// Calls finish(region, values, tensors) at the end, where the program has that.
bool run_program(PyObject* program, PyObject* region, const std::vector<Ref>& values,
                 const std::vector<Tensor*>& slots);

bool add_program_type(PyObject* module);

}  // namespace tritorch
