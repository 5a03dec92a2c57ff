#include "driver/error.h"

#include <string_view>

#include "simulator/simulator.h"

namespace tritorch {
namespace {

struct Explanation {
  cu::CUresult code;
  const char* name;
  const char* meaning;
};

#define FIND_IT "; run under TRITORCH_SIMULATE_CUDA=1 or compute-sanitizer to find it"
#define TRITORCH_EXPLAIN(name, meaning) {cu::name, #name, meaning}
constexpr Explanation kExplanations[] = {
    TRITORCH_EXPLAIN(CUDA_SUCCESS, "the call succeeded"),
    TRITORCH_EXPLAIN(
        CUDA_ERROR_INVALID_VALUE,
        "an argument is out of range, or a pointer is not one that the driver gave out"),
    TRITORCH_EXPLAIN(CUDA_ERROR_OUT_OF_MEMORY,
                     "the device has not enough free memory; free tensors or use smaller batches, "
                     "and see nvidia-smi for other processes on this GPU"),
    TRITORCH_EXPLAIN(CUDA_ERROR_NOT_INITIALIZED, "cuInit has not been called in this process"),
    TRITORCH_EXPLAIN(CUDA_ERROR_DEINITIALIZED,
                     "the driver is shutting down, as it does when the process exits"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STUB_LIBRARY,
                     "the libcuda.so.1 that was found is a stub for linking; put the driver's own "
                     "first in LD_LIBRARY_PATH"),
    TRITORCH_EXPLAIN(CUDA_ERROR_NO_DEVICE,
                     "no NVIDIA GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES"),
    TRITORCH_EXPLAIN(CUDA_ERROR_INVALID_DEVICE,
                     "there is no device with that number; check CUDA_VISIBLE_DEVICES"),
    TRITORCH_EXPLAIN(CUDA_ERROR_INVALID_IMAGE,
                     "the driver does not take the kernel's machine code: it was made for a newer "
                     "driver, or it is damaged, and then removing Triton's cache "
                     "(~/.triton/cache) helps"),
    TRITORCH_EXPLAIN(CUDA_ERROR_INVALID_CONTEXT,
                     "the calling thread has no current device, or not the one this call needs"),
    TRITORCH_EXPLAIN(CUDA_ERROR_MAP_FAILED, "device memory could not be mapped to an address"),
    TRITORCH_EXPLAIN(CUDA_ERROR_UNMAP_FAILED, "device memory could not be unmapped"),
    TRITORCH_EXPLAIN(CUDA_ERROR_NO_BINARY_FOR_GPU,
                     "the kernel was compiled for another GPU architecture than this one"),
    TRITORCH_EXPLAIN(CUDA_ERROR_ECC_UNCORRECTABLE,
                     "the GPU's memory has a hardware fault; reset the GPU, and replace it if "
                     "this happens again"),
    TRITORCH_EXPLAIN(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                     "these two devices cannot reach each other's memory; copy through the host"),
    TRITORCH_EXPLAIN(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                     "the kernel's PTX is newer than the driver; install a newer NVIDIA driver"),
    TRITORCH_EXPLAIN(CUDA_ERROR_INVALID_HANDLE,
                     "a stream, event, graph or function does not exist (any more), or belongs to "
                     "another device"),
    TRITORCH_EXPLAIN(CUDA_ERROR_ILLEGAL_STATE,
                     "the object is not in a state that allows this, such as a stream that is "
                     "captured twice or not at all"),
    TRITORCH_EXPLAIN(CUDA_ERROR_NOT_FOUND,
                     "something was not found by its name, such as a kernel in a module"),
    TRITORCH_EXPLAIN(CUDA_ERROR_NOT_READY, "work that was asked about is not finished yet"),
    TRITORCH_EXPLAIN(CUDA_ERROR_ILLEGAL_ADDRESS,
                     "a kernel or copy read or wrote memory that is not allocated" FIND_IT
                     "; the context is lost"),
    TRITORCH_EXPLAIN(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                     "the kernel needs more registers or shared memory than a block can have; use "
                     "smaller blocks or fewer warps"),
    TRITORCH_EXPLAIN(CUDA_ERROR_LAUNCH_TIMEOUT,
                     "the kernel ran longer than the display's watchdog allows; the context is "
                     "lost"),
    TRITORCH_EXPLAIN(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
                     "peer access between these devices is on already"),
    TRITORCH_EXPLAIN(CUDA_ERROR_ASSERT,
                     "a device-side assert failed, and its message is above; the context is lost"),
    TRITORCH_EXPLAIN(CUDA_ERROR_HARDWARE_STACK_ERROR,
                     "the kernel's call stack overflowed or was corrupted; the context is lost"),
    TRITORCH_EXPLAIN(CUDA_ERROR_ILLEGAL_INSTRUCTION,
                     "the kernel ran an instruction this GPU does not have: it was compiled for "
                     "another one, or its code was overwritten; the context is lost"),
    TRITORCH_EXPLAIN(CUDA_ERROR_MISALIGNED_ADDRESS,
                     "a kernel used an address that is not aligned as its access needs; run under "
                     "compute-sanitizer to find it; the context is lost"),
    TRITORCH_EXPLAIN(CUDA_ERROR_INVALID_PC,
                     "a kernel jumped outside its code; the context is lost"),
    TRITORCH_EXPLAIN(CUDA_ERROR_LAUNCH_FAILED,
                     "a kernel failed on the device, often by a bad address" FIND_IT
                     "; the context is lost"),
    TRITORCH_EXPLAIN(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                     "a cooperative launch has more blocks than fit on the device at once; launch "
                     "fewer"),
    TRITORCH_EXPLAIN(CUDA_ERROR_NOT_PERMITTED,
                     "the call is not allowed here, such as waiting for the device inside a host "
                     "callback"),
    TRITORCH_EXPLAIN(CUDA_ERROR_NOT_SUPPORTED, "this device or driver does not support the call"),
    TRITORCH_EXPLAIN(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                     "libcuda.so.1 and the kernel module are of different versions; reboot, or "
                     "reinstall the NVIDIA driver"),
    TRITORCH_EXPLAIN(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                     "the forward-compatibility libcuda.so.1 does not support this GPU; remove it "
                     "from LD_LIBRARY_PATH"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                     "the call is not allowed while a graph is captured (it waits, allocates from "
                     "the driver, or copies to pageable memory); do it before the capture"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                     "an earlier error has spoilt this capture; the first error says why"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STREAM_CAPTURE_MERGE,
                     "an event would join two separate captures; capture the streams as one graph"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                     "the capture was ended on another stream than it was begun on"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                     "a side stream's captured work was not joined: before the capture ends, make "
                     "the capturing stream wait for an event recorded on it"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                     "captured work would depend on work outside the graph; wait for that before "
                     "the capture begins"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                     "the default stream was used while a stream that is ordered with it is "
                     "captured; use another stream, or a non-blocking one for the capture"),
    TRITORCH_EXPLAIN(CUDA_ERROR_CAPTURED_EVENT,
                     "the event was last recorded during a capture, so it stands for no real work"),
    TRITORCH_EXPLAIN(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                     "the capture was ended on another thread than it was begun on"),
    {cu::simulator::kInterrupted, "interrupted",
     "a Python exception ended a kernel on the simulated device, and was raised elsewhere"},
    TRITORCH_EXPLAIN(CUDA_ERROR_UNKNOWN,
                     "the driver does not say what failed; check dmesg for Xid messages and that "
                     "the nvidia kernel modules are loaded"),
};
#undef TRITORCH_EXPLAIN
constexpr std::string_view kFindIt = FIND_IT;
#undef FIND_IT

const Explanation* explain(cu::CUresult code) {
  for (const Explanation& entry : kExplanations)
    if (entry.code == code) return &entry;
  return nullptr;
}

// "driver.cuMemAlloc(&p, n)" -> "cuMemAlloc(&p, n)"
std::string_view from_function_name(std::string_view call) {
  auto is_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t at = call.find("cu"); at != std::string_view::npos;
       at = call.find("cu", at + 1)) {
    const bool begins = at == 0 || !is_name(call[at - 1]);
    const bool named = at + 2 < call.size() && call[at + 2] >= 'A' && call[at + 2] <= 'Z';
    if (begins && named) return call.substr(at);
  }
  return call;
}

std::string message(cu::CUresult code, const std::string& call, const std::string& detail) {
  std::string text = std::string(error_name(code)) + " (" + std::to_string(code) + ")";
  if (!call.empty()) text += " in " + std::string(from_function_name(call));
  text += std::string(": ") + error_meaning(code);
  if (detail.empty()) return text;
  // The simulated device has found it.
  if (const auto advice = text.find(kFindIt); advice != std::string::npos)
    text.erase(advice, kFindIt.size());
  text += "\n  " + detail;
  return text;
}

}  // namespace

const char* error_name(cu::CUresult code) {
  const Explanation* entry = explain(code);
  return entry ? entry->name : "CUDA_ERROR";
}

const char* error_meaning(cu::CUresult code) {
  const Explanation* entry = explain(code);
  return entry ? entry->meaning : "an error that tritorch does not know; see CUresult in cuda.h";
}

CudaError::CudaError(cu::CUresult result, const std::string& call, const std::string& detail)
    : std::runtime_error(message(result, call, detail)), code(result) {}

void throw_cuda_error(cu::CUresult code, const char* call) {
  // Empty unless the simulated device is in use and work on it has failed.
  throw CudaError(code, call, cu::simulator::last_error_detail());
}

}  // namespace tritorch
