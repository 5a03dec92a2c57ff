"""Distances between rows (pdist, cdist)."""

from __future__ import annotations

from typing import Any

from tritorch.core import published
from tritorch.core.promotion import not_implemented, scalar_name
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.tensor import Tensor
from tritorch.ops.record.checks import broadcast_shapes, require_scalar_type
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.publishing import functional
from tritorch.ops.reduce.reduction import vector_norm

_MODES = (
    "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)  # fmt: skip
_MANY_ROWS = 25  # from here on, "if necessary" means yes


@functional
@autocast("cuda:float32")
@ends_with("_pdist_forward")
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norm distances between all pairs of rows i < j."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = published.public.triu_indices(
        input.shape[0], input.shape[0], 1, device=input.device
    )
    return vector_norm(input.index_select(0, first) - input.index_select(0, second), p, -1)


PUBLIC["pdist"] = pdist


def _euclidean(x1: Tensor, x2: Tensor) -> Tensor:
    """By one matrix product; the gradient of a distance of 0 is 0."""
    squares = x1.square().sum(-1, keepdim=True) + x2.square().sum(-1).unsqueeze(-2)
    squared = squares - 2 * (x1 @ x2.mT)
    nothing = squared <= 0
    return squared.masked_fill(nothing, 1).sqrt().masked_fill(nothing, 0)


@autocast("float32")
@ends_with("_cdist_forward")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: Any = _MODES[0]) -> Tensor:
    """The p-norm distances between each row of x1 and each row of x2."""
    if compute_mode in (None, 0, 1, 2):
        compute_mode = _MODES[compute_mode or 0]
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {scalar_name(x.dtype)}"
            )
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    require_scalar_type(x1, x2)
    if x1.dtype.itemsize < 4:
        raise not_implemented("cdist", x1.dtype)
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    by_product = compute_mode == _MODES[1] or (
        compute_mode == _MODES[0] and max(x1.shape[-2], x2.shape[-2]) > _MANY_ROWS
    )
    if not x1.shape[-1]:
        batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return x1.new_zeros((*batch, x1.shape[-2], x2.shape[-2]))
    if p == 2 and by_product:
        return _euclidean(x1, x2)
    return vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


PUBLIC["cdist"] = cdist
