"""AdamW."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._lists import functions
from tritorch.optim.adam import Adam
from tritorch.optim.optimizer import ParamsT


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters and stays out of the averages."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


(adamw,) = functions(
    AdamW,
    "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
    "foreach=None, capturable=False, differentiable=False, fused=None, grad_scale=None, "
    "found_inf=None, has_complex=False, *, amsgrad, beta1, beta2, lr, weight_decay, eps, "
    "maximize",
    "",
    decoupled_weight_decay=True,
)
