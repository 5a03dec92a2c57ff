"""Optimizer steps on the CPU, beside PyTorch with as many threads.

    python bench/optim_step.py [--threads 1] [--rounds 9] [--only NAME ...] [--fused] [--json]

Two lists of parameters: those of a GPT of 50 tensors and 3 million elements, and 200 tiny ones.
Processes and rounds are those of train_cpu.py.  PyTorch runs as its defaults are, which on the CPU
is a loop over parameters; --fused asks both libraries for fused=True where the optimizer has it.
"""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import numpy as np

from tritorch.bench import beside

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
    random = np.random.default_rng(0)
    array = lambda shape: torch.from_numpy(random.standard_normal(shape, "float32"))
    params = [array(shape).requires_grad_() for shape in shapes(case)]
    options = {**OPTIMIZERS[name], **({"fused": True} if fused else {})}
    optimizer = getattr(torch.optim, name)(params, **options)
    for p in params:
        p.grad = array(tuple(p.shape))
    return optimizer


def serve(library: str, threads: int) -> None:
    """Answers requests: {"case", "optimizer", "fused", "steps"}."""
    torch = importlib.import_module(library)
    torch.set_num_threads(threads)
    made: dict[Any, Any] = {}
    for request in beside.requests():
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
        beside.answer(ms=taken / request["steps"] * 1e3, sum=first)


def main() -> None:
    """Prints, and on request writes, the report."""
    parser = beside.parser(__doc__, RESULTS, threads=1, rounds=9)
    parser.add_argument("--only", nargs="+", choices=OPTIMIZERS, default=list(OPTIMIZERS))
    parser.add_argument("--fused", action="store_true")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.threads)
        return
    report = {}
    names = [name for name in options.only if name in FUSED or not options.fused]
    with beside.libraries(__file__, options.threads) as libraries:
        for case in CASES:
            for name in names:
                key = {"case": case, "optimizer": name, "fused": options.fused}
                row = report[f"{case} {name}"] = beside.compare(
                    libraries, options.rounds, SECONDS, key,
                    count="steps", time="ms", check="sum", scale=1e-3, tolerance=1e-3,
                )  # fmt: skip
                print(beside.line(f"{case} {name}", row, "ms"), flush=True)
    beside.finish(options.json, report, "cases", threads=options.threads, fused=options.fused)


if __name__ == "__main__":
    main()
