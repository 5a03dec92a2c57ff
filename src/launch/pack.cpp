#include "launch/pack.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "driver/context.h"
#include "launch/descriptor.h"
#include "ref.h"

namespace tritorch {
namespace {

[[noreturn]] void fail(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw PythonError{};
}

std::int64_t as_int64(PyObject* value) {
  std::int64_t result = PyLong_AsLongLong(value);
  if (result == -1 && PyErr_Occurred()) throw PythonError{};
  return result;
}

std::int64_t attribute_int(PyObject* mapping, const char* key) {
  PyObject* value = PyDict_GetItemString(mapping, key);
  return value ? as_int64(value) : 0;
}

// A tuple or list of integers, reversed into `out`; returns how many.
template <class T, std::size_t N>
int reversed_ints(PyObject* sequence, std::array<T, N>& out) {
  const Ref fast = checked(PySequence_Fast(sequence, "a sequence of integers is needed"));
  Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.get());
  if (count > static_cast<Py_ssize_t>(N))
    fail(PyExc_ValueError,
         "a tensor descriptor has at most 5 dimensions, got " + std::to_string(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    out[count - 1 - i] = static_cast<T>(as_int64(PySequence_Fast_GET_ITEM(fast.get(), i)));
  return static_cast<int>(count);
}

struct KindName {
  std::string_view name;
  ArgKind kind;
  std::uint32_t size;
};
constexpr KindName kKinds[] = {
    {"constexpr", ArgKind::constant, 0},
    {"pointer", ArgKind::pointer, 8},
    {"i1", ArgKind::i1, 1},
    {"u1", ArgKind::i1, 1},
    {"i8", ArgKind::i8, 1},
    {"i16", ArgKind::i16, 2},
    {"i32", ArgKind::i32, 4},
    {"i64", ArgKind::i64, 8},
    {"u8", ArgKind::u8, 1},
    {"u16", ArgKind::u16, 2},
    {"u32", ArgKind::u32, 4},
    {"u64", ArgKind::u64, 8},
    {"fp16", ArgKind::fp16, 2},
    {"bf16", ArgKind::bf16, 2},
    {"fp32", ArgKind::fp32, 4},
    {"f32", ArgKind::fp32, 4},
    {"fp64", ArgKind::fp64, 8},
    {"nvTmaDesc", ArgKind::tensor_map, 128},
};

const KindName& kind_named(ArgKind kind) {
  for (const KindName& entry : kKinds)
    if (entry.kind == kind) return entry;
  return kKinds[0];
}

// Triton numbers float types of tensor maps a little differently from the driver.
int driver_element_type(int triton_type) {
  switch (triton_type) {
    case 8:
      return cu::CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ;
    case 9:
      return cu::CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case 10:
      return cu::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default:
      return triton_type;
  }
}

std::uint16_t half_bits(double value) {
  unsigned char bytes[2];
  if (PyFloat_Pack2(value, reinterpret_cast<char*>(bytes), 1) < 0) throw PythonError{};
  return static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8);
}

std::uint16_t bfloat16_bits(double value) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<std::uint16_t>(bits >> 16 | 0x40);  // stays NaN
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >>
                                    16);  // to nearest, ties to even
}

template <class T>
T integer(PyObject* value, const char* type) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (PyLong_Check(value)) {
      std::uint64_t result = PyLong_AsUnsignedLongLong(value);
      if (result == ~std::uint64_t{0} && PyErr_Occurred()) throw PythonError{};
      return result;
    }
  }
  const Ref index = checked(PyNumber_Index(value));
  std::int64_t result = as_int64(index.get());
  if (static_cast<std::int64_t>(static_cast<T>(result)) != result)
    fail(PyExc_OverflowError,
         std::to_string(result) + " does not fit a kernel argument of type " + type);
  return static_cast<T>(result);
}

double real(PyObject* value) {
  double result = PyFloat_AsDouble(value);
  if (result == -1.0 && PyErr_Occurred()) throw PythonError{};
  return result;
}

}  // namespace

