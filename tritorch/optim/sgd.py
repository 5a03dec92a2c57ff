"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from tritorch.autograd import no_grad
from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check, zeros_like
from tritorch.optim.optimizer import ParamsT


class SGD(Elementwise):
    """buf = momentum buf + (1 - dampening) g;  p -= lr buf, or lr (g + momentum buf)."""

    formula = "sgd"
    state_names = ("momentum_buffer",)
    scalars = ()

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check(lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": None} if group["momentum"] else {}

    def without(self, group: dict[str, Any]) -> set[str]:
        return set() if group["momentum"] else {"momentum_buffer"}

    def update_sparse(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], first: bool, group: dict[str, Any]
    ) -> None:
        """Changes the rows that a sparse gradient, or the momentum of such, has."""
        with no_grad():
            if group["weight_decay"]:
                grad = grad.add(p, alpha=group["weight_decay"])
            momentum = group["momentum"]
            if momentum:
                if first:
                    state["momentum_buffer"] = grad.clone()
                else:
                    kept = state["momentum_buffer"].mul_(momentum)
                    kept.add_(grad, alpha=1 - group["dampening"])
                kept = state["momentum_buffer"]
                grad = grad.add(kept, alpha=momentum) if group["nesterov"] else kept
            p.add_(grad, alpha=-group["lr"])

    def mode(self, group: dict[str, Any]) -> str:
        if not group["momentum"]:
            return ""
        return "nesterov" if group["nesterov"] else "momentum"

    def complete(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> bool:
        if not group["momentum"] or state.get("momentum_buffer") is not None:
            return False
        state["momentum_buffer"] = zeros_like(p, memory_format=preserve_format)
        return True


sgd, _single_tensor_sgd, _multi_tensor_sgd, _fused_sgd = functions(
    SGD,
    "momentum_buffer_list=momentum_buffer",
    "has_sparse_grad=False, foreach=None, fused=None, grad_scale=None, found_inf=None, *, "
    "weight_decay, momentum, lr, dampening, nesterov, maximize",
    "single_tensor multi_tensor fused",
    grads="d_p_list",
)
