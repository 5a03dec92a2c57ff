"""What can be seen of tensors without getting hold of their memory, as plain data.

A program that got hold of it (NumPy, a pointer) has told the follower that nothing may wait for it.
"""

from __future__ import annotations

from typing import Any

import tritorch as torch

from .generated.worlds import contents


def seen(value: Any) -> Any:
    """Nested data with what is seen of each tensor in its place."""
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, dict):
        return {str(key): seen(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    return value.hex() if isinstance(value, float) else value


def of_tensor(x: Any) -> Any:
    """What is seen of a tensor, of its gradient too if it is a leaf."""
    with torch.no_grad():
        plain = contents((x.to_dense() if x.layout is not torch.strided else x).detach().clone())
    grad = x.grad if x.is_leaf and x.requires_grad else None
    layout = x.stride(), x.storage_offset() if x.layout is torch.strided else None
    return (
        str(x.dtype), tuple(x.shape), layout, x.requires_grad, x.is_leaf, x._version, plain,
        None if grad is None else of_tensor(grad),
    )  # fmt: skip


def first_difference(one: Any, other: Any, path: str = "") -> str:
    """Where two things that were seen differ; "" if they do not."""
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        pairs = [(f"{path}.{key}", one[key], other[key]) for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(one, other))]
    else:
        return "" if one == other else f"{path}: {one!r:.200} and {other!r:.200}"
    return next((found for pair in pairs if (found := first_difference(*pair[1:], pair[0]))), "")
