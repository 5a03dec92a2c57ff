"""What one small operator costs on the host, beside PyTorch in the same process.

    python bench/operator_overhead.py [--device cpu|stub|cuda] [--json PATH]

Both libraries run each case in turn, rounds interleaved; medians.  PyTorch is measured when this
interpreter has it.  `--device stub` measures the GPU path with the driver's launch discarded.  The
cases are those of `python -m tritorch bench host questions`.
bench/host_overhead.py runs this and puts the figures into its report.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import timeit
from collections.abc import Callable
from typing import Any

from tritorch.bench.cases.host import QUESTIONS, STATEMENTS

ROUNDS, SECONDS = 15, 0.02  # of each case: rounds, and how long one takes at least


def timer(module: Any, device: str, setup: str, statement: str) -> Callable[[], float]:
    """A function that takes one round: microseconds a call."""
    names = {"m": module, "d": device}
    exec(setup, names)
    exec(statement, names)  # what is compiled or loaded once
    clock = timeit.Timer(statement, globals=names)
    number, taken = clock.autorange()
    number = max(int(number * SECONDS / taken), 1)
    return lambda: clock.timeit(number) / number * 1e6


def measure(device: str) -> dict[str, dict[str, float]]:
    """{case: {library: microseconds}} and their ratio."""
    libraries = {"tritorch": importlib.import_module("tritorch")}
    if device == "cpu" and importlib.util.find_spec("torch"):
        libraries["torch"] = importlib.import_module("torch")
    report = {}
    for name, (setup, statement) in {**STATEMENTS, **QUESTIONS}.items():
        timers = {key: timer(module, device, setup, statement) for key, module in libraries.items()}
        rounds = [{key: take() for key, take in timers.items()} for _ in range(ROUNDS)]
        row = {key: statistics.median(each[key] for each in rounds) for key in timers}
        if "torch" in row:
            row["ratio"] = statistics.median(each["tritorch"] / each["torch"] for each in rounds)
        report[name] = row
    return report


def show(report: dict[str, dict[str, float]], title: str) -> None:
    """The table."""
    print(f"\n{title}, us{'tritorch':>{47 - len(title)}}{'torch':>10}{'ratio':>8}")
    for name, row in report.items():
        peer = f"{row['torch']:10.2f}{row['ratio']:8.2f}" if "torch" in row else f"{'-':>10}"
        print(f"  {name:40}{row['tritorch']:8.2f}{peer}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "stub", "cuda"), default="cpu")
    parser.add_argument("--json", metavar="PATH", help="write the results here")
    options = parser.parse_args()
    if options.device == "stub":
        os.environ["TRITORCH_SIMULATE_CUDA"] = "discard_launches=1,poison=0"
    report = measure("cpu" if options.device == "cpu" else "cuda")
    show(report, {"cpu": "CPU", "stub": "GPU path, launches discarded"}.get(options.device, "GPU"))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file)


if __name__ == "__main__":
    main()
