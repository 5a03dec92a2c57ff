"""Times every cut of matrix products on this GPU and writes the fastest to tritorch/gpu/tuned.json.

    python tools/tune_matmul.py [--dtypes bf16 fp8] [--keep 0.03] [--out FILE]

The products are those of `python -m tritorch bench matmul`.  For each, the model's choice
(`gpu/matmul_plan.py`) and the candidates near it are timed in rotation; a candidate is written down
only if it beats the model's choice by more than `--keep`.  Needs a GPU with a copy engine.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import time
from typing import Any

import tritorch as torch
from tritorch import _C
from tritorch.bench.cases.matmul import SHAPES
from tritorch.gpu import matmul, matmul_plan
from tritorch.utils.benchmark import do_bench

OUT = pathlib.Path(matmul_plan.__file__).with_name("tuned.json")
ROUNDS = 5


def operands(sizes: tuple[int, int, int], how: str, kind: str) -> tuple[Any, Any]:
    """Random matrices, laid out as the benchmark's."""
    m, n, k = sizes
    to = torch.bfloat16 if kind == "bf16" else torch.float8_e4m3fn
    made = lambda rows, cols: torch.randn(rows, cols, device="cuda").to(to)._array
    a = made(k, m).transpose(0, 1) if how == "grad" and kind == "bf16" else made(m, k)
    b = made(k, n) if how != "linear" and kind == "bf16" else made(n, k).transpose(0, 1)
    return a.unsqueeze(0), b.unsqueeze(0)


def product(a: Any, b: Any, plan: matmul_plan.Plan | None, asked: list[Any]) -> None:
    """A product cut by a plan (None: as always); the sizes that a plan was asked for."""
    original = matmul.choose

    def choose(*sizes: int) -> matmul_plan.Plan:
        asked.append(sizes)
        return original(*sizes) if plan is None else plan

    matmul.choose = choose  # type: ignore[assignment]
    try:
        matmul.product(a, b, torch.bfloat16)
    finally:
        matmul.choose = original  # type: ignore[assignment]


def cuts(sizes: tuple[int, ...], few: int) -> list[matmul_plan.Plan]:
    """The model's best, most promising first."""
    m, n, k, batch, itemsize, processors = sizes
    every = [
        plan._replace(splits=splits, group=group)
        for plan in matmul_plan.candidates(itemsize)
        for splits in (1, 2, 3, 4, 6, 8)
        for group in (4, 8)
        if splits == 1 or k // plan.block_k >= 4 * splits
    ]
    cost = lambda plan: matmul_plan.cycles(plan, m, n, k, batch, itemsize, processors)
    return sorted(every, key=cost)[:few]


def tune(
    shape: tuple[int, int, int], how: str, kind: str, keep: float, few: int
) -> dict[str, Any] | None:
    """An entry for the table, if something beats the model's choice."""
    a, b = operands(shape, how, kind)
    asked: list[Any] = []
    product(a, b, None, asked)
    if not asked:
        return None  # not by the copy engine
    sizes = asked[0]
    chosen = matmul_plan.choose(*sizes)
    plans = [chosen, *(plan for plan in cuts(sizes, few) if plan != chosen)]
    times: dict[Any, list[float]] = {plan: [] for plan in plans}
    for _ in range(ROUNDS):
        for plan in plans:
            run = lambda plan=plan: product(a, b, plan, [])
            times[plan].append(do_bench(run, warmup=5, rep=20, return_mode="median"))
    medians = {plan: statistics.median(values) for plan, values in times.items()}
    best = min(medians, key=medians.__getitem__)
    gain = medians[chosen] / medians[best] - 1
    rate = 2 * shape[0] * shape[1] * shape[2] / medians[best] / 1e9
    print(f"{kind} {shape} {how}: {tuple(best)} {rate:.0f} TFLOP/s, {gain:+.1%} on {tuple(chosen)}")
    return {"sizes": sizes, "plan": best, "gain": round(gain, 4)} if gain > keep else None


def main() -> None:
    """Tunes and writes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dtypes", nargs="+", default=["bf16", "fp8"], choices=["bf16", "fp8"])
    parser.add_argument("--keep", type=float, default=0.03, help="the least gain that is kept")
    parser.add_argument("--few", type=int, default=12, help="how many cuts are timed")
    parser.add_argument("--seconds", type=float, default=480, help="when to stop")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    given = parser.parse_args()
    if matmul.machine(0)[0] < 90:
        parser.error("this GPU has no copy engine: its products are cut by simple rules")
    entries, start = [], time.monotonic()
    for kind in given.dtypes:
        for _, shape, how in SHAPES:
            if time.monotonic() - start < given.seconds:
                entries.append(tune(shape, how, kind, given.keep, given.few))
    gpu = _C.device_properties(0)["name"]
    table = {"gpu": gpu, "date": time.strftime("%Y-%m-%d"), "matmul": [e for e in entries if e]}
    given.out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
