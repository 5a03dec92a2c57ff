// The GPU counterpart of numpy.ndarray: an address, shape, strides (in elements), dtype and the
// storage that it is a view of.  Views are cheap and never touch the device.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "array/dtype.h"
#include "memory/allocator.h"

namespace tritorch {

// Device memory that arrays share.  Either a block of the caching allocator, or memory that
// someone else owns and `release` gives back (an imported DLPack tensor, say).
class Storage {
 public:
  static Storage* allocate(int device, std::size_t bytes, cu::CUstream stream);
  static Storage* adopt(int device, cu::CUdeviceptr address, std::size_t bytes, void* owner,
                        void (*release)(void*));
  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy();
  }
  // The memory is also used on `stream` (a no-op for memory that is not ours).
  void record_stream(cu::CUstream stream);
  // Whether the one reference that asks is the only one, and nobody else has to do with the memory:
  // no other stream, no program that took its address.
  bool alone() const noexcept {
    return references_.load(std::memory_order_acquire) == 1 && !elsewhere_ && !exposed;
  }

  cu::CUdeviceptr address = 0;
  std::size_t bytes = 0;
  int device = 0;
  memory::Block* block = nullptr;
  bool exposed = false;  // a program got hold of the memory (compilation/exposed.cpp)

 private:
  Storage() = default;
  void destroy() noexcept;
  std::atomic<int> references_{1};
  std::atomic<bool> elsewhere_{false};  // record_stream was called
  void* owner_ = nullptr;
  void (*release_)(void*) = nullptr;
};

class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(Storage* owned) : storage_(owned) {}
  StorageRef(const StorageRef& other) : storage_(other.storage_) {
    if (storage_) storage_->retain();
  }
  StorageRef(StorageRef&& other) noexcept : storage_(other.storage_) { other.storage_ = nullptr; }
  StorageRef& operator=(StorageRef other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageRef() {
    if (storage_) storage_->drop();
  }
  Storage* operator->() const { return storage_; }
  Storage* get() const { return storage_; }

 private:
  Storage* storage_ = nullptr;
};

using Sizes = std::span<const std::int64_t>;

// Shape and strides: in place for up to six dimensions.
class Layout {
 public:
  static constexpr int kMaxDims = 64;  // PyTorch's limit
  Layout() = default;
  Layout(Sizes shape, Sizes strides);
  static Layout contiguous(Sizes shape);
  Layout(const Layout& other) { *this = other; }
  Layout& operator=(const Layout& other);

  int ndim() const { return ndim_; }
  Sizes shape() const { return {data(), static_cast<std::size_t>(ndim_)}; }
  Sizes strides() const { return {data() + ndim_, static_cast<std::size_t>(ndim_)}; }
  std::int64_t numel() const;
  bool is_contiguous() const;
  // Smallest and largest element offset that an index can reach (both 0 when empty).
  std::pair<std::int64_t, std::int64_t> extent() const;

 private:
  void reserve(int ndim);
  std::int64_t* data() { return heap_ ? heap_.get() : inline_; }
  const std::int64_t* data() const { return heap_ ? heap_.get() : inline_; }
  int ndim_ = 0;
  std::int64_t inline_[12];
  std::unique_ptr<std::int64_t[]> heap_;
};

// One item of an index; each takes the next dims in turn.
struct Pick {
  enum Kind { one, part, added, rest } kind;  // an integer, a slice, None, `...`
  std::int64_t start = 0, stop = 0, step = 1;
};

struct Array {
  StorageRef storage;
  std::int64_t offset = 0;  // in elements of dtype
  DType dtype = DType::float32;
  Layout layout;

  cu::CUdeviceptr data() const { return storage->address + offset * item_size(dtype); }
  std::size_t nbytes() const { return layout.numel() * item_size(dtype); }
  int device() const { return storage->device; }

  static Array empty(Sizes shape, DType dtype, int device, cu::CUstream stream);
  static Array empty_strided(Sizes shape, Sizes strides, DType dtype, int device,
                             cu::CUstream stream);

  // Views.  Each throws std::out_of_range or std::invalid_argument with PyTorch's wording.
  Array view_of(Layout layout, std::int64_t offset) const;
  Array as_strided(Sizes shape, Sizes strides, std::int64_t offset) const;  // bounds-checked
  Array select(int dim, std::int64_t index) const;
  Array slice(int dim, std::int64_t start, std::int64_t stop, std::int64_t step) const;
  Array permute(std::span<const std::int64_t> dims) const;
  Array transpose(int dim0, int dim1) const;
  Array expand(Sizes shape) const;
  Array unsqueeze(int dim) const;
  Array pick(std::span<const Pick> picks) const;
  std::optional<Array> reshape_view(Sizes shape) const;  // nothing if it needs a copy
  Array view_dtype(DType dtype) const;
};

int wrap_dim(std::int64_t dim, int ndim);
// Replaces one -1 by what fits `numel`; throws when nothing does.
std::vector<std::int64_t> infer_shape(Sizes shape, std::int64_t numel);
// The strides of a view of `from` with shape `shape`, or nothing if only a copy can have it.
std::optional<std::vector<std::int64_t>> view_strides(const Layout& from, Sizes shape);

// The dims of several operands of one shape, merged where their strides allow, dims of size one
// dropped, outermost first: what a strided kernel iterates over.
struct Collapsed {
  std::vector<std::int64_t> shape;
  std::vector<std::vector<std::int64_t>> strides;  // one list an operand
};
Collapsed collapse(Sizes shape, std::span<const Sizes> strides);

}  // namespace tritorch
