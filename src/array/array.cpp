#include "array/array.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "driver/context.h"
#include "memory/registry.h"

namespace tritorch {
namespace {

std::string text(Sizes sizes) {
  std::string out = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + "]";
}

std::vector<std::int64_t> contiguous_strides(Sizes shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

}  // namespace

Storage* Storage::allocate(int device, std::size_t bytes, cu::CUstream stream) {
  memory::Block* block = memory::device_allocator(device).allocate(bytes, stream);
  auto* storage = new Storage;
  storage->block = block;
  storage->address = memory::DeviceAllocator::view(block).address;
  storage->bytes = bytes;
  storage->device = device;
  if (recorder) [[unlikely]]
    recorder->allocated(storage->address, bytes, storage);
  return storage;
}

Storage* Storage::adopt(int device, cu::CUdeviceptr address, std::size_t bytes, void* owner,
                        void (*release)(void*)) {
  auto* storage = new Storage;
  storage->device = device;
  storage->address = address;
  storage->bytes = bytes;
  storage->owner_ = owner;
  storage->release_ = release;
  return storage;
}

void Storage::record_stream(cu::CUstream stream) {
  elsewhere_ = true;
  if (block) memory::device_allocator(device).record_stream(block, stream);
}

void Storage::destroy() noexcept {
  // A forked child holds copies of its parent's handles: they are not its own to free.
  if (block && driver_loaded()) {
    try {
      bind(device);
      memory::existing_allocator(device)->free(block);
    } catch (...) {  // the driver is gone: so is the memory
    }
  }
  if (release_) release_(owner_);
  delete this;
}

Layout::Layout(Sizes shape, Sizes strides) {
  reserve(static_cast<int>(shape.size()));
  std::copy(shape.begin(), shape.end(), data());
  std::copy(strides.begin(), strides.end(), data() + ndim_);
}

Layout Layout::contiguous(Sizes shape) {
  Layout layout;
  layout.reserve(static_cast<int>(shape.size()));
  std::int64_t* out = layout.data();
  std::int64_t step = 1;
  for (int i = layout.ndim_; i-- > 0;) {
    if (shape[i] < 0)
      throw std::invalid_argument("Trying to create tensor with negative dimension " +
                                  std::to_string(shape[i]) + ": " + text(shape));
    out[i] = shape[i];
    out[layout.ndim_ + i] = step;
    if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[i], 1), &step))
      throw std::invalid_argument("the number of elements of shape " + text(shape) +
                                  " does not fit 64 bits");
  }
  return layout;
}

Layout& Layout::operator=(const Layout& other) {
  if (this == &other) return *this;
  reserve(other.ndim_);
  std::memcpy(data(), other.data(), sizeof(std::int64_t) * 2 * ndim_);
  return *this;
}

void Layout::reserve(int ndim) {
  if (ndim > kMaxDims)
    throw std::invalid_argument("tensors have at most 64 dimensions, got " + std::to_string(ndim));
  ndim_ = ndim;
  heap_ = 2 * ndim > 12 ? std::make_unique<std::int64_t[]>(2 * ndim) : nullptr;
}

std::int64_t Layout::numel() const {
  std::int64_t product = 1;
  for (std::int64_t size : shape()) product *= size;
  return product;
}

bool Layout::is_contiguous() const {
  std::int64_t step = 1;
  Sizes sizes = shape(), steps = strides();
  if (numel() == 0) return true;
  for (int i = ndim_; i-- > 0;) {
    if (sizes[i] != 1 && steps[i] != step) return false;
    step *= sizes[i];
  }
  return true;
}

std::pair<std::int64_t, std::int64_t> Layout::extent() const {
  std::int64_t low = 0, high = 0;
  if (numel() == 0) return {0, 0};
  for (int i = 0; i < ndim_; ++i) {
    std::int64_t reach = (shape()[i] - 1) * strides()[i];
    (reach < 0 ? low : high) += reach;
  }
  return {low, high};
}

Array Array::empty(Sizes shape, DType dtype, int device, cu::CUstream stream) {
  Array array;
  array.dtype = dtype;
  array.layout = Layout::contiguous(shape);
  std::int64_t bytes;
  if (__builtin_mul_overflow(array.layout.numel(), static_cast<std::int64_t>(item_size(dtype)),
                             &bytes))
    throw std::invalid_argument("the size in bytes of shape " + text(shape) +
                                " does not fit 64 bits");
  array.storage = StorageRef(Storage::allocate(device, bytes, stream));
  return array;
}

