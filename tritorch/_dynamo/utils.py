"""What PyTorch's tests of operators take from its compiler and needs none."""

from __future__ import annotations

from collections import Counter, defaultdict

from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor

__all__ = ["clone_input", "counters"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def clone_input(x: Tensor, *, dtype: object = None) -> Tensor:
    """A copy with the same strides, which wants gradients if the tensor does."""
    y = PUBLIC["empty_like"](x, dtype=dtype or x.dtype)
    if tuple(y.stride()) != tuple(x.stride()):
        y = PUBLIC["empty_strided"](
            tuple(x.shape), tuple(x.stride()), dtype=y.dtype, device=x.device
        )
    y.copy_(x.detach())
    return y.requires_grad_(x.requires_grad)
