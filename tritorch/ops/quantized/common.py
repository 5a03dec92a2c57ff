"""Helpers of operators of quantized tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core import scopes
from tritorch.core.dtype import STORED
from tritorch.core.promotion import scalar_name
from tritorch.core.published import INTERNAL
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.quantized import (
    KINDS,
    QuantizedTensor,
    Quantizer,
    dequantize,
    integers_of,
    per_tensor_affine,
    quantizer_of,
    write,
)
from tritorch.schema import table

SPACES = ("quantized", "_quantized")
QINT8, QUINT8, QINT32 = STORED["qint8"], STORED["quint8"], STORED["qint32"]


def operator(*names: str, space: str = "quantized") -> Callable[[Callable[..., Any]], Any]:
    """Declares the function of operators of `torch.ops.quantized`, by name or `name.overload`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def plain(*args: Any, **kwargs: Any) -> Any:
            with scopes.as_plain:
                return function(*args, **kwargs)

        plain.__name__ = plain.__qualname__ = function.__name__
        plain.__doc__ = function.__doc__
        spaces = SPACES if space == "quantized" else (space,)
        for name in names or (function.__name__,):
            stem, _, overload = name.partition(".")
            for each in spaces:  # PyTorch has a few of them in both
                if (overload or "") in table.overloads(stem, each):
                    INTERNAL[f"{each}::{name}"] = plain
        return function

    return decorate


def aten(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declares the function of an internal operator of ATen, of its own name."""
    INTERNAL[function.__name__] = function
    return function


def uniform(x: Tensor, name: str) -> Quantizer:
    """The quantizer of a tensor that has one scale."""
    quantizer = quantizer_of(x, f"quantized::{name}")
    if quantizer.axis is not None:
        raise RuntimeError(f"{name}: only per-tensor quantized tensors are supported")
    return quantizer


def uniform_or_none(x: Any) -> Quantizer | None:
    """The quantizer of a tensor that has one scale; None for others."""
    quantizer: Quantizer = quantizer_of(x, "quantized::cat")
    return quantizer if quantizer.axis is None else None


def affine(kind: Any, scale: Any, zero_point: Any) -> Quantizer:
    """A quantizer with one scale."""
    return Quantizer(kind, per_tensor_affine, float(scale), int(zero_point))


def require_same_kind(a: Tensor, b: Tensor, name: str) -> None:
    """Refuses operands of two quantized dtypes."""
    if a.dtype is not b.dtype:
        kinds = scalar_name(a.dtype), scalar_name(b.dtype)
        raise RuntimeError(f"{name}: operands must have one dtype, got {kinds[0]} and {kinds[1]}")


__all__ = [
    "KINDS", "QINT8", "QINT32", "QUINT8", "QuantizedTensor", "Quantizer", "affine", "dequantize",
    "integers_of", "operator", "require_same_kind", "uniform", "uniform_or_none", "write",
]  # fmt: skip
