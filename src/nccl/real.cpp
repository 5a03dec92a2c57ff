// The table, filled from libnccl.so.2.
#include <dlfcn.h>

#include "nccl/table.h"

namespace tritorch::nccl {

bool load_real_library(const std::string& path, Library& table, std::string& problem) {
  // Never closed: its threads outlive what would close it.
  void* library = dlopen(path.empty() ? "libnccl.so.2" : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    problem = reason ? reason : "libnccl.so.2 was not found";
    return false;
  }
  Library found;
  std::string missing;
#define TRITORCH_OPTIONAL(name, parameters) \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name));
#define TRITORCH_REQUIRED(name, parameters) \
  TRITORCH_OPTIONAL(name, parameters)       \
  if (!found.name && missing.empty()) missing = #name;
  TRITORCH_NCCL_FUNCTIONS(TRITORCH_REQUIRED, TRITORCH_OPTIONAL)
  TRITORCH_REQUIRED(ncclGetErrorString, )
  TRITORCH_OPTIONAL(ncclGetLastError, )
#undef TRITORCH_REQUIRED
#undef TRITORCH_OPTIONAL
  if (!missing.empty()) {
    problem = "the NCCL library is too old: it has no " + missing + "; 2.7 is the oldest";
    return false;
  }
  table = found;
  return true;
}

}  // namespace tritorch::nccl
