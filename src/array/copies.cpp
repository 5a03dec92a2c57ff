#include "array/copies.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/context.h"
#include "memory/registry.h"
#include "profiling/device.h"

namespace tritorch {
namespace {

constexpr std::size_t kSmall = 1 << 20;  // bytes that a copy keeps that waits

void require_dense(const Array& array, std::size_t bytes, const char* what) {
  if (!array.layout.is_contiguous())
    throw std::invalid_argument(std::string(what) + ": the array must be contiguous");
  if (array.nbytes() != bytes)
    throw std::invalid_argument(std::string(what) + ": the array has " +
                                std::to_string(array.nbytes()) + " bytes, the buffer " +
                                std::to_string(bytes));
}

std::unique_ptr<profiling::LaunchScope> profile_copy(profiling::Known name, int device,
                                                     cu::CUstream stream) {
  if (!profiling::enabled) return nullptr;
  return std::make_unique<profiling::LaunchScope>(profiling::kCopy, name, device, stream);
}

// A page-locked source or target must outlive the copy; a pageable one has been staged, or the copy
// was waited for.
void after_host_copy(const void* host, cu::CUstream stream, bool non_blocking) {
  if (!non_blocking) {
    profiling::WaitScope waits(profiling::kWaitForStream);
    DRIVE(cuStreamSynchronize(stream));
  } else if (memory::PinnedAllocator* pinned = memory::existing_pinned_allocator()) {
    pinned->record_stream(host, stream);
  }
}

}  // namespace

void copy_from_host(const Array& to, std::span<const std::byte> from, cu::CUstream stream,
                    bool non_blocking) {
  require_dense(to, from.size(), "copy_from_host");
  if (from.empty()) return;
  if (from.size() <= kSmall && made_later([=, kept = std::vector(from.begin(), from.end())] {
        copy_from_host(to, kept, stream, true);
      }))
    return;
  DeviceScope scope(to.device());
  if (recorder) recorder->uploaded(to.data(), from, stream);
  Unrecorded noted;
  const auto profiled = profile_copy(profiling::kHostToDevice, to.device(), stream);
  DRIVE(cuMemcpyHtoDAsync(to.data(), from.data(), from.size(), stream));
  after_host_copy(from.data(), stream, non_blocking);
}

void copy_to_host(const Array& from, std::span<std::byte> to, cu::CUstream stream,
                  bool non_blocking) {
  require_dense(from, to.size(), "copy_to_host");
  if (to.empty()) return;
  DeviceScope scope(from.device());
  const auto profiled = profile_copy(profiling::kDeviceToHost, from.device(), stream);
  DRIVE(cuMemcpyDtoHAsync(to.data(), from.data(), to.size(), stream));
  after_host_copy(to.data(), stream, non_blocking);
}

void copy_dense(const Array& to, const Array& from, cu::CUstream stream) {
  require_dense(to, from.nbytes(), "copy_dense");
  require_dense(from, from.nbytes(), "copy_dense");
  if (from.nbytes() == 0) return;
  if (to.device() == from.device()) {
    if (made_later([=] { copy_dense(to, from, stream); })) return;
    DeviceScope scope(to.device());
    if (recorder) recorder->copied(to.data(), from.data(), from.nbytes(), stream);
    Unrecorded noted;
    const auto profiled = profile_copy(profiling::kDeviceToDevice, to.device(), stream);
    DRIVE(cuMemcpyDtoDAsync(to.data(), from.data(), from.nbytes(), stream));
    return;
  }
  cu::CUcontext to_context = context_of(to.device()), from_context = context_of(from.device());
  DeviceScope scope(from.device());
  DRIVE(cuMemcpyPeerAsync(to.data(), to_context, from.data(), from_context, from.nbytes(), stream));
}

void fill_dense(const Array& array, std::span<const char> pattern, cu::CUstream stream) {
  require_dense(array, array.nbytes(), "fill_dense");
  if (array.nbytes() == 0) return;
  const std::size_t width = pattern.size();
  if (width != 1 && width != 2 && width != 4)
    throw std::domain_error("fill_dense: a pattern has 1, 2 or 4 bytes");
  if (made_later([=, kept = std::string(pattern.begin(), pattern.end())] {
        fill_dense(array, kept, stream);
      }))
    return;
  const std::size_t count = array.nbytes() / width;
  std::uint32_t value = 0;
  std::memcpy(&value, pattern.data(), width);
  DeviceScope scope(array.device());
  if (recorder) recorder->filled(array.data(), value, static_cast<unsigned>(width), count, stream);
  Unrecorded noted;
  std::optional<profiling::LaunchScope> profiled;
  if (profiling::enabled)
    profiled.emplace(profiling::kFill, profiling::kFilled, array.device(), stream);
  if (width == 1)
    DRIVE(cuMemsetD8Async(array.data(), static_cast<unsigned char>(value), count, stream));
  else if (width == 2)
    DRIVE(cuMemsetD16Async(array.data(), static_cast<unsigned short>(value), count, stream));
  else
    DRIVE(cuMemsetD32Async(array.data(), value, count, stream));
}

}  // namespace tritorch
