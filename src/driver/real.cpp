#include <dlfcn.h>

#include <cstdlib>

#include "driver/table.h"

namespace tritorch::cu {

bool load_real_driver(Driver& table, std::string& problem) {
  const char* path = std::getenv("TRITORCH_LIBCUDA");
  void* library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    problem = std::string(path ? path : "libcuda.so.1") +
              " was not found: install the NVIDIA driver (525 or newer), or set "
              "TRITORCH_SIMULATE_CUDA=1 to try tritorch without a GPU";
    return false;
  }
  std::string missing;
#define TRITORCH_LOAD(field, symbol, params)                                       \
  table.field = reinterpret_cast<decltype(table.field)>(dlsym(library, symbol));
#define TRITORCH_REQUIRE(field, symbol, params) \
  TRITORCH_LOAD(field, symbol, params)          \
  if (!table.field && missing.empty()) missing = symbol;
  TRITORCH_DRIVER_FUNCTIONS(TRITORCH_REQUIRE, TRITORCH_LOAD)
#undef TRITORCH_REQUIRE
#undef TRITORCH_LOAD
  if (missing.empty()) return true;
  int version = 0;
  if (table.cuDriverGetVersion) table.cuDriverGetVersion(&version);
  problem = "The NVIDIA driver is too old for tritorch: it has no " + missing +
            (version ? " (it speaks CUDA " + std::to_string(version / 1000) + "." +
                           std::to_string(version % 1000 / 10) + ")"
                     : std::string()) +
            "; install driver 525 (CUDA 12.0) or newer";
  return false;
}

}  // namespace tritorch::cu
