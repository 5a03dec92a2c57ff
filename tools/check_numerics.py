#!/usr/bin/env python3
"""Fourier transforms and factorisations on a GPU (or the simulated one) against their definitions.

    TRITORCH_SIMULATE_CUDA=1 python tools/check_numerics.py fft [--lengths 1-300 1024 65536]
    TRITORCH_SIMULATE_CUDA=1 python tools/check_numerics.py factors [--sizes 1 2 33 128 256]

Prints for each function and dtype the worst figure and where it was, relative to what is allowed:
of transforms 1e-12 (float64) or 1e-5 (float32) of the result's norm, beside NumPy's in float64; of
factors residuals and orthogonality of 50 n eps.  The exit status is 1 where one is above 1.
tests/ops/gpu/test_fft.py and test_linalg.py hold samples of the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tritorch.cuda import from_numpy
from tritorch.gpu.fft import fft
from tritorch.gpu.linalg import linalg, triangular

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
KINDS = ("float32", "float64", "complex64", "complex128")
LENGTHS = ["1-300", "512", "1000", "1009", "2048", "2310", "4096", "4099", "8192", "10007",
           "16384", "20000", "32768", "50000", "65521", "65536"]  # fmt: skip
SIZES = [1, 2, 3, 5, 16, 31, 32, 33, 64, 100, 128, 129, 200, 256]


def numbers(shape: tuple[int, ...], kind: str) -> Array:
    """Normal numbers of a dtype."""
    x = RNG.standard_normal(shape)
    if kind.startswith("complex"):
        x = x + 1j * RNG.standard_normal(shape)
    return x.astype(kind)


def wide(x: Any) -> Array:
    """An array in double precision, of wherever it is."""
    x = x if isinstance(x, np.ndarray) else x.numpy()
    return x.astype(complex if x.dtype.kind == "c" else float) if x.dtype.kind in "fc" else x


def norm(x: Array) -> float:
    """Frobenius', with NaN as infinity."""
    size = float(np.linalg.norm(x))
    return size if size == size else float("inf")


# ---- transforms ----------------------------------------------------------------------------------


def transforms(n: int, kind: str) -> Iterator[tuple[str, float]]:
    """How far each transform of a length is off, relative to what is allowed."""
    allowed = 1e-12 if kind == "float64" else 1e-5
    pair = "complex128" if kind == "float64" else "complex64"
    z, x, half = numbers((2, n), pair), numbers((2, n), kind), numbers((2, n // 2 + 1), pair)
    for name, got, want in (
        ("fft", fft.c2c(from_numpy(z), (1,), 0, True), np.fft.fft(wide(z))),
        ("ifft", fft.c2c(from_numpy(z), (1,), 2, False), np.fft.ifft(wide(z))),
        ("rfft", fft.r2c(from_numpy(x), (1,), 0, True), np.fft.rfft(wide(x))),
        ("irfft", fft.c2r(from_numpy(half), (1,), 2, n), np.fft.irfft(wide(half), n)),
    ):
        yield name, norm(wide(got) - want) / norm(want) / allowed


# ---- factors -------------------------------------------------------------------------------------


def adjoint(x: Array) -> Array:
    """The transposed matrix, conjugated."""
    return np.swapaxes(x, -1, -2).conj()


def orthogonal(q: Array) -> float:
    """How far columns are from orthonormal ones."""
    return norm(adjoint(q) @ q - np.eye(q.shape[-1]))


def lu(x: Array) -> dict[str, float]:
    """P A = L U, and what follows."""
    n = len(x)
    factors, pivots, _ = triangular.lu_factor(from_numpy(x))
    order = triangular.permutation(pivots, n).numpy()
    both, b = wide(factors), numbers((n, 3), x.dtype.name)
    y = wide(linalg.solve_ex(from_numpy(x), from_numpy(b))[0])
    inverse = wide(linalg.inv_ex(from_numpy(x))[0])
    return {
        "lu": norm((np.tril(both, -1) + np.eye(n)) @ np.triu(both) - x[order]) / norm(x),
        "solve": norm(x @ y - b) / norm(x) / norm(y),
        "inv": norm(x @ inverse - np.eye(n)) / norm(x) / norm(inverse),
    }


def qr(x: Array) -> dict[str, float]:
    """A = Q R, of a matrix twice as tall."""
    tall = np.concatenate([x, numbers(x.shape, x.dtype.name)])
    q, r = map(wide, linalg.qr(from_numpy(tall), "reduced"))
    return {"qr": norm(q @ r - tall) / norm(tall), "qr, Q": orthogonal(q)}


def cholesky(x: Array) -> dict[str, float]:
    """A = L L^H."""
    a = x @ adjoint(x) + np.eye(len(x), dtype=x.dtype)
    factor = wide(linalg.cholesky_ex(from_numpy(np.tril(a)), False)[0])
    return {"cholesky": norm(factor @ adjoint(factor) - a) / norm(a)}


def ldl(x: Array) -> dict[str, float]:
    """Systems by L D L^H."""
    a, b = x + adjoint(x), numbers((len(x), 3), x.dtype.name)
    factors, pivots, _ = triangular.ldl_factor(from_numpy(a), True)
    y = wide(triangular.ldl_solve(factors, pivots, from_numpy(b), True))
    return {"ldl": norm(a @ y - b) / norm(a) / norm(y)}


def svd(x: Array) -> dict[str, float]:
    """A = U S V^H."""
    u, s, vh = map(wide, linalg.svd(from_numpy(x), True))
    return {"svd": norm(u * s @ vh - x) / norm(x), "svd, U": orthogonal(u),
            "svd, V": orthogonal(adjoint(vh))}  # fmt: skip


def eigh(x: Array) -> dict[str, float]:
    """A = V diag(l) V^H."""
    a = x + adjoint(x)
    values, v = map(wide, linalg.eigh(from_numpy(np.tril(a)), "L"))
    return {"eigh": norm(v * values @ adjoint(v) - a) / norm(a), "eigh, V": orthogonal(v)}


FACTORS: tuple[Callable[[Array], dict[str, float]], ...] = (lu, qr, cholesky, ldl, svd, eigh)


def factors(n: int, kind: str) -> Iterator[tuple[str, float]]:
    """How far each factorisation of a size is off, relative to what is allowed."""
    allowed = 50 * n * float(np.finfo(kind).eps)
    for function in FACTORS:
        for name, off in function(numbers((n, n), kind)).items():
            yield name, off / allowed


# ---- the report ----------------------------------------------------------------------------------


def whole(texts: list[str]) -> list[int]:
    """Numbers and ranges of them."""
    spans = [[*map(int, text.split("-"))] for text in texts]
    return [n for span in spans for n in range(span[0], span[-1] + 1)]


def main() -> int:
    """Prints the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("fft", "factors"))
    parser.add_argument("--lengths", nargs="+", default=LENGTHS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    run = transforms if options.what == "fft" else factors
    worst: dict[tuple[str, str], tuple[float, int]] = {}
    for n in whole(options.lengths) if options.what == "fft" else options.sizes:
        for kind in options.kinds:
            if options.what == "fft" and kind.startswith("complex"):
                continue
            for name, off in run(n, kind):
                worst[name, kind] = max(worst.get((name, kind), (0.0, 0)), (off, n))
    for (name, kind), (off, n) in sorted(worst.items()):
        print(f"{name:10} {kind:11} {off:.2g} of what is allowed, at {n}")
    return int(any(off > 1 for off, _ in worst.values()))


if __name__ == "__main__":
    sys.exit(main())
