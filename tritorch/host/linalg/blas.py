"""Matrix products: large ones of floats run on our own threads (Note [Products on our threads] in
`src/products/blas.h`), all others are NumPy's, whose BLAS has as many threads as were asked for,
and one while our own compute side by side."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import by_steps, seen
from tritorch.core.scopes import Scope, unchanged
from tritorch.host import loops

Array = np.ndarray[Any, Any]

# A product has work for as many threads as the root of its multiply-adds in this unit: `kPiece`.
PIECE = _C.PRODUCTS_PIECE

# How builds of OpenBLAS name their functions, with integers of 64 and of 32 bits.
_NAMES = (("scipy_{}64_", True), ("scipy_{}", False), ("{}64_", True), ("{}", False))
_PRODUCTS = tuple(f"cblas_{kind}{name}" for name in ("gemm", "gemv", "dot") for kind in "sd")
_THREADS = ("openblas_get_num_threads", "openblas_set_num_threads")


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.cache
def found() -> bool:
    """Whether NumPy's BLAS is OpenBLAS; if so, the native half knows its functions from now on."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "openblas" in line}
    except OSError:
        return False  # not Linux
    for path in sorted(paths):
        library = ctypes.CDLL(path)
        for name, wide in _NAMES:
            names = [name.format(each) for each in _PRODUCTS + _THREADS]
            if all(hasattr(library, each) for each in names):
                _C.set_blas([_address(getattr(library, each)) for each in names], wide)
                return True
    return False


_C.find_blas_with(found)
_matmul, _dot = seen(np.matmul), seen(np.ndarray.dot)


@by_steps
def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """numpy.matmul(a, b, out)."""
    product: Array | None = loops.multiply(a, b, out)
    return _matmul(a, b, out=out) if product is None else product


@by_steps
def dot(a: Array, b: Array) -> Array:
    """a.dot(b) of two matrices, or a matrix and a vector: quicker than matmul for small ones."""
    product: Array | None
    if b.ndim == 1:
        product = loops.multiply(a, b[:, None], None)
        return _dot(a, b) if product is None else product[:, 0]
    product = loops.multiply(a, b, None)
    return _dot(a, b) if product is None else product


def with_bias(a: Array, b: Array, bias: Array) -> Array | None:
    """A large product of matrices, with a row added to each of its rows; None of others."""
    found: Array | None = loops.multiply(a, b, None, bias)
    return found


def inner(a: Array, b: Array) -> float:
    """The sum of two vectors' products."""
    found = loops.dot(a, b)
    return float(np.dot(a, b)) if found is None else found


def set_threads(n: int) -> None:
    """How many threads NumPy's products have from now on."""
    if found():
        _C.set_blas_threads(n)


def one_thread() -> Scope:
    """Products run in the thread that asks for them: several of ours would wait for each other."""
    return Scope((_C.one_blas_thread, True)) if found() else unchanged
