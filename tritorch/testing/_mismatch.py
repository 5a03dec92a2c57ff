"""What a comparison that failed says: PyTorch's words, and the tolerances that dtypes have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.core.dtype import (
    bfloat16,
    complex64,
    complex128,
    dtype as Dtype,
    float16,
    float32,
    float64,
    int64,
)
from tritorch.core.promotion import category
from tritorch.core.tensor import Tensor

Message = str | Callable[[str], str] | None

DTYPE_PRECISIONS: dict[Dtype, tuple[float, float]] = {
    float16: (1e-3, 1e-5),
    bfloat16: (1.6e-2, 1e-5),
    float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
    complex64: (1.3e-6, 1e-5),
    complex128: (1e-7, 1e-7),
}


class ErrorMeta(Exception):
    """What is different, and in which item; `to_error` makes what the caller sees of it."""

    def __init__(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> None:
        super().__init__(msg)
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg: Message = None) -> Exception:
        """The error with the item's place; with the caller's words where `msg` gives some."""
        text = self.msg
        if self.id:
            text += f"\n\nThe failure occurred for item {''.join(f'[{i!r}]' for i in self.id)}"
        if callable(msg):
            text = msg(text)
        return self.type(text if msg is None or callable(msg) else msg)


def default_tolerances(
    *inputs: Tensor | Dtype, dtype_precisions: dict[Dtype, tuple[float, float]] | None = None
) -> tuple[float, float]:
    """The loosest of what the dtypes stand for."""
    known = []
    for x in inputs:
        if not isinstance(x, (Tensor, Dtype)):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(x)} instead.")
        kind = x.dtype if isinstance(x, Tensor) else x
        known.append((dtype_precisions or DTYPE_PRECISIONS).get(kind, (0.0, 0.0)))
    return max(rtol for rtol, _ in known), max(atol for _, atol in known)


def get_tolerances(
    *inputs: Tensor | Dtype, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """Those given, or the loosest of what the dtypes stand for."""
    if (rtol is None) != (atol is None):
        raise ErrorMeta(
            ValueError,
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}.",
            id=id,
        )
    if rtol is not None and atol is not None:
        return rtol, atol
    return default_tolerances(*inputs)


def _named(identifier: Message, default: str) -> str:
    if callable(identifier):
        return identifier(default)
    return default if identifier is None else identifier


def _within(tolerance: float, exact: bool) -> str:
    return "" if exact else f" (up to {tolerance} allowed)"


def make_scalar_mismatch_msg(
    actual: complex, expected: complex, *, rtol: float, atol: float, identifier: Message = None
) -> str:
    """Says how far two numbers are apart."""
    apart = abs(actual - expected)
    relative = apart / abs(expected) if expected != 0 else float("inf")
    exact = rtol == 0 and atol == 0
    return (
        f"{_named(identifier, 'Scalars')} are not {'equal' if exact else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {apart}{_within(atol, exact)}\n"
        f"Relative difference: {relative}{_within(rtol, exact)}"
    )


def make_tensor_mismatch_msg(
    actual: Tensor,
    expected: Tensor,
    matches: Tensor,
    *,
    rtol: float,
    atol: float,
    identifier: Message = None,
) -> str:
    """Says how many elements differ, and where they do most."""
    what = _named(identifier, "Tensor-likes")
    total = matches.numel()
    wrong = total - int(matches.sum())
    counted = f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"
    if actual.dtype.is_floating_point and actual.dtype.itemsize == 1:
        place = tuple(matches.logical_not().nonzero()[0].tolist())
        return (
            f"{what} are not 'equal'!\n\n{counted}\n"
            f"The first mismatched element is at index {place}."
        )
    if category(actual.dtype) < 2:
        actual, expected = actual.to(int64), expected.to(int64)
    apart = (actual - expected).abs().masked_fill(matches, 0)
    relative = (apart / expected.abs()).masked_fill(matches, 0)
    exact = rtol == 0 and atol == 0
    lines = [f"{what} are not {'equal' if exact else 'close'}!", "", counted]
    for name, values, tolerance in (("absolute", apart, atol), ("relative", relative, rtol)):
        flat = int(values.argmax())
        place = tuple(int(i) for i in np.unravel_index(flat, tuple(values.shape)))
        largest = values.reshape(-1)[flat].item()
        lines.append(
            f"Greatest {name} difference: {largest} at index {place}{_within(tolerance, exact)}"
        )
    return "\n".join(lines)
