"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check, scalar
from tritorch.optim.optimizer import ParamsT


class ASGD(Elementwise):
    """p = (1 - lambd eta) p - eta g, averaged from step t0 on in ax; eta falls with the steps."""

    formula = "asgd"
    state_names = ("ax",)
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


asgd, _single_tensor_asgd, _multi_tensor_asgd = functions(
    ASGD,
    "axs=ax mus=mu etas=eta state_steps=step",
    "foreach=None, maximize=False, differentiable=False, capturable=False, "
    "has_complex=False, *, lambd, lr, t0, alpha, weight_decay",
    "single_tensor multi_tensor",
)
