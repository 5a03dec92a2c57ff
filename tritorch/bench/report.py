"""Results as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tritorch.bench.contestants import OURS
from tritorch.bench.declare import Benchmark


def duration(us: float) -> str:
    """A time in a unit that suits it."""
    for limit, unit, factor in ((1e3, "us", 1.0), (1e6, "ms", 1e-3)):
        if us < limit:
            return f"{us * factor:.3g} {unit}" if us * factor < 100 else f"{us * factor:.0f} {unit}"
    return f"{us * 1e-6:.3g} s"


def amount(value: float, units: tuple[str, ...] = ("", "k", "M", "G", "T")) -> str:
    """A number with a thousands' letter."""
    for unit in units[:-1]:
        if abs(value) < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}{units[-1]}"


def rate(result: dict[str, Any], row: dict[str, Any]) -> str:
    """What counts for a benchmark: TFLOP/s, GB/s, or what it gets through in a second."""
    if "rate" in row:
        return f"{amount(row['rate'])} {result['rate_of']}/s"
    if result["share_of"] == "matmul" and "tflop_s" in row:
        return f"{row['tflop_s']:.3g} TFLOP/s"
    if result["share_of"] == "copy" and "gb_s" in row:
        return f"{row['gb_s']:.3g} GB/s"
    return ""


def spread(row: dict[str, Any]) -> float:
    """The distance of the quartiles over the median."""
    return (row["high_us"] - row["low_us"]) / row["median_us"] if row["median_us"] else 0.0


def line(key: str, result: dict[str, Any]) -> str:
    """One result: time and spread, rate, share of the ceiling, how much faster than each peer."""
    head = f"{key[:58]:58}"
    if "skipped" in result:
        return f"{head} skipped: {result['skipped']}"
    rows = result.get("contestants", {})
    if "error" in result or "median_us" not in rows.get(OURS, {}):
        return f"{head} FAILED: {result.get('error', 'no result')}"
    ours = rows[OURS]
    text = f"{head} {duration(ours['median_us']):>8} ±{spread(ours) / 2:4.0%} "
    text += f"{rate(result, ours):>16}"
    share = result.get("share")
    text += f" {share:5.0%}" if share is not None else f"{'':6}"
    for name, ratio in result.get("ratios", {}).items():
        text += f"  {ratio:.2f}x {name.removeprefix('torch.')}"
    if "peak_bytes" in ours:
        text += f"  peak {amount(ours['peak_bytes'])}B"
        text += "".join(
            f" ({name} {amount(row['peak_bytes'])}B)"
            for name, row in rows.items()
            if name != OURS and "peak_bytes" in row
        )
    for name, row in rows.items():
        if "error" in row:
            text += f"  [{name}: {row['error'].splitlines()[0][:80]}]"
    return text


def header(report: dict[str, Any]) -> str:
    """Where and beside what."""
    where = report["machine"]
    place = (
        where["gpu"] if report["device"] == "cuda" else f"{where['cpu']}, {where['cores']} cores"
    )
    versions = ", ".join(
        f"{name} {where[name]}"
        for name in ("tritorch", "torch", "triton", "numpy", "jax")
        if name in where
    )
    found = report.get("ceilings") or {}
    rates = found.get("matmul_tflop_s", {})
    peaks = [f"{kind} {value:.3g} TFLOP/s" for kind, value in rates.items()]
    copy = f"copy {found['copy_gb_s']:.0f} GB/s" if found.get("copy_gb_s") else ""
    simulated = " (simulated: times mean nothing)" if where.get("simulated") else ""
    best = ", ".join(filter(None, [copy, *peaks]))
    return f"{place}{simulated}\n{versions}\nmeasured at best: {best}"


def listing(benchmarks: Iterable[Benchmark]) -> str:
    """The benchmarks with their bytes and operations."""
    lines, family = [], ""
    for each in benchmarks:
        if each.family != family:
            family = each.family
            lines.append(f"\n{family}")
        counts = [f"{amount(each.bytes)}B"] if each.bytes else []
        counts += [f"{amount(each.flops, ('', 'k', 'M', 'G', 'T', 'P'))}FLOP"] if each.flops else []
        others = [name for name in each.peers if name not in ("torch", "torch.compile")]
        others += ["torch.compile"] if each.compiled else []
        lines.append(f"  {each.name:56} {'  '.join(f'{c:>10}' for c in counts):24}"
                     f"{' '.join(others)}".rstrip())  # fmt: skip
    return "\n".join(lines).lstrip("\n")


def closing(report: dict[str, Any]) -> str:
    """Geometric means by family, and what failed."""
    import statistics

    lines: list[str] = []
    families: dict[str, dict[str, list[float]]] = {}
    failed, skipped = [], 0
    for key, result in report["results"].items():
        skipped += "skipped" in result
        if "error" in result:
            failed.append(key)
        for name, ratio in result.get("ratios", {}).items():
            families.setdefault(result["family"], {}).setdefault(name, []).append(ratio)
    if families:
        lines.append("how many times as fast as each peer, geometric means")
    for family, peers in families.items():
        texts = [
            f"{name} {statistics.geometric_mean(ratios):.2f} ({len(ratios)})"
            for name, ratios in peers.items()
        ]
        lines.append(f"  {family:12} {', '.join(texts)}")
    lines.append(f"{len(report['results'])} benchmarks in {report['seconds']:.0f} s, "
                 f"{len(failed)} failed, {skipped} skipped")  # fmt: skip
    return "\n".join(lines)
