"""The host time of everyday calls, beside PyTorch in the same process.

    python bench/everyday.py [--device cpu|stub|cuda] [--kinds NAME ...] [--frames] [--json PATH]

The calls are those of `tritorch/bench/cases/everyday.py`.  `--device stub` measures the GPU path
with the driver's launch discarded.  On the CPU both libraries run each case in turn, rounds
interleaved, where this interpreter has PyTorch too; ratios are medians of rounds.  `--frames`
counts the Python frames of a call in place of its time.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import sys
import timeit
from typing import Any

from tritorch.bench.cases.everyday import CASES, LOOKS, PASSES, SETUP

WARM = 8  # calls before a case is measured: its plan is made


def names_of(module: Any, device: str) -> dict[str, Any]:
    """The names that the cases of a library need."""
    names: dict[str, Any] = {"m": module, "d": device}
    exec(SETUP, names)
    return names


def count_frames(statement: str, names: dict[str, Any]) -> int:
    """Python frames that a call enters, once it is warm."""
    code = compile(statement, "case", "exec")
    for _ in range(WARM):
        exec(code, names)
    frames = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal frames
        frames += event == "call"

    sys.setprofile(count)
    try:
        exec(code, names)
    finally:
        sys.setprofile(None)
    return frames - 1  # the statement's own


def timer(statement: str, names: dict[str, Any], seconds: float) -> Any:
    """A function that takes one round: microseconds a call."""
    clock = timeit.Timer(statement, globals=names)
    clock.timeit(WARM)
    number, taken = clock.autorange()
    number = max(int(number * seconds / taken), 1)
    return lambda: clock.timeit(number) / number * 1e6


def measure(
    device: str, kinds: list[str], rounds: int, seconds: float, frames: bool
) -> dict[str, dict[str, dict[str, float]]]:
    """{kind: {case: {library: microseconds, "ratio": ...}}}."""
    libraries = {"tritorch": importlib.import_module("tritorch")}
    if device == "cpu" and importlib.util.find_spec("torch"):
        libraries["torch"] = importlib.import_module("torch")
        libraries["torch"].set_num_threads(1)
        libraries["tritorch"].set_num_threads(1)
    worlds = {key: names_of(module, device) for key, module in libraries.items()}
    report: dict[str, dict[str, dict[str, float]]] = {}
    for kind, cases in {**CASES, "passes": PASSES}.items():
        if kinds and kind not in kinds:
            continue
        for name, statement in cases.items():
            if device != "cpu" and name in LOOKS:
                continue
            if frames:
                row = {"tritorch": float(count_frames(statement, worlds["tritorch"]))}
            else:
                timers = {key: timer(statement, world, seconds) for key, world in worlds.items()}
                taken = [{key: take() for key, take in timers.items()} for _ in range(rounds)]
                row = {key: statistics.median(each[key] for each in taken) for key in timers}
                if "torch" in row:
                    row["ratio"] = statistics.median(x["tritorch"] / x["torch"] for x in taken)
            report.setdefault(kind, {})[name] = row
    return report


def percentile(values: list[float], part: float) -> float:
    """The least value that so large a part of them does not exceed."""
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def show(report: dict[str, dict[str, dict[str, float]]], unit: str) -> None:
    """The table, and medians over all single calls."""
    for kind, rows in report.items():
        print(f"{kind}, {unit}")
        for name, row in rows.items():
            peer = f"{row['torch']:10.2f}{row['ratio']:8.2f}" if "torch" in row else ""
            print(f"  {name:36}{row['tritorch']:9.2f}{peer}")
    rows = [row for kind, rows in report.items() if kind != "passes" for row in rows.values()]
    for key in ("tritorch", "ratio"):
        values = [row[key] for row in rows if key in row]
        if values:
            print(
                f"{len(values)} calls, {key}: median {statistics.median(values):.2f}, "
                f"90% under {percentile(values, 0.9):.2f}, most {max(values):.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "stub", "cuda"), default="cpu")
    parser.add_argument("--kinds", nargs="*", default=[], help="these kinds of calls alone")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.01, help="of a round of a case")
    parser.add_argument("--frames", action="store_true", help="count Python frames")
    parser.add_argument("--json", metavar="PATH", help="write the results here")
    options = parser.parse_args()
    if options.device == "stub":
        os.environ["TRITORCH_SIMULATE_CUDA"] = "discard_launches=1,poison=0"
    report = measure(
        "cpu" if options.device == "cpu" else "cuda",
        options.kinds, options.rounds, options.seconds, options.frames,
    )  # fmt: skip
    show(report, "frames" if options.frames else "us")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
