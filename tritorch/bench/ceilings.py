"""What this machine gives at best: the bandwidth of a copy, the rate of a matrix product.

Measured with the benchmarks' own clocks, and the best of all libraries counts: a share above one
is a measurement that went wrong, not a victory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from tritorch.bench.cases import matmul
from tritorch.bench.declare import Array, Benchmark, moved

COPY = {"cuda": (1 << 28,), "cpu": (1 << 24,)}  # numbers of float32
SIDE = {"cuda": 8192, "cpu": 1536}


def copy_benchmark(device: str, tiny: bool = False) -> Benchmark:
    """A copy of one array to another."""
    x = Array((64,) if tiny else COPY[device])
    return Benchmark(
        "ceiling", "copy", lambda t, x, y: y.copy_(x), {"x": x, "y": x}, bytes=moved({}, x, x)
    )


def matmul_benchmark(device: str, kind: str, tiny: bool = False) -> Benchmark:
    """A large square product."""
    side = 16 if tiny else SIDE[device]
    how = "linear" if kind == "fp8" else "plain"
    return matmul.one("ceiling", (side, side, side), how, kind)


def measure(
    benches: Iterable[Any], device: str, kinds: Iterable[str], tiny: bool
) -> dict[str, Any]:
    """GB/s of a copy, TFLOP/s by type: of the fastest library each."""
    benches = list(benches)

    def best(benchmark: Benchmark) -> float | None:
        times = []
        for bench in benches:
            with contextlib.suppress(Exception):  # a peer that cannot does not count
                bench.prepare(benchmark)
                bench.times(0.3)  # clocks come up
                times += [sorted(found)[len(found) // 2] for found in [bench.times(0.3)]]
        for bench in reversed(benches):  # the first one's inputs are the others' too
            bench.release()
        return min(times) if times else None

    copy = copy_benchmark(device, tiny)
    taken = best(copy)
    found: dict[str, Any] = {
        "copy_gb_s": copy.bytes / taken / 1e9 if taken else None,
        "matmul_tflop_s": {},
    }
    for kind in dict.fromkeys(kinds):
        product = matmul_benchmark(device, kind, tiny)
        taken = best(product)
        if taken:
            found["matmul_tflop_s"][kind] = product.flops / taken / 1e12
    return found


def floor(result: dict[str, Any], ceilings: dict[str, Any]) -> float | None:
    """Microseconds that a benchmark takes at least, by its bytes and operations."""
    copy = ceilings.get("copy_gb_s")
    peak = ceilings.get("matmul_tflop_s", {}).get(result["dtype"])
    parts = []
    if copy and result["bytes"]:
        parts.append(result["bytes"] / copy / 1e3)
    if peak and result["flops"] and result["share_of"] == "matmul":
        parts.append(result["flops"] / peak / 1e6)
    return max(parts) if parts else None
