"""Attention by length and width of a head: causal and not, grouped queries, both passes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tritorch.bench.declare import Array, Benchmark, Scale, family, moved, with_gradient

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
TOKENS = 16384  # of all texts together
WIDTH = 2048  # of all heads together
BACKENDS = {
    "torch.sdpa flash": "FLASH_ATTENTION",
    "torch.sdpa cudnn": "CUDNN_ATTENTION",
    "torch.sdpa efficient": "EFFICIENT_ATTENTION",
}


def attend(causal: bool, grouped: bool) -> Any:
    """softmax(q k^T / sqrt(width)) v."""

    def call(t: Any, q: Any, k: Any, v: Any) -> Any:
        return t.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=grouped
        )

    return call


def with_backend(backend: str, call: Any) -> Any:
    """The same by one of PyTorch's kernels alone."""

    def run(t: Any, q: Any, k: Any, v: Any) -> Any:
        attention = __import__("torch.nn.attention").nn.attention
        with attention.sdpa_kernel(getattr(attention.SDPBackend, backend)):
            return call(t, q, k, v)

    return run


def in_jax(causal: bool) -> Any:
    """JAX's own, which wants (batch, length, head, width)."""

    def call(jax: Any, q: Any, k: Any, v: Any) -> Any:
        turned = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
        out = jax.nn.dot_product_attention(*turned, is_causal=causal)
        return out.transpose(0, 2, 1, 3)

    return call


def reference(causal: bool) -> Any:
    """In NumPy."""

    def call(q: Any, k: Any, v: Any) -> Any:
        repeat = q.shape[1] // k.shape[1]
        k, v = k.repeat(repeat, 1), v.repeat(repeat, 1)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    return call


def one(
    batch: int, heads: int, kv_heads: int, length: int, width: int, causal: bool, dtype: str
) -> Iterable[Benchmark]:
    """Both passes of one shape."""
    q = Array((batch, heads, length, width), dtype, grad=True)
    kv = Array((batch, kv_heads, length, width), dtype, grad=True)
    inputs = {"q": q, "k": kv, "v": kv}
    # Of a causal product the half, with the diagonal, is needed.
    pairs = length * (length + 1) // 2 if causal else length * length
    flops = 4 * batch * heads * pairs * width
    call = attend(causal, heads != kv_heads)
    kind = f"{'causal' if causal else 'full'}{f', {kv_heads} of keys' * (heads != kv_heads)}"
    forward = Benchmark(
        "attention", f"{kind} {batch}x{heads}x{length}x{width}", call, inputs,
        bytes=moved(inputs, q), flops=flops, share="matmul",
        dtype="bf16" if dtype == "bfloat16" else "fp32",
        tolerance=1e-2 if dtype == "bfloat16" else 1e-4, reference=reference(causal),
        peers={name: with_backend(each, call) for name, each in BACKENDS.items()}
        | ({"jax": in_jax(causal)} if causal and heads == kv_heads else {}),
        tags=("forward",),
    )  # fmt: skip
    yield forward
    # Five products in place of two; q, k, v, the output and its gradient are read, three written.
    yield with_gradient(
        forward, q, bytes=3 * moved({}, q) + 2 * moved({}, kv, kv) + q.bytes,
        flops=flops * 5 // 2, tolerance=2e-2 if dtype == "bfloat16" else 1e-3, tags=("backward",),
    )  # fmt: skip


@family("attention", seconds=65)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """By length at a width of 128, and by width at two lengths."""
    if scale.name != "gpu":
        length, dtype = scale.pick(0, 512, 7), "float32"
        for causal in (False, True):
            yield from one(2, 4, 4, length, scale.pick(0, 64, 16), causal, dtype)
        yield from one(2, 4, 2, length, scale.pick(0, 64, 16), True, dtype)
        return
    for width in (128, 64, 256):
        for length in LENGTHS if width == 128 else (1024, 4096):
            for causal in (True, False):
                yield from one(TOKENS // length, WIDTH // width, WIDTH // width, length, width,
                               causal, "bfloat16")  # fmt: skip
    yield from one(4, 32, 8, 4096, 128, True, "bfloat16")  # Llama 3 8B's heads
    yield from one(2, 64, 8, 8192, 128, True, "bfloat16")  # Llama 3 70B's
