"""RAdam: Adam whose variance is rectified in the first steps."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check
from tritorch.optim.optimizer import ParamsT


class RAdam(Elementwise):
    """m, v = averages of g, g²;  p -= lr m̂ r / (√v̂ + eps) once rho(t) > 5, and lr m̂ before.

    rho∞ = 2 / (1 - beta2) - 1;  rho(t) = rho∞ - 2 t beta2^t / (1 - beta2^t);
    r² = (rho(t) - 4) (rho(t) - 2) rho∞ / ((rho∞ - 4) (rho∞ - 2) rho(t))
    """

    formula = "radam"
    state_names = ("exp_avg", "exp_avg_sq")
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


radam, _single_tensor_radam, _multi_tensor_radam = functions(
    RAdam,
    "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq state_steps=step",
    "decoupled_weight_decay=False, foreach=None, differentiable=False, capturable=False, "
    "has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay, eps",
    "single_tensor multi_tensor",
)
