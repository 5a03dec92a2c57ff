// A region: a compiled function while it runs.  Python runs it, and the public functions that it
// calls are followed: Note [Following] in tritorch/compilation/follow/regions.py.
//
//   Node    one followed call, in a trie of all streams of calls that a function has made
//   Region  a run: how far in the trie it is, which tensors it knows, what waits to be computed
//   Lazy    what a tensor has in place of an array while its computation waits
#pragma once

#include <Python.h>

#include "ref.h"
#include "scopes.h"
#include "tensor/fields.h"

namespace tritorch {

struct Region;

extern constinit thread_local Region* region;  // the one that this thread is in
extern PyTypeObject* lazy_type;

struct Lazy {
  PyObject_HEAD PyObject* spec;  // (shape, dtype, strides, device, requires grad)
  PyObject* region;              // null: the one whose number is in a tensor's mark
};

// Whether the public functions that a region's thread calls are followed.
bool follows(Region* r);
// Whether somebody hears of each call that is recorded there.
bool is_overheard(const Region* r);

// A call of a public function by a function that is followed.
PyObject* follow(Region* r, PyObject* gate, PyObject* const* args, Py_ssize_t n, PyObject* names);

// Computes what waits in any thread, and waits for what another one computes: somebody is about to
// do what nobody follows.  Not in a thread that is held back.  False with a Python error set on
// failure.
extern int waiting;  // how many regions have something that waits, or is computed
bool settle_all();
inline bool settled() { return waiting == 0 || settle_all(); }

// Computes what waits, then sets something; if the first fails and it is not set back (Note
// [Scopes]), nothing is set.
template <class Set>
PyObject* set_settled(const Set& set) {
  if (settled()) return set();
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
