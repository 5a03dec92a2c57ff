// Note [Launches that wait]: the first launch of a kernel that is in no cache would wait for a
// compiler, for a second or more, while other processors have nothing to do.  Where processes
// compile (triton/compilers.py), such a launch is put into a queue instead, with all launches that
// follow it, and Python goes on to the next kernels that are not there.  They are compiled side by
// side.  Fills and copies on a device, and small ones to it, go into the queue, too.  Whoever asks
// anything else of a device (a value, an event, a wait, a graph, a launch of Triton's) starts the
// queue first, launch by launch, each when its kernel is there.
//
// - The queue holds the launches' arguments, so their memory stays theirs.  Memory that a launch
//   knows by its address alone (a table) may be free by then, and go to later work of the same
//   stream, which comes later in the queue; only to the driver it may not go back (release_blocks).
// - A program that knows where a tensor's memory is could hand it to others, who launch by
//   themselves: from then on (`expose`) no launch waits in that process.
// - What is recorded or captured waits for nothing: the queue is started before.
// - An error of a compiler, or of a launch, is raised where the queue is started, and the launches
//   behind it are forgotten.
//
// The queue belongs to who holds the interpreter lock; one thread at a time starts it.
#pragma once

#include <Python.h>

#include <cstddef>

#include "driver/abi.h"

namespace tritorch {

// Whether a launch of this thread has to wait, because others do.
bool has_to_wait() noexcept;
// Whether a launch of this thread may wait for a compiler.
bool may_wait(cu::CUstream stream);
// Puts a call of a kernel into the queue.
void wait_to_launch(PyObject* kernel, PyObject* const* args, std::size_t positional,
                    PyObject* names, int device, cu::CUstream stream);
// From now on no launch of this process waits.
void launch_at_once();
// Lets go of what waits, unlaunched: the process ends.
void forget_what_waits() noexcept;

}  // namespace tritorch
