"""RMSprop."""

from __future__ import annotations

from typing import Any

from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check, zeros_like
from tritorch.optim.optimizer import ParamsT


class RMSprop(Elementwise):
    """v = average of g², less the square of g's average if centered;  p -= lr g / (√v + eps)."""

    formula = "rmsprop"
    state_names = ("square_avg", "momentum_buffer", "grad_avg")

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

    def without(self, group: dict[str, Any]) -> set[str]:
        kept = {"momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        return {name for name, wanted in kept.items() if not wanted}

    def mode(self, group: dict[str, Any]) -> str:
        words = {"centered": group["centered"], "momentum": group["momentum"] > 0}
        return " ".join(word for word, wanted in words.items() if wanted)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state, absent = super().new_state(p, group), self.without(group)
        for name in self.state_names:
            if name not in absent:
                state[name] = zeros_like(p, memory_format=preserve_format)
        return state


rmsprop, _single_tensor_rmsprop, _multi_tensor_rmsprop = functions(
    RMSprop,
    "square_avgs=square_avg grad_avgs=grad_avg momentum_buffer_list=momentum_buffer "
    "state_steps=step",
    "foreach=None, maximize=False, differentiable=False, capturable=False, "
    "has_complex=False, *, lr, alpha, eps, weight_decay, momentum, centered",
    "single_tensor multi_tensor",
)
