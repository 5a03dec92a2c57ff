"""Functions that the GPU lacks: inputs are copied to the host, the CPU's function computes, results
are copied back.

`via_host` lists what has gone that way; tests/ops/test_by_host.py says what may, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.gpu.arrays import from_numpy

via_host: set[str] = set()  # "family.name" of what went through the host in this process


def _to_host(value: Any) -> Any:
    if type(value) is _C.Array:
        return value.numpy()
    if type(value) in (tuple, list):
        return type(value)(map(_to_host, value))
    return value


def _to_device(value: Any, index: int) -> Any:
    if isinstance(value, np.ndarray):
        return from_numpy(np.ascontiguousarray(value).reshape(value.shape), index)
    if type(value) in (tuple, list):
        return type(value)(_to_device(item, index) for item in value)
    return value


def _device_index(values: Any) -> int | None:
    for value in values:
        if type(value) is _C.Array:
            return value.device_index
        if type(value) in (tuple, list):
            found = _device_index(value)
            if found is not None:
                return found
    return None


def through_host(path: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A GPU function that computes on the host."""

    def run(*args: Any) -> Any:
        via_host.add(path)
        index = _device_index(args)
        assert index is not None
        host = _to_host(args)
        result = function(*host)
        if path.endswith("_"):  # writes its first argument
            args[0].copy_(host[0])
            return args[0]
        return _to_device(result, index)

    return run
