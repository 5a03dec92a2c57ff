"""Settings and checks that programs make at torch's top level."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.arrays.symbolic import SymBool, expect
from tritorch.core import gates
from tritorch.host import threads
from tritorch.ops.reduce import reduction

Message = Callable[[], Any] | str | None

# ---- threads and floats --------------------------------------------------------------------------

_interop: int | None = None


def get_num_interop_threads() -> int:
    """How many operators run side by side on the CPU: 1, unless set to more, which changes
    nothing."""
    return _interop or 1


def set_num_interop_threads(n: int) -> None:
    """Accepted once, as in PyTorch: operators run one after the other."""
    global _interop
    if not isinstance(n, int) or isinstance(n, bool):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(n).__name__}")
    threads.require_count(n)
    if n < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    if _interop is not None:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or "
            "set_num_interop_threads called"
        )
    _interop = n


def set_flush_denormal(mode: bool) -> bool:
    """Whether denormal numbers become zero: False, this cannot be set here."""
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return False


def init_num_threads() -> None:
    """Nothing is left to do: the CPU's threads start when they are first needed."""


# What the CPU's operators are made with: NumPy brings LAPACK and Fourier transforms.
has_lapack, has_spectral, has_mkl, has_openmp = True, True, False, False


def is_vulkan_available() -> bool:
    """False."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """True."""
    return True


# ---- checks --------------------------------------------------------------------------------------


def _assert(condition: Any, message: str) -> None:
    """An assertion; where it is of an object that overrides functions, a call that this may do."""
    overriding = gates.overloaded_arguments((condition,))
    if overriding:
        gates.override(_assert, overriding, (condition, message), {})
        return
    if not condition:
        raise AssertionError(message)


_IMPROVE = (
    " (Could this error message be improved? If so, please report an enhancement request to "
    "PyTorch.)"
)


def _raise(error: type[Exception], message: Message) -> None:
    if message is None:
        raise error(f"Expected cond to be True, but got False.{_IMPROVE}")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()))


def _check_with(error: type[Exception], cond: Any, message: Message) -> None:
    """Raises the error unless the condition, a bool, holds."""
    if not isinstance(cond, (bool, SymBool)):
        if isinstance(cond, _C.TensorBase):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use "
                "torch._check_tensor_all() to assert that all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not issubclass(error, Exception) or issubclass(error, Warning):
        raise TypeError("error_type must be an Exception type that is no Warning")
    if not expect(cond):
        _raise(error, message)


def _check(cond: Any, message: Message = None) -> None:
    """RuntimeError unless the condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: int | None = None) -> None:
    """RuntimeError unless a number can be a size (deprecated)."""
    warnings.warn(
        "_check_is_size will be removed in a future PyTorch release along with "
        "guard_size_oblivious.  Use _check(i >= 0) instead.",
        FutureWarning,
        stacklevel=2,
    )
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """IndexError unless the condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """ValueError unless the condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """TypeError unless the condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """NotImplementedError unless the condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error: type[Exception], cond: Any, message: Message = None) -> None:
    """Raises the error unless all elements of a tensor of bools are true."""
    if not isinstance(cond, _C.TensorBase):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype.name != "bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    if not bool(reduction.all(cond)):
        _raise(error, message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """RuntimeError unless all elements of a tensor of bools are true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _constrain_as_size(symbol: Any, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless a number is within bounds that a size may have."""
    is_tensor: bool = isinstance(symbol, _C.TensorBase)
    value = symbol.item() if is_tensor else symbol
    low, high = 0 if min is None else min, 2**63 - 1 if max is None else max
    if not low <= value <= high:
        raise RuntimeError(f"Invalid value range for {value} between [{low}, {high}].")


def _assert_async(input: Any, assert_msg: str | None = None) -> None:
    """RuntimeError unless the only element of a tensor is not zero; on a GPU it is waited for."""
    if input.numel() != 1:
        what = "no values" if not input.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


class FatalError(Exception):
    """PyTorch's error of which a program should not recover; tritorch raises none."""


FatalError.__module__ = "torch"
