"""Adafactor."""

from __future__ import annotations

from typing import Any

from tritorch.core.info import finfo
from tritorch.core.tensor import Tensor
from tritorch.optim._per_parameter import PerParameter, scalar, zeros_like
from tritorch.optim.optimizer import ParamsT


class Adafactor(PerParameter):
    """Adam without momentum whose second moments are, of matrices, an outer product of means.

    v = row col / mean(row), averages of means of g² over rows and columns, weighted by
    t^beta2_decay;  u = g / √v, of a root mean square of at most d;
    p -= max(eps2, rms(p)) min(lr, 1 / √t) u
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def decays(self, group: dict[str, Any]) -> tuple[Any, Any]:
        return 0, 0  # `update` decays after it has taken the parameter's size

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state: dict[str, Any] = {"step": scalar(0.0, p, group)}
        if p.ndim > 1:
            state["row_var"] = p.new_zeros(*p.shape[:-1], 1)
            state["col_var"] = p.new_zeros(*p.shape[:-2], 1, p.shape[-1])
        else:
            state["variance"] = zeros_like(p)
        return state

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        lr, d, (eps1, eps2) = group["lr"], group["d"], group["eps"]
        eps1 = finfo(p.dtype).eps if eps1 is None else eps1
        scale = _at_least(eps2, _rms(p)) * min(lr, step**-0.5)
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        update, weight = grad * grad, step ** group["beta2_decay"]
        if grad.ndim > 1:
            row, col = state["row_var"], state["col_var"]
            row.lerp_(update.mean(-1, keepdim=True), weight)
            col.lerp_(update.mean(-2, keepdim=True), weight)
            update = (row @ col).div_(row.mean(-2, keepdim=True).clamp_(min=eps1))
        else:
            update = state["variance"].lerp_(update, weight).clone()
        update.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        factor = -scale / _at_least(1.0, _rms(update) / d)
        if isinstance(factor, Tensor):
            p.add_(update * factor)
        else:
            p.add_(update, alpha=factor)


def _rms(x: Tensor) -> Any:
    """The root of the mean square; on a GPU a tensor, for which the host does not wait."""
    norm = x.norm(2)
    return (norm if norm.is_cuda else norm.item()) / x.numel() ** 0.5


def _at_least(low: float, x: Any) -> Any:
    return x.clamp(min=low) if isinstance(x, Tensor) else max(low, x)
