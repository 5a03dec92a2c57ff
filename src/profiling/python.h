// Events of what Python calls: names, arguments and the Python functions that start a profile.
#pragma once

#include <Python.h>

#include "profiling/device.h"
#include "profiling/events.h"

namespace tritorch::profiling {

constexpr std::uint32_t kUnnamed = 0xffffffff;  // of what no profile shows

// The number of a name, which is a str.  kUnnamed with a Python error set on failure.
std::uint32_t number_of(PyObject* name);

// The number that a profile has for a gate; kUnnamed, without an error, for what it does not show.
std::uint32_t number_of_gate(PyObject* gate);

// Writes what is asked for beside the times: the arguments, the place in Python.
void describe_call(Event* event, PyObject* const* args, Py_ssize_t n, PyObject* names);
// Writes the arguments alone; identified: and which tensors and whose memory they are.
void write_call(Event* event, PyObject* const* args, Py_ssize_t n, PyObject* names,
                bool identified);
// Which tensor a call has given, where memory and arguments are written down.
void describe_result(Event* event, PyObject* result);

// A record of that number has computed something: an event, where the call around it is of another
// name.
void note_record(std::uint32_t name);
// The number that a profile has for a record; kUnnamed, without an error, for what it does not
// show.
std::uint32_t number_of_record(PyObject* op);

// What is known now of a kernel of that name: Note [Nodes of graphs].
NodeNote note_of_now(std::uint32_t name);

// A module's call, while it is in scope.
class ModuleScope {
 public:
  explicit ModuleScope(PyObject* module);
  Scope scope;
};

// Notes what NumPy's arrays take of this thread from now on, and no more.  False with a Python
// error set on failure.
bool watch_host_memory();
bool leave_host_memory();
// The same in a context that was made while it is noted.
bool note_host_memory();

// Adds the functions to the module.  False with a Python error set on failure.
bool add_functions(PyObject* module);

}  // namespace tritorch::profiling
