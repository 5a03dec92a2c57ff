"""Dims as programs give them, counted from either end."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any


def wrap_dim(dim: Any, ndim: int, *, allow_scalar: bool = True) -> int:
    """A dim counted from the front; a 0-d tensor counts as 1-d."""
    if type(dim) is not int:
        if isinstance(dim, bool) or not hasattr(dim, "__index__"):
            raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}")
        dim = dim.__index__()
    span = ndim or 1
    if -span <= dim < span and (ndim or allow_scalar):
        return dim + span if dim < 0 else dim
    if not ndim and not allow_scalar:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {dim})"
    )


def is_number(value: Any) -> bool:
    """Whether something stands for one number: a tensor without dims does."""
    return not isinstance(value, Iterable) or getattr(value, "ndim", None) == 0


def several(value: Any, n: int) -> tuple[int, ...] | None:
    """n times a number; None of what is no number but a sequence."""
    if type(value) is int:
        return (value,) * n
    return (operator.index(value),) * n if is_number(value) else None


_SEQUENCES = frozenset((tuple, list))


def wrap_dims(dims: Any, ndim: int, *, empty_is_all: bool = True) -> tuple[int, ...]:
    """Sorted dims counted from the front; None (and, if so asked, none) means all."""
    if dims is None:
        return tuple(range(ndim))
    if type(dims) not in _SEQUENCES and (isinstance(dims, int) or is_number(dims)):
        return (wrap_dim(dims, ndim),)
    wrapped = [wrap_dim(dim, ndim) for dim in dims]
    if not wrapped and empty_is_all:
        return tuple(range(ndim))
    if len(set(wrapped)) != len(wrapped):
        twice = next(dim for dim in wrapped if wrapped.count(dim) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return tuple(sorted(wrapped))
