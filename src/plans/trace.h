// A call that is watched while Python makes it: its launches, and the tensors and nodes that it
// makes.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "launch/recording.h"
#include "plans/host.h"
#include "plans/key.h"
#include "ref.h"

namespace tritorch::plans {

// Tensors that a record's call, or something simpler, has made.
struct Made {
  enum Kind : std::uint8_t { wrapped, alias, one, view, many } kind;
  Ref op, params;
  std::vector<Ref> inputs;   // tensors, numbers, None
  std::vector<Ref> results;  // tensors, or None
  unsigned long mask = 0;    // of several results, those that gradients flow through
  Ref node_type, node_call;  // given to the node afterwards, where a function is several records
  std::vector<Ref> given;    // the arrays that the record's function gave, before they were placed
  Ref computed;              // the dtype that operands were cast to
  std::vector<Ref> arrays;   // of the results, as they were then
};

// Numbers that a generator gave: a seed and an offset.
struct Draw {
  Ref generator;
  long long count;
  std::uint32_t number;  // of the first
};

class Trace {
 public:
  Trace(const Key& key, int device, cu::CUstream stream);
  Trace();  // of a call on tensors without memory
  ~Trace();
  Trace(const Trace&) = delete;

  Recording recording;
  std::vector<Made> made;
  std::vector<Ref> written;  // tensors whose version went up
  std::vector<Draw> draws;
  const bool on_host;
  std::vector<SeenCall> calls;  // of functions of ndarrays
  int within = 0;               // such functions that run
  bool whole = false;           // functions of smaller operators count as one call
  bool has_parts = false;       // such functions were called

  // What of all that was made the result leads to: by its numbers, in order.
  std::vector<std::size_t> needed(PyObject* result) const;

  // Whether nothing but versions has changed of the arguments.
  bool arguments_are_as_before() const;

 private:
  struct Before {
    Tensor* tensor;
    PyObject *array, *node, *grad, *base, *view, *created, *hooks;
    char leaf, inference, retains_grad;
    long long version;
  };
  static Before look(Tensor* tensor);
  std::vector<Before> before_;
  Recorder* outer_;
  Trace* outer_trace_;
};

// Whether results lead to what a call got: by a node, or as views.
bool keeps_inputs(const Made& made);

inline constinit thread_local Trace* trace = nullptr;

// What the native half tells of, if a call is watched; each gives its result back.
PyObject* told_one(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
                   PyObject* given, PyObject* computed, PyObject* result, Made::Kind kind);
PyObject* told_many(Operator* op, PyObject* const* inputs, Py_ssize_t n, PyObject* params,
                    unsigned long mask, PyObject* given, PyObject* results);
void told_wrapped(PyObject* array, PyObject* tensor);
void told_alias(PyObject* input, PyObject* array, PyObject* tensor);
// Calls a function of ndarrays while a call is watched.
PyObject* watched_call(PyObject* function, PyObject* const* args, std::size_t flagged,
                       PyObject* names, Contents contents = Contents::result);
// Whether a function, called while a call is watched, is made of others that are watched
// themselves.
bool is_taken_apart(PyObject* function);
void told_written(PyObject* tensor);
void told_named(Node* node, PyObject* type, PyObject* call);
void told_unfit(const char* why);

}  // namespace tritorch::plans
