"""Blocks of calls that differ in the numbers of their values alone share their kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tritorch as torch
from tritorch.compilation.fuse import equal, fuser

pytestmark = pytest.mark.device
RUNS = 4


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of calls of each block for which kernels are looked for."""
    found: list[int] = []
    look = fuser._by_kernels

    def seen(calls: Any, *rest: Any) -> Any:
        found.append(len(calls))
        return look(calls, *rest)

    monkeypatch.setattr(fuser, "_by_kernels", seen)
    equal.forget()
    yield found
    equal.forget()


def parts(x: Any, scales: list[float]) -> list[Any]:
    """Parts with a graph break after each."""
    found = []
    for scale in scales:
        y = x * scale
        y = torch.softmax(y + 1, -1) + x
        found.append(y.sin().cos())
        torch._dynamo.graph_break()
    return found


def compare(scales: list[float]) -> None:
    x = torch.randn(8, 16, device="cuda")
    fast = torch.compile(parts)
    for _ in range(RUNS):
        results = fast(x, scales)
    for own, eager in zip(results, parts(x, scales), strict=True):
        assert torch.allclose(own, eager, 1e-5, 1e-6)


def test_equal_parts_are_looked_at_once(tried: list[int]) -> None:
    compare([2.0] * 4)
    assert len(tried) == 1


@pytest.mark.parametrize("other", [2.5, 2, True])
def test_constants_tell_parts_apart(other: Any, tried: list[int]) -> None:
    """1, 1.0 and True are equal to Python, and not to a kernel."""
    first = {2.5: 2.0, 2: 2.0, True: 1.0}[other]
    compare([first, other, first])
    assert len(tried) == 2


def test_shapes_tell_parts_apart(tried: list[int]) -> None:
    fast = torch.compile(parts, dynamic=False)
    for rows in (4, 5):
        x = torch.randn(rows, 16, device="cuda")
        for _ in range(RUNS):
            (own,) = fast(x, [3.0])
        assert torch.allclose(own, parts(x, [3.0])[0], 1e-5, 1e-6)
    assert len(tried) == 2