cu::CUdeviceptr pointer_of(PyObject* value, int device) {
  if (const Array* array = as_array(value)) {
    if (array->device() != device)
      fail(PyExc_ValueError, "a kernel launched on cuda:" + std::to_string(device) +
                                 " got an array on cuda:" + std::to_string(array->device()) +
                                 ": move it there, or launch under `with tritorch.cuda.device(" +
                                 std::to_string(array->device()) + ")`");
    return array->data();
  }
  if (value == Py_None) return 0;
  if (PyLong_Check(value)) return PyLong_AsUnsignedLongLongMask(value);
  static PyObject* const data_ptr = PyUnicode_InternFromString("data_ptr");
  const Ref address(PyObject_CallMethodNoArgs(value, data_ptr));
  if (!address)
    fail(PyExc_TypeError, std::string("a pointer argument must be a tritorch array, an object with "
                                      "data_ptr(), an integer or None, not ") +
                              Py_TYPE(value)->tp_name);
  if (!PyLong_Check(address.get())) fail(PyExc_TypeError, "data_ptr() must return an integer");
  cu::CUdeviceptr pointer = PyLong_AsUnsignedLongLongMask(address.get());
  // Another library's tensor may live on the CPU, where a kernel would fault.
  cu::CUdeviceptr visible = pointer;
  if (pointer && driver().cuPointerGetAttribute(&visible, cu::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                                pointer) != cu::CUDA_SUCCESS)
    fail(PyExc_ValueError, std::string("a kernel cannot access the memory of this ") +
                               Py_TYPE(value)->tp_name + ": is it a CPU tensor?");
  return visible;
}

ArgPlan parse_signature(PyObject* entry, PyObject* meta_list, Py_ssize_t& next_meta,
                        bool has_rounding_flag, bool pads_fp4_shape) {
  ArgPlan plan;
  if (PyTuple_Check(entry)) {
    plan.kind = ArgKind::tuple;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(entry); ++i)
      plan.items.push_back(parse_signature(PyTuple_GET_ITEM(entry, i), meta_list, next_meta,
                                           has_rounding_flag, pads_fp4_shape));
    return plan;
  }
  Py_ssize_t length;
  const char* text = PyUnicode_AsUTF8AndSize(entry, &length);
  if (!text) throw PythonError{};
  std::string_view name(text, length);
  if (name.starts_with('*')) {
    plan.kind = ArgKind::pointer;
    return plan;
  }
  if (!name.starts_with("tensordesc")) {
    for (const KindName& known : kKinds)
      if (known.name == name) {
        plan.kind = known.kind;
        return plan;
      }
    fail(PyExc_TypeError, "kernel arguments of type " + std::string(name) + " are not supported");
  }
  plan.kind = ArgKind::tensor_descriptor;
  plan.has_rounding_flag = has_rounding_flag;
  std::size_t open = name.find('['), close = name.find(']');
  plan.rank = static_cast<int>(std::count(name.begin() + open, name.begin() + close, ',')) + 1;
  if (std::size_t at = name.find(",input_rank="); at != std::string_view::npos)
    plan.rank = std::stoi(std::string(name.substr(at + 12)));
  if (meta_list && PySequence_Check(meta_list) && PySequence_Size(meta_list) > 0) {
    const Ref meta = checked(PySequence_GetItem(meta_list, next_meta++));
    if (meta.get() != Py_None) {
      plan.uses_map = true;
      plan.traits.swizzle = static_cast<int>(attribute_int(meta.get(), "swizzle"));
      plan.traits.element_bytes = static_cast<int>(attribute_int(meta.get(), "elem_size"));
      plan.traits.element_type =
          driver_element_type(static_cast<int>(attribute_int(meta.get(), "elem_type")));
      plan.traits.im2col = attribute_int(meta.get(), "is_im2col") != 0;
      plan.pads_fp4 = attribute_int(meta.get(), "fp4_padded") != 0;
      plan.pads_fp4_shape = pads_fp4_shape;
      reversed_ints(PyDict_GetItemString(meta.get(), "block_size"), plan.traits.box);
    }
  }
  return plan;
}

