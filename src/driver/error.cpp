#include "driver/error.h"

#include <cstring>

#include "driver/simulator.h"

namespace tritorch {
namespace {

struct Known {
  cu::CUresult code;
  const char* name;
  const char* meaning;
};

#define TRITORCH_ERROR(code, meaning) {cu::code, #code, meaning}
constexpr Known kErrors[] = {
    TRITORCH_ERROR(CUDA_SUCCESS, "no error"),
    TRITORCH_ERROR(CUDA_ERROR_INVALID_VALUE, "an argument is outside of what the call accepts"),
    TRITORCH_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "the device has not enough free memory"),
    TRITORCH_ERROR(CUDA_ERROR_NOT_INITIALIZED, "the driver was not initialised; this is a bug in tritorch, please report it"),
    TRITORCH_ERROR(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down with the process"),
    TRITORCH_ERROR(CUDA_ERROR_STUB_LIBRARY, "the libcuda.so.1 that was found is the toolkit's stub: put the driver's own library first on the library path"),
    TRITORCH_ERROR(CUDA_ERROR_NO_DEVICE, "the driver found no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"),
    TRITORCH_ERROR(CUDA_ERROR_INVALID_DEVICE, "there is no such device: see tritorch.cuda.device_count()"),
    TRITORCH_ERROR(CUDA_ERROR_INVALID_IMAGE, "the compiled kernel is damaged: delete Triton's cache folder and try again"),
    TRITORCH_ERROR(CUDA_ERROR_INVALID_CONTEXT, "this thread has no context for the device; another library may have destroyed it"),
    TRITORCH_ERROR(CUDA_ERROR_MAP_FAILED, "memory could not be mapped"),
    TRITORCH_ERROR(CUDA_ERROR_UNMAP_FAILED, "memory could not be unmapped"),
    TRITORCH_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "the kernel was compiled for another architecture than this GPU's"),
    TRITORCH_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "the GPU's memory had an error that could not be corrected: restart the process, and check the GPU if it happens again"),
    TRITORCH_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "these two GPUs cannot reach each other's memory"),
    TRITORCH_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the driver is older than the compiler that made the kernel: update the driver"),
    TRITORCH_ERROR(CUDA_ERROR_INVALID_HANDLE, "a stream, event or graph is not valid (any more), or was not recorded"),
    TRITORCH_ERROR(CUDA_ERROR_ILLEGAL_STATE, "a resource is not in the state that the call needs"),
    TRITORCH_ERROR(CUDA_ERROR_NOT_FOUND, "a name was not found, such as a kernel's in its module"),
    TRITORCH_ERROR(CUDA_ERROR_NOT_READY, "the work asked about is not done yet"),
    TRITORCH_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel or copy touched memory that is not allocated; the context is lost: run under TRITORCH_SIMULATE_CUDA=1 or compute-sanitizer to find where"),
    TRITORCH_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "the kernel needs more registers or threads than the device has: use fewer warps or smaller blocks"),
    TRITORCH_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the kernel ran longer than the display driver allows"),
    TRITORCH_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already"),
    TRITORCH_ERROR(CUDA_ERROR_ASSERT, "a device-side assertion failed; the context is lost"),
    TRITORCH_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "the device's call stack overflowed or was damaged; the context is lost"),
    TRITORCH_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel met an illegal instruction; the context is lost"),
    TRITORCH_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel accessed memory at an address that is not aligned for it; the context is lost"),
    TRITORCH_ERROR(CUDA_ERROR_INVALID_PC, "a kernel jumped out of its code; the context is lost"),
    TRITORCH_ERROR(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed while it ran; the context is lost: run under TRITORCH_SIMULATE_CUDA=1 or compute-sanitizer to find where"),
    TRITORCH_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "a cooperative grid has more blocks than fit on the device at once"),
    TRITORCH_ERROR(CUDA_ERROR_NOT_PERMITTED, "the operation is not permitted here"),
    TRITORCH_ERROR(CUDA_ERROR_NOT_SUPPORTED, "this device or driver does not support the operation"),
    TRITORCH_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "the driver's library and its kernel module have different versions: reboot, or reinstall the driver"),
    TRITORCH_ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "forward compatibility does not cover this GPU: use the driver's own libcuda"),
    TRITORCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the operation is not permitted while a stream is being captured into a graph"),
    TRITORCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier operation that capture does not permit has spoilt the capture"),
    TRITORCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would be merged through an event"),
    TRITORCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture was not begun on this stream"),
    TRITORCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream that was forked into the capture was not joined back: wait for it on the capturing stream"),
    TRITORCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "captured work would depend on work outside of the capture"),
    TRITORCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream would implicitly be drawn into the capture"),
    TRITORCH_ERROR(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture, so there is nothing to wait for"),
    TRITORCH_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "a capture must end on the thread that began it"),
    TRITORCH_ERROR(CUDA_ERROR_UNKNOWN, "an unknown error of the driver"),
};
#undef TRITORCH_ERROR

const Known* find(cu::CUresult code) {
  for (const Known& known : kErrors)
    if (known.code == code) return &known;
  return nullptr;
}

// "driver.cuMemAlloc(&p, n)" -> "cuMemAlloc(&p, n)"
std::string from_function_name(const std::string& call) {
  for (std::size_t at = call.find("cu"); at != std::string::npos; at = call.find("cu", at + 1)) {
    bool starts = at == 0 || !(std::isalnum(static_cast<unsigned char>(call[at - 1])) || call[at - 1] == '_');
    if (starts && at + 2 < call.size() && std::isupper(static_cast<unsigned char>(call[at + 2])))
      return call.substr(at);
  }
  return call;
}

std::string compose(cu::CUresult code, const std::string& call, const std::string& detail) {
  std::string text = std::string(error_name(code)) + " (" + std::to_string(static_cast<int>(code)) + ") in " +
                     from_function_name(call) + ": " + error_meaning(code);
  if (!detail.empty()) text += " [" + detail + "]";
  return text;
}

}  // namespace

const char* error_name(cu::CUresult code) {
  const Known* known = find(code);
  return known ? known->name : "CUDA_ERROR";
}

const char* error_meaning(cu::CUresult code) {
  const Known* known = find(code);
  return known ? known->meaning : "see the CUDA driver's documentation of this code";
}

CudaError::CudaError(cu::CUresult result, const std::string& call, const std::string& detail)
    : std::runtime_error(compose(result, call, detail)), code(result) {}

void throw_cuda_error(cu::CUresult code, const char* call) {
  throw CudaError(code, call, cu::simulator::last_error_detail());
}

}  // namespace tritorch
