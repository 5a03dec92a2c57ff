"""vmap as autograd uses it, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.func.vmap import vmap as _public_vmap, vmap_passing_none

__all__ = ["vmap"]


def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """func, mapped over a dim of its inputs; results may be None if that is allowed."""
    mapped = vmap_passing_none if allow_none_pass_through else _public_vmap
    return mapped(func, in_dims, out_dims)


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """func, mapped over a dim of its inputs."""
    return _public_vmap(func, in_dims, out_dims)
