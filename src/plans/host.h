// A call's functions of ndarrays, one after the other: what of a plan the CPU computes.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "ref.h"

namespace tritorch::plans {

// An argument of such a function: a plain object, an array that is there by then, a view of one, or
// several of these.
struct Value {
  enum Kind : std::uint8_t { object, argument, result, view, list, tuple } kind = object;
  int index = 0;             // of the argument's tensor, or of the call that gave it
  int output = -1;           // of a call that gave several: which
  Ref value;                 // the object; of a view, the dtype of its elements
  std::vector<Value> items;  // of a list or tuple; of a view, the array that it looks at
  std::vector<Py_ssize_t> shape, strides;
  Py_ssize_t delta = 0;  // bytes from the beginning of that array
  bool operator==(const Value& other) const;
};

using Refs = std::pmr::vector<Ref>;

PyObject* owner_of(PyObject* array);  // the object that owns an array's memory

// What a function's result has in it: `unwritten` may be given to the program as it is, `scratch`
// is there for other functions to write.
enum class Contents : std::uint8_t { result, unwritten, scratch };

// A call that was seen.
struct SeenCall {
  Ref function;
  std::vector<Ref> args;
  Ref names, result;
  Contents contents;
};

class HostProgram {
 public:
  // Describes the calls that were seen, where arguments are these arrays.  False, with why, where
  // a function gets an array of which nobody knows where it comes from.
  bool take(std::span<PyObject* const> arrays, const std::vector<SeenCall>& seen, const char*& why);
  bool describe(PyObject* object, Value& found, const char*& why) const;  // after the last call
  bool operator==(const HostProgram& other) const;
  bool gets(int argument) const;                // whether a function gets that array
  bool is_unwritten(const Value& value) const;  // memory without contents, that no function gets
  bool has_answers() const;  // whether a function says something, which may depend on values
  // Whether a function is asked after one that gets one of these arguments.
  bool asks_after_writing(std::span<const int> written) const;

  // Makes the calls.  False with a Python error set; or without, where a function answers otherwise
  // than it did.  `poisoned`: new memory is filled, so that nobody takes what was there for
  // results.
  bool run(std::span<PyObject* const> arrays, Refs& results, bool poisoned = false) const;
  Ref at(const Value& value, std::span<PyObject* const> arrays, const Refs& results) const;

 private:
  struct Call {
    Ref function, names;
    std::vector<Value> args;
    Contents contents;
    Ref answer;  // a result that is no array: None, a bool or an integer
    bool asks() const { return answer && answer.get() != Py_None; }
    bool gets(int argument) const;
    bool operator==(const Call& other) const;
  };
  bool find_source(PyObject* array, Value& found) const;
  std::vector<Call> calls_;
  std::vector<PyObject*> known_arrays_;  // while calls are described
  const std::vector<SeenCall>* seen_ = nullptr;
  std::size_t so_far_ = 0;
};

// A copy of an array with its strides, in memory of its own.  Null with a Python error set.
PyObject* copy_of(PyObject* array);
// Whether two arrays have the same elements, to the bit.
bool same_contents(PyObject* a, PyObject* b);

bool same_objects(const Ref& a, const Ref& b);
// Whether an object, or an item of it, is memory or history that only one call had.
bool holds_tensor(PyObject* object);

}  // namespace tritorch::plans
