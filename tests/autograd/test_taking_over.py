"""A first gradient becomes `.grad` as it is where nobody else can see its memory."""

from __future__ import annotations

from typing import Any

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.autograd import arriving


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many gradients are copied when they arrive."""
    count = [0]
    copy = arriving.arrays.copy

    def counted(array: Any) -> Any:
        count[0] += 1
        return copy(array)

    monkeypatch.setattr(arriving.arrays, "copy", counted)
    return count


def step(run: Any, model: Any) -> None:
    model.zero_grad()
    run(torch.randn(8, 16)).pow(2).sum().backward()


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_that_nobody_else_holds_are_taken(copies: list[int], compiled: bool) -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    run = torch.compile(model) if compiled else model
    for _ in range(6):
        copies[0] = 0
        step(run, model)
    assert copies == [0]


def test_what_others_hold_is_copied(copies: list[int]) -> None:
    w, held = torch.randn(4, requires_grad=True), []
    hook = w.register_hook(held.append)
    (w * 2).sum().backward()
    assert copies == [1]
    w.grad.zero_()
    assert held[0].tolist() == [2, 2, 2, 2]
    hook.remove()
    w.grad, given = None, torch.ones(4)
    (w + 0).backward(given)  # the gradient that is given is the one that arrives
    w.grad.zero_()
    assert given.tolist() == [1, 1, 1, 1]
    v = torch.randn(4, requires_grad=True)
    w.grad = None
    (w + v).sum().backward()  # one memory for two
    w.grad.zero_()
    assert v.grad.tolist() == [1, 1, 1, 1]


def test_a_view_of_memory_that_others_hold_is_copied() -> None:
    w, v = torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True)
    torch.cat([w, v]).pow(2).sum().backward()
    before = v.grad.clone()
    w.grad.zero_()
    assert v.grad.equal(before)
    m = torch.randn(2, 3, requires_grad=True)
    seen = m.t().contiguous().pow(2)
    seen.retain_grad()
    seen.sum().backward()
    m.grad.zero_()
    assert seen.grad.equal(torch.ones(3, 2))
