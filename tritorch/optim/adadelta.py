"""Adadelta."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._per_parameter import PerParameter, add_scaled, check, square_average
from tritorch.optim.optimizer import ParamsT


class Adadelta(PerParameter):
    """v = average of g²;  d = g √(u + eps) / √(v + eps);  u = average of d²;  p -= lr d."""

    zeros = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        rho, eps = group["rho"], group["eps"]
        square, moved = state["square_avg"], state["acc_delta"]
        square_average(square, grad, rho)
        delta = (moved + eps).sqrt() / (square + eps).sqrt() * grad
        square_average(moved, delta, rho)
        add_scaled(p, delta, -group["lr"])
