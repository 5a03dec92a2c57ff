"""The arithmetic of gradient scaling; nothing here makes the host wait for a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core import published
from tritorch.core.tensor import Tensor
from tritorch.ops.lists.multi_tensor import rescale_
from tritorch.ops.pointwise.arithmetic import where
from tritorch.ops.pointwise.pointwise import isfinite


def unscale_and_check_(
    grads: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor | None
) -> None:
    """grads *= inv_scale, if given; found_inf becomes 1 if any of them is not finite."""
    rescale_(grads, inv_scale, found_inf)


def update_scale_(
    scale: Tensor,
    growth_tracker: Any,
    found_inf: Tensor,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: int,
) -> None:
    """The scale and the count of good steps, after a step."""
    overflow = found_inf > 0
    steps = growth_tracker + 1
    due = steps == growth_interval
    grown = scale * growth_factor
    grown = where(isfinite(grown), grown, scale)
    scale.copy_(where(overflow, scale * backoff_factor, where(due, grown, scale)))
    zero = published.public.zeros_like(growth_tracker)
    growth_tracker.copy_(where(overflow | due, zero, steps))
