// The C library's malloc, from which NumPy takes the arrays of the CPU backend.
//
// By default glibc gives every array above 128 KiB pages of its own and returns them when the array
// dies: each result of an operator then costs a page fault for every 4 KiB, 10 to 20 % of a
// training step.  Here arrays come from the heap up to 128 MiB, and up to 512 MiB of free memory at
// its end are kept.
#pragma once

namespace tritorch {

// Does nothing where the environment configures malloc (MALLOC_*_, GLIBC_TUNABLES), or with another
// C library.
void keep_freed_host_memory();

}  // namespace tritorch
