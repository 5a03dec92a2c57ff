"""Times the plans near those that models choose on this GPU, and keeps those that are faster.

    python tools/tune_kernels.py [matmul attention conv rows] [--seconds 480] [--keep 0.03]
                                 [--only PATTERN] [--out FILE]

The problems are those of `python -m tritorch bench`, by families.  Plans that a problem asks for
(Note [Measured plans] in tritorch/gpu/tuning.py) are varied one after the other: the model's choice
and its neighbours are timed in rotation.  One is written to the table (tritorch/gpu/tuned.json, or
FILE) if the call is faster by more than `--keep` and its results agree.

Kernels are compiled before they are timed, side by side, by a process that traces the same calls on
the simulated device (Note [Tracing launches] in tritorch/triton/trace.py); families that are still
to be timed are compiled meanwhile.  A family that runs out of its share of `--seconds` leaves what
it has.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

FAMILIES = ("rows", "attention", "matmul", "conv")  # what compiles fast first
ROUNDS = 5
CLOSE = 1.15  # how much slower than the fastest, in the first round, a plan may be to stay
TARGETS = (90, 100, 103)  # with a copy engine: elsewhere products are cut by simple rules


def problems(family: str, only: str | None) -> list[Any]:
    """The suite's, of one family."""
    from tritorch.bench.cases import all_benchmarks
    from tritorch.bench.declare import choose

    every = choose(all_benchmarks("gpu"), [only] if only else [], [family])
    return [benchmark for benchmark in every if benchmark.clock != "self"]


def called(benchmark: Any, empty: bool = False) -> Callable[[], Any]:
    """A problem's call, on inputs of its own."""
    import tritorch as torch
    from tritorch.bench import supply
    from tritorch.bench.declare import Kit

    make = supply.empty if empty else lambda t, each, device: supply.inputs(t, each, 0, device)
    return benchmark.prepared(Kit(torch, "cuda", make(torch, benchmark, "cuda")))


def plans(place: tuple[str, Any], few: int) -> list[Any]:
    """The model's choice, and some near it."""
    from tritorch.gpu import tuning

    family, key = place
    model = tuning.FAMILIES[family].model(*key)
    near = [plan for plan in tuning.FAMILIES[family].near(*key) if plan != model]
    return [model, *near[:few]]


# ---- compiling -----------------------------------------------------------------------------------


def trace(family: str, only: str | None, few: int) -> Any:
    """What all problems of a family launch, with each of their plans."""
    from tritorch.gpu import tuning
    from tritorch.triton.trace import traced

    done: set[Any] = set()
    with traced() as needs:
        for benchmark in problems(family, only):
            run = called(benchmark, empty=True)
            with tuning.trying({}) as asked:
                run()
            for place in dict.fromkeys(asked):
                for plan in plans(place, few)[1:] if place not in done else []:
                    with tuning.trying({place: plan}):
                        run()
                done.add(place)
    return needs


def compile_all(given: argparse.Namespace) -> None:
    """Compiles and keeps them; says a line after each family.  On the simulated device."""
    from tritorch.triton.trace import on_all_processors, pretend

    pretend(given.target, given.processors)
    jobs = max(len(os.sched_getaffinity(0)) - 1, 1)
    for family in given.families:
        start = time.monotonic()
        needs = trace(family, given.only, given.few)

        def store(index: int, needs: Any = needs) -> str:
            try:
                needs.store(index, given.target)
            except Exception as error:
                return f"{needs.work[index].name}: {type(error).__name__}: {error}"[:300]
            return ""

        said = [text for text in on_all_processors(store, len(needs.work), jobs) if text]
        line = {"family": family, "kernels": len(needs.work), "failed": said}
        print(json.dumps(line | {"seconds": round(time.monotonic() - start, 1)}), flush=True)


class Compiler:
    """A process that does so for this GPU."""

    def __init__(self, given: argparse.Namespace) -> None:
        from tritorch.gpu.linalg.matmul import machine
        from tritorch.triton.trace import DISCARDING

        target, processors = machine(0)
        command = [sys.executable, __file__, *given.families, "--compile", "--target", str(target),
                   "--processors", str(processors), "--few", str(given.few)]  # fmt: skip
        command += ["--only", given.only] if given.only else []
        environment = os.environ | {"TRITORCH_SIMULATE_CUDA": DISCARDING}
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())
        for _ in FAMILIES:
            self.lines.put("no more: it has ended")

    def wait(self, until: float) -> str:
        """What it says of the next family; or that it is not there by then."""
        try:
            return self.lines.get(timeout=max(until - time.monotonic(), 0.0))
        except queue.Empty:
            return "not in time"


# ---- timing --------------------------------------------------------------------------------------


def timed(run: Callable[[], Any]) -> float:
    """Milliseconds of a call."""
    from tritorch.utils.benchmark import do_bench

    return do_bench(run, warmup=3, rep=15, return_mode="median")


