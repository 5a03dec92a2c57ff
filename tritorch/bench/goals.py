"""The goals of issue 6 and what was measured of them; a table that only a run on a GPU fills."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tritorch.bench.contestants import OURS

UNMEASURED = "unmeasured"
Result = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Goal:
    """A figure to reach: `of(result)` gives it for each benchmark that counts.

    `families` says which count: (family, tags that all must be there, part of the name).  The value
    is the geometric mean, or the worst.  `least` is what it has to be at the least, or, for a goal
    that counts time or memory, `most` at the most.
    """

    name: str
    what: str
    families: Sequence[tuple[str, tuple[str, ...], str]]
    of: Callable[[Result], float | None]
    least: float | None = None
    most: float | None = None
    worst: bool = False
    unit: str = ""

    @property
    def target(self) -> str:
        """As text."""
        sign, value = (">=", self.least) if self.least is not None else ("<=", self.most)
        return f"{sign} {value:.3g}{self.unit}"

    def counts(self, key: str, result: Result) -> bool:
        """Whether a benchmark is one of those."""
        return any(
            result["family"] == family and set(tags) <= set(result.get("tags", ())) and part in key
            for family, tags, part in self.families
        )

    def value(self, values: Iterable[float]) -> float:
        """One figure of all."""
        values = list(values)
        if not self.worst:
            return statistics.geometric_mean(values)
        return min(values) if self.least is not None else max(values)

    def met(self, value: float) -> bool:
        """Whether that is enough."""
        return value >= self.least if self.least is not None else value <= (self.most or 0)


def faster(peers: str = r"torch") -> Callable[[Result], float | None]:
    """How many times as fast as the fastest of the peers whose whole name matches."""

    def find(result: Result) -> float | None:
        ratios = result.get("ratios", {})
        return min((v for name, v in ratios.items() if re.fullmatch(peers, name)), default=None)

    return find


def time(result: Result) -> float | None:
    """Our time over PyTorch's."""
    found = faster()(result)
    return 1 / found if found else None


def share(result: Result) -> float | None:
    """Of the measured ceiling."""
    return result.get("share")


def memory(peer: str) -> Callable[[Result], float | None]:
    """Our peak over a peer's."""

    def find(result: Result) -> float | None:
        rows = result.get("contestants", {})
        ours, theirs = (rows.get(name, {}).get("peak_bytes") for name in (OURS, peer))
        return ours / theirs if ours and theirs else None

    return find


def seconds(result: Result) -> float | None:
    """How long ours takes."""
    row = result.get("contestants", {}).get(OURS, {})
    return row["median_us"] / 1e6 if "median_us" in row else None


COMPILED, ANY_SDPA = r"torch\.compile", r"torch(\.sdpa .*)?"
BF16 = [("matmul", ("bf16",), "")]
NORM_BACKWARD = [("rows", ("norm", "backward"), "")]
GOALS = [
    Goal("matmul bf16", "times cuBLAS's speed, mean of 40 shapes", BF16, faster(), 1.0),
    Goal("matmul bf16, worst", "of these the slowest", BF16, faster(), 0.92, worst=True),
    Goal("matmul bf16 8192^3", "times cuBLAS's speed", [("matmul", ("bf16",), "8192x8192x8192")],
         faster(), 0.97),
    Goal("matmul fp8", "times cuBLAS's speed", [("matmul", ("fp8",), "")], faster(), 1.03),
    Goal("attention forward", "times PyTorch's fastest backend", [("attention", ("forward",), "")],
         faster(ANY_SDPA), 1.0),
    Goal("attention backward", "times PyTorch's fastest backend",
         [("attention", ("backward",), "")], faster(ANY_SDPA), 1.0),
    Goal("softmax and norms forward", "of copy bandwidth",
         [("rows", (kind, "forward"), "") for kind in ("softmax", "norm")], share, 0.92),
    Goal("norm backward", "of copy bandwidth", NORM_BACKWARD, share, 0.80),
    Goal("norm backward beside eager", "times PyTorch's speed", NORM_BACKWARD, faster(), 1.5),
    Goal("linear + cross-entropy", "times torch.compile's speed", [("losses", (), "")],
         faster(COMPILED), 1.5),
    Goal("linear + cross-entropy, memory", "of torch.compile's peak", [("losses", (), "")],
         memory("torch.compile"), most=1 / 3),
    Goal("optimizer step", "of copy bandwidth", [("optim", ("gpt2", "plain"), "")], share, 0.90),
    Goal("ResNet-50's convolutions", "times cuDNN's speed, channels last", [("conv", (), "")],
         faster(), 0.90),
    Goal("small operators", "of PyTorch's time on the host", [("host", ("small operator",), "")],
         time, most=0.6),
    Goal("allocator hit", "of PyTorch's time", [("allocator", (), "")], time, most=0.5),
    Goal("first GPT step, warm", "seconds from import", [("start", ("warm",), "")], seconds,
         most=5.0, unit=" s"),
]  # fmt: skip


