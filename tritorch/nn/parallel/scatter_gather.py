"""What is in nests, cut into pieces for GPUs and put together again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.nn.parallel import comm

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _is_namedtuple(obj: Any) -> bool:
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is of a class made by `namedtuple`."""
    warnings.warn(
        "`is_namedtuple` is deprecated, please use the python checks instead",
        FutureWarning,
        stacklevel=2,
    )
    return _is_namedtuple(obj)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Tensors in nests as pieces, one for each GPU; what is no tensor goes to all."""
    if isinstance(inputs, Tensor):
        return comm.scatter(inputs, target_gpus, None, dim)
    if isinstance(inputs, (tuple, list, dict)) and inputs:
        items = inputs.items() if isinstance(inputs, dict) else inputs
        rows = list(zip(*(scatter(item, target_gpus, dim) for item in items)))
        if _is_namedtuple(inputs):
            return [type(inputs)(*row) for row in rows]
        if isinstance(inputs, tuple):
            return rows
        return [list(row) if isinstance(inputs, list) else type(inputs)(row) for row in rows]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Arguments as pieces, those with names too; as many of both."""
    placed = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    count = max(len(placed), len(named))
    placed += [()] * (count - len(placed))
    named += [{} for _ in range(count - len(named))]
    return tuple(placed), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Results of several GPUs put together on one device."""
    first = outputs[0]
    if isinstance(first, Tensor):
        if not all(each.device.type != "cpu" for each in outputs):
            raise AssertionError("Gather function not implemented for CPU tensors")
        if dim == 0 and all(each.dim() == 0 for each in outputs):
            warnings.warn(
                "Was asked to gather along dimension 0, but all input tensors were scalars; will "
                "instead unsqueeze and return a vector.",
                stacklevel=2,
            )
            outputs = [each.view(1) for each in outputs]
        return comm.gather(outputs, dim, target_device)
    if first is None:
        return None
    if isinstance(first, dict):
        if not all(len(first) == len(each) for each in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)(
            (key, gather([each[key] for each in outputs], target_device, dim)) for key in first
        )
    rows = [gather(row, target_device, dim) for row in zip(*outputs, strict=True)]
    return type(first)._make(rows) if _is_namedtuple(first) else type(first)(rows)
