// Which pool an allocation comes from: a capture's if its stream takes part in that capture, else
// the calling thread's (use_mem_pool), else the ordinary one.
#include <algorithm>
#include <stdexcept>

#include "memory/allocator_impl.h"

namespace tritorch::memory {

Lane& DeviceAllocator::Impl::lane_of_slowly(PoolId pool, cu::CUstream stream) {
  auto found = lanes.find({pool, stream});
  if (found == lanes.end())
    found = lanes.emplace(std::pair{pool, stream}, std::make_unique<Lane>(pool, stream)).first;
  return *(recent_lanes[recent_slot(pool, stream)] = found->second.get());
}

cu::cuuint64_t DeviceAllocator::Impl::capture_of(cu::CUstream stream) const {
  DriverSection section;
  cu::CUstreamCaptureStatus status = cu::CU_STREAM_CAPTURE_STATUS_NONE;
  cu::cuuint64_t id = 0;
  // Fails for the legacy stream while another one is captured.
  if (driver.cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr))
    return kCannotTell;
  return status == cu::CU_STREAM_CAPTURE_STATUS_NONE ? kNoCapture : id;
}

PoolId DeviceAllocator::Impl::route_slowly(cu::CUstream stream) {
  if (capturing()) {
    const cu::cuuint64_t id = capture_of(stream);
    if (id != kNoCapture && id != kCannotTell)
      for (auto capture = captures.rbegin(); capture != captures.rend(); ++capture)
        if (capture->stream == stream || capture_of(capture->stream) == id) return capture->pool;
  }
  const auto self = std::this_thread::get_id();
  for (auto entry = thread_routes.rbegin(); entry != thread_routes.rend(); ++entry)
    if (entry->thread == self) return entry->pool;
  return 0;
}

DeviceAllocator::Impl::PrivatePool& DeviceAllocator::Impl::private_pool(PoolId pool,
                                                                        const char* who) {
  auto found = private_pools.find(pool);
  if (found == private_pools.end() || (found->second.uses == 0 && found->second.routes == 0))
    throw std::invalid_argument(std::string(who) + ": there is no memory pool " +
                                std::to_string(pool) + " (never created, or released)");
  return found->second;
}

PoolId DeviceAllocator::create_pool() {
  auto held = impl_->lock();
  impl_->private_pools.emplace(++impl_->last_pool, DeviceAllocator::Impl::PrivatePool{});
  return impl_->last_pool;
}

void DeviceAllocator::retain_pool(PoolId pool) {
  auto held = impl_->lock();
  ++impl_->private_pool(pool, "retain_pool").uses;
}

void DeviceAllocator::release_pool(PoolId pool) {
  auto held = impl_->lock();
  auto& uses = impl_->private_pool(pool, "release_pool").uses;
  if (uses == 0) throw std::invalid_argument("release_pool: the pool is already released");
  if (--uses == 0) impl_->forget_empty();
}

int DeviceAllocator::pool_use_count(PoolId pool) const {
  auto held = impl_->lock();
  auto found = impl_->private_pools.find(pool);
  return found == impl_->private_pools.end() ? 0 : found->second.uses;
}

void DeviceAllocator::begin_capture_to_pool(PoolId pool, cu::CUstream stream) {
  auto held = impl_->lock();
  auto& target = impl_->private_pool(pool, "begin_capture_to_pool");
  impl_->captures.push_back({pool, stream});
  ++target.routes;
  target.captured = true;
}

void DeviceAllocator::end_capture_to_pool(PoolId pool, cu::CUstream stream) {
  auto held = impl_->lock();
  auto& captures = impl_->captures;
  auto found = std::find_if(captures.begin(), captures.end(),
                            [&](const DeviceAllocator::Impl::Capture& each) {
                              return each.pool == pool && each.stream == stream;
                            });
  if (found == captures.end())
    throw std::invalid_argument("end_capture_to_pool without begin_capture_to_pool");
  captures.erase(found);
  --impl_->private_pool(pool, "end_capture_to_pool").routes;
}

void DeviceAllocator::begin_thread_to_pool(PoolId pool) {
  auto held = impl_->lock();
  auto& target = impl_->private_pool(pool, "begin_thread_to_pool");
  impl_->thread_routes.push_back({std::this_thread::get_id(), pool});
  ++target.routes;
}

void DeviceAllocator::end_thread_to_pool(PoolId pool) {
  auto held = impl_->lock();
  auto& routes = impl_->thread_routes;
  const auto self = std::this_thread::get_id();
  auto found = std::find_if(routes.rbegin(), routes.rend(),
                            [&](const DeviceAllocator::Impl::ThreadRoute& each) {
                              return each.thread == self && each.pool == pool;
                            });
  if (found == routes.rend())
    throw std::invalid_argument(
        "end_thread_to_pool without begin_thread_to_pool on the same thread");
  routes.erase(std::next(found).base());
  --impl_->private_pool(pool, "end_thread_to_pool").routes;
}

}  // namespace tritorch::memory
