"""Reductions, scans and sorts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tritorch.bench.declare import Array, Benchmark, Scale, family, moved


@family("reduction", seconds=25)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """Of a square matrix; long rows; one long vector."""
    n = scale.pick(8192, 2048, 9)
    x = Array((n, n))
    line = Array((n,))
    long = Array((scale.pick(16, 4, 2), scale.pick(1 << 22, 1 << 18, 50)))
    vector = Array((scale.pick(1 << 24, 1 << 19, 70),))
    short = Array((scale.pick(1 << 16, 1 << 11, 5), 1024 if scale.name != "tiny" else 12))
    numbers = lambda call: {"jax": lambda jax, x: call(jax.numpy, x), "cupy": call}
    table = [
        ("sum", x, lambda t, x: x.sum(), Array(()), lambda np, x: x.sum()),
        ("sum of columns", x, lambda t, x: x.sum(0), line, lambda np, x: x.sum(0)),
        ("sum of rows", x, lambda t, x: x.sum(1), line, lambda np, x: x.sum(1)),
        ("sum of long rows", long, lambda t, x: x.sum(1), Array(long.shape[:1]),
         lambda np, x: x.sum(1)),
        ("var of rows", x, lambda t, x: x.var(1), line, lambda np, x: x.var(1, ddof=1)),
        ("amax of rows", x, lambda t, x: x.amax(1), line, lambda np, x: x.max(1)),
        ("argmax of rows", x, lambda t, x: x.argmax(1), Array((n,), "int64"),
         lambda np, x: x.argmax(1)),
        ("logsumexp of rows", x, lambda t, x: x.logsumexp(1), line, None),
        ("norm", x, lambda t, x: x.norm(), Array(()), lambda np, x: (x * x).sum() ** 0.5),
        ("cumsum of rows", x, lambda t, x: x.cumsum(1), x, lambda np, x: np.cumsum(x, 1)),
        ("cumsum of columns", x, lambda t, x: x.cumsum(0), x, lambda np, x: np.cumsum(x, 0)),
        ("cumsum of a vector", vector, lambda t, x: x.cumsum(0), vector,
         lambda np, x: np.cumsum(x)),
        ("sort of rows", short, lambda t, x: x.sort(1).values, Array(short.shape, "float32"),
         lambda np, x: np.sort(x, 1)),
        ("sort of a vector", vector, lambda t, x: x.sort().values, vector,
         lambda np, x: np.sort(x)),
        ("topk 8 of rows", short, lambda t, x: x.topk(8, 1).values, Array((short.shape[0], 8)),
         None),
    ]  # fmt: skip
    for name, given, call, out, others in table:
        # A sum of normal numbers is small beside its terms.
        loose = name.startswith(("sum", "cumsum"))
        yield Benchmark(
            "reduction", f"{name} {'x'.join(map(str, given.shape))}", call, {"x": given},
            bytes=moved({"x": given}, out), tolerance=1e-2 if loose else 1e-4,
            peers=numbers(others) if others else {},
            reference=(lambda x, others=others: others(np, x)) if others else None,
            tags=(name.split()[0],),
        )  # fmt: skip
