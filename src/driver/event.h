// Events: a move-only handle that is created on the device of its first record.
#pragma once

#include <stdexcept>
#include <utility>

#include "driver/context.h"

namespace tritorch {

class Event {
 public:
  explicit Event(unsigned flags) : flags_(flags) {}
  Event(Event&& other) noexcept
      : flags_(other.flags_),
        device_(other.device_),
        handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    // Nothing here may throw, and a forked child must not touch its parent's handles.
    if (handle_ && driver_loaded()) try {
        DeviceScope scope(device_);  // a finaliser runs on any thread
        BlockingRegion region;
        driver().cuEventDestroy(handle_);
      } catch (const std::exception&) {
      }
  }

  // What another process opens.
  cu::CUipcEventHandle ipc_handle(int device) {
    create(device);
    DeviceScope scope(device_);
    cu::CUipcEventHandle found{};
    if (!driver().cuIpcGetEventHandle) throw std::runtime_error("the driver shares no events");
    DRIVE(cuIpcGetEventHandle(&found, handle_));
    return found;
  }
  static Event from_ipc_handle(int device, const cu::CUipcEventHandle& handle) {
    Event event(cu::CU_EVENT_INTERPROCESS | cu::CU_EVENT_DISABLE_TIMING);
    DeviceScope scope(device);
    if (!driver().cuIpcOpenEventHandle) throw std::runtime_error("the driver shares no events");
    DRIVE(cuIpcOpenEventHandle(&event.handle_, handle));
    event.device_ = device;
    return event;
  }

  void record(int device, cu::CUstream stream) {
    create(device);
    if (device != device_)
      throw CudaError(
          cu::CUDA_ERROR_INVALID_HANDLE, "Event.record",
          "event device cuda:" + std::to_string(device_) +
              " does not match recording stream's device cuda:" + std::to_string(device));
    DeviceScope scope(device);
    DRIVE(cuEventRecord(handle_, stream));
  }
  void wait(int device, cu::CUstream stream) const {
    if (!handle_) return;
    DeviceScope scope(device);
    DRIVE(cuStreamWaitEvent(stream, handle_, 0));
  }
  bool query() const {
    if (!handle_) return true;
    cu::CUresult result;
    DeviceScope scope(device_);
    {
      BlockingRegion region;
      result = driver().cuEventQuery(handle_);
    }
    if (result == cu::CUDA_ERROR_NOT_READY) return false;
    check(result, "cuEventQuery(event)");
    return true;
  }
  void synchronize() const {
    if (!handle_) return;
    DeviceScope scope(device_);
    DRIVE(cuEventSynchronize(handle_));
  }
  float elapsed_time(const Event& end) const {
    float milliseconds = 0;
    DeviceScope scope(device_ < 0 ? current_device() : device_);
    DRIVE(cuEventElapsedTime(&milliseconds, handle_, end.handle_));
    return milliseconds;
  }
  unsigned flags() const { return flags_; }
  int device() const { return device_; }  // -1 before the first record
  cu::CUevent handle() const { return handle_; }

 private:
  void create(int device) {
    if (handle_) return;
    DeviceScope scope(device);
    DRIVE(cuEventCreate(&handle_, flags_));
    device_ = device;
  }
  unsigned flags_;
  int device_ = -1;
  cu::CUevent handle_ = nullptr;
};

}  // namespace tritorch
