#include "widest.h"

#include <cstdlib>
#include <cstring>

namespace tritorch {
namespace {

Cpu widest_of_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("avx512f")) return Cpu::avx512;
  if (__builtin_cpu_supports("avx2")) return Cpu::avx2;
#endif
  return Cpu::baseline;
}

Cpu chosen() {
  const Cpu most = widest_of_processor();
  const char* wanted = std::getenv("TRITORCH_CPU");
  if (!wanted) return most;
  if (std::strcmp(wanted, "baseline") == 0) return Cpu::baseline;
  if (std::strcmp(wanted, "avx2") == 0) return most < Cpu::avx2 ? most : Cpu::avx2;
  return most;
}

}  // namespace

const Cpu chosen_cpu = chosen();

}  // namespace tritorch
