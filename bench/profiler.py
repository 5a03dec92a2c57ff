"""What a profile costs: each event, on and off, and how long a trace takes to write.

    python bench/profiler.py [--rounds 7] [--json [PATH]]
    python bench/profiler.py --torch      # PyTorch's own figures, in an interpreter that has it

A figure is the median of rounds in which both sides run in turn, in processor time of this process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "profiler.json"
CALLS = 20_000
OPTIONS: dict[str, dict[str, bool]] = {
    "times": {}, "shapes": {"record_shapes": True}, "stacks": {"with_stack": True},
}  # fmt: skip


def seconds(run: Callable[[], Any]) -> float:
    """Of the processor."""
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--json", nargs="?", const=str(RESULTS))
    given = parser.parse_args()
    t = importlib.import_module("torch" if given.torch else "tritorch")
    x = t.ones(2)

    def run() -> None:
        for _ in range(CALLS):
            x.neg()

    found: dict[str, float] = {}
    run()
    for name, options in OPTIONS.items():
        above = []
        for _ in range(given.rounds):
            off = seconds(run)
            with t.profiler.profile(
                activities=[t.profiler.ProfilerActivity.CPU], **options
            ) as profile:
                on = seconds(run)
            above.append((on - off) / CALLS * 1e6)
        found[f"us an event, {name}"] = round(statistics.median(above), 3)
    with tempfile.TemporaryDirectory() as folder:
        with t.profiler.profile(activities=[t.profiler.ProfilerActivity.CPU]) as profile:
            run()
        wrote = seconds(lambda: profile.export_chrome_trace(f"{folder}/trace.json"))
    found["s to write a million events"] = round(wrote / CALLS * 1e6, 2)
    for name, value in found.items():
        print(f"{name:32} {value}")
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
