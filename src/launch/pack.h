// From Python arguments to the bytes that a kernel takes, by a plan made once a compiled kernel.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "array/array.h"
#include "launch/tensormap.h"
#include "ref.h"

namespace tritorch {

// Thrown when a Python error is set.
struct PythonError {};

// A new reference; null is an error, which passes.
inline Ref checked(PyObject* owned) {
  if (!owned) throw PythonError{};
  return Ref(owned);
}

// Implemented beside the bindings.
const Array* as_array(PyObject* object) noexcept;  // null for anything else
PyObject* array_object(Array&& array);             // a new reference; null with an error set
void set_python_error(std::exception_ptr error) noexcept;

// body(), of which what escapes becomes a Python error, with a null or false result.
template <class Body>
auto guarded(Body&& body) noexcept -> decltype(body()) {
  try {
    return outlasting(body);
  } catch (const PythonError&) {
  } catch (...) {
    set_python_error(std::current_exception());
  }
  return {};
}

enum class ArgKind : std::uint8_t {
  constant,  // compiled in: nothing is passed
  pointer,
  i1,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  fp16,
  bf16,
  fp32,
  fp64,
  tensor_map,         // a ready CUtensorMap's bytes
  tensor_descriptor,  // an object with base, shape, strides, padding
  tuple,
};

struct ArgPlan {
  ArgKind kind = ArgKind::constant;
  std::vector<ArgPlan> items;  // of a tuple
  int rank = 0;                // of a descriptor
  // How the compiler lowered a descriptor: as a tensor map with these traits, or (false) as its
  // base pointer, shape, strides and flags.
  bool uses_map = false;
  TensorMapRequest traits;  // box, swizzle, element type
  bool pads_fp4 = false;
  bool pads_fp4_shape = false;  // Triton 3.6 passes the doubled shape on to the kernel
  bool has_rounding_flag = false;
};

// Parses one entry of a Triton signature ("*fp32", "i32", "constexpr", "tensordesc<fp16[64, 64]>",
// or a tuple of such); `meta` yields a descriptor's lowering in order of appearance.
ArgPlan parse_signature(PyObject* entry, PyObject* meta_list, Py_ssize_t& next_meta,
                        bool has_rounding_flag, bool pads_fp4_shape);
// Bytes of each parameter that a plan passes, in order.
void append_sizes(const ArgPlan& plan, std::vector<std::uint32_t>& sizes);
// The kind's name of each parameter ("pointer", "i32", ...), in order.
void append_kinds(const ArgPlan& plan, std::vector<std::string>& kinds);

// What a parameter that is packed was made of, for who wants to make it anew.
struct Mark {
  enum Kind : std::uint8_t { address, map, number, opaque } kind;
  std::size_t parameter;
  PyObject* value;  // borrowed: an array or what else leads to memory, or a number
  TensorMapRequest request;
};

class PackedArgs {
 public:
  explicit PackedArgs(std::vector<Mark>* marks = nullptr) : marks_(marks) {}
  void add(const ArgPlan& plan, PyObject* value, int device);
  void add_pointer(cu::CUdeviceptr pointer) { put(pointer); }
  void** params() { return params_; }
  std::size_t count() const { return count_; }
  std::size_t bytes() const { return used_; }
  const void* parameter(std::size_t i) const { return params_[i]; }
  std::size_t offset(std::size_t i) const {
    return static_cast<std::size_t>(static_cast<unsigned char*>(params_[i]) - bytes_);
  }

 private:
  static constexpr std::size_t kBytes = 4096, kParams = 1024;
  template <class T>
  void put(const T& value) {
    std::memcpy(reserve(sizeof(T), alignof(T)), &value, sizeof(T));
  }
  void* reserve(std::size_t size, std::size_t alignment);
  void add_value(const ArgPlan& plan, PyObject* value, int device);
  void add_descriptor(const ArgPlan& plan, PyObject* value, int device);
  void mark(const ArgPlan& plan, PyObject* value);

  alignas(128) unsigned char bytes_[kBytes];
  void* params_[kParams];
  std::size_t used_ = 0, count_ = 0;
  std::vector<Mark>* marks_;
};

// The device address behind an argument: an array, an integer, None, or an object with data_ptr().
cu::CUdeviceptr pointer_of(PyObject* value, int device);

}  // namespace tritorch
