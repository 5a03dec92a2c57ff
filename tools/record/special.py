#!/usr/bin/env python3
"""Records what SciPy and PyTorch say of special functions, for tests/ops/test_special.py.

    python tools/record/special.py        # needs torch, scipy and mpmath

Writes tests/ops/special.npz: for each function its arguments and values, in float64.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import scipy.special as sp
import torch
from recording import TESTS

WHERE = TESTS / "ops" / "special.npz"
ANY = np.concatenate([np.linspace(-30, 30, 41), [0.0, 1e-8, 0.3, -0.7, 2.0, -6.0, 8.0]])
POSITIVE = np.concatenate([np.geomspace(1e-6, 700, 40), [0.0, 1.0, 2.0, 8.0, -1.0]])
UNIT = np.concatenate([np.geomspace(1e-30, 0.5, 15), 1 - np.geomspace(1e-9, 0.5, 15), [0, 1, 2]])
ONE: dict[str, tuple[Any, np.ndarray]] = {
    "airy_ai": (lambda x: sp.airy(x)[0], ANY), "bessel_j0": (sp.j0, ANY),
    "bessel_j1": (sp.j1, ANY), "bessel_y0": (sp.y0, POSITIVE), "bessel_y1": (sp.y1, POSITIVE),
    "modified_bessel_i0": (sp.i0, ANY), "modified_bessel_i1": (sp.i1, ANY),
    "modified_bessel_k0": (sp.k0, POSITIVE), "modified_bessel_k1": (sp.k1, POSITIVE),
    "scaled_modified_bessel_k0": (sp.k0e, POSITIVE),
    "scaled_modified_bessel_k1": (sp.k1e, POSITIVE),
    "spherical_bessel_j0": (lambda x: sp.spherical_jn(0, x), ANY), "i0e": (sp.i0e, ANY),
    "i1e": (sp.i1e, ANY), "entr": (sp.entr, ANY), "erfcx": (sp.erfcx, ANY[ANY > -25]),
    "ndtr": (sp.ndtr, ANY), "ndtri": (sp.ndtri, UNIT), "log_ndtr": (sp.log_ndtr, ANY),
    "gammaln": (sp.gammaln, ANY), "digamma": (sp.digamma, ANY + 0.1),
}  # fmt: skip
X, N = (v.reshape(-1) for v in np.meshgrid(
    [-2.5, -1, -0.4, 0, 0.3, 0.5, 1, 1.7], [-2.0, 0, 1, 2, 3.9, 6, 7, 12, 25]))  # fmt: skip
A, B = (v.reshape(-1) for v in np.meshgrid(
    [1e-4, 0.3, 1, 4.5, 19.9, 20, 150, 3e3, 1e6], [0.25, 0.7, 0.9, 1, 1.1, 1.6, 8]))  # fmt: skip
S, Q = (v.reshape(-1) for v in np.meshgrid([1.001, 1.5, 2, 7, 40], [1e-3, 0.4, 1, 9, 1e4]))
TWO: dict[str, tuple[Any, np.ndarray, np.ndarray]] = {
    "gammainc": (sp.gammainc, A, A * B), "gammaincc": (sp.gammaincc, A, A * B),
    "zeta": (sp.zeta, S, Q), "xlog1py": (sp.xlog1py, X, N - 0.5),
}  # fmt: skip
POLYNOMIALS = [name for name in dir(torch.special) if "_polynomial_" in name]


def main() -> None:
    """Evaluates and writes."""
    found: dict[str, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for name, (function, x) in ONE.items():
            found[name] = np.stack([x, function(x)])
        for name, (function, a, b) in TWO.items():
            found[name] = np.stack([a, b, function(a, b)])
    for name in POLYNOMIALS:
        x, n = torch.tensor(X), torch.tensor(N)
        found[name] = np.stack([X, N, getattr(torch.special, name)(x, n).numpy()])
    points = np.concatenate([np.linspace(-6.3, 8, 30), [1e-3, 50.5, -100.25]])
    for n in range(5):
        values = [float(mpmath.psi(n, x)) for x in points]
        found[f"polygamma_{n}"] = np.stack([points, np.array(values)])
    for name in torch.signal.windows.__all__:
        options = {"a": [0.4, 0.3, 0.2]} if name == "general_cosine" else {}
        for length in (0, 1, 2, 7):
            for sym in (True, False):
                made = getattr(torch.signal.windows, name)(
                    length, sym=sym, dtype=torch.float64, **options
                )
                found[f"window {name} {length} {sym:d}"] = made.numpy()
    np.savez_compressed(WHERE, **found)


if __name__ == "__main__":
    main()