namespace {
// Calls visit(kind) for each parameter that the plan passes.
template <class Visit>
void each_parameter(const ArgPlan& plan, Visit&& visit) {
  if (plan.kind == ArgKind::tuple) {
    for (const ArgPlan& item : plan.items) each_parameter(item, visit);
  } else if (plan.kind == ArgKind::tensor_descriptor) {
    auto repeat = [&](ArgKind kind) {
      for (int i = 0; i < plan.rank; ++i) visit(kind);
    };
    if (plan.uses_map) {
      visit(ArgKind::tensor_map);
    } else {
      visit(ArgKind::pointer);
      repeat(ArgKind::i64);
      repeat(ArgKind::i64);
      visit(ArgKind::i1);
      if (plan.has_rounding_flag) visit(ArgKind::i1);
    }
    repeat(ArgKind::i32);
    repeat(ArgKind::i64);
  } else if (plan.kind != ArgKind::constant) {
    visit(plan.kind);
  }
}
}  // namespace

void append_sizes(const ArgPlan& plan, std::vector<std::uint32_t>& sizes) {
  each_parameter(plan, [&](ArgKind kind) { sizes.push_back(kind_named(kind).size); });
}

void append_kinds(const ArgPlan& plan, std::vector<std::string>& kinds) {
  each_parameter(plan, [&](ArgKind kind) { kinds.emplace_back(kind_named(kind).name); });
}

void* PackedArgs::reserve(std::size_t size, std::size_t alignment) {
  used_ = (used_ + alignment - 1) & ~(alignment - 1);
  if (used_ + size > kBytes || count_ == kParams)
    fail(PyExc_ValueError, "a kernel's arguments exceed 4096 bytes");
  void* place = bytes_ + used_;
  params_[count_++] = place;
  used_ += size;
  return place;
}

void PackedArgs::add(const ArgPlan& plan, PyObject* value, int device) {
  add_value(plan, value, device);
  if (marks_) [[unlikely]]
    mark(plan, value);
}

// Descriptors mark themselves, and a tuple's items have been marked.
void PackedArgs::mark(const ArgPlan& plan, PyObject* value) {
  if (plan.kind == ArgKind::pointer)
    marks_->push_back({Mark::address, count_ - 1, value, {}});
  else if (plan.kind == ArgKind::tensor_map)
    marks_->push_back({Mark::opaque, count_ - 1, value, {}});
  else if (plan.kind >= ArgKind::i8 && plan.kind <= ArgKind::u64 && PyLong_Check(value))
    marks_->push_back({Mark::number, count_ - 1, value, {}});
}

void PackedArgs::add_value(const ArgPlan& plan, PyObject* value, int device) {
  switch (plan.kind) {
    case ArgKind::constant:
      return;
    case ArgKind::pointer:
      return put(pointer_of(value, device));
    case ArgKind::i1: {
      int truth = PyObject_IsTrue(value);
      if (truth < 0) throw PythonError{};
      return put(static_cast<std::int8_t>(truth));
    }
    case ArgKind::i8:
      return put(integer<std::int8_t>(value, "int8"));
    case ArgKind::i16:
      return put(integer<std::int16_t>(value, "int16"));
    case ArgKind::i32:
      return put(integer<std::int32_t>(value, "int32"));
    case ArgKind::i64:
      return put(integer<std::int64_t>(value, "int64"));
    case ArgKind::u8:
      return put(integer<std::uint8_t>(value, "uint8"));
    case ArgKind::u16:
      return put(integer<std::uint16_t>(value, "uint16"));
    case ArgKind::u32:
      return put(integer<std::uint32_t>(value, "uint32"));
    case ArgKind::u64:
      return put(integer<std::uint64_t>(value, "uint64"));
    case ArgKind::fp16:
      return put(half_bits(real(value)));
    case ArgKind::bf16:
      return put(bfloat16_bits(real(value)));
    case ArgKind::fp32:
      return put(static_cast<float>(real(value)));
    case ArgKind::fp64:
      return put(real(value));
    case ArgKind::tensor_map: {
      if (!PyBytes_Check(value) || PyBytes_GET_SIZE(value) != sizeof(cu::CUtensorMap))
        fail(PyExc_TypeError, "a tensor map argument must be the 128 bytes of one");
      cu::CUtensorMap map;
      std::memcpy(&map, PyBytes_AS_STRING(value), sizeof map);
      return put(map);
    }
    case ArgKind::tensor_descriptor:
      return add_descriptor(plan, value, device);
    case ArgKind::tuple: {
      const Ref items = checked(PySequence_Fast(value, "a tuple is needed"));
      if (PySequence_Fast_GET_SIZE(items.get()) != static_cast<Py_ssize_t>(plan.items.size()))
        fail(PyExc_ValueError, "a tuple argument changed its length");
      for (std::size_t i = 0; i < plan.items.size(); ++i)
        add(plan.items[i], PySequence_Fast_GET_ITEM(items.get(), i), device);
      return;
    }
  }
}

