"""Tensors that die, or are asked to keep gradients, while calls of a compiled function wait."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch

RUNS = 6

# ---- callbacks and finalizers --------------------------------------------------------------------

PROGRAM = """
import weakref
import tritorch as torch

class Reader:
    def __init__(self, *tensors):
        self.tensors = tensors

    def __del__(self):
        seen.append([x.tolist() for x in self.tensors])

def callback(x):
    y = x * 2
    weakref.finalize(y, (y + 1).tolist)
    del y
    return x + 2

def attribute(x):
    y = x * 2
    y.reader = Reader(y + 1, x * 4)
    del y
    return x + 2

def views(x):
    y = x * 2
    z = y[1:]
    weakref.finalize(z, y.tolist)
    del z
    return y * 3

def nested(x):
    y, z = x * 2, x * 3
    weakref.finalize(y, lambda: seen.append(z.tolist()))
    weakref.finalize(z, lambda: seen.append(2))
    del y, z
    return (x + 2).sum()

def in_gradients(x):
    w = torch.ones(3, requires_grad=True)
    y = x * w
    y.reader = Reader((y + 1).detach())
    loss = (y * 2).sum()
    del y
    loss.backward()
    return w.grad

for function in (callback, attribute, views, nested, in_gradients):
    results, compiled = [], torch.compile(function)
    for each in (function, *[compiled] * 6):
        seen = []
        results.append((each(torch.ones(3)).tolist(), seen))
    assert all(result == results[0] for result in results), (function.__name__, results)
print("done")
"""


def test_callbacks_of_dying_tensors_may_read_deferred_ones() -> None:
    """In a process of its own: the fault was a segmentation fault."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.stdout == "done\n", run.stdout + run.stderr


# ---- gradients that are kept ---------------------------------------------------------------------


def after_a_value(x: torch.Tensor, w: torch.Tensor, seen: list) -> Any:
    y = x * w
    y.sum().item()
    y.retain_grad()
    return y.exp().sum(), y


def after_a_hook(x: torch.Tensor, w: torch.Tensor, seen: list) -> Any:
    y = x * w
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.retain_grad()
    return y.exp().sum(), y


def after_a_branch(x: torch.Tensor, w: torch.Tensor, seen: list) -> Any:
    y = x * w
    if y.sum() > -1000:
        y = y * 2
    y.retain_grad()
    return y.exp().sum(), y


def of_two_values(x: torch.Tensor, w: torch.Tensor, seen: list) -> Any:
    y = x * w
    y.retain_grad()
    z = y * 2
    z.retain_grad()
    return z.exp().sum() + y.sum(), z


def before_a_hook(x: torch.Tensor, w: torch.Tensor, seen: list) -> Any:
    y = x * w
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    y.sum().item()
    return y.exp().sum(), y


@pytest.mark.parametrize(
    "function", [after_a_value, after_a_hook, after_a_branch, of_two_values, before_a_hook]
)
def test_gradients_are_retained_in_every_call(function: Callable[..., Any]) -> None:
    x, results = torch.ones(3), []
    for each in (function, *[torch.compile(function)] * RUNS):
        w, seen = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), []
        loss, y = each(x, w, seen)
        loss.backward()
        results.append((y.retains_grad, y.grad.tolist(), w.grad.tolist(), seen))
    assert all(result == results[0] for result in results)


def test_a_dead_tensor_is_no_result() -> None:
    """Nobody holds what died, so that nothing is computed for it."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        weakref.finalize(y, lambda: None)
        del y
        return x + 1

    compiled = torch.compile(function)
    assert [compiled(torch.ones(1)).item() for _ in range(RUNS)] == [2.0] * RUNS
