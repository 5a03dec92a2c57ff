"""Counts of events, as torch._dynamo.utils.counters has them, and times of compilations."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)
seconds: defaultdict[str, list[float]] = defaultdict(list)  # by what was done


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Notes how long the block takes."""
    begun = time.perf_counter()
    try:
        yield
    finally:
        seconds[what].append(time.perf_counter() - begun)


def times(aggregate: bool = False) -> str:
    """The seconds of everything that was timed, or their sums, as a table."""
    lines = ["TorchDynamo compilation metrics:", "Function, Runtimes (s)"]
    for what, each in seconds.items():
        shown = [sum(each)] if aggregate else each
        lines.append(f"{what}, {', '.join(f'{t:.4f}' for t in shown)}")
    return "\n".join(lines)
