"""The host time of a GPT's training step on the GPU path, with launches discarded.

    python bench/gpt_step.py [--beside PYTHON] [--rounds N] [--json PATH]

The model has 2 layers and width 64; a step is forward, backward and AdamW.  `--beside` takes the
interpreter of another checkout: its steps and this one's are timed in turn, in processes of their
own, and the ratio is the median of rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

SIMULATED = "discard_launches=1,poison=0"
ROUND = """
import statistics, time
import tritorch as torch
from tritorch.bench.models import trainer

step = trainer(torch, "gpt", "cuda", layers=2, width=64)
for _ in range(10):
    step()
times = []
for _ in range(60):
    start = time.process_time()
    step()
    times.append(time.process_time() - start)
print(statistics.median(times) * 1e6)
"""


def take(python: str) -> float:
    """Microseconds of processor time that a step takes in a new process of an interpreter."""
    environment = {**os.environ, "TRITORCH_SIMULATE_CUDA": SIMULATED}
    done = subprocess.run(
        [python, "-c", ROUND], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--beside", metavar="PYTHON", help="the interpreter of another checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="PATH", help="write the results here")
    options = parser.parse_args()
    pythons = {"here": sys.executable, **({"beside": options.beside} if options.beside else {})}
    rounds = [{key: take(python) for key, python in pythons.items()} for _ in range(options.rounds)]
    report = {key: statistics.median(each[key] for each in rounds) for key in pythons}
    if options.beside:
        report["ratio"] = statistics.median(each["here"] / each["beside"] for each in rounds)
    print("  ".join(f"{key} {value:.2f}" for key, value in report.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
