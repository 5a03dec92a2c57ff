"""Muon: momentum whose matrices are made orthogonal."""

from __future__ import annotations

import math
from typing import Any

from tritorch.core.layout import preserve_format
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.matmul import addmm
from tritorch.optim._per_parameter import PerParameter, zeros_like
from tritorch.optim.optimizer import ParamsT

EPS = 1e-7
DEFAULT_A, DEFAULT_B, DEFAULT_C = 3.4445, -4.7750, 2.0315
DEFAULT_NS_STEPS = 5


class Muon(PerParameter):
    """buf = average of g;  p -= lr ratio orthogonal(g + momentum (buf - g)), for matrices."""

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (DEFAULT_A, DEFAULT_B, DEFAULT_C),
        eps: float = EPS,
        ns_steps: int = DEFAULT_NS_STEPS,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def decays(self, group: dict[str, Any]) -> tuple[Any, Any]:
        return 0, group["weight_decay"]

    def new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": zeros_like(p, memory_format=preserve_format)}

    def update(
        self, p: Tensor, grad: Tensor, state: dict[str, Any], step: Any, group: dict[str, Any]
    ) -> None:
        momentum, buffer = group["momentum"], state["momentum_buffer"]
        buffer.lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.add_(update, alpha=-group["lr"] * _ratio(p, group["adjust_lr_fn"]))


def orthogonal(
    x: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """About U Vᵀ of x = U S Vᵀ, in bfloat16: singular values go to near 1 by an odd polynomial.

    Each step is x = a x + b (x xᵀ) x + c (x xᵀ)² x.
    """
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x  # the smaller Gram matrix
    x = (_steps if x.is_cuda else _steps_on_cpu)(x.bfloat16(), *coefficients, steps, eps)
    return x.T if tall else x


def _steps(x: Tensor, a: float, b: float, c: float, steps: int, eps: float) -> Tensor:
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _steps_on_cpu(x: Tensor, a: float, b: float, c: float, steps: int, eps: float) -> Tensor:
    """In float32, rounded to bfloat16 where a bfloat16 product would be: no product is there."""
    rounded = lambda y: y.bfloat16().float()
    x = (x / x.norm().clamp(min=eps)).float()
    for _ in range(steps):
        gram = rounded(x @ x.T)
        power = rounded((gram @ gram).mul_(c).add_(gram, alpha=b))
        x = rounded((power @ x).add_(x, alpha=a))
    return x


def _ratio(p: Tensor, rule: str | None) -> float:
    rows, cols = p.shape
    if rule == "match_rms_adamw":  # so that AdamW's learning rates fit
        return 0.2 * math.sqrt(max(rows, cols))
    return math.sqrt(max(1, rows / cols))
