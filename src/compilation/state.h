// The states of following, for the files of this folder alone.
#pragma once

#include <vector>

#include "compilation/pattern.h"
#include "compilation/region.h"

namespace tritorch {

extern PyTypeObject *region_type, *step_type;
extern PyObject*
    miss_handler;  // (region, gate, args, kwargs): a call that is not in the trace tree
extern PyObject* spec_handler;         // (tensor) -> the spec of a deferred one
extern PyObject* ambient_handler;      // () -> a number for Python's settings
extern PyObject* compute_handler;      // flushes a region, and gives the plan for the next time
extern PyObject* look_handler;         // is told when a deferred tensor is looked at
extern std::vector<Region*> regions;   // all that run
extern thread_local int unfollowed;    // reasons for which a thread follows nothing
extern thread_local int flushes_held;  // and those for which it flushes nothing

// ---- the trace tree -----------------------------------------------------------------------------

struct Step;

// Two inputs of deferred calls with the same memory: by slot, the first that has it, and another.
struct Sharing {
  int first, other;
  bool whole;  // they have the same array
  bool operator==(const Sharing&) const = default;
};

// The plan of a segment whose last step this is, when `first` was the first, the program holds
// certain tensors, and certain inputs share memory: a `_C.Program`, a function, or None for the
// calls as they were made; (a function, the number of a backward pass) for the calls until another
// one begins.
struct Plan {
  const Step* first;
  std::vector<int> held;
  std::vector<Sharing> shared;
  Ref program;
};

// One followed call.  A graph break needs all before it computed, and runs plainly each time.  The
// fields that are compared in each run come first.
struct Step {
  PyObject_HEAD PyObject* gate;
  Step *child, *sibling;  // the first of the steps below it, which it owns, and the next of those
  PyObject* names;        // of keywords, or null
  Pattern* patterns;      // of its arguments, and last of its result
  long ambient;
  int n_args;
  int first, met, made;  // its slots: from `first` on, so many from outside, so many made
  int numbers;           // how many are known before it
  int tries;
  char graph_break, grad_enabled, inference_mode;
  std::vector<int>* reads;        // slots of its arguments
  std::vector<Expr>* conditions;  // on numbers, which hold where it fits; or null
  std::vector<int>* writes;       // slots whose memory it writes; or null
  std::vector<Plan>* plans;
  PyObject* call;  // what Python keeps of it
  Step* parent;    // borrowed; null for the first, and where that is gone

  std::span<Pattern> args() { return {patterns, static_cast<std::size_t>(n_args)}; }
  std::span<const Pattern> args() const { return {patterns, static_cast<std::size_t>(n_args)}; }
  const Pattern& result() const { return patterns[n_args]; }
};

// The last of the steps below one, to put another behind; and how many there are.
inline Step** end_of(Step* parent, std::size_t& count) {
  Step** end = &parent->child;
  for (count = 0; *end; ++count) end = &(*end)->sibling;
  return end;
}

Step* new_step(Step* parent);

// True if a call is a step's, of a region that comes to it now.
bool matches(const Step* step, const Region* r, PyObject* const* args, Py_ssize_t n,
             PyObject* names, Met& met);

// A number for Python's settings; negative with a Python error set on failure.
long ambient_now();

// ---- regions ------------------------------------------------------------------------------------

struct Region {
  PyObject_HEAD Step* root;                         // owned, as are the steps below it
  Step* here;                                       // the last call
  PyObject* follower;                               // Python's
  std::vector<Tensor*>* slots;                      // borrowed: null for one that is gone
  std::vector<Step*>* steps;                        // the deferred calls
  std::vector<std::pair<int, Ref>>* kept;           // tensors with arrays that those need
  std::vector<char>* is_kept;                       // by slot, whether it is among those
  std::vector<std::pair<Ref, PyObject*>>* written;  // tensors whose arrays are put aside
  std::vector<Number>* numbers;                     // the dynamic numbers of this run
  PyObject* sibling;  // Python's: the step of another branch that is like the last call
  PyObject* walked;   // Python's: (a step, the dynamic numbers of the calls until there)
  unsigned long long serial;
  unsigned long long epoch;
  long ambient;
  unsigned long thread;     // that it runs in
  const Modes* modes;       // that thread's
  const int* unfollowed;    // and its
  unsigned long computing;  // the thread that flushes it; 0: none
  int busy;                 // calls inside of calls are not followed
  char entered;             // it runs
  char eager;               // too many branches: nothing is followed any more
  char learns;              // a call was new in this run
};

enum { kShape, kDtype, kStrides, kDevice, kNeedsGrad, kLeaf, kSpecFields };

// A slot's tensor, or null if it is being deallocated: weak references' callbacks and finalizers of
// its attributes run before a region is told (`forget`), and may flush.
inline Tensor* alive(Tensor* t) { return t && Py_REFCNT(t) > 0 ? t : nullptr; }

// The tensors that a region has met get their slots; other regions that know them lose them.
void assign_slots(Region* r, Met& met);
// The region that runs and has this number, or null.
Region* region_of(unsigned long long serial);

// Methods of a region that lay a step below the last one.
PyObject* add_step(PyObject* region, PyObject* args);
PyObject* forget_step(PyObject* region, PyObject* call);
PyObject* add_graph_break(PyObject* region, PyObject* const* args, Py_ssize_t n);

// r: null where the mark of a tensor says which region computes it.
PyObject* new_deferred(PyObject* spec, Region* r);

// A deferred tensor becomes what was computed, with its history.
bool become(Tensor* t, PyObject* computed);

// True if a program may write a tensor's memory without a call of ours, or somebody who is no
// array.
bool is_exposed(const Tensor* t);
// True if this tensor alone leads to its memory.
bool is_alone(const Tensor* t);

// Makes a call that is not followed.
PyObject* call_plainly(Region* r, PyObject* gate, PyObject* const* args, Py_ssize_t n,
                       PyObject* names);

// Gives the tensors that deferred calls write their arrays back.
void put_back(Region* r);

// Waits while another thread flushes a region; not for one that waits for this thread.
void wait_while_computed(Region* r);
inline void wait_for_others(Region* r) {
  if (r->computing) wait_while_computed(r);
}

// Flushes a region: computes its deferred calls.
bool compute(Region* r);

// Makes one step's call, of tensors by slot, which get those that it makes.
bool run_step(const Step* step, Region* r, std::vector<Ref>& values);

bool enter(Region* r);
bool leave(Region* r);

// Of a region that nothing refers to: it may run again.
void start_again(Region* r);

bool add_step_type(PyObject* module);
bool add_deferred_type(PyObject* module);
bool add_region_type(PyObject* module);
bool add_entry_type(PyObject* module);

}  // namespace tritorch
