"""RMSprop."""

from __future__ import annotations

from typing import Any

from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.optim._per_parameter import (
    PerParameter,
    add_ratio,
    add_scaled,
    check,
    kept,
    move_average,
    root,
    shrink,
    square_average,
    zeros_like,
)
from tritorch.optim.optimizer import ParamsT


class RMSprop(PerParameter):
    """v = average of g², less the square of g's average if centered;  p -= lr g / (√v + eps)."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        kinds = {"square_avg": True, "momentum_buffer": group["momentum"] > 0}
        kinds["grad_avg"] = group["centered"]
        state = super().new_state(p, group)
        for name, wanted in kinds.items():
            if wanted:
                state[name] = zeros_like(p, memory_format=preserve_format)
        return state

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        alpha, square = group["alpha"], state["square_avg"]
        square_average(square, grad, alpha)
        if group["centered"]:
            average = state["grad_avg"]
            move_average(average, grad, 1 - alpha)
            mean = kept(average)
            square = square.addcmul(mean, mean, value=-1)
        denominator = root(square, group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            shrink(buffer, 1 - group["momentum"])
            add_ratio(buffer, grad, denominator, 1)
            add_scaled(p, buffer, -group["lr"])
        else:
            add_ratio(p, grad, denominator, -group["lr"])
