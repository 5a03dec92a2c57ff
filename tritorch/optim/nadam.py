"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check, scalar
from tritorch.optim.optimizer import ParamsT


class NAdam(Elementwise):
    """m, v = averages of g, g²;  p -= lr (a g + b m) / (√v̂ + eps), with a, b from a schedule of mu.

    mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2);  a = (1 - mu(t)) / (1 - Π mu);
    b = mu(t+1) / (1 - mu(t+1) Π mu)
    """

    formula = "nadam"
    state_names = ("exp_avg", "exp_avg_sq")
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


nadam, _single_tensor_nadam, _multi_tensor_nadam = functions(
    NAdam,
    "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq mu_products=mu_product state_steps=step",
    "decoupled_weight_decay=False, foreach=None, capturable=False, differentiable=False, "
    "has_complex=False, maximize=False, *, beta1, beta2, lr, weight_decay, momentum_decay, "
    "eps",
    "single_tensor multi_tensor",
)
