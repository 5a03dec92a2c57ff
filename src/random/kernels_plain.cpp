// The kernels for any processor.
#define TRITORCH_KERNELS plain
#include "random/kernels_body.h"
#include "widest.h"

namespace tritorch::random {

const Kernels& kernels() {
#if defined(__x86_64__)
  static const bool fuses = chosen_cpu >= Cpu::avx2 && __builtin_cpu_supports("fma");
  return fuses ? fused::kernels : plain::kernels;
#else
  return plain::kernels;
#endif
}

}  // namespace tritorch::random
