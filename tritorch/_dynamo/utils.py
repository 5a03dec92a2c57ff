"""What is counted and timed of compilations, and copies of inputs."""

from __future__ import annotations

from typing import Any

from tritorch._following.counters import counters as counters, seconds, times
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor

__all__ = ["clone_input", "clone_inputs", "compile_times", "counters"]

compilation_time_metrics = seconds


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """The seconds that compilations took: as a table, or ("csv") as names and values.

    aggregate: sums instead of every time."""
    if repr == "str":
        return times(aggregate)
    if repr != "csv":
        return None
    values = [[sum(each)] if aggregate else each for each in seconds.values()]
    return list(seconds), [", ".join(f"{t:.6f}" for t in each) for each in values]


def clone_input(x: Tensor, *, dtype: object = None) -> Tensor:
    """A copy with the same strides, which wants gradients if the tensor does."""
    y = PUBLIC["empty_like"](x, dtype=dtype or x.dtype)
    if tuple(y.stride()) != tuple(x.stride()):
        y = PUBLIC["empty_strided"](
            tuple(x.shape), tuple(x.stride()), dtype=y.dtype, device=x.device
        )
    y.copy_(x.detach())
    return y.requires_grad_(x.requires_grad)


def clone_inputs(example_inputs: Any) -> Any:
    """Copies of the tensors in a list, or in the lists of a dict."""
    if isinstance(example_inputs, dict):
        return {key: clone_inputs(value) for key, value in example_inputs.items()}
    return [clone_input(x) if isinstance(x, Tensor) else x for x in example_inputs]
