"""Settings and checks that programs make at torch's top level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core import gates

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
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    if _interop is not None:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or "
            "set_num_interop_threads called"
        )
    _interop = n


def set_flush_denormal(mode: bool) -> bool:
    """Whether denormal numbers become zero: False, this cannot be set here."""
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


def _check_with(error: type[Exception], cond: Any, message: Message) -> None:
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        given = message() if callable(message) else message
        raise error("Expected cond to be True, but got False." if given is None else str(given))


def _check(cond: Any, message: Message = None) -> None:
    """RuntimeError unless the condition holds."""
    _check_with(RuntimeError, cond, message)


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


class FatalError(Exception):
    """PyTorch's error of which a program should not recover; tritorch raises none."""


FatalError.__module__ = "torch"
