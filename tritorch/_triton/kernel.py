"""tritorch's own launches: a jit function as a native `_C.Kernel`.

`kernel("copy", "copy_strided")(grid, *args, num_warps=4, BLOCK=1024)` costs one native call once it
has been compiled.  A first call with new dtypes, alignments or constants comes here to compile.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

from tritorch import _C


def _compile(
    function: Any, device: int, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[_C.Launcher, int, Any]:
    """Compiles for these arguments through Triton itself, so that its specialisation is ours."""
    import triton.runtime.driver  # noqa: F401  (makes our driver the active one)

    args = tuple(_described(arg) if type(arg) is _C.Descriptor else arg for arg in args)
    previous = _C.current_device()
    if device != previous:
        _C.set_device(device)
    try:
        compiled = function.run(*args, grid=(1,), warmup=True, **options)
        if hasattr(compiled, "result"):  # an asynchronous compilation's placeholder
            compiled = compiled.result()
        launcher = compiled.run  # loads the binary
    finally:
        if device != previous:
            _C.set_device(previous)
    return launcher, compiled.function, compiled


def _described(descriptor: _C.Descriptor) -> Any:
    """A descriptor as Triton's specialisation knows it."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor(
        descriptor.base,
        list(descriptor.shape),
        list(descriptor.strides),
        list(descriptor.block_shape),
    )


def wrap(function: Any) -> _C.Kernel:
    """A `_C.Kernel` of a `@triton.jit` function."""
    empty = inspect.Parameter.empty
    parameters = list(function.signature.parameters.values())
    return _C.Kernel(
        functools.partial(_compile, function),
        tuple(parameter.name for parameter in parameters),
        tuple(None if p.default is empty else (True, p.default) for p in parameters),
        tuple(bool(parameter.is_constexpr) for parameter in function.params),
    )


@functools.cache
def kernel(family: str, name: str) -> _C.Kernel:
    """The kernel `name` of `tritorch.kernels.<family>`; imports Triton at first use."""
    return wrap(getattr(importlib.import_module(f"tritorch.kernels.{family}"), name))
