"""Samples on the GPU whose parameters are arrays; `rng` is (seed, offset, device index)."""

from __future__ import annotations

import numpy as np

from tritorch import _C
from tritorch.core.dtype import float32, float64
from tritorch.gpu.pointwise import pointwise
from tritorch.gpu.pointwise.layout import LONG
from tritorch.gpu.random.random import Rng, signed
from tritorch.gpu.reduce.reduction import sum
from tritorch.triton.kernel import kernel
from tritorch.triton.names import function

LONG.update(("dirichlet_grad", "standard_gamma_grad"))
Array = _C.Array
_BLOCK = 128


def _draw(name: str, rng: Rng, a: Array, b: Array | None = None) -> Array:
    seed, offset, device = rng
    kind = a.dtype
    y = _C.empty(a.shape, kind, device)
    n = y.numel()
    if n:
        a = a.contiguous()
        kernel("sampling", "draw_by")(
            (-(-n // _BLOCK),), a, a if b is None else b.contiguous(), y, n, signed(seed), offset,
            OP=function("sampling", name), BLOCK=_BLOCK, num_warps=4,
            COMPUTE=pointwise.triton_type(float64 if kind is float64 else float32),
        )  # fmt: skip
    return y


def standard_gamma(rng: Rng, a: Array) -> Array:
    """Gamma distributed, of rate 1."""
    return _draw("standard_gamma", rng, a)


def poisson(rng: Rng, rate: Array) -> Array:
    """Poisson distributed."""
    return _draw("poisson", rng, rate)


def binomial(rng: Rng, count: Array, p: Array) -> Array:
    """Binomially distributed; both of one shape."""
    return _draw("binomial", rng, count, p)


def dirichlet(rng: Rng, a: Array) -> Array:
    """Gamma distributed numbers, of float64, divided by their sums over the last dim."""
    kind = a.dtype
    parts = _draw("standard_gamma", rng, a.astype(float64))
    total = sum(parts, (a.ndim - 1,), True, float64)
    limits = np.finfo(kind.numpy)
    highest = float(np.nextafter(limits.dtype.type(1), limits.dtype.type(0)))
    return pointwise.call(
        function("sampling", "share"), (parts, total, float(limits.tiny), highest), float64, kind
    )


def standard_gamma_grad(a: Array, x: Array) -> Array:
    """How gamma distributed samples x move with their parameters a."""
    return pointwise.call("standard_gamma_grad", (a, x), a.dtype, a.dtype)


def dirichlet_grad(x: Array, a: Array, total: Array) -> Array:
    """How the shares x of a Dirichlet sample move with their parameters a, of 1 - x."""
    return pointwise.call("dirichlet_grad", (x, a, total), x.dtype, x.dtype)
