#include "memory/host.h"

#include <cstdlib>
#include <initializer_list>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tritorch {

void keep_freed_host_memory() {
#if defined(__GLIBC__)
  for (const char* name :
       {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"})
    if (std::getenv(name)) return;
  constexpr int mib = 1 << 20;
  if (!mallopt(M_MMAP_THRESHOLD, 128 * mib)) mallopt(M_MMAP_THRESHOLD, 32 * mib);  // older glibc
  mallopt(M_TRIM_THRESHOLD, 512 * mib);
  mallopt(M_TOP_PAD, 64 * mib);
#endif
}

}  // namespace tritorch
