#include "array/dlpack.h"

#include <stdexcept>

#include "launch/pack.h"

namespace tritorch {
namespace {

// The DLPack ABI (versions 0.8 and 1.x).
constexpr int kDLCUDA = 2, kDLCUDAManaged = 13;
struct DLDevice {
  std::int32_t type, id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
  bool operator==(const DLDataType&) const = default;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  std::uint64_t flags;
  DLTensor tensor;
};

DLDataType type_of(const DTypeInfo& info) {
  return {info.dlpack, static_cast<std::uint8_t>(8 * info.bytes), 1};
}

// The managed tensor, and what it points into.
template <class Managed>
struct Export {
  Managed managed;
  Array array;
  static void destroy(Managed* self) { delete reinterpret_cast<Export*>(self); }
};

template <class Managed>
PyObject* export_as(const Array& array, const char* name) {
  auto* box = new Export<Managed>{{}, array};
  Managed& m = box->managed;
  m.context = box;
  m.deleter = Export<Managed>::destroy;
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) m.major = 1, m.minor = 0;
  DLTensor& t = m.tensor;
  t.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(array.data()));
  t.device = {kDLCUDA, array.device()};
  t.ndim = array.layout.ndim();
  t.dtype = type_of(kDTypeTable[static_cast<int>(array.dtype)]);
  t.shape = const_cast<std::int64_t*>(box->array.layout.shape().data());
  t.strides = const_cast<std::int64_t*>(box->array.layout.strides().data());
  PyObject* capsule = PyCapsule_New(&m, name, [](PyObject* object) {
    // A consumer renames the capsule and takes over the deleter.
    for (const char* unused : {"dltensor", "dltensor_versioned"})
      if (PyCapsule_IsValid(object, unused)) {
        auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(object, unused));
        managed->deleter(managed);
      }
  });
  if (!capsule) {
    delete box;
    throw PythonError{};
  }
  return capsule;
}

template <class Managed>
Array import_as(PyObject* capsule, const char* name, const char* used) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (!managed) throw PythonError{};
  const DLTensor& t = managed->tensor;
  if (t.device.type != kDLCUDA && t.device.type != kDLCUDAManaged)
    throw std::invalid_argument(
        "from_dlpack: the tensor is not in CUDA memory (DLPack device type " +
        std::to_string(t.device.type) + ")");
  int code = -1;
  for (int i = 0; i < kDTypes; ++i)
    if (type_of(kDTypeTable[i]) == t.dtype) code = i;
  if (code < 0)
    throw std::invalid_argument("from_dlpack: no dtype for DLPack type code " +
                                std::to_string(t.dtype.code) + " with " +
                                std::to_string(t.dtype.bits) + " bits");
  Array array;
  array.dtype = static_cast<DType>(code);
  Sizes shape{t.shape, static_cast<std::size_t>(t.ndim)};
  array.layout = t.strides ? Layout(shape, {t.strides, static_cast<std::size_t>(t.ndim)})
                           : Layout::contiguous(shape);
  auto [low, high] = array.layout.extent();
  if (low < 0) throw std::invalid_argument("from_dlpack: negative strides are not supported");
  std::size_t bytes = array.layout.numel() == 0 ? 0 : (high + 1) * item_size(array.dtype);
  array.storage = StorageRef(
      Storage::adopt(t.device.id, reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset, bytes,
                     managed, [](void* owner) {
                       auto* tensor = static_cast<Managed*>(owner);
                       if (tensor->deleter) tensor->deleter(tensor);
                     }));
  PyCapsule_SetName(capsule, used);
  return array;
}

}  // namespace

PyObject* to_dlpack(const Array& array, bool versioned) {
  return versioned ? export_as<DLManagedTensorVersioned>(array, "dltensor_versioned")
                   : export_as<DLManagedTensor>(array, "dltensor");
}

Array from_dlpack(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    return import_as<DLManagedTensorVersioned>(capsule, "dltensor_versioned",
                                               "used_dltensor_versioned");
  if (PyCapsule_IsValid(capsule, "dltensor"))
    return import_as<DLManagedTensor>(capsule, "dltensor", "used_dltensor");
  throw std::invalid_argument("from_dlpack: not a DLPack capsule, or one that was used already");
}

}  // namespace tritorch
