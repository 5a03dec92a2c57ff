"""Pointwise functions as chains give the bits of NumPy's own calls, where they are taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritorch as torch
from tritorch.host.chains.chained import LEAST, Chained
from tritorch.host.pointwise import pointwise

SIZES = [1, 17, 64, 5003, 100_000]
FUNCTIONS: dict[str, tuple[Any, int]] = {
    "gelu": (pointwise.gelu, 1), "erf": (pointwise.erf, 1), "silu": (pointwise.silu, 1),
    "relu": (pointwise.relu, 1), "lerp": (lambda a, b: pointwise.lerp(a, b, 0.3), 2),
    "addcmul": (lambda a, b: pointwise.addcmul(a, b, b, 0.5), 2), "multiply": (np.multiply, 2),
}  # fmt: skip


def _bits(x: Any) -> bytes:
    return np.where(np.isnan(x), np.float32(0), x).tobytes() + np.isnan(x).tobytes()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_chain_has_the_bits_of_its_function(name: str, n: int) -> None:
    function, count = FUNCTIONS[name]
    run = Chained(function)
    given = np.random.default_rng(0).standard_normal((count, n), "f4") * 3
    given[:, ::7] = [[v] for v in (np.nan, np.inf)[:count]]
    with np.errstate(all="ignore"):
        expected = function(*given)
    found = run(*given)
    assert found is not None and found.dtype == expected.dtype
    assert _bits(found) == _bits(expected)


def test_zeros_of_both_signs_are_two_numbers() -> None:
    run = Chained(np.multiply)
    x = np.ones(5, "f4")
    for number in (0.0, -0.0, 0.0, -0.0):
        found = run(x, number)
        assert found is None or np.signbit(found).all() == np.signbit(number)
    assert np.signbit(run(x, -0.0)).all() and not np.signbit(run(x, 0.0)).any()


def test_numbers_make_a_chain_when_they_come_again() -> None:
    run = Chained(np.multiply)
    x = np.ones(5, "f4")
    assert run(x, 1.5) is None and run(x, 1.5) is not None and run(x, 2.5) is None
    assert run(x, np.nan) is None and np.isnan(run(x, np.nan)).all()
    assert run(x, 1) is None  # not the 1.0 of another type
    assert run.count == 2


SHAPES = [
    ((60, 1000), (1, 1000)), ((60, 1000), (60, 1)), ((60, 1000), (1000,)), ((300, 200), (1, 1)),
    ((8, 16, 24, 24), (16, 1, 1)), ((8, 16, 24, 24), (8, 16, 1, 1)), ((8, 16, 600), (16, 600)),
    ((8, 16, 600), (8, 1, 600)), ((1, 64, 1, 800), (64, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "other"), SHAPES)
def test_what_broadcasts_is_read_where_it_lies(shape: Any, other: Any) -> None:
    rng, run = np.random.default_rng(0), Chained(np.subtract)
    x, y = rng.standard_normal(shape, "f4"), rng.standard_normal(other, "f4")
    for a, b in ((x, y), (y, x)):
        found = run(a, b)
        assert found.flags.c_contiguous and found.shape == shape
        assert _bits(found) == _bits(a - b)


def test_what_lies_otherwise_is_left_to_numpy() -> None:
    x, run = np.ones((300, 200), "f4"), Chained(np.subtract)
    for a, b in (
        (x[:, ::2], x[:1, ::2]), (x.T, x.T), (x[:1], x[:, :1]), (x, np.ones((2, 1, 1), "f4")),
        (x[:10], x[:1]), (np.ones((3, 5, 7, 5000), "f4"), np.ones((3, 1, 7, 1), "f4")),
    ):  # fmt: skip
        assert run(a, b) is None
    assert x[:10].size < LEAST


def test_tensors_of_any_layout_have_the_same_numbers() -> None:
    x = torch.randn(300, 200)
    for f in (torch.erf, torch.sigmoid, torch.exp, lambda x: x + x[:1], lambda x: x * 1.5):
        for _ in range(3):
            assert f(x).equal(f(x.t().contiguous().t()).contiguous())
