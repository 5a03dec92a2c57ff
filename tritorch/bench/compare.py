"""Two runs held against each other: what became slower, beyond noise.

A time counts as changed if it moved by more than 3 in a hundred and by more than both runs' own
spreads together (the distance of the quartiles, added as independent errors are).  Runs of
different machines are compared by their ratios to the same peer, where both have one.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from tritorch.bench import report as text
from tritorch.bench.contestants import OURS

LEAST = 0.03
PLACE = ("cpu", "cores", "gpu")


class Change(NamedTuple):
    """What happened to one benchmark: `ratio` is the new time over the old."""

    key: str
    verdict: str  # slower, faster, same, broken, repaired, new, gone
    ratio: float | None
    noise: float
    detail: str


def noise(before: dict[str, Any], after: dict[str, Any]) -> float:
    """How much two times may differ by chance, as a share."""
    return max(LEAST, math.hypot(text.spread(before), text.spread(after)))


def same_machine(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether times of two reports can be compared as they are."""
    first, second = before["machine"], after["machine"]
    return all(first.get(key) == second.get(key) for key in PLACE)


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """All of them, in the order of the newer report."""
    found = []
    direct = same_machine(before, after)
    old, new = before["results"], after["results"]
    for key in [*new, *(key for key in old if key not in new)]:
        found.append(_change(key, old.get(key), new.get(key), direct))
    return found


def _measured(result: dict[str, Any] | None) -> dict[str, Any] | None:
    row = (result or {}).get("contestants", {}).get(OURS, {})
    return row if "median_us" in row else None


def _change(
    key: str, old: dict[str, Any] | None, new: dict[str, Any] | None, direct: bool
) -> Change:
    first, second = _measured(old), _measured(new)
    if first is None or second is None:
        if new is not None and "error" in new and first is not None:
            return Change(key, "broken", None, 0, new["error"])
        if second is None:
            return Change(key, "gone", None, 0, "")
        verdict = "repaired" if old is not None and "error" in old else "new"
        return Change(key, verdict, None, 0, text.duration(second["median_us"]))
    assert old is not None and new is not None
    allowed = noise(first, second)
    if direct:
        ratio = second["median_us"] / first["median_us"]
        detail = f"{text.duration(first['median_us'])} -> {text.duration(second['median_us'])}"
    else:
        peers = [n for n in old.get("ratios", {}) if n in new.get("ratios", {})]
        if not peers:
            return Change(key, "same", None, allowed, "other machine, no peer in both")
        peer = peers[0]
        ratio = old["ratios"][peer] / new["ratios"][peer]
        theirs = (result["contestants"][peer] for result in (old, new))
        allowed = max(allowed, math.hypot(allowed, noise(*theirs)))
        detail = f"{old['ratios'][peer]:.2f}x -> {new['ratios'][peer]:.2f}x {peer}"
    # A third slower and a quarter faster are the same distance.
    if abs(math.log(ratio)) <= math.log1p(allowed):
        return Change(key, "same", ratio, allowed, detail)
    return Change(key, "slower" if ratio > 1 else "faster", ratio, allowed, detail)


def spills(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Kernels that spill more registers than they did, as text."""

    def by_launch(report: dict[str, Any]) -> dict[tuple[str, ...], int]:
        found: dict[tuple[str, ...], int] = {}
        for row in report.get("kernels", {}).get("kernels", ()):
            for target, taken in row["compiled"].items():
                key = (row["kernel"], row["types"], row["benchmark"], f"sm_{target}")
                found[key] = max(found.get(key, 0), taken.get("spilled", 0))
        return found

    old, new = by_launch(before), by_launch(after)
    return [
        f"{' '.join(key)}: {old[key]} -> {new[key]} bytes"
        for key in new
        if key in old and new[key] > old[key]
    ]


def read(path: Path) -> dict[str, Any]:
    """The results in a file; raises ValueError for a file that has none."""
    found = json.loads(path.read_text())
    if not isinstance(found, dict) or not {"machine", "results"} <= found.keys():
        raise ValueError(f"{path} has no results")
    return found


def main(before: Path, after: Path) -> int:
    """Prints what changed; the exit status is 1 if anything is slower, broken or spills more."""
    first, second = (read(path) for path in (before, after))
    found = changes(first, second)
    for verdict in ("broken", "slower", "faster", "repaired", "new", "gone"):
        of_kind = [each for each in found if each.verdict == verdict]
        if of_kind:
            print(verdict)
        for each in sorted(of_kind, key=lambda change: -(change.ratio or 0)):
            by = f"{each.ratio:6.2f}x the time (noise {each.noise:.0%})" if each.ratio else ""
            print(f"  {each.key[:66]:66} {by}  {each.detail}".rstrip())
    spilling = spills(first, second)
    if spilling:
        print("more registers are spilled by", *spilling, sep="\n  ")
    counts = {v: sum(c.verdict == v for c in found) for v in ("slower", "faster", "same", "broken")}
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    if not same_machine(first, second):
        print("measured on different machines: ratios to a peer were compared, not times")
    return 1 if counts["slower"] or counts["broken"] or spilling else 0
