"""Fits the polynomials of kernels/scalar/fits.py, to 40 digits; needs mpmath.

    python tools/fit_special.py bessel_j0 ...     prints these (all by default)

Each is interpolated at Chebyshev's nodes, and cut where float64 no longer sees its coefficients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 40
# The squares of the first roots, factored out so that values near them keep their digits.
ROOTS = {n: [mp.besseljzero(n, k) ** 2 for k in (1, 2)] for n in (0, 1)}
NODES = 52


def fit(function: Callable[[Any], Any], digits: float = 17.5) -> list[float]:
    """Coefficients of powers of t for a function of t in [-1, 1]."""
    n = NODES
    angles = [(2 * k + 1) * mp.pi / (2 * n) for k in range(n)]
    values = [function(mp.cos(angle)) for angle in angles]
    chebyshev = [
        (1 if j == 0 else 2) * sum(v * mp.cos(j * a) for v, a in zip(values, angles)) / n
        for j in range(n)
    ]
    least = min(abs(v) for v in values if v)
    floor = max(least, max(map(abs, values)) / 100) * mp.mpf(10) ** -digits
    while len(chebyshev) > 1 and abs(chebyshev[-1]) < floor:
        chebyshev.pop()
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    powers = [mp.mpf(0)] * len(chebyshev)
    for j, c in enumerate(chebyshev):
        term = before if j == 0 else now
        for i, value in enumerate(term):
            powers[i] += c * value
        if j:
            double = [mp.mpf(0), *(2 * value for value in now)]
            for i, value in enumerate(before):
                double[i] -= value
            before, now = now, double
    return [float(value) for value in powers]


def over(low: float, high: float) -> Callable[[Any], Any]:
    """From t in [-1, 1] to [low, high]."""
    return lambda t: (t + 1) / 2 * (mp.mpf(high) - low) + low


def modulus(n: int, x: Any) -> tuple[Any, Any]:
    """P and Q with J = sqrt(2 / (pi x)) (P cos(a) - Q sin(a)), a = x - (n / 2 + 1 / 4) pi."""
    a = x - (mp.mpf(n) / 2 + mp.mpf(1) / 4) * mp.pi
    j, y, root = mp.besselj(n, x), mp.bessely(n, x), mp.sqrt(mp.pi * x / 2)
    return root * (j * mp.cos(a) + y * mp.sin(a)), root * (y * mp.cos(a) - j * mp.sin(a))


def airy_modulus(z: Any) -> tuple[Any, Any]:
    """P and Q with Ai(-x) = (cos(a) P + sin(a) Q) / (sqrt(pi) x^(1/4)), a = z - pi / 4."""
    x = (mp.mpf(3) / 2 * z) ** (mp.mpf(2) / 3)
    a, root = z - mp.pi / 4, mp.sqrt(mp.pi) * x ** mp.mpf("0.25")
    ai, bi = mp.airyai(-x), mp.airybi(-x)
    return root * (ai * mp.cos(a) - bi * mp.sin(a)), root * (ai * mp.sin(a) + bi * mp.cos(a))


def without_roots(n: int, square: Any) -> Any:
    x = mp.sqrt(square)
    value = mp.besselj(n, x) / (x if n else 1)
    return value / ((square - ROOTS[n][0]) * (square - ROOTS[n][1]))


def regular_y(n: int, square: Any) -> Any:
    """Y0 - 2 / pi log(x) J0, or (Y1 - 2 / pi (log(x) J1 - 1 / x)) / x."""
    x = mp.sqrt(square)
    rest = mp.bessely(n, x) - 2 / mp.pi * mp.log(x) * mp.besselj(n, x)
    return rest if n == 0 else (rest + 2 / (mp.pi * x)) / x


def regular_k(n: int, square: Any) -> Any:
    """K0 + log(x / 2) I0, or (K1 - log(x / 2) I1 - 1 / x) / x."""
    x = mp.sqrt(square)
    if n == 0:
        return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)
    return (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x) - 1 / x) / x


def fits() -> dict[str, Callable[[Any], Any]]:
    found: dict[str, Callable[[Any], Any]] = {}
    near, near_k = over(0, 64), over(0, 4)
    far = lambda t: 8 / mp.sqrt(over(0, 1)(t))  # t = 2 (8 / x)^2 - 1
    for n in (0, 1):
        found[f"J{n}_NEAR"] = lambda t, n=n: without_roots(n, near(t))
        found[f"Y{n}_NEAR"] = lambda t, n=n: regular_y(n, near(t))
        found[f"JY{n}_P"] = lambda t, n=n: modulus(n, far(t))[0]
        found[f"JY{n}_Q"] = lambda t, n=n: modulus(n, far(t))[1] * far(t)
        found[f"K{n}_NEAR"] = lambda t, n=n: regular_k(n, near_k(t))
        found[f"K{n}_FAR"] = lambda t, n=n: (
            lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(n, x)
        )(2 / over(0, 1)(t))  # fmt: skip
    found["AIRY_NEAR"] = lambda t: mp.airyai(over(-6, 2)(t))
    least = mp.mpf(2) / 3 * mp.mpf(2) ** mp.mpf("1.5")

    def above(t: Any) -> Any:
        z = least / over(0, 1)(t)
        x = (mp.mpf(3) / 2 * z) ** (mp.mpf(2) / 3)
        return 2 * mp.sqrt(mp.pi) * x ** mp.mpf("0.25") * mp.exp(z) * mp.airyai(x)

    below = lambda t: mp.mpf(2) / 3 * mp.mpf(6) ** mp.mpf("1.5") / mp.sqrt(over(0, 1)(t))
    found["AIRY_ABOVE"] = above
    found["AIRY_P"] = lambda t: airy_modulus(below(t))[0]
    found["AIRY_Q"] = lambda t: airy_modulus(below(t))[1] * below(t)
    return found


def temme(k_most: int = 11, n_most: int = 17) -> list[list[float]]:
    """d[k][n] of the incomplete gamma functions' uniform expansion: sum of d[k][n] eta^n / a^k.

    x / a = 1 + mu; eta^2 / 2 = mu - log(1 + mu).  With mu = sum of b_i eta^i,
    C_0 = 1 / mu - 1 / eta, and eta C_k = C_(k-1)' + g_k eta / mu; g_k are Stirling's.
    """
    total = n_most + 2 * k_most + 4
    a = [mp.mpf(0), mp.mpf(1)]  # mu's: (1 + mu) eta = mu mu'
    for i in range(2, total):
        known = sum((j * a[j]) * a[i + 1 - j] for j in range(2, i))
        a.append((a[i - 1] - known) / (i + 1))
    # eta / mu = 1 / (a_1 + a_2 eta + ...)
    inverse = [mp.mpf(1)]
    for i in range(1, total - 1):
        inverse.append(-sum(a[j + 1] * inverse[i - j] for j in range(1, i + 1)))
    gamma = [mp.mpf(1)]  # gamma(a) = sqrt(2 pi / a) (a / e)^a sum of gamma_k / a^k
    logs = [mp.mpf(0)] + [
        mp.bernoulli(k + 1) / (k * (k + 1)) if k % 2 else mp.mpf(0) for k in range(1, k_most + 1)
    ]
    for k in range(1, k_most + 1):
        gamma.append(sum(j * logs[j] * gamma[k - j] for j in range(1, k + 1)) / k)
    row = inverse[1:]
    table = []
    for k in range(k_most):
        table.append([float(value) for value in row[:n_most]])
        sign = -1 if (k + 1) % 2 else 1
        derivative = [(i + 1) * row[i + 1] for i in range(len(row) - 1)]
        merged = [d + sign * gamma[k + 1] * v for d, v in zip(derivative, inverse)]
        row = merged[1:]
        assert abs(merged[0]) < 1e-20, (k, merged[0])
    return table


def show(name: str, values: list[float]) -> None:
    print(f"{name} = (")
    for value in values:
        print(f"    {value!r},")
    print(")")


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for root in (0, 1):
        pairs = [(float(r), float(r - mp.mpf(float(r)))) for r in ROOTS[root]]
        print(f"J{root}_ROOTS = {tuple(v for pair in pairs for v in pair)!r}  # each in two parts")
    for name, function in fits().items():
        if not wanted or name in wanted:
            show(name, fit(function))
    if not wanted or "TEMME" in wanted:
        print("TEMME = (")
        for row in temme():
            print(f"    {tuple(row)!r},")
        print(")")