void PackedArgs::add_descriptor(const ArgPlan& plan, PyObject* value, int device) {
  std::array<std::int64_t, 5> shape{}, strides{};
  bool pads_nan = false, rounds = false;
  cu::CUdeviceptr pointer;
  PyObject* leads = nullptr;  // to the memory
  int rank;
  const Descriptor* ours = as_descriptor(value);
  if (ours) {
    rank = ours->rank;
    shape = ours->shape;
    strides = ours->strides;
    pointer = pointer_of(ours->base, device);
    leads = ours->base;
  } else {
    const Ref base = checked(PyObject_GetAttrString(value, "base"));
    const Ref shape_object = checked(PyObject_GetAttrString(value, "shape"));
    const Ref strides_object = checked(PyObject_GetAttrString(value, "strides"));
    const Ref padding = checked(PyObject_GetAttrString(value, "padding"));
    pads_nan = PyUnicode_Check(padding.get()) &&
               PyUnicode_CompareWithASCIIString(padding.get(), "nan") == 0;
    if (plan.has_rounding_flag) {
      const Ref flag = checked(PyObject_GetAttrString(value, "round_f32_to_tf32"));
      rounds = PyObject_IsTrue(flag.get()) == 1;
    }
    rank = reversed_ints(shape_object.get(), shape);
    if (rank != reversed_ints(strides_object.get(), strides)) rank = -1;
    pointer = pointer_of(base.get(), device);
    leads = base.get();  // which the descriptor holds
  }
  if (rank != plan.rank)
    fail(PyExc_ValueError, "a tensor descriptor of rank " + std::to_string(plan.rank) +
                               " was compiled, one of rank " + std::to_string(rank) +
                               " was passed");
  if (plan.uses_map) {
    TensorMapRequest request = plan.traits;
    request.address = pointer;
    request.rank = rank;
    request.fill_nan = pads_nan;
    if (rounds) request.element_type = cu::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    for (int i = 0; i < rank; ++i) request.shape[i] = static_cast<std::uint64_t>(shape[i]);
    if (plan.pads_fp4) request.shape[0] *= 2;
    if (plan.pads_fp4 && plan.pads_fp4_shape) shape[0] *= 2;
    for (int i = 0; i + 1 < rank; ++i)
      request.strides[i] = static_cast<std::uint64_t>(strides[i + 1] * plan.traits.element_bytes);
    request.strides[rank - 1] = request.shape[rank - 1] *
                                (rank == 1 ? plan.traits.element_bytes : request.strides[rank - 2]);
    if (plan.traits.im2col && !ours) {
      const Ref lower = checked(PyObject_GetAttrString(value, "pixel_box_lower_corner"));
      const Ref upper = checked(PyObject_GetAttrString(value, "pixel_box_upper_corner"));
      reversed_ints(lower.get(), request.lower);
      reversed_ints(upper.get(), request.upper);
      const Ref steps = checked(PyObject_GetAttrString(value, "element_strides"));
      if (steps.get() != Py_None) reversed_ints(steps.get(), request.element_strides);
    }
    put(tensor_map(request));
    if (marks_) marks_->push_back({Mark::map, count_ - 1, leads, request});
  } else {
    put(pointer);
    if (marks_) marks_->push_back({Mark::address, count_ - 1, leads, {}});
    for (int i = rank; i-- > 0;) put(shape[i]);
    for (int i = rank; i-- > 0;) put(strides[i]);
    put(static_cast<std::int8_t>(pads_nan));
    if (plan.has_rounding_flag) put(static_cast<std::int8_t>(rounds));
  }
  for (int i = rank; i-- > 0;) put(static_cast<std::int32_t>(shape[i]));
  for (int i = rank; i-- > 0;) put(strides[i]);
}

}  // namespace tritorch
