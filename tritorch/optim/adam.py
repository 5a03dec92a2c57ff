"""Adam, and by `decoupled_weight_decay` AdamW."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check, zeros_like
from tritorch.optim.optimizer import ParamsT


class Adam(Elementwise):
    """m, v = averages of g, g²;  p -= lr m̂ / (√v̂ + eps), where m̂ = m / (1 - beta1^t), v̂ alike."""

    formula = "adam"
    state_names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check(lr, betas, eps=eps, weight_decay=weight_decay)
        _check_tensors(lr, betas, bool(foreach) and not capturable)
        defaults = {
            "lr": lr,
            "betas": tuple(b.squeeze() if isinstance(b, Tensor) else b for b in betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("decoupled_weight_decay", False)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = super().new_state(p, group)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(state["exp_avg_sq"])
        return state

    def without(self, group: dict[str, Any]) -> set[str]:
        return set() if group["amsgrad"] else {"max_exp_avg_sq"}

    def mode(self, group: dict[str, Any]) -> str:
        return "amsgrad" if group["amsgrad"] else ""


def _check_tensors(lr: Any, betas: Any, host_only: bool) -> None:
    """What may be a tensor, and when."""
    kinds = [isinstance(beta, Tensor) for beta in betas]
    if any(kinds) != all(kinds) or not all(isinstance(b, (float, Tensor)) for b in betas):
        raise ValueError("betas must be either both floats or both Tensors")
    named = {"lr": lr, "betas[0]": betas[0], "betas[1]": betas[1]}
    for name, value in named.items():
        if isinstance(value, Tensor):
            if host_only:
                raise ValueError(
                    f"{name} as a Tensor is not supported for capturable=False and foreach=True"
                )
            if value.numel() != 1:
                raise ValueError(f"Tensor {name} must be 1-element")


adam, _single_tensor_adam, _multi_tensor_adam, _fused_adam = functions(
    Adam,
    "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
    "foreach=None, capturable=False, differentiable=False, fused=None, grad_scale=None, "
    "found_inf=None, has_complex=False, decoupled_weight_decay=False, *, amsgrad, beta1, "
    "beta2, lr, weight_decay, eps, maximize",
    "single_tensor multi_tensor fused",
)