Array Array::empty_strided(Sizes shape, Sizes strides, DType dtype, int device,
                           cu::CUstream stream) {
  if (shape.size() != strides.size())
    throw std::invalid_argument("dimensionality of sizes (" + std::to_string(shape.size()) +
                                ") must match dimensionality of strides (" +
                                std::to_string(strides.size()) + ")");
  Array array;
  array.dtype = dtype;
  array.layout = Layout(shape, strides);
  auto [low, high] = array.layout.extent();
  if (low < 0)
    throw std::invalid_argument("negative strides are not supported, got " + text(strides));
  std::size_t elements = array.layout.numel() == 0 ? 0 : high + 1;
  array.storage = StorageRef(Storage::allocate(device, elements * item_size(dtype), stream));
  return array;
}

Array Array::view_of(Layout new_layout, std::int64_t new_offset) const {
  Array view;
  view.storage = storage;
  view.offset = new_offset;
  view.dtype = dtype;
  view.layout = new_layout;
  return view;
}

Array Array::as_strided(Sizes shape, Sizes strides, std::int64_t new_offset) const {
  if (shape.size() != strides.size())
    throw std::invalid_argument("mismatch in length of strides and shape");
  for (std::int64_t stride : strides)
    if (stride < 0)
      throw std::invalid_argument(
          "as_strided: Negative strides are not supported at the moment, got strides: " +
          text(strides));
  Layout view(shape, strides);
  std::int64_t available = static_cast<std::int64_t>(storage->bytes / item_size(dtype));
  std::int64_t needed = view.numel() == 0 ? 0 : new_offset + view.extent().second + 1;
  if (new_offset < 0 || needed > available)
    throw std::out_of_range("setStorage: sizes " + text(shape) + ", strides " + text(strides) +
                            ", storage offset " + std::to_string(new_offset) + " need " +
                            std::to_string(needed) + " elements; the storage has " +
                            std::to_string(available));
  return view_of(view, new_offset);
}

Array Array::select(int dim, std::int64_t index) const {
  Sizes sizes = layout.shape(), steps = layout.strides();
  std::int64_t size = sizes[dim];
  if (index < -size || index >= size)
    throw std::out_of_range("index " + std::to_string(index) + " is out of bounds for dimension " +
                            std::to_string(dim) + " with size " + std::to_string(size));
  if (index < 0) index += size;
  std::int64_t out[2 * Layout::kMaxDims];
  int n = 0;
  for (int i = 0; i < layout.ndim(); ++i)
    if (i != dim) {
      out[n] = sizes[i];
      out[Layout::kMaxDims + n++] = steps[i];
    }
  auto count = static_cast<std::size_t>(n);
  return view_of(Layout({out, count}, {out + Layout::kMaxDims, count}),
                 offset + index * steps[dim]);
}

Array Array::slice(int dim, std::int64_t start, std::int64_t stop, std::int64_t step) const {
  if (step <= 0) throw std::invalid_argument("step must be greater than zero");
  std::int64_t size = layout.shape()[dim];
  if (start < 0) start += size;
  if (stop < 0) stop += size;
  start = std::clamp<std::int64_t>(start, 0, size);
  stop = std::clamp<std::int64_t>(stop, start, size);
  std::vector<std::int64_t> shape(layout.shape().begin(), layout.shape().end());
  std::vector<std::int64_t> strides(layout.strides().begin(), layout.strides().end());
  shape[dim] = (stop - start) / step + ((stop - start) % step != 0);  // no overflow for huge steps
  std::int64_t new_offset = offset + start * strides[dim];
  strides[dim] = static_cast<std::int64_t>(static_cast<std::uint64_t>(strides[dim]) *
                                           static_cast<std::uint64_t>(step));  // of any size
  return view_of(Layout(shape, strides), new_offset);
}

Array Array::permute(std::span<const std::int64_t> dims) const {
  int ndim = layout.ndim();
  if (static_cast<int>(dims.size()) != ndim)
    throw std::invalid_argument(
        "permute: number of dimensions in the tensor input does not match the length of the "
        "desired ordering of dimensions i.e. input.dim() = " +
        std::to_string(ndim) + " is not equal to len(dims) = " + std::to_string(dims.size()));
  std::vector<std::int64_t> shape(ndim), strides(ndim);
  std::vector<bool> seen(ndim);
  for (int i = 0; i < ndim; ++i) {
    int dim = wrap_dim(dims[i], ndim);
    if (seen[dim]) throw std::invalid_argument("permute(): duplicate dims are not allowed.");
    seen[dim] = true;
    shape[i] = layout.shape()[dim];
    strides[i] = layout.strides()[dim];
  }
  return view_of(Layout(shape, strides), offset);
}

