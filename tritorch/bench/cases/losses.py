"""A linear layer with its cross-entropy, both passes: time, and the peak of memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tritorch.bench.declare import Array, Benchmark, Scale, family

# Model, (tokens, width, words).
HEADS = [
    ("gpt2", (8192, 768, 50304)),
    ("llama3-8b", (8192, 4096, 128256)),
    ("qwen2.5-7b", (8192, 3584, 152064)),
]


def chunked(t: Any, x: Any, w: Any, y: Any) -> Any:
    """The loss in chunks of tokens, which never holds all logits."""
    return t.nn.functional.linear_cross_entropy(x, w, y, options=t.nn.LinearCrossEntropyOptions())


def composed(t: Any, x: Any, w: Any, y: Any) -> Any:
    """The loss of all logits."""
    F = t.nn.functional
    return F.cross_entropy(F.linear(x, w), y)


@family("losses", seconds=25)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """One for each model's head."""
    dtype = scale.pick("bfloat16", "float32", "float32")
    for model, sizes in scale.pick(HEADS, [("gpt2", (512, 256, 8192))], [("gpt2", (7, 5, 11))]):
        tokens, width, words = sizes
        x, w = Array((tokens, width), dtype, grad=True), Array(
            (words, width), dtype, grad=True, scale=width**-0.5
        )  # fmt: skip
        inputs = {"x": x, "w": w, "y": Array((tokens,), "int64", "labels", high=words)}
        yield Benchmark(
            "losses", f"linear + cross_entropy {model} {tokens}x{width}x{words}", chunked, inputs,
            gradient="both", bytes=2 * (x.bytes + w.bytes), flops=6 * tokens * width * words,
            share="matmul", dtype="bf16" if dtype == "bfloat16" else "fp32",
            tolerance=3e-2 if dtype == "bfloat16" else 1e-4, memory=True, compiled=True,
            peers={"torch": composed, "torch.compile": composed}, about=model,
        )  # fmt: skip
