"""Patterns of models, the kernels that a compiled one launches at most, and the bytes that have to
be read and written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tritorch as torch
import tritorch.nn as nn
import tritorch.nn.functional as F


class Pattern(NamedTuple):
    """run(*inputs): what is compiled.  kernels: how many it may launch; grads: of those that its
    backward pass launches, if that is what is counted."""

    run: Callable[..., Any]
    inputs: Callable[..., list[Any]]  # of a function that makes arrays
    kernels: int
    grads: int | None = None


PATTERNS: dict[str, Pattern] = {}


def pattern(kernels: int, inputs: Callable[..., list[Any]], grads: int | None = None) -> Any:
    def keep(run: Callable[..., Any]) -> Callable[..., Any]:
        PATTERNS[run.__name__] = Pattern(run, inputs, kernels, grads)
        return run

    return keep


def _hidden(new: Any, b: int, t: int, c: int) -> list[Any]:
    return [new(b, t, c), new(c), new(b, t, c)]


@pattern(1, _hidden)
def bias_gelu_dropout_residual(x, bias, residual):
    return F.dropout(F.gelu(x + bias), 0.1) + residual


@pattern(1, lambda new, b, t, c: [new(b, t, 2, c // 2), new(c // 2), new(t, 1, c // 4)])
def rms_norm_rope(x, weight, angle):
    y = F.rms_norm(x, (x.shape[-1],), weight)
    half = x.shape[-1] // 2
    one, two = y[..., :half], y[..., half:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([one * cos - two * sin, two * cos + one * sin], -1)


@pattern(1, lambda new, b, t, c: [new(b, 2, t, c), new(t, c) > 0])
def masked_softmax(scores, hidden):
    return torch.softmax((scores * 0.125).masked_fill(hidden, -1e4), -1)


@pattern(1, lambda new, b, t, c: [new(b, t, 2 * c)])
def swiglu(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


@pattern(1, lambda new, b, t, c: [new(b, t, c), new(b, t, c), new(c), new(c)], grads=2)
def residual_layer_norm(x, residual, weight, bias):
    hidden = x + residual
    return F.layer_norm(hidden, (x.shape[-1],), weight, bias), hidden


@pattern(1, lambda new, b, t, c: [new(b * t, c), new.places(b * t, c)], grads=1)
def cross_entropy(logits, target):
    return F.cross_entropy(logits, target, reduction="none")


@pattern(1, lambda new, b, t, c: [new(b * 2, 50257), new.places(b * 2, 50257)], grads=1)
def vocabulary_loss(logits, target):
    return F.cross_entropy(logits * 0.5, target, reduction="none")


@pattern(1, lambda new, b, t, c: [new(b, 2, t, 16), new(b, 2, t, 16), new(b, 2, t, 16),
                                   new(1, 1, t, t)])  # fmt: skip
def attention_with_bias_and_dropout(q, k, v, bias):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=0.1)


def _loss_and_gradient(logits, target):
    """The gradient of a mean, as one program has both where it asks for both."""
    classes = torch.arange(logits.shape[1], device=logits.device)
    off = torch.softmax(logits, -1) - (classes == target[:, None]).to(logits.dtype)
    return F.cross_entropy(logits, target, reduction="none"), off / len(logits)


@pattern(1, lambda new, b, t, c: [new(b * t, c), new.places(b * t, c)])
def cross_entropy_with_gradient(logits, target):
    return _loss_and_gradient(logits, target)


@pattern(1, lambda new, b, t, c: [new(b, 50257), new.places(b, 50257)])
def vocabulary_loss_with_gradient(logits, target):
    return _loss_and_gradient(logits, target)


@pattern(1, lambda new, b, t, c: [new(b, 8, t, c // 8), new(8), new(8)])
def group_norm_silu(x, weight, bias):
    return F.silu(F.group_norm(x, 4, weight, bias))


@pattern(1, lambda new, b, t, c: [new.places(b * t, 50).view(b, t), new(50, c), new(t, c),
                                   new(c), new(c)])  # fmt: skip
def embedding_position_norm(tokens, table, position, weight, bias):
    return F.layer_norm(F.embedding(tokens, table) + position, (table.shape[1],), weight, bias)


@pattern(1, lambda new, b, t, c: [new(b, 8, t, c // 8), new(8), new(8).abs() + 1, new(8), new(8),
                                   new(b, 8, t, c // 8)])  # fmt: skip
def batch_norm_add_relu(x, mean, var, weight, bias, residual):
    return F.relu(F.batch_norm(x, mean, var, weight, bias) + residual)


@pattern(1, lambda new, b, t, c: [new(b, t, 8, c // 8), new(t, t, 3, 3), new(t), new(t).abs() + 1,
                                   new(t), new(t), new(b, t, 8, c // 8)])  # fmt: skip
def convolution_batch_norm_add_relu(x, kernel, mean, var, weight, bias, residual):
    y = F.conv2d(x, kernel, padding=1)
    return F.relu(F.batch_norm(y, mean, var, weight, bias) + residual)


@pattern(1, lambda new, b, t, c: [new(b, 2, t, 16), new(b, 2, t, 16), new(b, 2, t, 16),
                                   new(1, 1, t, t)])  # fmt: skip
def attention_with_bias(q, k, v, bias):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def _quantized(new, b, t, c):
    return [new(t, c), new.places(2 * c * c, 200).view(2 * c, c).to(torch.int8), new(2 * c, 1),
            new(2 * c)]  # fmt: skip


@pattern(1, _quantized)
def int8_weight_product(x, weight, scale, bias):
    return F.gelu(F.linear(x, weight.to(x.dtype) * scale, bias))


@pattern(1, lambda new, b, t, c: [new(c, 4 * t), new.places(c * c, 200).view(c, c // 8, 8)
                                   .to(torch.int8), new(c, c // 8, 1)])  # fmt: skip
def int8_product_of_groups(x, weight, scale):
    c, groups, size = weight.shape
    return ((weight.to(x.dtype) - 8) * scale).view(c, groups * size) @ x


@pattern(2, lambda new, b, t, c: [new(b, t, c), new(2 * c, c), new(2 * c), new(c, 2 * c), new(c)],
         grads=6)  # fmt: skip
def feed_forward(x, up, up_bias, down, down_bias):
    return F.linear(F.gelu(F.linear(x, up, up_bias)), down, down_bias)


def _thirty(p, g, m, v):
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    for _ in range(3):
        p = p - 0.01 * (m / 0.9) / ((v.abs() / 0.99).sqrt() + 1e-8) - 0.001 * p
    return p, m, v


@pattern(1, lambda new, b, t, c: [new(c, c), new(c, c), new(c, c), new(c, c)])
def thirty_pointwise(p, g, m, v):
    return _thirty(p, g, m, v)


@pattern(1, lambda new, b, t, c: [new(c + i, t) for i in range(20) for _ in range(4)])
def thirty_pointwise_of_lists(*lists):
    return [x for i in range(0, len(lists), 4) for x in _thirty(*lists[i : i + 4])]


@pattern(2, lambda new, b, t, c: [new(b, t, 8 * c), new(b, t, 8 * c)])
def scaled_huber(x, target):
    return F.smooth_l1_loss(x * 0.5, target)


@pattern(2, lambda new, b, t, c: [new(b, t, 32 * c), new(32 * c)])
def scale_of_quantizing(x, bias):
    y = x + bias
    return y, y.abs().amax(), y.mean(), y.amin()


@pattern(1, lambda new, b, t, c: [new(2 * t, c), new(2 * t, c)])
def small_distance(x, y):
    return ((x - y).square().mean() + 1e-6).sqrt()


class Block(nn.Module):
    """A block of a GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        parts = self.qkv(self.norm(x)).split(c, 2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.second_norm(x))))


class Arrays:
    """Makes arrays of random numbers on the GPU, of a dtype."""

    def __init__(self, kind: Any, device: str = "cuda") -> None:
        self.kind, self.device = kind, device

    def __call__(self, *shape: int) -> Any:
        x = torch.randn(*shape, device=self.device).to(self.kind)
        return x

    def places(self, count: int, below: int) -> Any:
        """Numbers that say where something is."""
        return torch.randint(0, below, (count,), device=self.device)


def least_bytes(inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """What has to be read and written, once each."""
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in (*inputs, *outputs))
