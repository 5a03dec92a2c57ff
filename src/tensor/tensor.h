// What every operator touches on every call, written against CPython because it is the hot path:
//
//   TensorBase  a tensor's fields: its array, its place in the autograd graph, what views share
//   Shared      what all views of one storage share: the version counter and the root array
//   NodeBase    one recorded call: the operator, what its gradient needs, the edges to its inputs
//   OperatorBase  turns a backend's result into a Tensor and records the call
//
// The semantics live in Python (tritorch/core, tritorch/autograd).
//
// # Note [Graph ownership]
// An edge points to a Node, or to a leaf Tensor itself, which holds nothing that leads back: so no
// reference cycle keeps memory alive.  A gradient that needs its operator's output saves the array,
// not the tensor (which owns the node).
#pragma once

#include <Python.h>

namespace tritorch {

extern PyTypeObject* tensor_type;  // tritorch.Tensor: the class of new tensors

// Whether there ever was a tensor whose array says what class it is of (a nested one), and whether
// one is among arguments or items of theirs.
extern bool any_classed;
bool holds_classed(PyObject* const* args, Py_ssize_t n);

// Makes results of a call tensors of their own where they are views of what the call itself made:
// who called has nothing that they could be views of.
void own_results(PyObject* result, PyObject* const* args, Py_ssize_t n);

// Adds the types and the functions of grad mode to the module.  Returns false with a Python error
// set on failure.
bool add_tensor_types(PyObject* module);

}  // namespace tritorch