def measured(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a run says of the goals: nothing, unless it ran on a real GPU."""
    where = report["machine"]
    if report["device"] != "cuda" or where.get("simulated", True) or report["scale"] != "gpu":
        return {}
    found = {}
    for goal in GOALS:
        counted = {k: r for k, r in report["results"].items() if goal.counts(k, r)}
        figures = {key: goal.of(result) for key, result in counted.items()}
        values = {key: value for key, value in figures.items() if value is not None}
        if not values:
            continue
        missing = [key for key in figures if key not in values]
        value = goal.value(values.values())
        order = sorted(values, key=values.__getitem__)
        worst = order[0] if goal.least is not None else order[-1]
        found[goal.name] = {
            "value": round(value, 4),
            # A benchmark that failed or was skipped could have been the one that spoils it.
            "met": goal.met(value) and not missing,
            "benchmarks": len(values),
            "without": missing,
            "worst": {worst: round(values[worst], 4)},
            "gpu": where["gpu"],
            "driver": where.get("driver"),
            "versions": {n: where[n] for n in ("tritorch", "triton", "torch") if n in where},
            "commit": where["commit"],
            "date": where["date"],
        }
    return found


def table(known: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Every goal, with its figure or the word unmeasured."""
    return {
        goal.name: {
            "what": goal.what,
            "target": goal.target,
            **known.get(goal.name, {"value": UNMEASURED}),
        }
        for goal in GOALS
    }


def fill(folder: Path, report: dict[str, Any]) -> str:
    """Writes goals.json and GOALS.md: figures of this run, and of earlier ones what it lacks."""
    path = folder / "goals.json"
    known: dict[str, dict[str, Any]] = {}
    if path.exists():
        stored = json.loads(path.read_text())
        known = {name: row for name, row in stored.items() if row["value"] != UNMEASURED}
    whole = table(known | measured(report))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n")
    (folder / "GOALS.md").write_text(page(whole))
    count = sum(row["value"] != UNMEASURED for row in whole.values())
    return f"{count} of {len(whole)} goals are measured: {folder / 'GOALS.md'}"


def figure(row: dict[str, Any]) -> str:
    """A measured value as text."""
    value = row["value"]
    if value == UNMEASURED or not math.isfinite(value):
        return UNMEASURED
    return f"{value:.3g}"


def page(whole: dict[str, dict[str, Any]]) -> str:
    """The table as Markdown."""
    lines = [
        "# Goals, and what was measured",
        "",
        "Written by `python -m tritorch bench --goals bench/results`, from a run on a GPU; figures",
        "are geometric means over the benchmarks that count, each measured beside its peer in one",
        "run. What no run on a GPU has measured says so.",
        "",
        "| goal | figure | target | measured | met | worst | GPU | versions | commit, date |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in whole.items():
        if row["value"] == UNMEASURED:
            cells = [name, row["what"], row["target"], UNMEASURED, *[""] * 5]
        else:
            worst = ", ".join(f"{key} {value:.3g}" for key, value in row["worst"].items())
            worst += f"; {len(row['without'])} without a figure" if row["without"] else ""
            versions = ", ".join(f"{key} {value}" for key, value in row["versions"].items())
            cells = [
                name, row["what"], row["target"], figure(row), "yes" if row["met"] else "no",
                worst, row["gpu"], versions, f"{row['commit']}, {row['date']}",
            ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
