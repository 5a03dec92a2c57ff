"""What tests of the compiler share and need no compiler."""

from __future__ import annotations

import unittest.mock
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor

__all__ = ["make_test_cls_with_patches", "rand_strided"]


def rand_strided(
    size: Sequence[int],
    stride: Sequence[int],
    dtype: Any = None,
    device: Any = "cpu",
    extra_size: int = 0,
) -> Tensor:
    """Random numbers in memory with these strides, and `extra_size` elements behind."""
    reach = extra_size
    if all(size):
        reach += sum((n - 1) * step for n, step in zip(size, stride)) + 1
    if dtype is None or dtype.is_floating_point or dtype.is_complex:
        memory = PUBLIC["randn"](reach, dtype=dtype, device=device)
    else:
        memory = PUBLIC["zeros"](reach, dtype=dtype, device=device)
    return memory.as_strided(tuple(size), tuple(stride))


def make_test_cls_with_patches(
    cls: Any,
    cls_prefix: str,
    fn_suffix: str,
    *patches: tuple[Any, str, Any],
    xfail_prop: str | None = None,
    decorator: Callable[[Any], Any] = lambda function: function,
) -> Any:
    """A class of tests with those of another, run with other settings: (module, name, value)."""
    contents: dict[str, Any] = {"__qualname__": f"{cls_prefix}{cls.__name__}"}
    made = type(f"{cls_prefix}{cls.__name__}", cls.__bases__, contents)
    for name in dir(cls):
        value = getattr(cls, name)
        if not name.startswith("test_"):
            if name not in vars(made) and not hasattr(made, name):
                setattr(made, name, value)
            continue
        own = f"{name}{fn_suffix}"
        if not callable(value):
            setattr(made, own, value)
            continue
        if xfail_prop is not None and hasattr(value, xfail_prop):
            value = unittest.expectedFailure(value)
        for module, setting, to in patches:
            value = unittest.mock.patch.object(module, setting, to)(value)
        value.__name__ = own
        setattr(made, own, decorator(value))
    return made
