"""Whole training steps on the CPU, beside PyTorch with as many threads.

    python bench/train_cpu.py [--threads 2] [--rounds 9] [--json [PATH]] [--only NAME ...]

Each library runs in a process of its own, one of which is stopped while the other is timed, so that
neither's waiting threads take the other's cores.  Rounds are interleaved; a figure is the median of
the rounds, a ratio the median of the rounds' ratios.  Models get the same weights and data
(NumPy's, from one seed), and the losses of the first steps are compared.  The models are those of
`python -m tritorch bench train`.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tritorch.bench import beside
from tritorch.bench.models import trainer

RESULTS = Path(__file__).parent / "results" / "train_cpu.json"
SECONDS = 0.4  # a round of one case takes at least so long
CASES = ("mlp", "cnn", "transformer", "lstm", "gpt")
CLIPPED = {"gpt"}


def serve(library: str, threads: int) -> None:
    """Answers requests: {"case", "steps"}."""
    torch = importlib.import_module(library)
    torch.set_num_threads(threads)
    steps: dict[str, Callable[[], Any]] = {}
    for request in beside.requests():
        name = request["case"]
        if name not in steps:
            steps[name] = trainer(torch, name, clipped=name in CLIPPED)
        start = time.perf_counter()
        for _ in range(request["steps"]):
            loss = steps[name]().item()
        taken = time.perf_counter() - start
        beside.answer(ms=taken / request["steps"] * 1e3, loss=loss)


def main() -> None:
    """Prints, and on request writes, the report."""
    parser = beside.parser(__doc__, RESULTS, threads=2, rounds=9)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads)
        return
    report = {}
    with beside.libraries(__file__, options.threads) as libraries:
        for name in options.only:
            report[name] = beside.compare(
                libraries, options.rounds, SECONDS, {"case": name},
                count="steps", time="ms", check="loss", scale=1e-3, tolerance=1e-3,
            )  # fmt: skip
            print(beside.line(name, report[name], "ms"), flush=True)
    beside.finish(options.json, report, "cases", threads=options.threads)


if __name__ == "__main__":
    main()
