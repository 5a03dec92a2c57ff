// Kernels of the simulated device that are functions of Python.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "simulator/simulator.h"

namespace tritorch {

// The exception that ends a kernel as a GPU would: (the CUresult that the device is left with,
// why). All others end only the kernel.
extern PyObject* device_fault;

// A function of the simulated device: callback(grid, each parameter's bytes, where the launch comes
// from) is called when its queue reaches a launch.
cu::CUfunction make_simulated(const std::string& name, std::vector<std::uint32_t> parameter_sizes,
                              PyObject* callback);

// The exception other than a device_fault that ended a kernel, for the call that ran it to raise (a
// reference that the caller owns); null if there was none.
PyObject* take_interruption();

// Launches come from the innermost line of Python that is in none of these folders.
void tell_launch_sites(std::vector<std::string> skipped);

// The configuration of the launch that ran last, for tests.
struct LastLaunch {
  unsigned grid[3], block[3], shared;
  std::vector<int> attributes;
};
const LastLaunch& last_launch();

// Takes care that a forked child's garbage collector runs, though a kernel was running at the fork.
void resume_collector_in_children();

}  // namespace tritorch
