"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._per_parameter import PerParameter, add_scaled, check, shrink
from tritorch.optim.optimizer import ParamsT


class SGD(PerParameter):
    """buf = momentum buf + (1 - dampening) g;  p -= lr buf, or lr (g + momentum buf)."""

    real_views = False  # linear: complex numbers are as good

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check(lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": None} if group["momentum"] else {}

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        momentum = group["momentum"]
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = grad.detach().clone()
            else:
                shrink(buffer, 1 - momentum)
                add_scaled(buffer, grad, 1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        add_scaled(p, grad, -group["lr"])
