"""Adamax."""

from __future__ import annotations

from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check
from tritorch.optim.optimizer import ParamsT


class Adamax(Elementwise):
    """m = average of g;  u = max(beta2 u, |g| + eps);  p -= lr / (1 - beta1^t) m / u."""

    formula = "adamax"
    state_names = ("exp_avg", "exp_inf")
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


adamax, _single_tensor_adamax, _multi_tensor_adamax = functions(
    Adamax,
    "exp_avgs=exp_avg exp_infs=exp_inf state_steps=step",
    "foreach=None, maximize=False, differentiable=False, capturable=False, "
    "has_complex=False, *, eps, beta1, beta2, lr, weight_decay",
    "single_tensor multi_tensor",
)
