"""Adam for sparse gradients."""

from __future__ import annotations

from typing import Any

from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.optim._per_parameter import PerParameter, check, zeros_like
from tritorch.optim.optimizer import ParamsT


class SparseAdam(PerParameter):
    """Adam of the entries that a gradient has; all other averages and parameters stay."""

    scalars = ()

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check(lr, betas)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        places = [
            ([i, j], p)
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
        ]
        for kind, found, why in [
            ("Sparse", [place for place, p in places if p.is_sparse],
             "SparseAdam requires dense parameter tensors"),
            ("Complex", [place for place, p in places if p.is_complex()],
             "SparseAdam does not support complex parameters"),
        ]:  # fmt: skip
            if found:
                raise ValueError(f"{kind} params at indices {found}: {why}")

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if p.grad is not None and not p.grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        zeros = {
            name: zeros_like(p, memory_format=preserve_format) for name in ("exp_avg", "exp_avg_sq")
        }
        return {"step": 0, **zeros}

    def step_group(self, group: dict[str, Any]) -> None:
        for p in group["params"]:
            if p.grad is None:
                continue
            if not self.state[p]:
                self.state[p] = self.new_state(p, group)
            self.update_gradient(p, p.grad, self.state[p], group)

    def update_gradient(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One step of a parameter whose sparse gradient is `grad`."""
        grad = grad.coalesce()
        values = -grad.values() if group["maximize"] else grad.values()
        self.update_entries(p, tuple(grad.indices()), values, state, group)

    def update_entries(
        self, p: Tensor, at: tuple[Tensor, ...], grad: Tensor, state: dict[str, Any],
        group: dict[str, Any],
    ) -> None:  # fmt: skip
        """One step of p[at], whose gradient is `grad`; no index occurs twice."""
        state["step"] += 1
        if grad.numel() == 0:
            return
        (beta1, beta2), step = group["betas"], state["step"]
        average = state["exp_avg"][at].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"][at].lerp_(grad * grad, 1 - beta2)
        state["exp_avg"][at], state["exp_avg_sq"][at] = average, square
        scale = float(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        p[at] = p[at].addcdiv_(average, square.sqrt_().add_(group["eps"]), value=-scale)
