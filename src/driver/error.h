// Driver errors as C++ exceptions; the bindings turn them into Python ones.
#pragma once

#include <stdexcept>
#include <string>

#include "driver/table.h"

namespace tritorch {

// A driver call failed: the driver's name for it, what that means, what to do, and which call.
class CudaError : public std::runtime_error {
 public:
  CudaError(cu::CUresult code, const std::string& call, const std::string& detail = "");
  cu::CUresult code;
};

// The device's memory, or the part of it this process may use, is exhausted.
class OutOfMemoryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// There is no usable driver or device; the text names the fix.
class CudaUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

const char* error_name(cu::CUresult code);     // "CUDA_ERROR_ILLEGAL_ADDRESS"
const char* error_meaning(cu::CUresult code);  // one sentence: what happened and what to do

[[noreturn]] void throw_cuda_error(cu::CUresult code, const char* call);

inline void check(cu::CUresult code, const char* call) {
  if (code != cu::CUDA_SUCCESS) [[unlikely]]
    throw_cuda_error(code, call);
}

// The text of the expression goes into the exception.
#define CHECK_CU(expression) ::tritorch::check((expression), #expression)

}  // namespace tritorch
