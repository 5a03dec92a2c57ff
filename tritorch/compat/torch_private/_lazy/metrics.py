"""What is counted of lazy steps."""

from __future__ import annotations

from tritorch.compat.torch_private._lazy import steps


def reset() -> None:
    """Begins at zero."""
    steps.counters.clear()
    steps.graph_sizes.clear()


def counter_names() -> list[str]:
    """The names of what was counted."""
    return sorted(name for name, value in steps.counters.items() if value)


def counter_value(name: str) -> int | None:
    """How often something happened; None where it never did."""
    return steps.counters.get(name) or None


def metrics_report() -> str:
    """All counters, and the sizes of graphs, as text."""
    lines = []
    sizes = sorted(steps.graph_sizes)
    if sizes:
        lines += ["Metric: TensorsGraphSize", f"  TotalSamples: {len(sizes)}"]
        lines.append(f"  Accumulator: {sum(sizes):.2f}")
        at = {p: sizes[min(len(sizes) * p // 100, len(sizes) - 1)] for p in _PERCENTILES}
        lines.append("  Percentiles: " + "; ".join(f"{p}%={x:.2f}" for p, x in at.items()))
    for name in counter_names():
        lines += [f"Counter: {name}", f"  Value: {steps.counters[name]}"]
    return "\n".join(lines) + "\n"


_PERCENTILES = (1, 5, 10, 20, 50, 80, 90, 95, 99)
