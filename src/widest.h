// Functions that are compiled for vectors of several widths, and which of them a process runs.
#pragma once

namespace tritorch {

enum class Cpu : char { baseline, avx2, avx512 };

// The widest vectors of the processor, or fewer by TRITORCH_CPU=avx512|avx2|baseline; read once.
// Results are the same to the bit: the order of a sum does not depend on it.
extern const Cpu chosen_cpu;

}  // namespace tritorch

// TRITORCH_WIDEST(Result, name, (T a, T b), (a, b), { body }) defines `Result name(T a, T b)`, a
// function with one version a width.  GCC's target_clones would do but for the choice.
#if defined(__x86_64__) && defined(__GNUC__)
#define TRITORCH_WIDEST(Result, name, parameters, arguments, ...)                         \
  [[gnu::always_inline]] inline Result name##_body parameters __VA_ARGS__                 \
      [[gnu::target("avx512f")]] Result name##_avx512 parameters {                        \
    return name##_body arguments;                                                         \
  }                                                                                       \
  [[gnu::target("avx2")]] Result name##_avx2 parameters { return name##_body arguments; } \
  Result name##_baseline parameters { return name##_body arguments; }                     \
  Result name parameters {                                                                \
    const auto level = ::tritorch::chosen_cpu;                                            \
    if (level == ::tritorch::Cpu::avx512) return name##_avx512 arguments;                 \
    if (level == ::tritorch::Cpu::avx2) return name##_avx2 arguments;                     \
    return name##_baseline arguments;                                                     \
  }
#else
#define TRITORCH_WIDEST(Result, name, parameters, arguments, ...) Result name parameters __VA_ARGS__
#endif
