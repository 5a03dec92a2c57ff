"""Embedding, gathers and scatters: what goes by places that are data."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tritorch.bench.declare import Array, Benchmark, Scale, family, moved, with_gradient


@family("indexing", seconds=15)
def cases(scale: Scale) -> Iterable[Benchmark]:
    """On a table of words, and on a matrix."""
    words, width = scale.pick((50304, 768), (8000, 256), (11, 4))
    tokens = scale.pick(65536, 4096, 9)
    table = Array((words, width), grad=True)
    places = Array((tokens,), "int64", "labels", high=words)
    out = Array((tokens, width))
    embed = Benchmark(
        "indexing", f"embedding {tokens} of {words}x{width}",
        lambda t, i, x: t.nn.functional.embedding(i, x), {"i": places, "x": table},
        # Each row at most once: what is read again may come from the cache.
        bytes=min(tokens, words) * width * 4 + places.bytes + out.bytes,
        reference=lambda i, x: x[i.astype(int)],
    )  # fmt: skip
    yield embed
    yield with_gradient(embed, out, out.bytes + places.bytes + table.bytes)
    n = scale.pick(8192, 2048, 7)
    x = Array((n, n))
    columns = Array((n, n), "int64", "labels", high=n)
    order = Array((n,), "int64", "permutation")
    mask = Array((n, n), "bool", "mask")
    numbers = {"x": x, "i": columns}
    yield Benchmark(
        "indexing", f"gather {n}x{n}", lambda t, x, i: x.gather(1, i), numbers,
        bytes=moved(numbers, x),
        reference=lambda x, i: np.take_along_axis(x, i.astype(int), 1),
    )  # fmt: skip
    yield Benchmark(
        "indexing", f"scatter_add {n}x{n}", lambda t, x, i, y: x.scatter_add(1, i, y),
        numbers | {"y": x}, bytes=moved(numbers, x, x), without=(),
    )  # fmt: skip
    yield Benchmark(
        "indexing", f"index_select rows {n}x{n}", lambda t, x, i: x.index_select(0, i),
        {"x": x, "i": order}, bytes=moved({"x": x, "i": order}, x),
        reference=lambda x, i: x[i.astype(int)],
    )  # fmt: skip
    yield Benchmark(
        "indexing", f"index_add rows {n}x{n}",
        lambda t, x, i, y: x.index_add(0, i, y), {"x": x, "i": order, "y": x},
        bytes=moved({"x": x, "i": order}, x, x),
    )  # fmt: skip
    yield Benchmark(
        "indexing", f"masked_fill {n}x{n}", lambda t, x, m: x.masked_fill(m, 0.0),
        {"x": x, "m": mask}, bytes=moved({"x": x, "m": mask}, x),
        reference=lambda x, m: np.where(m.astype(bool), 0, x),
    )  # fmt: skip
    yield Benchmark(
        "indexing", f"masked_select {n}x{n}", lambda t, x, m: x[m], {"x": x, "m": mask},
        bytes=moved({"x": x, "m": mask}) + x.bytes // 2,
        reference=lambda x, m: x[m.astype(bool)],
    )  # fmt: skip
