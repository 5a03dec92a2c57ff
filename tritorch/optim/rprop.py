"""Rprop."""

from __future__ import annotations

from typing import Any

from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check, full_like
from tritorch.optim.optimizer import ParamsT


class Rprop(Elementwise):
    """Steps of sizes that grow while a gradient keeps its sign and shrink when it flips."""

    formula = "rprop"
    state_names = ("prev", "step_size")
    zeros = ("prev",)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = super().new_state(p, group)
        lr = float(group["lr"])
        size = complex(lr, lr) if p.is_complex() else lr
        state["step_size"] = full_like(p.detach(), size, memory_format=preserve_format)
        return state

    def named(self, group: dict[str, Any]) -> dict[str, Any]:
        (shrinks, grows), (smallest, largest) = group["etas"], group["step_sizes"]
        sizes = {"smallest": smallest, "largest": largest}
        return {**group, "shrinks": shrinks, "grows": grows, **sizes}


rprop, _single_tensor_rprop, _multi_tensor_rprop = functions(
    Rprop,
    "prevs=prev step_sizes=step_size state_steps=step",
    "foreach=None, capturable=False, maximize=False, differentiable=False, "
    "has_complex=False, *, step_size_min, step_size_max, etaminus, etaplus",
    "single_tensor multi_tensor",
)
