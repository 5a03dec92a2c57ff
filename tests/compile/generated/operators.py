"""Custom operators of random programs: registered once, for a process has one table of them."""

from __future__ import annotations

from typing import Any

import tritorch as torch


@torch.library.custom_op("random_programs::scaled", mutates_args=())
def scaled(a: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor times a factor, and 1."""
    return a * factor + 1


@scaled.register_fake
def _(a: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(a)


def _keep(ctx: Any, inputs: tuple, output: Any) -> None:
    ctx.factor = inputs[1]


def _back(ctx: Any, grad: Any) -> tuple:
    return grad * ctx.factor, None


scaled.register_autograd(_back, setup_context=_keep)


@torch.library.custom_op("random_programs::added", mutates_args=("a",))
def added(a: torch.Tensor, number: int) -> None:
    """Adds a number in place."""
    a.add_(number)
