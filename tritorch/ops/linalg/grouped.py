"""Products of groups of rows or columns with a matrix each (grouped_mm)."""

from __future__ import annotations

from typing import Any

from tritorch.core.dtype import int32
from tritorch.core.promotion import scalar_name
from tritorch.core.published import computes
from tritorch.core.tensor import Tensor
from tritorch.ops.record.publishing import functional, public
from tritorch.ops.shape.joining import cat, stack


def _check(a: Tensor, b: Tensor, offs: Tensor | None, bias: Any, out_dtype: Any) -> None:
    for name, x in (("mat_a", a), ("mat_b", b)):
        if x.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {scalar_name(a.dtype)} != "
            f"{scalar_name(b.dtype)}"
        )
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if (offs is None) != (a.ndim == 3 and b.ndim == 3):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if offs is not None:
        if offs.ndim != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype is not int32:
            raise RuntimeError("Offsets have to be int32")
    counts = [x.shape[0] for x in (a, b) if x.ndim == 3]
    counts += [] if offs is None else [offs.shape[0]]
    if len(set(counts)) > 1:
        raise RuntimeError("matrix batch sizes have to match")
    if out_dtype is not None and out_dtype is not a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")


@functional
@computes("_grouped_mm")
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """One product a group.  offs: where the groups end, among the rows of a 2-d mat_a, the columns
    of a 2-d mat_b, or (both are 2-d) what they are contracted over."""
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return mat_a.bmm(mat_b)
    ends = offs.tolist()
    groups = [slice(low, high) for low, high in zip([0, *ends], ends)]
    if mat_a.ndim == mat_b.ndim == 2:
        return stack([mat_a[:, group] @ mat_b[group] for group in groups])
    if mat_a.ndim == 2:
        parts = [mat_a[group] @ mat_b[i] for i, group in enumerate(groups)]
        rest = mat_a.new_zeros((mat_a.shape[0] - ends[-1], mat_b.shape[-1]))
        return cat([*parts, rest])
    parts = [mat_a[i] @ mat_b[:, group] for i, group in enumerate(groups)]
    rest = mat_a.new_zeros((mat_a.shape[1], mat_b.shape[1] - ends[-1]))
    return cat([*parts, rest], 1)


@public(method=False)
def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """nn.functional.grouped_mm as ATen calls it."""
    return grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)
