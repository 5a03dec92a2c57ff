"""Singular values and eigenvalues of batches of matrices by rotations.

Up to SMALL columns are one program's.  More are cut into blocks, which meet in pairs as columns
do: products of a pair's columns, a sweep of rotations of those, and products with the rotations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core.dtype import bool_, dtype
from tritorch.gpu.index import indexing, sorting
from tritorch.gpu.linalg import factor
from tritorch.gpu.linalg.factor import adjoint, diagonal_part, of_type, reals
from tritorch.gpu.linalg.matmul import product
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.pointwise.layout import INT32_MAX, float_bits
from tritorch.gpu.reduce import reduction
from tritorch.gpu.shape import shaping
from tritorch.host.linalg import linalg as on_cpu
from tritorch.triton.kernel import kernel

Array = _C.Array
SMALL = 128  # columns that one program makes orthogonal
_SWEEPS = 20  # of rotations at most; 6 to 10 are made


# ---- rotations -----------------------------------------------------------------------------------


def _eps(kind: dtype, rows: int = 1) -> float:
    return rows**0.5 * float(np.finfo(kind.numpy).eps)


def _constants(n: int, kind: dtype) -> dict[str, Any]:
    half = 1 << max((n + 1) // 2 - 1, 0).bit_length()
    warps = 4 if n <= 32 else min(2 * kind.to_real().itemsize, 16)
    return {"BLOCK": 16, "HALF": half, "num_warps": warps, "maxnreg": 128, **of_type(kind)}


def _rotate_columns(a: Array, v: Array) -> None:
    """Makes the columns of a stack orthogonal; v is rotated with them."""
    count, m, n = a.shape
    if n > 1:
        kernel("jacobi", "jacobi_svd")(
            (count,), reals(a), reals(v), m, n, float_bits(_eps(a.dtype, m)), SWEEPS=_SWEEPS,
            **_constants(n, a.dtype),
        )  # fmt: skip


def _rotate_hermitian(a: Array, v: Array) -> None:
    """Makes a stack of Hermitian matrices diagonal; the columns of v are rotated with them."""
    count, n, _ = a.shape
    if n > 1:
        kernel("jacobi", "jacobi_eigh")(
            (count,), reals(a), reals(v), n, float_bits(_eps(a.dtype)), SWEEPS=_SWEEPS,
            **_constants(n, a.dtype),
        )  # fmt: skip


def _rotated_blocks(a: Array) -> tuple[Array, Array]:
    """The columns of a stack made orthogonal, a V, and V: blocks of columns meet in pairs.

    How many sweeps that takes depends on values: the host asks after each, except while a graph is
    captured, which has them all; those after the last that was needed change nothing.
    """
    (count, m, n), kind, device = a.shape, a.dtype, a.device_index
    half = max(-(-n // SMALL), 2)  # pairs of blocks
    width = -(-n // (2 * half))
    wide, rows, eps = 2 * half * width, m + 2 * half * width, _eps(kind, m)
    both = _C.empty((count, rows, wide), kind, device).zero_()
    both[:, :m, :n].copy_(a)
    both[:, m:].copy_(_identity(count, wide, a))
    panels = both.reshape((count, rows, half, 2 * width)).permute((0, 2, 1, 3)).contiguous()
    panels = panels.reshape((count * half, rows, 2 * width))
    for _ in range(_SWEEPS):
        worst = _C.empty((2 * half - 1, count * half), kind.to_real(), device)
        for step in range(2 * half - 1):
            panels = _met(panels, m, half, worst[step], eps)
        if not _captured(device) and _has_met(worst, eps):
            break
    both = panels.reshape((count, half, rows, 2 * width)).permute((0, 2, 1, 3)).contiguous()
    v = _orthonormal(both.reshape((count, rows, wide))[:, m : m + n, :n])
    return product(a, v, kind, how="ieee"), v


def _orthonormal(v: Array) -> Array:
    """Columns that thousands of rotations have left near orthonormal ones, (3 v - v v^H v) / 2."""
    gram = product(adjoint(v), v, v.dtype, how="ieee")
    turned = product(v, gram, v.dtype, how="ieee")
    return pointwise.call("lerp", (v, turned, -0.5), v.dtype, v.dtype)


def _met(panels: Array, m: int, half: int, worst: Array, eps: float) -> Array:
    """A step: each panel's columns rotated, and the blocks where they are in the next step.

    The first m rows are the columns themselves, those below them the rotations so far.
    """
    (count, rows, n), kind = panels.shape, panels.dtype
    top = panels[:, :m]
    gram = product(adjoint(top), top, kind, how="ieee")
    v = _C.empty(gram.shape, kind, gram.device_index)
    kernel("jacobi", "jacobi_gram")(
        (count,), reals(gram), reals(v), worst, n, float_bits(eps), **_constants(n, kind)
    )
    turned = product(panels, v, kind, how="ieee")
    out = _C.empty(panels.shape, kind, gram.device_index)
    kernel("jacobi", "next_round")(
        (count, -(-rows * n // 1024)), reals(turned), reals(out), rows, n // 2, half,
        **of_type(kind), BLOCK=1024, num_warps=4,
    )  # fmt: skip
    return out


def _captured(device: int) -> bool:
    return _C.stream_capture_id(device, _C.current_stream(device)) > 0


def _has_met(worst: Array, eps: float) -> bool:
    """Whether a sweep has found all columns orthogonal."""
    found = reduction.amax(worst, (0, 1), False).numpy()
    return bool(found <= found.dtype.type(eps))


# ---- what both have in common --------------------------------------------------------------------


def _finite(name: str, x: Array) -> None:
    """PyTorch's complaint about matrices that are not; the host waits for the answer, which a graph
    does without."""
    if _captured(x.device_index):
        return
    wrong = pointwise.call("logical_not", (pointwise.call("isfinite", (x,), x.dtype, bool_),),
                           bool_, bool_)  # fmt: skip
    on_cpu.require_finite(name, reduction.any(wrong, (x.ndim - 2, x.ndim - 1), False).numpy())


def _scaled(x: Array) -> tuple[Array, Array]:
    """Matrices by their largest number, and that number: squares of both are finite."""
    real = x.dtype.to_real()
    top = reduction.amax(pointwise.call("abs", (x,), x.dtype, real), (1, 2), True)
    zero = pointwise.call("eq", (top, 0.0), real, bool_)
    top = pointwise.call("where", (zero, 1.0, top), real, real)
    return pointwise.call("div", (x, top), x.dtype, x.dtype), top.reshape((x.shape[0], 1))


def _columns(x: Array, order: Array) -> Array:
    """The columns of matrices in an order of their own."""
    return indexing.gather(x, 2, order.unsqueeze(1).expand((*x.shape[:2], order.shape[-1])))


def _identity(count: int, n: int, like: Array) -> Array:
    return shaping.eye(n, n, like.dtype, like.device_index).expand((count, n, n)).clone()


def _small(x: Array) -> bool:
    """Whether one program goes through a matrix."""
    return min(x.shape[-2:]) <= SMALL and 2 * x.shape[-2] * x.shape[-1] <= INT32_MAX


# ---- eigenvalues ---------------------------------------------------------------------------------


def _mirrored(x: Array, uplo: str) -> Array:
    """A stack of whole Hermitian matrices, of one triangle each."""
    lower = x if uplo == "L" else adjoint(x)
    above = adjoint(shaping.tril(lower, -1))
    a = pointwise.call("add", (shaping.tril(lower, 0), above), x.dtype, x.dtype)
    a = factor.stack(a)
    if x.dtype.is_complex:
        diagonal_part(a, 1).zero_()
    return a


def _by_shift(a: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors: what makes columns of a + |a| orthogonal, which has no negative
    eigenvalues, are eigenvectors."""
    kind, real = a.dtype, a.dtype.to_real()
    shifted = a.clone()
    size = reduction.vector_norm(a, 2, (1, 2), False, real).unsqueeze(-1)
    diagonal = diagonal_part(shifted)
    diagonal.copy_(pointwise.call("add", (diagonal, size), real, real))
    v = _rotated_blocks(shifted)[1]
    images = product(a, v, kind, how="ieee")
    turned = pointwise.call("conj_physical", (v,), kind, kind) if kind.is_complex else v
    products = pointwise.call("mul", (turned, images), kind, kind)
    return reduction.sum(_real_part(products), (1,), False, real), v


