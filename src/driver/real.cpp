// The driver's table, filled from libcuda.so.1.
#include <dlfcn.h>

#include <cstdlib>

#include "driver/table.h"

namespace tritorch::cu {
bool load_real_driver(Driver& table, std::string& problem) {
  const char* path = std::getenv("TRITORCH_LIBCUDA");
  if (path && !*path) path = nullptr;
  // Never closed: the driver's threads and exit handlers do not survive that.
  void* library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    problem = path ? std::string("TRITORCH_LIBCUDA names ") + path + ", which cannot be loaded (" +
                         (reason ? reason : "no reason given") + "): correct it or unset it"
                   : "libcuda.so.1 was not found: install the NVIDIA driver (525 or newer), or set "
                     "TRITORCH_SIMULATE_CUDA=1 to try tritorch without a GPU";
    return false;
  }
  Driver found;
  std::string missing;
#define TRITORCH_OPTIONAL(field, symbol, params) \
  found.field = reinterpret_cast<decltype(found.field)>(dlsym(library, symbol));
#define TRITORCH_REQUIRED(field, symbol, params) \
  TRITORCH_OPTIONAL(field, symbol, params)       \
  if (!found.field && missing.empty()) missing = symbol;
  TRITORCH_DRIVER_FUNCTIONS(TRITORCH_REQUIRED, TRITORCH_OPTIONAL)
#undef TRITORCH_REQUIRED
#undef TRITORCH_OPTIONAL
  if (missing.empty()) {
    table = found;
    return true;
  }
  int version = 0;
  if (found.cuDriverGetVersion) found.cuDriverGetVersion(&version);
  problem = "the NVIDIA driver is too old for tritorch: it has no " + missing;
  if (version)
    problem += " (it supports CUDA " + std::to_string(version / 1000) + "." +
               std::to_string(version % 1000 / 10) + ")";
  problem += "; install driver 525 (CUDA 12.0) or newer";
  return false;
}

}  // namespace tritorch::cu
