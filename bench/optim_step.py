"""Optimizer steps on the CPU, beside PyTorch with as many threads.

    python bench/optim_step.py [--threads 1] [--rounds 9] [--only NAME ...] [--fused] [--json]

Two lists of parameters: those of a GPT of 50 tensors and 3 million elements, and 200 tiny ones.
Processes and rounds are those of train_cpu.py.  PyTorch runs as its defaults are, which on the CPU
is a loop over parameters; --fused asks both libraries for fused=True where the optimizer has it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from train_cpu import Library

RESULTS = Path(__file__).parent / "results" / "optim_step.json"
SECONDS = 0.15  # a round of one case takes at least so long
WIDTH = 248

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adam": {},
    "AdamW": {},
    "SGD": {"lr": 0.01, "momentum": 0.9},
    "RMSprop": {},
    "Adagrad": {},
    "Adamax": {},
}
FUSED = {"Adam", "AdamW", "SGD", "Adagrad"}


def shapes(case: str) -> list[tuple[int, ...]]:
    """The parameters' shapes."""
    if case == "tiny":
        return [[(8, 8), (8,), (4, 16), (16,)][i % 4] for i in range(200)]
    w = WIDTH
    layer: list[tuple[int, ...]] = [
        (w,), (w,), (3 * w, w), (3 * w,), (w, w), (w,), (w,), (w,), (4 * w, w), (4 * w,),
        (w, 4 * w), (w,),
    ]  # fmt: skip
    return [(65, w), (128, w), *layer * 4]


CASES = ("gpt", "tiny")


def stepper(torch: Any, case: str, name: str, fused: bool) -> Any:
    """The optimizer with gradients in place."""
    import numpy as np

    random = np.random.default_rng(0)
    array = lambda shape: torch.from_numpy(random.standard_normal(shape, "float32"))
    params = [array(shape).requires_grad_() for shape in shapes(case)]
    options = {**OPTIMIZERS[name], **({"fused": True} if fused else {})}
    optimizer = getattr(torch.optim, name)(params, **options)
    for p in params:
        p.grad = array(tuple(p.shape))
    return optimizer


def serve(library: str, threads: int) -> None:
    """Answers requests, one JSON a line."""
    torch = importlib.import_module(library)
    torch.set_num_threads(threads)
    made: dict[Any, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["case"], request["optimizer"], request["fused"]
        if key not in made:
            made.clear()
            made[key] = stepper(torch, *key)
        optimizer = made[key]
        start = time.perf_counter()
        for _ in range(request["steps"]):
            optimizer.step()
        taken = time.perf_counter() - start
        first = optimizer.param_groups[0]["params"][0].detach().sum().item()
        print(json.dumps({"ms": taken / request["steps"] * 1e3, "sum": first}), flush=True)


def measure(libraries: list[Library], rounds: int, **key: Any) -> dict[str, Any]:
    """Milliseconds a step by library, and ours over torch's."""
    sums = [each.ask(**key, steps=3)["sum"] for each in libraries]
    needed = [each.ask(**key, steps=2)["ms"] for each in libraries]
    steps = max(int(SECONDS * 1e3 / max(needed)), 2)
    taken: list[list[float]] = [
        [each.ask(**key, steps=steps)["ms"] for each in libraries] for _ in range(rounds)
    ]
    row: dict[str, Any] = {
        each.name: statistics.median(column) for each, column in zip(libraries, zip(*taken))
    }
    if len(libraries) == 2:
        row["ratio"] = statistics.median(ours / theirs for ours, theirs in taken)
        if not math.isclose(*sums, rel_tol=1e-3, abs_tol=1e-2):
            raise AssertionError(f"{key}: the libraries' parameters differ: {sums}")
    return row


def main() -> None:
    """Prints, and on request writes, the report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", nargs="?", const=RESULTS, type=Path)
    parser.add_argument("--only", nargs="+", choices=OPTIMIZERS, default=list(OPTIMIZERS))
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads)
        return
    names = ["tritorch"] + (["torch"] if importlib.util.find_spec("torch") else [])
    libraries = [Library(name, sys.executable, options.threads, __file__) for name in names]
    report: dict[str, dict[str, Any]] = {}
    try:
        for case in CASES:
            for name in options.only:
                if options.fused and name not in FUSED:
                    continue
                key = {"case": case, "optimizer": name, "fused": options.fused}
                row = report[f"{case} {name}"] = measure(libraries, options.rounds, **key)
                texts = [f"{each} {row[each]:7.3f} ms" for each in names]
                texts += [f"ratio {row['ratio']:.2f}"] if "ratio" in row else []
                print(f"{case:5} {name:10} {'  '.join(texts)}", flush=True)
    finally:
        for each in libraries:
            each.close()
    whole: dict[str, Any] = {"cases": report, "threads": options.threads, "fused": options.fused}
    if len(names) == 2:
        mean = statistics.geometric_mean(row["ratio"] for row in report.values())
        whole["geometric mean of ratios"] = mean
        print(f"geometric mean of ratios: {mean:.2f}")
    if options.json:
        cpu = platform.processor() or platform.machine()
        whole["machine"] = {"cpu": cpu, "cores": os.cpu_count()}
        options.json.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
