"""Elementary functions of float32 against double precision, and wherever an element lies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tritorch import _C
from tritorch.host.chains.chained import Chained
from tritorch.host.pointwise import special

Array = np.ndarray[Any, Any]
INF, NAN = math.inf, math.nan
# In double precision, and the units in the last place that a result may be off.
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 1), "expm1": (np.expm1, 1.5), "log": (np.log, 1), "log1p": (np.log1p, 1.5),
    "tanh": (np.tanh, 2), "erf": (special.erf64, 4),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 2.5),
}  # fmt: skip
# What they make of 0, -0, 1, infinity, -infinity and NaN.
EXTREMES = [0.0, -0.0, INF, -INF, NAN]
EXPECTED = {
    "exp": [1, 1, INF, 0, NAN], "expm1": [0, -0.0, INF, -1, NAN],
    "log": [-INF, -INF, INF, NAN, NAN], "log1p": [0, -0.0, INF, NAN, NAN],
    "tanh": [0, -0.0, 1, -1, NAN], "erf": [0, -0.0, 1, -1, NAN], "sigmoid": [0.5, 0.5, 1, 0, NAN],
    "normal": [0.5, 0.5, 1, 0, NAN],
}  # fmt: skip


def sweep() -> Array:
    """Numbers of all exponents and signs, and more of those around 0."""
    every = np.arange(0, 1 << 32, 8191, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [np.linspace(-size, size, 200_001) for size in (1, 20, 110)]
    return np.concatenate([every[np.isfinite(every)], *near]).astype(np.float32)


def units(found: Array, exact: Array) -> Array:
    """How far results are off, in units of the last place of a float32 there."""
    rounded = exact.astype(np.float32)
    size = np.spacing(np.minimum(np.abs(rounded), np.finfo(np.float32).max)).astype(np.float64)
    return np.where(found == rounded, 0, np.abs(found - exact) / size)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_sweep_against_double_precision(name: str) -> None:
    function, allowed = FUNCTIONS[name]
    x = sweep()
    with np.errstate(all="ignore"):
        found, exact = getattr(_C, name)(x), function(x.astype(np.float64))
        off = units(found, exact)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    off[np.isnan(exact)] = 0
    assert off.max() <= allowed, x[off.argmax()]


def test_the_normal_distribution() -> None:
    x = np.linspace(-12, 12, 400_001).astype(np.float32)
    exact = special.erfc64(x.astype(np.float64) * -math.sqrt(0.5)) / 2
    with np.errstate(all="ignore"):
        found = _C.normal(x)
    assert units(found, exact)[x > -0.5].max() <= 2.5
    assert np.abs(found - exact).max() <= 1.5e-7
    near = x > -3
    assert np.abs(found / exact - 1)[near].max() <= 5e-5


@pytest.mark.parametrize("name", EXPECTED)
def test_extremes(name: str) -> None:
    with np.errstate(all="ignore"):
        found = getattr(_C, name)(np.array(EXTREMES, np.float32))
    expected = np.array(EXPECTED[name], np.float32)
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])


@pytest.mark.parametrize("name", EXPECTED)
def test_bits_do_not_depend_on_where_an_element_lies(name: str) -> None:
    function = getattr(_C, name)
    x = np.random.default_rng(0).standard_normal(3001, np.float32) * 5
    with np.errstate(all="ignore"):
        expected = function(x)
        alone = np.array([function(x[i : i + 1])[0] for i in range(len(x))])
        strided = np.repeat(x, 3).reshape(-1, 3)
        function(strided[:, 1], out=strided[:, 1])
        behind = np.concatenate([x[:1], x])[1:]
        function(behind, out=behind)
        chained = Chained(function)(x)
    for found in (alone, strided[:, 1], behind, chained, function(x[::-1])[::-1]):
        np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh"])
@pytest.mark.parametrize("kind", ["e", "d", "F", "D", "l"])
def test_other_dtypes_are_numpys(name: str, kind: str) -> None:
    x = (np.random.default_rng(0).random(500) * 3 + 1).astype(kind)
    found, expected = getattr(_C, name)(x), getattr(np, name)(x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
