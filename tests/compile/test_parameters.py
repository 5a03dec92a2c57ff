"""Calls that give a parameter back, or write parts of it, are part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch

Make = Callable[[torch.nn.Parameter, torch.Tensor], Any]
READS: dict[str, Make] = {
    "float": lambda p, x: p.float() @ x,
    "to": lambda p, x: p.to(torch.float32) @ x,
    "to device": lambda p, x: p.to(x.device) + x,
    "contiguous": lambda p, x: p.contiguous() @ x,
    "type_as": lambda p, x: p.type_as(x) @ x,
    "dropout of nothing": lambda p, x: torch.dropout(p, 0.0, False) * x,
    "expand_as": lambda p, x: p.expand_as(x) * x,
    "twice": lambda p, x: p.float().contiguous() + x,
}
WRITES: dict[str, Make] = {
    "mul_": lambda p, x: p.mul_(1.5) * x,
    "copy_": lambda p, x: p.copy_(x),
    "add_ alpha": lambda p, x: p.add_(x, alpha=0.5),
    "lerp_": lambda p, x: p.lerp_(x, 0.5),
    "addcmul_": lambda p, x: p.addcmul_(x, x, value=0.5),
    "foreach_add": lambda p, x: torch._foreach_add_([p], 1.0),
    "foreach_copy": lambda p, x: torch._foreach_copy_([p], [x]),
    "slice": lambda p, x: p[1:].mul_(0.5),
    "chunk": lambda p, x: p.chunk(2)[0].copy_(x[:2]),
    "chunk twice": lambda p, x: p.chunk(2)[0].copy_(x[:2]).add_(1.0),
    "view": lambda p, x: p.view(-1).add_(1.0),
    "unbind": lambda p, x: p.unbind(0)[0].add_(1.0),
    "setitem": lambda p, x: p.__setitem__(slice(0, 2), x[:2]),
    "detach": lambda p, x: p.detach().mul_(0.5),
    "narrow and read": lambda p, x: p.narrow(0, 1, 2).add_(x[:2]).sum() + p.sum(),
}


def breaks(function: Callable[..., Any], *args: Any) -> int:
    return torch._dynamo.explain(function)(*args).graph_break_count


def parameter(device: str) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.arange(16.0, device=device).view(4, 4))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("name", READS)
def test_a_parameter_that_is_given_back(name: str, device: str) -> None:
    make, x = READS[name], torch.full((4, 4), 0.5, device=device)
    assert breaks(lambda p: make(p, x), parameter(device)) == 0
    compiled = torch.compile(make, fullgraph=True)
    p, plain = parameter(device), parameter(device)
    for _ in range(5):
        result, expected = compiled(p, x), make(plain, x)
        assert result.equal(expected)
        result.sum().backward()
        expected.sum().backward()
        assert p.grad.equal(plain.grad)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("name", WRITES)
def test_a_parameter_that_is_written(name: str, device: str) -> None:
    write, x = WRITES[name], torch.full((4, 4), 0.25, device=device)

    def step(p: torch.nn.Parameter, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            write(p, x)
            return p * 2 + x

    assert breaks(step, parameter(device), x) == 0
    compiled = torch.compile(step, fullgraph=True)
    p, plain = parameter(device), parameter(device)
    for _ in range(5):
        assert compiled(p, x).equal(step(plain, x))
        assert p.equal(plain) and p._version == plain._version
        assert type(p) is torch.nn.Parameter and p.requires_grad and p.is_leaf


def test_a_view_without_gradients_that_was_written_says_that_it_wants_them() -> None:
    """As in PyTorch: its history alone may not be asked for."""
    p = parameter("cpu")
    with torch.no_grad():
        row = p[1:]
        row.mul_(2)
    assert row.requires_grad
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        _ = row.grad_fn
