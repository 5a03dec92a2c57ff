// Compiled kernels on a device.
#pragma once

#include <span>
#include <string>

#include "driver/table.h"

namespace tritorch {

struct Binary {
  cu::CUmodule module;
  cu::CUfunction function;
  int registers, spilled_words, threads;  // threads: the most a block
};

// Loads a cubin.  shared: the bytes of shared memory that its launches ask for.
Binary load_binary(const std::string& name, const char* image, int shared, int device);
void unload_module(cu::CUmodule module, int device);  // device < 0: the thread's current one
// How many clusters of so many blocks a device runs at once.
int max_active_clusters(cu::CUfunction function, unsigned shared, unsigned num_ctas,
                        unsigned num_warps);

}  // namespace tritorch
