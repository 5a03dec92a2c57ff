// A function that is compiled for the widest vectors, too.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TRITORCH_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TRITORCH_WIDEST
#endif
