// The kernels for any processor.
#define TRITORCH_KERNELS plain
#include "random/kernels_body.h"

namespace tritorch::random {

const Kernels& kernels() {
#if defined(__x86_64__)
  static const bool fuses = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return fuses ? fused::kernels : plain::kernels;
#else
  return plain::kernels;
#endif
}

}  // namespace tritorch::random
