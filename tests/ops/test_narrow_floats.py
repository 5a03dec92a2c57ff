"""Narrow floats where a step on the way to a result is too large for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch

F = torch.nn.functional
VALUES = [-20.0, -1.5, 0.0, 0.3, 5.0, 11.5, 12.0, 19.0, 21.0, 300.0, 700.25]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softplus": F.softplus,
    "softplus beta": lambda x: F.softplus(x, 2.0, 30.0),
    "mish": F.mish,
    "round decimals": lambda x: x.round(decimals=2),
    "round tens": lambda x: x.round(decimals=-1),
    "std": lambda x: (x * 5).std(),
    "std rows": lambda x: torch.stack([x * 5, x]).std(1, correction=0, keepdim=True),
    "std_mean": lambda x: torch.stack(torch.std_mean(x * 5)),
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_float32_rounded(name: str, kind: Any, device: str) -> None:
    x = torch.tensor(VALUES, device=device).to(kind).requires_grad_()
    result, wide = FUNCTIONS[name](x), FUNCTIONS[name](x.detach().float())
    assert result.dtype is kind and result.isfinite().all()
    spacing = torch.finfo(kind).eps
    torch.testing.assert_close(result.detach().float(), wide, rtol=spacing, atol=spacing / 8)
    result.sum().backward()
    assert x.grad.dtype is kind and x.grad.isfinite().all()
