"""Products of float8 matrices that were divided by scales (scaled_mm, scaled_grouped_mm).

Of PyTorch's recipes these are there: one scale, one a row (of mat_b: a column), and blocks of 128
along the contraction or 128 x 128.  The first two are one product with float8 operands, scaled and
rounded once where it is stored; with blocks, the operands are scaled and multiplied in float32.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from tritorch.arrays import arrays
from tritorch.core.dtype import bfloat16, float32
from tritorch.core.published import FUNCTIONAL
from tritorch.core.tensor import Tensor
from tritorch.ops.linalg.grouped import grouped_mm
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.publishing import functional, public


class ScalingType(enum.IntEnum):
    """Which elements share a scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """In which order scales lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


for _class in (ScalingType, SwizzleType):
    _class.__module__ = "tritorch.nn.functional"
    FUNCTIONAL[_class.__name__] = _class

_BLOCK = 128
_VECTORS = (ScalingType.TensorWise, ScalingType.RowWise)


def _cpu_scaled(a: Any, b: Any, left: Any, right: Any, bias: Any, kind: Any, fast: bool) -> Any:
    out = np.matmul(a.astype(np.float32), b.astype(np.float32))
    out *= left.reshape(-1, 1)
    out *= right.reshape(1, -1)
    if bias is not None:
        out += bias.astype(np.float32)
    return arrays.cast(out, kind)


_product = Operator(
    "scaled_product", "a b scale_a scale_b bias", "kind fast",
    schema="(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor? bias, ScalarType "
        "kind, bool fast) -> Tensor",
    kind="internal", cpu=_cpu_scaled, gpu="matmul.scaled_mm",
    rules=Rules(
        infer=lambda a, b, sa, sb, bias, kind, fast: a.new((a.shape[0], b.shape[1]), kind),
        axes="mk,kn,?,?,?->mn",
    ),
)  # fmt: skip


def _one(value: Any, what: str) -> Any:
    """The only entry of a list: two levels of scales are for float4."""
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) != 1:
        raise NotImplementedError(f"{what}: one level of scales is supported, got {len(value)}")
    return value[0]


def _check_matrix(x: Tensor, name: str) -> None:
    if not x.dtype.name.startswith("float8"):
        raise ValueError(f"Invalid scaling configuration: {name} should be float8, got {x.dtype}")


def _check_swizzle(swizzle: Any, what: str) -> None:
    if _one(swizzle, what) not in (None, SwizzleType.NO_SWIZZLE):
        raise NotImplementedError(f"{what}: scales in another order are not supported")


def _check_scale(scale: Any, name: str, shape: tuple[int, ...]) -> Tensor:
    if scale.dtype is not float32:
        raise ValueError(f"Invalid scaling configuration: {name} should be float32")
    if tuple(scale.shape) != shape:
        raise ValueError(f"{name} must have shape {list(shape)}, got [{list(scale.shape)}]")
    return scale


def _blocks(n: int) -> int:
    return -(-n // _BLOCK)


def _spread(scale: Tensor, dim: int, n: int) -> Tensor:
    """Each scale for the 128 elements of its block."""
    return scale.repeat_interleave(_BLOCK, dim).narrow(dim, 0, n)


def _vector(scale: Tensor, recipe: ScalingType, name: str, n: int, dim: int) -> Tensor:
    """One scale for the result, or one for each of its n rows (dim 0) or columns (1)."""
    if recipe is ScalingType.TensorWise:
        if scale.numel() != 1:
            raise ValueError(f"{name} must have one element, got {scale.numel()}")
        return _check_scale(scale.reshape(()), name, ()).reshape(1)
    return _check_scale(scale, name, (n, 1) if dim == 0 else (1, n)).reshape(n)


def _scaled(x: Tensor, scale: Tensor, recipe: ScalingType, name: str, rows: int) -> Any:
    """An operand in float32, and the scale that is left for the result (None: it is taken in).

    rows: the dim that is not contracted."""
    along = 1 - rows
    wide = x.to(float32)
    if recipe in _VECTORS:
        return wide, _vector(scale, recipe, name, x.shape[rows], rows).unsqueeze(along)
    if recipe not in (ScalingType.BlockWise1x128, ScalingType.BlockWise128x128):
        raise NotImplementedError(f"{name}: the recipe {recipe!r} is not supported")
    sizes = [x.shape[0], x.shape[1]]
    sizes[along] = _blocks(sizes[along])
    whole = recipe is ScalingType.BlockWise128x128
    if whole:
        sizes[rows] = _blocks(sizes[rows])
    full = _spread(_check_scale(scale, name, tuple(sizes)), along, x.shape[along])
    return wide * (_spread(full, rows, x.shape[rows]) if whole else full), None


@functional
def scaled_mm(
    mat_a: Tensor, mat_b: Tensor, scale_a: Any, scale_recipe_a: Any, scale_b: Any,
    scale_recipe_b: Any, swizzle_a: Any = None, swizzle_b: Any = None, bias: Tensor | None = None,
    output_dtype: Any = bfloat16, contraction_dim: Any = (), use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """(mat_a * scale_a) @ (mat_b * scale_b) + bias, of float8 matrices."""
    for x, name in ((mat_a, "mat_a"), (mat_b, "mat_b")):
        if x.ndim != 2:
            raise ValueError(f"{name} must be a matrix")
        _check_matrix(x, name)
    if mat_a.shape[1] != mat_b.shape[0]:
        raise ValueError(
            f"mat_a and mat_b shapes cannot be multiplied ({mat_a.shape[0]}x{mat_a.shape[1]} and "
            f"{mat_b.shape[0]}x{mat_b.shape[1]})"
        )
    _check_swizzle(swizzle_a, "swizzle_a")
    _check_swizzle(swizzle_b, "swizzle_b")
    recipes = [ScalingType(_one(r, "scaled_mm")) for r in (scale_recipe_a, scale_recipe_b)]
    scale_a, scale_b = _one(scale_a, "scaled_mm"), _one(scale_b, "scaled_mm")
    kind = bfloat16 if output_dtype is None else output_dtype
    if all(recipe in _VECTORS for recipe in recipes):
        left = _vector(scale_a, recipes[0], "scale_a", mat_a.shape[0], 0)
        right = _vector(scale_b, recipes[1], "scale_b", mat_b.shape[1], 1)
        return _product.call((mat_a, mat_b, left, right, bias), (kind, use_fast_accum))
    a, left = _scaled(mat_a, scale_a, recipes[0], "scale_a", 0)
    b, right = _scaled(mat_b, scale_b, recipes[1], "scale_b", 1)
    out = a @ b
    for scale in (left, right):
        out = out if scale is None else out * scale
    out = out if bias is None else out + bias.to(float32)
    return out.to(kind)


@functional
def scaled_grouped_mm(
    mat_a: Tensor, mat_b: Tensor, scale_a: Any, scale_recipe_a: Any, scale_b: Any,
    scale_recipe_b: Any, swizzle_a: Any = None, swizzle_b: Any = None, bias: Tensor | None = None,
    offs: Tensor | None = None, output_dtype: Any = bfloat16, contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """grouped_mm of float8 matrices with a scale for each row of mat_a and column of mat_b."""
    _check_matrix(mat_a, "mat_a")
    _check_matrix(mat_b, "mat_b")
    _check_swizzle(swizzle_a, "swizzle_a")
    _check_swizzle(swizzle_b, "swizzle_b")
    for recipe in (scale_recipe_a, scale_recipe_b):
        if ScalingType(_one(recipe, "scaled_grouped_mm")) is not ScalingType.RowWise:
            raise NotImplementedError("scaled_grouped_mm: only RowWise scales are supported")
    left, right = _one(scale_a, "scale_a"), _one(scale_b, "scale_b")
    a, b = mat_a.to(float32), mat_b.to(float32)
    rows, columns = mat_a.shape[-2], mat_b.shape[-1]
    if a.ndim == b.ndim == 2:  # the groups lie along the contraction: each has scales of its own
        groups = 0 if offs is None else offs.shape[0]
        out = grouped_mm(a, b, offs=offs, bias=bias)
        left = _check_scale(left.reshape(-1), "scale_a", (groups * rows,))
        right = _check_scale(right.reshape(-1), "scale_b", (groups * columns,))
        out = out * left.reshape(groups, rows, 1) * right.reshape(groups, 1, columns)
    else:
        left = _check_scale(left, "scale_a", tuple(mat_a.shape[:-1]))
        kept = (*mat_b.shape[:-2], columns)
        right = _check_scale(right, "scale_b", kept)
        out = grouped_mm(a * left.unsqueeze(-1), b * right.unsqueeze(-2), offs=offs, bias=bias)
    return out.to(bfloat16 if output_dtype is None else output_dtype)


@public(method=False)
def _scaled_grouped_mm(
    self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, offs: Tensor | None = None,
    bias: Tensor | None = None, scale_result: Tensor | None = None, out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Tensor:  # fmt: skip
    """nn.functional.scaled_grouped_mm with a scale for each row and column, as ATen calls it."""
    if scale_result is not None:
        raise RuntimeError("Scale result not supported yet")
    return scaled_grouped_mm(
        self, mat2, scale_a, ScalingType.RowWise, scale_b, ScalingType.RowWise, bias=bias,
        offs=offs, output_dtype=bfloat16 if out_dtype is None else out_dtype,
        use_fast_accum=use_fast_accum,
    )  # fmt: skip
