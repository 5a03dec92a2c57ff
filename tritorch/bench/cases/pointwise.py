"""Pointwise operators, copies and random numbers, on arrays much larger than any cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tritorch.bench.declare import Array, Benchmark, Scale, family, moved, with_gradient


def _gelu(x: Any) -> Any:
    return x * 0.5 * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


@family("pointwise", seconds=25)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """One line each: inputs, the call, what it gives."""
    n = scale.pick(8192, 2048, 8)
    x = Array((n, n), grad=True)
    h = Array((n, n), "bfloat16")
    positive, row, column = Array((n, n), kind="positive"), Array((1, n)), Array((n, 1))
    mask = Array((n, n), "bool", "mask")
    half = Array((n, n), "bfloat16")
    F = lambda t: t.nn.functional
    xla = lambda call: {"jax": lambda jax, *xs: call(jax.numpy, *xs)}
    both = lambda call: xla(call) | {"cupy": call}
    add = lambda t, x, y: x + y
    table: list[tuple[str, dict[str, Array], Any, Array, dict[str, Any]]] = [
        ("add", {"x": x, "y": x}, add, x, {"reference": lambda x, y: x + y,
                                           "peers": both(lambda np, x, y: x + y)}),
        ("add bfloat16", {"x": h, "y": h}, add, h, {"tolerance": 1e-2, "peers": xla(add)}),
        ("add a row", {"x": x, "y": row}, add, x, {"reference": lambda x, y: x + y}),
        ("mul by a column", {"x": x, "y": column}, lambda t, x, y: x * y, x,
         {"reference": lambda x, y: x * y}),
        ("exp", {"x": x}, lambda t, x: x.exp(), x,
         {"reference": np.exp, "peers": both(lambda np, x: np.exp(x))}),
        ("gelu tanh", {"x": x}, lambda t, x: F(t).gelu(x, approximate="tanh"), x,
         {"reference": _gelu, "tags": ("gelu",)}),
        ("pow 1.7", {"x": positive}, lambda t, x: x**1.7, x, {"reference": lambda x: x**1.7}),
        ("where", {"m": mask, "x": x, "y": x}, lambda t, m, x, y: t.where(m, x, y), x,
         {"reference": lambda m, x, y: np.where(m.astype(bool), x, y)}),
        ("addcmul", {"x": x, "y": x, "z": x},
         lambda t, x, y, z: t.addcmul(x, y, z, value=0.5), x,
         {"reference": lambda x, y, z: x + 0.5 * y * z}),
        ("float32 to bfloat16", {"x": x}, lambda t, x: x.to(t.bfloat16), half,
         {"tolerance": 1e-2, "reference": lambda x: x}),
        ("transposed copy", {"x": x}, lambda t, x: x.t().contiguous(), x,
         {"reference": lambda x: x.T}),
        ("cat columns", {"x": x, "y": x}, lambda t, x, y: t.cat([x, y], 1),
         Array((n, 2 * n)), {"reference": lambda x, y: np.concatenate([x, y], 1)}),
        ("gelu of a sum, scaled", {"x": x, "y": x},
         lambda t, x, y: F(t).gelu(x + y) * 0.5, x, {"compiled": True}),
    ]  # fmt: skip
    for name, inputs, call, out, fields in table:
        forward = Benchmark(
            "pointwise", f"{name} {n}x{n}", call, inputs, bytes=moved(inputs, out), **fields
        )
        yield forward
        if "gelu" in fields.get("tags", ()):
            yield with_gradient(forward, Array((n, n)), 3 * x.bytes)
    # Random results differ: only their shapes are compared.
    yield Benchmark(
        "pointwise", f"dropout {n}x{n}", lambda t, x: F(t).dropout(x, 0.5), {"x": x},
        bytes=moved({"x": x}, x), tolerance=float("inf"),
    )  # fmt: skip
    yield Benchmark(
        "pointwise", f"randn {n}x{n}", lambda t, x: t.randn_like(x), {"x": x}, bytes=x.bytes,
        tolerance=float("inf"),
    )  # fmt: skip
