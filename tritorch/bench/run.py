"""Runs benchmarks: checks results against each other, times in turn, derives rates and ratios."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tritorch.bench import beside, ceilings, contestants, machine
from tritorch.bench.cases import all_benchmarks
from tritorch.bench.contestants import OURS, difference
from tritorch.bench.declare import BUDGETS, Benchmark
from tritorch.bench.workbench import Arrays, Workbench, summary

FORMAT = 1
ROUNDS = 5
SAVED = 20.0  # seconds between two savings of an unfinished report
CHEAP = 3e9  # operations, or bytes by ten, that NumPy's reference may cost


@dataclasses.dataclass
class Options:
    """How to measure."""

    device: str = "cpu"
    scale: str = "cpu"
    peers: Sequence[str] = ()
    seconds: float = 0.25  # for each contestant of a benchmark
    rounds: int = ROUNDS
    budget: float | None = None  # seconds for everything
    graph: bool = False
    threads: int | None = None  # of each process
    isolated: bool = True  # each library in a process of its own


class Remote:
    """A workbench in a process of its own."""

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self.note = ""
        self._library = beside.Library(
            name,
            [sys.executable, "-m", "tritorch", "bench", "--serve", name, "--scale", options.scale,
             "--device", options.device], options.threads,
        )  # fmt: skip
        self._folder = tempfile.TemporaryDirectory()

    def _ask(self, **request: Any) -> dict[str, Any]:
        found = self._library.ask(**request)
        if "error" in found:
            raise RuntimeError(found["error"])
        return found

    def _arrays(self, **request: Any) -> Arrays:
        path = Path(self._folder.name) / "result.npz"
        self._ask(path=str(path), **request)
        with np.load(path) as stored:
            return [stored[key] for key in sorted(stored, key=lambda key: int(key[4:]))]

    def prepare(self, benchmark: Benchmark) -> Arrays:
        """As a workbench's."""
        return self._arrays(do="prepare", key=benchmark.key)

    def reference(self) -> Arrays:
        """As a workbench's."""
        return self._arrays(do="reference")

    def times(self, seconds: float, graph: bool = False) -> list[float]:
        """As a workbench's."""
        return self._ask(do="times", seconds=seconds)["times"]

    def release(self) -> None:
        """As a workbench's."""
        self._ask(do="release")

    def load(self) -> None:
        """As a workbench's."""
        self._ask(do="load")

    def close(self) -> None:
        """Ends the process."""
        self._library.close()
        self._folder.cleanup()


def serve(name: str, device: str, scale: str) -> None:
    """Answers for one library what `Remote` asks."""
    bench = Workbench(name, device)
    known = {each.key: each for each in all_benchmarks(scale)}
    for each in (
        ceilings.copy_benchmark(device, scale == "tiny"),
        ceilings.matmul_benchmark(device, "fp32", scale == "tiny"),
    ):
        known[each.key] = each
    for request in beside.requests():
        try:
            what, found = request["do"], {}
            if what in ("prepare", "reference"):
                arrays = (
                    bench.prepare(known[request["key"]]) if what == "prepare" else bench.reference()
                )
                np.savez(request["path"], *arrays)
            elif what == "times":
                found["times"] = bench.times(request["seconds"])
            elif what == "load":
                bench.load()
            else:
                bench.release()
            beside.answer(**found)
        except Exception as error:
            beside.answer(error=f"{type(error).__name__}: {error}"[:500])


Bench = Workbench | Remote


