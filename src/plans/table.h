// The call plans of a function, by the keys of its calls.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "plans/plan.h"

namespace tritorch::plans {

extern PyObject* plain_types;  // types of few objects, which a key knows by their identity
extern bool enabled;
extern thread_local int withheld;  // reasons for which this thread's calls have no plans

struct Again;  // what a call on the CPU is made again with

class Table {
 public:
  // Calls a function by a plan if there is one for such arguments, else by itself.
  PyObject* call(PyObject* function, PyObject* const* args, std::size_t flagged, PyObject* names);
  PyObject* describe() const;

 private:
  struct Entry {
    std::vector<std::uint64_t> words;
    std::vector<Ref> objects;  // those whose identity is in the words
    std::unique_ptr<Plan> taken;
    std::shared_ptr<const Plan> ready;
    int seen = 0, tries = 0, given_up = 0;
    bool never = false, busy = false;
    bool whole = false;  // functions of smaller operators are one call of its plan
    std::string why;

    void take_whole();  // makes another plan, in which such functions are one call
  };
  PyObject* watch(const Key& key, const std::shared_ptr<Entry>& entry, PyObject* function,
                  PyObject* const* args, std::size_t flagged, PyObject* names);
  void make_room();
  static void learn(Entry& entry, const Key& key, Trace& trace, const Again& again,
                    PyObject* result);

  static void learn_as_it_is(Entry& entry, const Key& key, Trace& trace, const Again& again,
                             PyObject* result);

  std::unordered_multimap<std::uint64_t, std::shared_ptr<Entry>> entries_;
  long long runs_ = 0;
  int recent_keys_ = 0, recent_runs_ = 0, resting_ = 0;
};

// Whether a call may have a plan, as far as a glance tells: a plain tensor comes before any other.
// makes: the function makes tensors of numbers, and none has to come.
bool may_plan(PyObject* const* args, Py_ssize_t n, PyObject* names, bool makes = false);

// A function of Python's that is called by plans: `Planned(function)`.
bool add_plan_types(PyObject* module);

}  // namespace tritorch::plans