def tensors(result: Any) -> list[Any]:
    """What a call computed, in float32."""
    several = result if isinstance(result, (tuple, list)) else [result]
    return [x.detach().float() for x in several]


def agree(got: list[Any], want: list[Any], tolerance: float) -> bool:
    """Whether the norms of the differences are small."""
    return all(float((x - y).norm()) <= tolerance * float(y.norm()) for x, y in zip(got, want))


def fastest(
    run: Callable[[], Any], place: Any, choices: list[Any], chosen: dict[Any, Any], want: list[Any],
    tolerance: float,
) -> tuple[Any, float]:  # fmt: skip
    """Of the plans of one key the one with which the call takes the least, and its gain on the
    first of them; the others' plans are those chosen."""
    from tritorch.gpu import tuning

    times: dict[Any, list[float]] = {}

    def measure(plan: Any) -> None:
        with tuning.trying(chosen | {place: plan}):
            times.setdefault(plan, []).append(timed(run))

    for plan in choices:
        try:
            with tuning.trying(chosen | {place: plan}):
                is_right = agree(tensors(run()), want, tolerance)
            if not is_right:
                print(f"  WRONG: {place} with {plan}")
                continue
            measure(plan)
        except Exception as error:
            print(f"  {place} with {plan} failed: {type(error).__name__}: {error}")
    if choices[0] not in times:
        return choices[0], 0.0
    least = min(times.values())[0]
    close = [plan for plan in times if plan == choices[0] or times[plan][0] <= CLOSE * least]
    for _ in range(ROUNDS - 1 if len(close) > 1 else 0):
        for plan in close:
            measure(plan)
    medians = {plan: statistics.median(times[plan]) for plan in close}
    best = min(medians, key=medians.__getitem__)
    return best, medians[choices[0]] / medians[best] - 1


def tune(benchmark: Any, keep: float, few: int, done: set[Any]) -> Iterator[tuple[str, Any]]:
    """Entries for the table, by families, of what a problem asks for and nobody did before it."""
    from tritorch.gpu import tuning

    run = called(benchmark)
    with tuning.trying({}) as asked:
        want = tensors(run())
    chosen: dict[Any, Any] = {}
    for place in dict.fromkeys(asked):
        choices = plans(place, few)
        if place in done or len(choices) < 2:
            continue
        done.add(place)
        best, gain = fastest(run, place, choices, chosen, want, benchmark.tolerance)
        family, key = place
        print(f"{benchmark.key}: {family} {tuple(best)} {gain:+.1%} on {tuple(choices[0])}")
        if gain > keep:
            chosen[place] = best
            yield family, {"key": key, "plan": best, "gain": round(gain, 4)}


def main(argv: list[str] | None = None) -> None:
    """Tunes and writes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--keep", type=float, default=0.03, help="the least gain that is kept")
    parser.add_argument("--few", type=int, default=10, help="plans timed beside the model's")
    parser.add_argument("--seconds", type=float, default=480, help="for all families together")
    parser.add_argument("--only", help="problems whose name matches")
    parser.add_argument("--out", type=pathlib.Path, help="the table (default: the installed one)")
    parser.add_argument("--compile", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--target", type=int, default=90, help=argparse.SUPPRESS)
    parser.add_argument("--processors", type=int, default=132, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    given.families = given.families or list(FAMILIES)
    if unknown := set(given.families) - set(FAMILIES):
        parser.error(f"no families: {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    if given.compile:
        compile_all(given)
        return
    from tritorch import _C
    from tritorch.bench.declare import BUDGETS
    from tritorch.gpu import tuning
    from tritorch.gpu.linalg import matmul

    if matmul.machine(0)[0] not in TARGETS:
        parser.error("this GPU has no copy engine: its products are cut by simple rules")
    out = given.out or tuning.PATH
    before = tuning.PATH.read_text() if tuning.PATH.exists() else "{}"
    gpu = {"gpu": _C.device_properties(0)["name"], "date": time.strftime("%Y-%m-%d")}
    ahead = None if _C.is_simulated() else Compiler(given)
    entries: dict[str, list[Any]] = {}
    done: set[Any] = set()
    problems("matmul", None)  # declares the families' shares of the time
    until, whole = time.monotonic(), sum(BUDGETS[family] for family in given.families)
    for family in given.families:
        until += given.seconds * BUDGETS[family] / whole
        if ahead is not None:
            print(f"compiled: {ahead.wait(until)}")
        left = problems(family, given.only)
        while left and time.monotonic() < until:
            for table, entry in tune(left.pop(0), given.keep, given.few, done):
                entries.setdefault(table, []).append(gpu | entry)
        if left:
            print(f"{family}: no time was left for {len(left)} problems")
        text = tuning.merged(before, entries, done)
        tuning.read(text)
        out.write_text(text)
    if ahead is not None:
        ahead.process.kill()
    count = sum(map(len, entries.values()))
    print(f"{count} of {len(done)} plans were faster than the models': {out}")


if __name__ == "__main__":
    main()