def _real_part(x: Array) -> Array:
    if not x.dtype.is_complex:
        return x
    flat = reals(x)
    return flat.as_strided(x.shape, tuple(2 * stride for stride in x.strides), 0)


def eigh(x: Array, uplo: str) -> tuple[Array, Array]:
    """The eigenvalues, ascending, and eigenvectors of Hermitian matrices, given as one triangle."""
    real = x.dtype.to_real()
    if not x.numel():
        return _C.empty(x.shape[:-1], real, x.device_index), x.clone()
    _finite("linalg.eigh", x)
    a, top = _scaled(_mirrored(x, uplo))
    if _small(x):
        v = _identity(a.shape[0], a.shape[1], a)
        _rotate_hermitian(a, v)
        found = diagonal_part(a)
    else:
        found, v = _by_shift(a)
    values, order = sorting.sort(found, 1, False)
    values = pointwise.call("mul", (values, top), real, real)
    return values.reshape(x.shape[:-1]), _columns(v, order).reshape(x.shape)


def eigvalsh(x: Array, uplo: str) -> Array:
    """The eigenvalues of Hermitian matrices, ascending."""
    return eigh(x, uplo)[0]


# ---- singular values -----------------------------------------------------------------------------


def _of_nothing(x: Array, full: bool) -> tuple[Array, Array, Array]:
    *batch, m, n = x.shape
    k = min(m, n)
    eye = lambda rows, cols: (
        shaping.eye(rows, cols, x.dtype, x.device_index).expand((*batch, rows, cols)).clone()
    )
    values = _C.empty((*batch, k), x.dtype.to_real(), x.device_index).zero_()
    return eye(m, m if full else k), values, eye(n if full else k, n)


