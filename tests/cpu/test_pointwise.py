"""The pointwise functions against Python's math module and formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tritorch.host import threads
from tritorch.host.pointwise import pointwise as P

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal(300) * 3, [0.0, -0.0, 1, -1, 8, -8, 27, np.inf, -np.inf]])


def each(function, x):
    return np.array([function(v) for v in x.tolist()])


def gamma_log(v):
    return math.inf if math.isinf(v) or (v <= 0 and v == int(v)) else math.lgamma(v)


def normal(v):
    return 0.5 * math.erfc(-v / math.sqrt(2))


FINITE = X[np.isfinite(X)]
CASES = {
    "erf": (math.erf, X),
    "erfc": (math.erfc, X),
    "lgamma": (gamma_log, X),
    "sigmoid": (lambda v: 1 / (1 + math.exp(-v)), FINITE),
    "silu": (lambda v: v / (1 + math.exp(-v)), FINITE),
    "softplus": (lambda v: math.log1p(math.exp(v)) if v <= 20 else v, FINITE),
    "logsigmoid": (lambda v: -math.log1p(math.exp(-v)), FINITE),
    "gelu": (lambda v: v * normal(v), FINITE),
    "gelu_tanh": (
        lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
        FINITE,
    ),
    "rsqrt": (lambda v: 1 / math.sqrt(v), np.abs(FINITE[FINITE != 0])),
    "exp2": (lambda v: 2**v, FINITE),
    "frac": (lambda v: v - math.trunc(v), FINITE),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_against_math(name, kind):
    function, x = CASES[name]
    x = x.astype(kind)
    out = getattr(P, name)(x)
    assert out.dtype == kind
    tight = kind == np.float64
    np.testing.assert_allclose(
        out, each(function, x), rtol=1e-12 if tight else 2e-6, atol=1e-14 if tight else 2e-6
    )


def test_lgamma_keeps_its_digits_beside_the_zeros():
    gamma, zeta3 = 0.5772156649015329, 1.2020569031595942
    e = np.array([2.0**-30, -(2.0**-30), 2.0**-20])
    series = -gamma * e + math.pi**2 / 12 * e**2 - zeta3 / 3 * e**3
    np.testing.assert_allclose(P.lgamma(1 + e), series, rtol=1e-14)
    np.testing.assert_allclose(P.lgamma(2 + e), series + np.log1p(e), rtol=1e-14)


def test_inverses():
    p = np.concatenate([RNG.uniform(-1, 1, 500), [1e-20, -1e-9, 1 - 1e-15]])
    np.testing.assert_allclose(each(math.erf, P.erfinv(p)), p, rtol=3e-16, atol=0)
    assert P.erfinv(np.array([1.0, -1.0])).tolist() == [math.inf, -math.inf]
    assert np.isnan(P.erfinv(np.array([1.5]))).all()
    q = np.concatenate([RNG.uniform(0, 1, 500), [1e-300, 1e-20]])
    np.testing.assert_allclose(each(normal, P.ndtri(q)), q, rtol=1e-12)


def test_digamma_and_polygamma_are_derivatives():
    x = np.concatenate([RNG.uniform(0.2, 20, 100), -RNG.uniform(0.2, 0.8, 20)])
    h = 1e-5
    slope = (P.lgamma(x + h) - P.lgamma(x - h)) / (2 * h)
    np.testing.assert_allclose(P.digamma(x), slope, rtol=1e-6, atol=1e-6)
    slope = (P.digamma(x + h) - P.digamma(x - h)) / (2 * h)
    np.testing.assert_allclose(P.polygamma(1, x), slope, rtol=1e-6, atol=1e-6)
    assert P.digamma(np.array([0.0, -0.0])).tolist() == [-math.inf, math.inf]
    assert np.isnan(P.digamma(np.array([-3.0]))).all()
    np.testing.assert_allclose(P.zeta(np.array([2.0]), np.array([1.0])), math.pi**2 / 6, rtol=1e-15)


def test_bessel_against_the_series():
    x = RNG.uniform(-20, 20, 100)
    for order, function in ((0, P.i0), (1, P.i1)):
        series = sum(
            (x / 2) ** (2 * k + order) / (math.factorial(k) * math.factorial(k + order))
            for k in range(80)
        )
        np.testing.assert_allclose(function(x), series, rtol=1e-12)
    np.testing.assert_allclose(P.i0e(x), P.i0(x) * np.exp(-np.abs(x)), rtol=1e-13)


@pytest.mark.parametrize(
    "name, forward",
    [("gelu_backward", P.gelu), ("gelu_tanh_backward", P.gelu_tanh), ("silu_backward", P.silu)],
)
def test_gradients(name, forward):
    x, g = RNG.standard_normal(100), RNG.standard_normal(100)
    slope = (forward(x + 1e-6) - forward(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(getattr(P, name)(g, x), g * slope, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float32])
def test_divisions(kind):
    values = np.array([1, -1, 2, -2, 3, -3, 7, -8, 100], kind)
    a, b = (v.reshape(-1) for v in np.meshgrid(values, values))
    pairs = list(zip(a.tolist(), b.tolist()))
    assert P.floor_divide(a, b).tolist() == [x // y for x, y in pairs]
    assert P.trunc_divide(a, b).tolist() == [math.trunc(x / y) for x, y in pairs]
    assert P.remainder(a, b).tolist() == [x % y for x, y in pairs]
    assert P.fmod(a, b).tolist() == [math.fmod(x, y) for x, y in pairs]
    assert P.floor_divide(a, b).dtype == kind


def test_division_by_zero():
    for name in ("floor_divide", "trunc_divide", "remainder", "fmod"):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            getattr(P, name)(np.array([1, 2]), 0)
    x = np.array([1.0, -1.0, 0.0])
    assert P.floor_divide(x, 0.0)[:2].tolist() == [math.inf, -math.inf]
    assert np.isnan(P.remainder(x, 0.0)).all()
    assert np.signbit(P.remainder(np.array([-3.0]), 3.0)).all()  # a zero keeps a's sign


def test_pow():
    a = np.array([0, 1, -1, 2, -3])
    assert P.pow(a, np.array([-1, -2, -3, -1, 3])).tolist() == [0, 1, -1, 0, -27]
    x = np.abs(RNG.standard_normal(50)) + 0.1
    for power in (0.5, 1.0, 2.0, 3.0, -0.5, -1.0, -2.0, 2.5):
        np.testing.assert_allclose(P.pow(x, power), x**power, rtol=1e-14)
    assert P.pow(np.float32([2]), 2.5).dtype == np.float32


def test_complex():
    z = RNG.standard_normal(20) + 1j * RNG.standard_normal(20)
    z[0] = 0
    w = RNG.standard_normal(20) + 1j * RNG.standard_normal(20)
    np.testing.assert_allclose(P.sgn(z)[1:], z[1:] / np.abs(z[1:]))
    assert P.sgn(z)[0] == 0
    np.testing.assert_allclose(np.exp(P.logaddexp(z, w)), np.exp(z) + np.exp(w), rtol=1e-12)
    np.testing.assert_allclose(P.sigmoid(z), 1 / (1 + np.exp(-z)))
    np.testing.assert_allclose(P.rsqrt(w), w**-0.5)
    np.testing.assert_allclose(P.angle(w), np.angle(w))


def test_special_values():
    nan = np.array([math.nan])
    for name in ("erf", "erfc", "erfinv", "lgamma", "digamma", "i0", "gelu", "sigmoid", "sinc"):
        assert np.isnan(getattr(P, name)(nan)).all(), name
    assert P.sign(np.array([math.nan, -2.0, 0.0])).tolist() == [0, -1, 0]
    assert P.xlogy(np.array([0.0, 2.0]), np.array([0.0, 1.0])).tolist() == [0, 0]
    assert np.isnan(P.xlogy(np.array([0.0]), nan)).all()
    assert P.sinc(np.array([0.0])).tolist() == [1]
    assert P.heaviside(np.array([-1.0, 0.0, 2.0]), 0.5).tolist() == [0, 0.5, 1]
    assert P.logaddexp(np.array([-math.inf]), np.array([-math.inf])).tolist() == [-math.inf]
    assert P.lerp(np.array([1.0]), np.array([3.0]), 1.0).tolist() == [3]
    assert P.clamp(np.array([1, 5, 9]), 6, 4).tolist() == [4, 4, 4]


def test_shapes():
    assert P.erf(np.empty((0, 3), np.float32)).shape == (0, 3)
    zero = P.sigmoid(np.array(0.0))
    assert type(zero) is np.ndarray and zero.shape == () and zero == 0.5
    x = RNG.standard_normal((6, 8))
    np.testing.assert_array_equal(P.erf(x.T[::2]), P.erf(x).T[::2])
    np.testing.assert_array_equal(P.fmod(x, x[0] + 3), np.fmod(x, x[0] + 3))


def test_threads_give_the_same_bits():
    x = RNG.standard_normal((300, 1000)).astype(np.float32)
    count = threads.get_num_threads()
    results = []
    for n in (1, 2, 3):
        threads.set_num_threads(n)
        results.append(P.gelu(x))
    threads.set_num_threads(count)
    assert all((r == results[0]).all() for r in results)
    np.testing.assert_array_equal(results[0][7], P.gelu(x[7]))


def test_complex_numbers_at_infinities_and_zeros():
    """Parts and signs are those of PyTorch, which scales by a real number, and divides."""
    inf, nan = math.inf, math.nan
    given = [(0, 0), (-0.0, 0), (0, -2.5), (0, -inf), (inf, 1), (inf, 0), (1, -0.0), (-inf, inf)]
    expected = {
        "exp2": "(1+0j) (1+0j) (-0.161363-0.986895j) (nan+nanj) (inf+infj) (inf+0j) (2-0j) 0j",
        "reciprocal": "(inf+nanj) (inf+nanj) (-0+0.4j) (-0+0j) 0j 0j (1+0j) (nan+nanj)",
    }
    values = np.array([complex(*parts) for parts in given])
    for name, results in expected.items():
        with np.errstate(all="ignore"):
            found = getattr(P, name)(values)
        shown = [f"{v:.6g}" for v in found.tolist()]
        assert shown == [f"{complex(text):.6g}" for text in results.split()], name
    assert np.isnan(P.exp2(np.array([complex(nan, 0)]))[0].real)