class Runner:
    """The contestants' places, and the loop over benchmarks."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._benches: dict[str, Bench] = {}
        self.ceilings: dict[str, Any] = {}

    def bench(self, name: str) -> Bench:
        """A contestant's place."""
        if name not in self._benches:
            options = self.options
            if options.isolated:
                self._benches[name] = Remote(name, options)
            else:
                shares = name != OURS and options.device == "cuda"
                owner = self.bench(OURS) if shares else None
                assert not isinstance(owner, Remote)
                self._benches[name] = Workbench(name, options.device, owner)
        return self._benches[name]

    def start(self) -> None:
        """Loads ours and the peers, so that the first benchmark need not pay for that."""
        for name in [OURS, *(name for name in self.options.peers if "." not in name)]:
            with contextlib.suppress(Exception):  # each of its benchmarks will say what is wrong
                self.bench(name).load()

    def close(self) -> None:
        """Ends processes and lets go of memory."""
        for each in self._benches.values():
            if isinstance(each, Remote):
                each.close()
            else:
                each.release()
        self._benches.clear()

    def measure_ceilings(self, chosen: Sequence[Benchmark]) -> dict[str, Any]:
        """For the types that the chosen benchmarks use."""
        kinds = [each.dtype for each in chosen if each.share == "matmul"]
        names = [OURS] + [name for name in self.options.peers if name == "torch"]
        kinds = [{"float32": "fp32"}.get(kind, kind) for kind in kinds]
        if not any(each.share for each in chosen):
            return {}
        self.ceilings = ceilings.measure(
            [self.bench(name) for name in names], self.options.device, kinds,
            self.options.scale == "tiny",
        )  # fmt: skip
        return self.ceilings

    # ---- one benchmark ---------------------------------------------------------------------------

    def run(self, benchmark: Benchmark) -> dict[str, Any]:
        """The result of one benchmark; what a contestant raises is recorded in its place."""
        names = contestants.contestants(benchmark, self.options.peers, self.options.device)
        result: dict[str, Any] = {
            "family": benchmark.family, "bytes": benchmark.bytes, "flops": benchmark.flops,
            "share_of": benchmark.share, "dtype": benchmark.dtype, "clock": benchmark.clock,
            "tags": list(benchmark.tags), "contestants": {},
        }  # fmt: skip
        if benchmark.about:
            result["about"] = benchmark.about
        found: dict[str, dict[str, Any]] = result["contestants"]
        ready = self._checked(benchmark, names, found)
        rounds = benchmark.rounds if benchmark.clock == "self" else self.options.rounds
        times: dict[str, list[list[float]]] = {name: [] for name in ready}
        for _ in range(rounds):
            for name in list(ready):
                bench = self.bench(name)
                try:
                    times[name].append(
                        bench.times(self.options.seconds / rounds, self.options.graph)
                    )
                except Exception as error:
                    found[name]["error"] = f"{type(error).__name__}: {error}"[:500]
                    ready.remove(name)
        for name in ready:
            found[name] |= summary([t for part in times[name] for t in part])
            bench = self.bench(name)
            if bench.note:
                found[name]["note"] = bench.note
            prepared = getattr(bench, "prepared", None)
            if prepared is not None and prepared.peak is not None:
                found[name]["peak_bytes"] = prepared.peak
        self._derive(benchmark, result, {name: times[name] for name in ready})
        for name in reversed(names):
            if name in self._benches:
                try:
                    self._benches[name].release()
                except Exception as error:
                    found.setdefault(name, {})["note"] = f"letting go: {error}"[:200]
        return result

    def _checked(
        self, benchmark: Benchmark, names: list[str], found: dict[str, dict[str, Any]]
    ) -> list[str]:
        """Prepares all contestants and returns those whose first results are right."""
        first: dict[str, Arrays] = {}
        for name in names:
            found[name] = {}
            try:
                first[name] = self.bench(name).prepare(benchmark)
            except Exception as error:
                found[name]["error"] = f"{type(error).__name__}: {error}"[:500]
                if name == OURS and self.options.device == "cuda":
                    break  # whose inputs the others share
        if benchmark.clock == "self" or benchmark.tolerance == float("inf"):
            return [name for name in names if name in first]
        source, wanted = self._wanted(benchmark, first)
        right = []
        for name, arrays in first.items():
            if wanted is not None and name != source:
                off = difference(arrays, wanted)
                found[name]["error_norm"] = off
                found[name]["checked_against"] = source
                if not off <= benchmark.tolerance:
                    found[name]["error"] = (
                        f"differs from {source} by {off:.2g}, {benchmark.tolerance:g} is allowed"
                    )
                    continue
            right.append(name)
        return right

    def _wanted(self, benchmark: Benchmark, first: dict[str, Arrays]) -> tuple[str, Arrays | None]:
        """What results are held against, and where that is from."""
        peers = [name for name in first if name != OURS]
        cheap = benchmark.flops <= CHEAP and benchmark.bytes <= CHEAP / 10
        if benchmark.reference is not None and OURS in first and (cheap or not peers):
            try:
                return "NumPy", self.bench(OURS).reference()
            except MemoryError:
                pass
        if peers:
            return peers[0], first[peers[0]]
        if self.options.device == "cuda" and cheap:
            host = Workbench(OURS, "cpu")
            try:
                return "the CPU", host.prepare(benchmark)
            finally:
                host.release()
        return "nothing", None

    def _derive(
        self, benchmark: Benchmark, result: dict[str, Any], times: dict[str, list[list[float]]]
    ) -> None:
        """Rates, shares and ratios."""
        ours = result["contestants"].get(OURS, {})
        if "error" in ours:
            result["error"] = ours["error"]
        for row in result["contestants"].values():
            if "median_us" not in row:
                continue
            seconds = row["median_us"] * 1e-6
            if benchmark.clock == "device" and benchmark.bytes:
                row["gb_s"] = benchmark.bytes / seconds / 1e9
            if benchmark.flops:
                row["tflop_s"] = benchmark.flops / seconds / 1e12
            if benchmark.amount:
                row["rate"] = benchmark.amount[0] / seconds
                result["rate_of"] = benchmark.amount[1]
        if "median_us" not in ours:
            return
        copy = self.ceilings.get("copy_gb_s")
        peak = self.ceilings.get("matmul_tflop_s", {}).get(benchmark.dtype)
        if benchmark.share == "copy" and copy and "gb_s" in ours:
            result["share"] = ours["gb_s"] / copy
        elif benchmark.share == "matmul" and peak:
            result["share"] = ours["tflop_s"] / peak
        floor = ceilings.floor(result, self.ceilings)
        if floor:
            result["share_of_roof"] = floor / ours["median_us"]
        middle = lambda part: statistics.median(part)
        result["ratios"] = {
            name: statistics.median(
                middle(theirs) / middle(mine) for theirs, mine in zip(rounds, times[OURS])
            )
            for name, rounds in times.items()
            if name != OURS
        }


