"""Adamax."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops.arithmetic import maximum
from tritorch.optim._per_parameter import (
    PerParameter,
    add_ratio,
    check,
    correction,
    kept,
    move_average,
)
from tritorch.optim.optimizer import ParamsT


class Adamax(PerParameter):
    """m = average of g;  u = max(beta2 u, |g| + eps);  p -= lr / (1 - beta1^t) m / u."""

    zeros = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check(lr, betas, eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        average, norm = state["exp_avg"], state["exp_inf"]
        move_average(average, grad, 1 - beta1)
        norm.copy_(maximum(norm * beta2, grad.abs() + group["eps"]))
        add_ratio(p, average, kept(norm), -group["lr"] / correction(beta1, step))
