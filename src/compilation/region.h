// A compiled region: a compiled function while it runs.  Python runs it, and the public functions
// that it calls are followed: Note [Following] in tritorch/compilation/follow/regions.py.
//
//   Step      one followed call, in the tree of all traces of a function
//   Region    a run: its position in the tree, the tensors it knows, the calls that are deferred
//   Deferred  it stands for the array of a tensor whose call is deferred
#pragma once

#include <Python.h>

#include "ref.h"
#include "scopes.h"
#include "tensor/fields.h"

namespace tritorch {

struct Region;

extern constinit thread_local Region* region;  // the one that this thread is in
extern PyTypeObject* deferred_type;
extern unsigned long long ambient_epoch;  // changes with Python's settings

struct Deferred {
  PyObject_HEAD PyObject* spec;  // (shape, dtype, strides, device, requires grad)
  PyObject* region;              // null: the one whose number is in a tensor's mark
};

// True if the public functions that a region's thread calls are followed.
bool follows(Region* r);
// True if somebody hears of each call that is recorded there.
bool is_overheard(const Region* r);

// A call of a public function by a function that is followed.
PyObject* follow(Region* r, PyObject* gate, PyObject* const* args, Py_ssize_t n, PyObject* names);

// Flushes the deferred calls of all threads, and waits for flushes of others: something is about to
// happen that nobody follows.  Not in a thread whose flushes are held.  False with a Python error
// set on failure.
extern int deferring;  // how many regions have deferred calls, or are flushed now
bool flush_all();
inline bool flushed() { return deferring == 0 || flush_all(); }

// Flushes, then sets something; if the first fails and it is not set back (Note
// [Scopes]), nothing is set.
template <class Set>
PyObject* set_flushed(const Set& set) {
  if (flushed()) return set();
  if (!restoring) return nullptr;
  TakenError error;
  const Ref done(set());
  error.restore();
  return nullptr;
}

// A program got hold of an array, which has its memory; by its address: for good.
void expose(PyObject* array, bool by_address);

// Adds the types and functions to the module.  False with a Python error set on failure.
bool add_following(PyObject* module);

}  // namespace tritorch
