"""Adadelta."""

from __future__ import annotations

from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check
from tritorch.optim.optimizer import ParamsT


class Adadelta(Elementwise):
    """v = average of g²;  d = g √(u + eps) / √(v + eps);  u = average of d²;  p -= lr d."""

    formula = "adadelta"
    state_names = ("square_avg", "acc_delta")
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


adadelta, _single_tensor_adadelta, _multi_tensor_adadelta = functions(
    Adadelta,
    "square_avgs=square_avg acc_deltas=acc_delta state_steps=step",
    "capturable=False, foreach=None, differentiable=False, has_complex=False, *, lr, rho, "
    "eps, weight_decay, maximize",
    "single_tensor multi_tensor",
)
