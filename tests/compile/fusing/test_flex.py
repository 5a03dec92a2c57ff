"""Flex attention inside of compiled functions, whole graphs included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch
from tritorch.nn.attention.flex_attention import create_block_mask, flex_attention

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]


def causal(batch: Any, head: Any, q: Any, k: Any) -> Any:
    return q >= k


def masked(x: torch.Tensor, mask: Any) -> torch.Tensor:
    return flex_attention(x * 2, x, x, block_mask=mask) + 1


def scored(x: torch.Tensor, mask: Any) -> torch.Tensor:
    return flex_attention(x * 2, x, x, score_mod=lambda s, b, h, q, k: s + (q - k)) + 1


def scored_by_a_deferred_tensor(x: torch.Tensor, mask: Any) -> torch.Tensor:
    bias = x.mean((0, 2, 3))
    return flex_attention(x * 2, x, x, score_mod=lambda s, b, h, q, k: s + bias[h]) + 1


def with_its_own_mask(x: torch.Tensor, mask: Any) -> torch.Tensor:
    made = create_block_mask(causal, None, None, 128, 128, device=x.device)
    return flex_attention(x * 2, x, x, block_mask=made) + 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "function", [masked, scored, scored_by_a_deferred_tensor, with_its_own_mask]
)
@pytest.mark.parametrize("fullgraph", [False, True])
def test_flex_attention(function: Callable[..., Any], device: str, fullgraph: bool) -> None:
    mask = create_block_mask(causal, None, None, 128, 128, device=device)
    compiled = torch.compile(function, fullgraph=fullgraph)
    for seed in range(4):
        torch.manual_seed(seed)
        results = []
        x = torch.randn(1, 2, 128, 16, device=device)
        for each in (function, compiled):
            given = x.clone().requires_grad_()
            out = each(given, mask)
            out.square().sum().backward()
            results.append((out.detach(), given.grad))
        torch.testing.assert_close(*results)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, mask), function(x, mask))
