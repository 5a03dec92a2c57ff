// The kernels for x86 processors with AVX2 and FMA: CMakeLists.txt has this file's options.
#if defined(__x86_64__)
#define TRITORCH_KERNELS fused
#include "random/kernels_body.h"
#endif
