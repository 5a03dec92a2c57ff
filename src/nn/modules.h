// ModuleBase is the native half of nn.Module: reading attributes, setting plain ones, and calls
// that no hook looks at.  Everything else is Python's (tritorch/nn/modules/module.py).
//
// # Note [Reading a module's attributes]
// Parameters, buffers and submodules are in dicts of the instance, where `__getattr__` finds them.
// Python asks it only after a failed look-up has made an AttributeError and thrown it away, which
// takes longer than the look-up.  So a class whose `__getattr__` is ModuleBase's and whose
// `__getattribute__` is object's gets a slot of ours, which looks in the type, the instance and
// these dicts and raises nothing in between.  That is done when `__getattr__` is first called for
// an instance of the class, or an instance is first called.  Whoever gives a class or a base of it
// another `__getattr__` (a tracer, for a while) has Python reset the slot of all subclasses; they
// get ours again once the method is ours again.
#pragma once

#include <Python.h>

namespace tritorch {

// Adds the type and its function to the module.  False with a Python error set on failure.
bool add_module_type(PyObject* module);

}  // namespace tritorch
