// The driver's table, filled from libcuda.so.1.
#include <dlfcn.h>

#include <cstdlib>

#include "driver/table.h"

namespace tritorch::cu {
namespace {

bool resolve(void* library, const char* symbol, bool required, void** to, std::string& problem) {
  *to = dlsym(library, symbol);
  if (*to || !required) return true;
  problem = std::string("the NVIDIA driver has no ") + symbol +
            ": it is too old; tritorch needs CUDA 12.0, which is driver 525 or newer";
  return false;
}

}  // namespace

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
#define TRITORCH_REQUIRED(field, symbol, params)                                        \
  if (!resolve(library, symbol, true, reinterpret_cast<void**>(&found.field), problem)) \
    return false;
#define TRITORCH_OPTIONAL(field, symbol, params) \
  resolve(library, symbol, false, reinterpret_cast<void**>(&found.field), problem);
  TRITORCH_DRIVER_FUNCTIONS(TRITORCH_REQUIRED, TRITORCH_OPTIONAL)
#undef TRITORCH_REQUIRED
#undef TRITORCH_OPTIONAL
  table = found;
  return true;
}

}  // namespace tritorch::cu