def allowance(family: str, families: Sequence[str], left: float) -> float:
    """A family's part of the time that is left to it and those after it."""
    coming = families[families.index(family) :]
    return left * BUDGETS[family] / sum(BUDGETS[name] for name in coming)


def run_all(
    chosen: Sequence[Benchmark],
    options: Options,
    show: Callable[[Benchmark, dict[str, Any]], None],
    save: Callable[[dict[str, Any]], None] = lambda report: None,
) -> dict[str, Any]:
    """The report of a whole run; `save` gets what there is of it now and then."""
    contestants.quiet()
    began = time.monotonic()
    runner = Runner(options)
    report: dict[str, Any] = {
        "format": FORMAT, "machine": machine.describe(options.device), "device": options.device,
        "scale": options.scale, "peers": list(options.peers), "results": {},
    }  # fmt: skip
    families = list(dict.fromkeys(each.family for each in chosen))
    ends: dict[str, float] = {}
    try:
        runner.start()
        report["ceilings"] = runner.measure_ceilings(chosen)
        report["seconds"] = time.monotonic() - began
        spent: dict[str, float] = {}
        saved = began
        for benchmark in chosen:
            family = benchmark.family
            start = time.monotonic()
            if options.budget is not None and family not in ends:
                left = max(options.budget - (start - began), 0.0)
                ends[family] = start + allowance(family, families, left)
            late = start >= ends.get(family, math.inf)
            if late:
                result: dict[str, Any] = {"family": family, "skipped": "its family's time was up"}
            else:
                try:
                    result = runner.run(benchmark)
                except Exception as error:  # one benchmark's failure is no other's
                    result = {"family": family, "error": f"{type(error).__name__}: {error}"[:500]}
            spent[family] = spent.get(family, 0.0) + time.monotonic() - start
            report["results"][benchmark.key] = result
            show(benchmark, result)
            report["seconds"] = time.monotonic() - began
            report["seconds_by_family"] = spent
            if time.monotonic() - saved > SAVED:
                save(report)
                saved = time.monotonic()
    finally:
        runner.close()
    return report