Array Array::transpose(int dim0, int dim1) const {
  std::vector<std::int64_t> dims(layout.ndim());
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[dim0], dims[dim1]);
  return permute(dims);
}

Array Array::expand(Sizes shape) const {
  int ndim = layout.ndim(), wanted = static_cast<int>(shape.size());
  if (wanted < ndim)
    throw std::invalid_argument(
        "expand: the number of sizes provided (" + std::to_string(wanted) +
        ") must be greater or equal to the number of dimensions in the tensor (" +
        std::to_string(ndim) + ")");
  std::vector<std::int64_t> sizes(wanted), strides(wanted);
  for (int i = wanted; i-- > 0;) {
    int own = i - (wanted - ndim);
    std::int64_t size = own >= 0 ? layout.shape()[own] : 1;
    std::int64_t target = shape[i] == -1 && own >= 0 ? size : shape[i];
    if (target < 0)
      throw std::invalid_argument("The expanded size of the tensor (" + std::to_string(target) +
                                  ") isn't allowed in a leading, non-existing dimension " +
                                  std::to_string(i));
    if (size != target && size != 1)
      throw std::invalid_argument("The expanded size of the tensor (" + std::to_string(target) +
                                  ") must match the existing size (" + std::to_string(size) +
                                  ") at non-singleton dimension " + std::to_string(i) +
                                  ".  Target sizes: " + text(shape) +
                                  ".  Tensor sizes: " + text(layout.shape()));
    sizes[i] = target;
    std::int64_t inner = i + 1 < wanted && ndim > 0 ? sizes[i + 1] * strides[i + 1] : 0;
    strides[i] = size != target ? 0 : (own >= 0 ? layout.strides()[own] : inner);
  }
  return view_of(Layout(sizes, strides), offset);
}

Array Array::unsqueeze(int dim) const {
  std::vector<std::int64_t> shape(layout.shape().begin(), layout.shape().end());
  std::vector<std::int64_t> strides(layout.strides().begin(), layout.strides().end());
  std::int64_t stride = dim < layout.ndim() ? shape[dim] * strides[dim] : 1;
  shape.insert(shape.begin() + dim, 1);
  strides.insert(strides.begin() + dim, stride);
  return view_of(Layout(shape, strides), offset);
}

Array Array::pick(std::span<const Pick> picks) const {
  const int ndim = layout.ndim();
  const auto of = [&](Pick::Kind kind) { return std::ranges::count(picks, kind, &Pick::kind); };
  const int taken = static_cast<int>(of(Pick::one) + of(Pick::part));
  if (of(Pick::rest) > 1)
    throw std::out_of_range("an index can only have a single ellipsis ('...')");
  if (taken > ndim)
    throw std::out_of_range("too many indices for tensor of dimension " + std::to_string(ndim));
  Array view = *this;
  int dim = 0;
  for (const Pick& pick : picks) {
    if (pick.kind == Pick::rest)
      dim += ndim - taken;
    else if (pick.kind == Pick::added)
      view = view.unsqueeze(dim++);
    else if (pick.kind == Pick::part)
      view = view.slice(dim++, pick.start, pick.stop, pick.step);
    else
      view = view.select(dim, pick.start);
  }
  return view;
}

std::optional<Array> Array::reshape_view(Sizes shape) const {
  std::vector<std::int64_t> sizes = infer_shape(shape, layout.numel());
  auto strides = view_strides(layout, sizes);
  if (!strides) return std::nullopt;
  return view_of(Layout(sizes, *strides), offset);
}

