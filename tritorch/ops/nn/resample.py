"""Images resampled by cubic interpolation, or by filters against aliasing."""

from __future__ import annotations

from typing import Any

from tritorch.core.dtype import dtype, float32, uint8
from tritorch.core.promotion import not_implemented
from tritorch.core.tensor import Tensor
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.sizes import resized

_resample: Operator = Operator(
    "resample",
    "x",
    "dim n m scale align kind transposed",
    schema="(Tensor x, int dim, SymInt n, SymInt m, float? scale, bool align, str kind, bool"
    " transposed) -> Tensor",
    cpu="resample.resample",
    grad=lambda g, dim, n, m, scale, align, kind, transposed: _resample.call(
        (g,), (dim, n, m, scale, align, kind, not transposed)
    ),
    layout="format",
    rules=Rules(
        infer=lambda x, dim, n, m, scale, align, kind, transposed: x.new(
            (*x.shape[:dim], n if transposed else m, *x.shape[dim + 1 :])
        ),
        axes=lambda x, dim, *rest: resized(len(x.shape), dim),
        batch="dims",
    ),
)


def _complain(kind: dtype, mode: str) -> Exception:
    word = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return not_implemented(f"compute_indices_weights_{word}", kind)


def resample(x: Tensor, size: Any, scales: Any, align: bool, mode: str, antialias: bool) -> Tensor:
    """(N, C, H, W) at another size: along rows, then along columns."""
    kind = x.dtype
    if not kind.is_floating_point and kind is not uint8:
        raise _complain(kind, mode)
    name = f"{mode}_aa" if antialias else mode
    out = x.to(float32) if kind.itemsize < 4 else x
    for dim in (3, 2):
        n, m, scale = x.shape[dim], size[dim - 2], scales[dim - 2]
        if n != m or scale not in (None, 1.0):
            out = _resample.call((out,), (dim, n, m, scale, align, name, False))
            if kind is uint8:
                out = out.round().clamp(0, 255)
    out = out.to(kind)
    overload = f"_upsample_{mode}2d_aa" if antialias else f"upsample_{mode}2d"
    return ends_as(overload, out.clone() if out is x else out)
