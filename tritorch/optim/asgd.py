"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._per_parameter import (
    PerParameter,
    add_scaled,
    check,
    kept,
    read,
    scalar,
    shrink,
)
from tritorch.optim.optimizer import ParamsT


class ASGD(PerParameter):
    """p = (1 - lambd eta) p - eta g, averaged from step t0 on in ax; eta falls with the steps."""

    zeros = ("ax",)
    scalars = ("step", "eta", "mu")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check(lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = super().new_state(p, group)
        return {
            "step": state["step"],
            "eta": scalar(group["lr"], p, group),
            "mu": scalar(1.0, p, group),
            "ax": state["ax"],
        }

    def advance(self, state: dict[str, Any], step: Any, group: dict[str, Any]) -> Any:
        lr, eta, mu = group["lr"], read(state["eta"]), read(state["mu"])
        if isinstance(mu, Tensor):  # before they change
            eta, mu = eta.clone(), mu.clone()
        eta_next = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
        late = step - group["t0"]
        late = late.clamp(min=1) if isinstance(late, Tensor) else max(1, late)
        state["eta"].copy_(_as_tensor(eta_next, state["eta"]))
        state["mu"].copy_(_as_tensor(1 / late, state["mu"]))
        return eta, mu

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        (eta, mu), average = step, state["ax"]
        shrink(p, group["lambd"] * eta)
        add_scaled(p, grad, -eta)
        if isinstance(mu, Tensor) or mu != 1:
            average.add_((p - average) * mu)
        else:
            average.copy_(kept(p))


def _as_tensor(value: Any, like: Tensor) -> Tensor:
    return value.detach() if isinstance(value, Tensor) else like.new_tensor(value)
