// The key of a call: all of its arguments that may decide how its function computes.
//
// A tensor enters it by its dtype, device, sizes, strides and alignment, by the memory that it
// shares with those before, and by whether gradients flow to it; never by its values.  Anything
// else enters it by its value, or by its identity where it is one of few objects (a dtype, a word).
// Calls with equal keys differ in values and addresses alone.
#pragma once

#include <Python.h>

#include <cstdint>
#include <span>
#include <vector>

#include "array/array.h"
#include "ref.h"
#include "tensor/fields.h"

namespace tritorch::plans {

// Memory of arguments: the first tensor that lies in it, by its number.
struct Memory {
  const Storage* storage;
  int tensor;
};

class Key {
 public:
  Key() = default;
  ~Key();
  Key(const Key&) = delete;
  static constexpr int kWords = 224, kTensors = 48, kObjects = 24;

  // False where a call can have no plan: an argument is neither plain data nor a tensor on a GPU.
  // An error may be set then.
  bool take(PyObject* const* args, Py_ssize_t n, PyObject* names);

  std::uint64_t hash() const;
  bool equals(const std::vector<std::uint64_t>& words) const;
  std::vector<std::uint64_t> words() const { return {words_, words_ + count_}; }
  std::vector<Ref> objects() const;  // those that it knows by their identity

  bool on_host() const { return on_host_; }
  int device() const { return device_; }  // negative: no tensor says it, or all are on the CPU
  int tensor_count() const { return n_tensors_; }
  Tensor* tensor(int i) const { return tensors_[i]; }
  const Array* array(int i) const { return arrays_[i]; }  // of tensors on a GPU
  std::span<PyObject* const> arrays() const {             // as objects
    return {held_, static_cast<std::size_t>(n_tensors_)};
  }
  int memory_count() const { return n_memories_; }
  const Memory& memory(int i) const { return memories_[i]; }

 private:
  enum Tag : std::uint64_t {
    kNone = 1,
    kTrue,
    kFalse,
    kEllipsis,
    kInt,
    kFloat,
    kObject,
    kTuple,
    kList,
    kSlice,
    kTensor,
    kHostTensor,
    kSame
  };
  bool add(std::uint64_t word) {
    if (count_ == kWords) return false;
    words_[count_++] = word;
    return true;
  }
  bool add_modes();
  bool add_value(PyObject* value, int depth);
  bool add_tensor(Tensor* tensor);
  void hold(Tensor* tensor, const Array* array);
  bool add_host_tensor(Tensor* tensor, const NDArray* array);
  std::uint64_t flags_of(Tensor* tensor, bool& fits) const;
  bool add_object(PyObject* object);

  std::uint64_t words_[kWords];
  int count_ = 0, device_ = -1;
  bool on_host_ = false;
  Py_ssize_t bytes_ = 0;
  // Held, with their arrays: while the interpreter lock is given up, others may let them go.
  Tensor* tensors_[kTensors];
  PyObject* held_[kTensors];
  const Array* arrays_[kTensors];
  int n_tensors_ = 0;
  Memory memories_[kTensors];
  int n_memories_ = 0;
  PyObject* objects_[kObjects];
  int n_objects_ = 0;
};

}  // namespace tritorch::plans
