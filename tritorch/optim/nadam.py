"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._per_parameter import (
    PerParameter,
    add_ratio,
    check,
    correction,
    move_average,
    read,
    root,
    scalar,
    square_average,
)
from tritorch.optim.optimizer import ParamsT


class NAdam(PerParameter):
    """m, v = averages of g, g²;  p -= lr (a g + b m) / (√v̂ + eps), with a, b from a schedule of mu.

    mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2);  a = (1 - mu(t)) / (1 - Π mu);
    b = mu(t+1) / (1 - mu(t+1) Π mu)
    """

    zeros = ("exp_avg", "exp_avg_sq")
    scalars = ("step", "mu_product")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr, betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("decoupled_weight_decay", False)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = super().new_state(p, group)
        return {"step": state["step"], "mu_product": scalar(1.0, p, group), **state}

    def advance(self, state: dict[str, Any], step: Any, group: dict[str, Any]) -> Any:
        beta1, decay = group["betas"][0], group["momentum_decay"]
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
        product = read(state["mu_product"].mul_(mu))
        return step, (1 - mu) / (1 - product), mu_next / (1 - product * mu_next)

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        average, square = state["exp_avg"], state["exp_avg_sq"]
        step, for_grad, for_average = step
        move_average(average, grad, 1 - beta1)
        square_average(square, grad, beta2)
        gathered = correction(beta2, step) ** 0.5
        denominator = root(square, group["eps"] * gathered)
        scale = -group["lr"] * gathered
        add_ratio(p, grad, denominator, scale * for_grad)
        add_ratio(p, average, denominator, scale * for_average)