def svd(x: Array, full: bool) -> tuple[Array, Array, Array]:
    """U, the singular values, and V^H."""
    if not x.numel():
        return _of_nothing(x, full)
    _finite("linalg.svd", x)
    *batch, m, n = x.shape
    kind, real = x.dtype, x.dtype.to_real()
    a, top = _scaled(factor.stack(x if m >= n else adjoint(x)))
    count, _, columns = a.shape
    if _small(x):
        v = _identity(count, columns, a)
        _rotate_columns(a, v)
    else:
        a, v = _rotated_blocks(a)
    sizes = reduction.vector_norm(a, 2, (1,), False, real)
    values, order = sorting.sort(sizes, 1, True)
    # U S has orthogonal columns: R is diagonal, and Q fills up what is of no size.
    u, r = factor.orthogonal(_columns(a, order), "complete" if full else "reduced")
    diagonal = diagonal_part(r[:, :columns].contiguous()).unsqueeze(1)
    negative = pointwise.call("lt", (diagonal, 0.0), real, bool_)
    signs = pointwise.call("where", (negative, -1.0, 1.0), real, real)
    u[:, :, :columns].copy_(pointwise.call("mul", (u[:, :, :columns], signs), kind, kind))
    v = _columns(v, order)
    values = pointwise.call("mul", (values, top), real, real).reshape((*batch, columns))
    left, right = (u, v) if m >= n else (v, u)
    right = adjoint(right).contiguous()
    return (left.reshape((*batch, *left.shape[1:])), values,
            right.reshape((*batch, *right.shape[1:])))  # fmt: skip


def svdvals(x: Array) -> Array:
    """The singular values."""
    return svd(x, False)[1]
