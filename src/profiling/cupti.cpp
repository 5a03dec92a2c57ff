// The table, filled from NVIDIA's library.
#include "profiling/cupti.h"

#include <dlfcn.h>

namespace tritorch::cupti {

bool load_real_library(const std::string& path, Library& table, std::string& problem) {
  // Never closed: its thread outlives what would close it.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    problem = reason ? reason : path + " was not found";
    return false;
  }
  Library found;
#define TRITORCH_FIND(name, parameters)                                       \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name)); \
  if (!found.name) {                                                          \
    problem = path + " has no " #name;                                        \
    return false;                                                             \
  }
  TRITORCH_CUPTI_FUNCTIONS(TRITORCH_FIND)
#undef TRITORCH_FIND
  table = found;
  return true;
}

}  // namespace tritorch::cupti
