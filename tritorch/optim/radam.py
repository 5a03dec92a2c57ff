"""RAdam: Adam whose variance is rectified in the first steps."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops.arithmetic import where
from tritorch.optim._per_parameter import (
    PerParameter,
    add_ratio,
    add_scaled,
    check,
    correction,
    kept,
    move_average,
    root,
    square_average,
)
from tritorch.optim.optimizer import ParamsT


class RAdam(PerParameter):
    """m, v = averages of g, g²;  p -= lr m̂ r / (√v̂ + eps) once rho(t) > 5, and lr m̂ before.

    rho∞ = 2 / (1 - beta2) - 1;  rho(t) = rho∞ - 2 t beta2^t / (1 - beta2^t);
    r² = (rho(t) - 4) (rho(t) - 2) rho∞ / ((rho∞ - 4) (rho∞ - 2) rho(t))
    """

    zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr, betas, eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("decoupled_weight_decay", False)

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        average, square = state["exp_avg"], state["exp_avg_sq"]
        move_average(average, grad, 1 - beta1)
        square_average(square, grad, beta2)
        gathered = correction(beta2, step) ** 0.5
        limit = 2 / (1 - beta2) - 1
        rho = limit - 2 * step * beta2**step / gathered**2
        scale = -group["lr"] / correction(beta1, step)
        eps = group["eps"] * gathered
        if isinstance(rho, Tensor):
            adaptive = _rectification(rho, limit) * gathered / root(square, eps)
            p.add_(kept(average) * scale * where(rho > 5, adaptive, 1.0))
        elif rho > 5:
            scale *= _rectification(rho, limit) * gathered
            add_ratio(p, average, root(square, eps), scale)
        else:
            add_scaled(p, average, scale)


def _rectification(rho: Any, limit: float) -> Any:
    ratio = (rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)
    return ratio**0.5