Array Array::view_dtype(DType other) const {
  std::size_t from = item_size(dtype), to = item_size(other);
  Array view = view_of(layout, offset);
  view.dtype = other;
  if (from == to) return view;
  int last = layout.ndim() - 1;
  if (last < 0)
    throw std::invalid_argument(
        "self.dim() cannot be 0 to view a tensor as a dtype of another size");
  std::vector<std::int64_t> shape(layout.shape().begin(), layout.shape().end());
  std::vector<std::int64_t> strides(layout.strides().begin(), layout.strides().end());
  if (strides[last] != 1)
    throw std::invalid_argument(
        "self.stride(-1) must be 1 to view a tensor as a dtype of another size");
  if (from > to) {
    auto ratio = static_cast<std::int64_t>(from / to);
    for (int i = 0; i < last; ++i) strides[i] *= ratio;
    shape[last] *= ratio;
    view.offset *= ratio;
  } else {
    auto ratio = static_cast<std::int64_t>(to / from);
    bool fits = shape[last] % ratio == 0 && offset % ratio == 0;
    for (int i = 0; i < last; ++i) fits = fits && strides[i] % ratio == 0;
    if (!fits)
      throw std::invalid_argument(
          "the last size, the storage offset and all strides but the last must be divisible by " +
          std::to_string(ratio) + " to view the tensor as a dtype of a larger size");
    for (int i = 0; i < last; ++i) strides[i] /= ratio;
    shape[last] /= ratio;
    view.offset /= ratio;
  }
  view.layout = Layout(shape, strides);
  return view;
}

int wrap_dim(std::int64_t dim, int ndim) {
  int range = std::max(ndim, 1);
  if (dim < -range || dim >= range)
    throw std::out_of_range("Dimension out of range (expected to be in range of [" +
                            std::to_string(-range) + ", " + std::to_string(range - 1) +
                            "], but got " + std::to_string(dim) + ")");
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

std::vector<std::int64_t> infer_shape(Sizes shape, std::int64_t numel) {
  std::vector<std::int64_t> out(shape.begin(), shape.end());
  std::int64_t known = 1;
  int hole = -1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] == -1) {
      if (hole >= 0) throw std::invalid_argument("only one dimension can be inferred");
      hole = static_cast<int>(i);
    } else if (out[i] < 0) {
      throw std::invalid_argument("invalid shape dimension " + std::to_string(out[i]));
    } else {
      known *= out[i];
    }
  }
  if (hole >= 0) {
    if (known == 0)
      throw std::invalid_argument("cannot reshape tensor of 0 elements into shape " + text(shape) +
                                  " because the unspecified dimension size -1 can be any value and "
                                  "is ambiguous");
    if (numel % known == 0) {
      out[hole] = numel / known;
      known = numel;
    }
  }
  if (known != numel)
    throw std::invalid_argument("shape '" + text(shape) + "' is invalid for input of size " +
                                std::to_string(numel));
  return out;
}

std::optional<std::vector<std::int64_t>> view_strides(const Layout& from, Sizes shape) {
  if (from.numel() == 0) {
    if (!std::ranges::equal(from.shape(), shape)) return contiguous_strides(shape);
    return std::vector<std::int64_t>(from.strides().begin(), from.strides().end());
  }
  std::vector<std::int64_t> strides(shape.size());
  int next = static_cast<int>(shape.size()) - 1;  // the new dim to place, from the innermost
  Sizes sizes = from.shape(), steps = from.strides();
  int dim = from.ndim() - 1;
  // Take old dims from the innermost in runs that are contiguous among themselves; each run must
  // be split exactly into new dims.
  while (dim >= 0) {
    std::int64_t base = steps[dim], run = 1;
    for (;; --dim) {
      run *= sizes[dim];
      bool joins = dim > 0 && (sizes[dim - 1] == 1 || steps[dim - 1] == run * base);
      if (!joins) break;
    }
    --dim;
    std::int64_t placed = 1;
    while (next >= 0 && (placed < run || shape[next] == 1)) {
      strides[next] = placed * base;
      placed *= shape[next--];
    }
    if (placed != run) return std::nullopt;
  }
  while (next >= 0) strides[next--] = 1;  // only ones are left
  return strides;
}

Collapsed collapse(Sizes shape, std::span<const Sizes> strides) {
  Collapsed out;
  std::size_t operands = strides.size();
  out.strides.resize(operands);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1) continue;
    bool merges = !out.shape.empty();
    for (std::size_t k = 0; merges && k < operands; ++k)
      merges = out.strides[k].back() == strides[k][dim] * shape[dim];
    if (merges) {
      out.shape.back() *= shape[dim];
      for (std::size_t k = 0; k < operands; ++k) out.strides[k].back() = strides[k][dim];
    } else {
      out.shape.push_back(shape[dim]);
      for (std::size_t k = 0; k < operands; ++k) out.strides[k].push_back(strides[k][dim]);
    }
  }
  return out;
}

}  // namespace tritorch
