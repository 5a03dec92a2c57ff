"""Inputs that share memory in one run, and do not in another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch

Pair = tuple[torch.Tensor, torch.Tensor]


def _apart() -> Pair:
    return torch.arange(4.0), torch.arange(4.0) * 10


def _one_array() -> Pair:
    x = torch.arange(4.0)
    return x, x.detach()


def _one_storage() -> Pair:
    x = torch.arange(4.0)
    return x, x.detach()[:]


def _halves() -> Pair:
    x = torch.arange(8.0)
    return x.detach()[:4], x.detach()[4:]


def _overlapping() -> Pair:
    x = torch.arange(8.0)
    return x.detach()[:4], x.detach()[2:6]


def _reads(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x * 2 + y,)


def _writes(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.add_(1)
    y.mul_(2)
    return (y * 1, x * y)


def _gives_views(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[1:], y[1:], y.detach()


def _trains(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    w = torch.ones(4, requires_grad=True)
    y.add_(1)
    ((w * x).sum() + (w * y).sum()).backward()
    return w.grad, y


def _seen(function: Callable[..., Any], pair: Pair) -> list[Any]:
    given = list(pair)
    tensors = [*given, *function(*given)]
    for x in tensors[2:]:
        if x._base is None and x.numel() == 4:
            x.add_(100)  # whose memory is it?
    places = [x.untyped_storage()._cdata for x in tensors]
    return [
        (x.tolist(), x._version, [place == other for other in places])
        for x, place in zip(tensors, places, strict=True)
    ]


@pytest.mark.parametrize("function", [_reads, _writes, _gives_views, _trains])
@pytest.mark.parametrize("first", [_apart, _one_array, _one_storage, _halves])
def test_a_plan_is_of_what_shares_memory(function: Callable, first: Callable[[], Pair]) -> None:
    fast = torch.compile(function)
    for _ in range(4):
        assert _seen(fast, first()) == _seen(function, first())
    for other in (_apart, _one_array, _one_storage, _halves, _overlapping, first):
        for _ in range(4):
            assert _seen(fast, other()) == _seen(function, other()), other.__name__
