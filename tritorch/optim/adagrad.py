"""Adagrad."""

from __future__ import annotations

from typing import Any

from tritorch.autograd import no_grad
from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.sparse.record import filled
from tritorch.optim._elementwise import Elementwise
from tritorch.optim._lists import functions
from tritorch.optim._per_parameter import check, full_like, scalar
from tritorch.optim.optimizer import ParamsT


class Adagrad(Elementwise):
    """s += g²;  p -= lr / (1 + (t - 1) lr_decay) g / (√s + eps)."""

    formula = "adagrad"
    state_names = ("sum",)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check(
            lr, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps,
        )  # fmt: skip
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self.new_state(p, group)

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start: Any = group["initial_accumulator_value"]
        if p.is_complex():
            start = complex(start, start)
        total = full_like(p.detach(), start, memory_format=preserve_format)
        return {"step": scalar(0.0, p, group), "sum": total}

    def update_sparse(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], first: bool, group: dict[str, Any]
    ) -> None:
        """Changes the entries that a sparse gradient has."""
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        state["step"] += 1
        rate = group["lr"] / (1 + (state["step"].item() - 1) * group["lr_decay"])
        grad = grad.coalesce()
        with no_grad():
            state["sum"].add_(grad * grad)
            roots = state["sum"].sparse_mask(grad)._values().sqrt().add_(group["eps"])
            p.add_(filled(grad._array, grad._values() / roots), alpha=-rate)

    def share_memory(self) -> None:
        """Moves the state to memory that other processes can share."""
        for state in self.state.values():
            state["sum"].share_memory_()


adagrad, _single_tensor_adagrad, _multi_tensor_adagrad, _fused_adagrad = functions(
    Adagrad,
    "state_sums=sum state_steps=step",
    "fused=None, grad_scale=None, found_inf=None, has_sparse_grad=False, foreach=None, "
    "differentiable=False, has_complex=False, *, lr, weight_decay, lr_decay, eps, maximize",
    "single_tensor multi_tensor fused",
)
