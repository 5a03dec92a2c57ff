"""One contestant's place in one process: prepares a benchmark, checks it, times it in rounds."""

from __future__ import annotations

import contextlib
import gc
import importlib
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch.bench import contestants, supply
from tritorch.bench.contestants import OURS, Prepared
from tritorch.bench.declare import Benchmark

HOST_SAMPLE = 2e-4  # seconds that one sample by the host's clock takes at least
HOST_QUEUE = 200  # launches, at most, between two waits: a full queue would be what is timed
GRAPH_CALLS = 32  # in one graph

Arrays = list[np.ndarray[Any, Any]]


class Workbench:
    """Runs one contestant, "tritorch" or a peer, on one device of this process."""

    def __init__(self, name: str, device: str, owner: Workbench | None = None) -> None:
        self.name = name
        self.device = device
        self.owner = owner  # whose inputs this shares, on a GPU
        self.ours: list[dict[str, Any]] | None = None
        self.prepared: Prepared | None = None
        self.benchmark: Benchmark | None = None
        self.note = ""

    @property
    def module(self) -> Any:
        """The library."""
        return importlib.import_module(self.name.split(".")[0])

    def load(self) -> None:
        """Imports the library."""
        _ = self.module

    # ---- before timing ---------------------------------------------------------------------------

    def prepare(self, benchmark: Benchmark) -> Arrays:
        """Makes the inputs and the calls, and returns the first call's result."""
        self.release()
        self.benchmark = benchmark
        sets = supply.sets_needed(benchmark, self._cache()) if benchmark.make is None else 1
        if self.name == OURS:
            t = self.module
            self.ours = [supply.inputs(t, benchmark, i, self.device) for i in range(sets)]
        ours = self.owner.ours if self.owner is not None else self.ours
        sets = len(ours) if ours is not None else sets
        with self._driver():
            self.prepared = contestants.prepare(benchmark, self.name, self.device, ours, sets)
            if benchmark.clock == "self":
                return []
            first = contestants.flatten(self.prepared.calls[0]())
            self._wait()
            if benchmark.memory:
                self.prepared.peak = self._peak()
        return first

    def _driver(self) -> contextlib.AbstractContextManager[None]:
        return contestants.tritons_driver(
            self.name == "torch.compile" and self.device == "cuda"
        )  # fmt: skip

    def reference(self) -> Arrays:
        """What NumPy computes of the first set of inputs, in float64."""
        assert self.benchmark is not None and self.benchmark.reference is not None
        assert self.ours is not None
        inputs = [
            np.array(x.detach().double().cpu().numpy()) for x in self.ours[0].values()
        ]  # fmt: skip
        found = self.benchmark.reference(*inputs)
        found = found if isinstance(found, (tuple, list)) else [found]
        return [contestants.sampled(each) for each in found]

    def _cache(self) -> int:
        if self.device != "cuda":
            return 1 << 20  # inputs stay where a program that just made them would find them
        import tritorch

        return tritorch.cuda.get_device_properties().L2_cache_size

    def _peak(self) -> int | None:
        """Bytes that a call takes beyond what was there."""
        cuda = getattr(self.module, "cuda", None)
        if self.device != "cuda" or cuda is None or self.prepared is None:
            return None
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        self.prepared.calls[0]()
        cuda.synchronize()
        return cuda.max_memory_allocated() - before

    def _wait(self) -> None:
        if self.prepared is not None and self.prepared.wait is not None:
            self.prepared.wait()
        if self.device == "cuda":
            import tritorch

            tritorch.cuda.synchronize()

    # ---- timing ----------------------------------------------------------------------------------

    def times(self, seconds: float, graph: bool = False) -> list[float]:
        """Seconds of single calls (or of batches, for one call), for about so long altogether."""
        assert self.prepared is not None and self.benchmark is not None
        benchmark, prepared = self.benchmark, self.prepared
        if benchmark.clock == "self":
            return contestants.self_times(prepared, 1)
        on_events = self.device == "cuda" and benchmark.clock == "device" and prepared.wait is None
        with self._driver():
            if on_events:
                return self._device_times(seconds, graph or benchmark.graph)
            return self._host_times(seconds)

    def _host_times(self, seconds: float) -> list[float]:
        assert self.prepared is not None and self.benchmark is not None
        (one,) = contestants.host_times(self.prepared, 1, 1, self._wait)
        if one < HOST_SAMPLE:  # one call says little, and the clock's own cost counts
            (one,) = contestants.host_times(self.prepared, 1, 10, self._wait)
        batch = max(1, min(math.ceil(HOST_SAMPLE / max(one, 1e-9)), HOST_QUEUE))
        count = max(1, int(seconds / (batch * max(one, 1e-9))))
        if self.benchmark.rounds:
            count = min(count, self.benchmark.rounds)
        return contestants.host_times(self.prepared, min(count, 5000), batch, self._wait)

    def _device_times(self, seconds: float, graph: bool) -> list[float]:
        assert self.prepared is not None and self.benchmark is not None
        from tritorch import cuda

        calls, per_call = self.prepared.calls, 1
        if graph and self.name.split(".")[0] in (OURS, "torch"):
            replay, per_call = self._graph()
            if replay is not None:
                calls = [replay]
        flush = _flusher()
        start = time.perf_counter()
        calls[0]()
        cuda.synchronize()
        one = max(time.perf_counter() - start, 1e-5) + 1e-4  # the flush takes its time too
        count = max(1, min(int(seconds / one), 2000))
        if self.benchmark.rounds:
            count = min(count, self.benchmark.rounds)
        pairs = [
            (cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(count)
        ]
        for i, (begin, end) in enumerate(pairs):
            flush()
            begin.record()
            calls[i % len(calls)]()
            end.record()
        cuda.synchronize()
        return [begin.elapsed_time(end) * 1e-3 / per_call for begin, end in pairs]

    def _graph(self) -> tuple[Callable[[], Any] | None, int]:
        """A replay of many calls that were captured once, and how many."""
        assert self.prepared is not None
        known = self.prepared.replay
        if known is None:
            calls = self.prepared.calls
            number = max(GRAPH_CALLS // len(calls), 1) * len(calls)
            cuda = self.module.cuda
            try:
                graph = cuda.CUDAGraph()
                with cuda.graph(graph):
                    kept = [calls[i % len(calls)]() for i in range(number)]
                known = (graph.replay, number, kept)
            except Exception as error:
                self.note = f"not in a graph: {type(error).__name__}: {error}"[:200]
                known = (None, 1, None)
            self.prepared.replay = known
        return known[0], known[1]

    def release(self) -> None:
        """Lets go of all memory."""
        if self.prepared is None and self.ours is None:
            return
        self.prepared = self.ours = self.benchmark = None
        self.note = ""
        gc.collect()
        if self.device == "cuda":
            self._wait()
            empty = getattr(getattr(self.module, "cuda", None), "empty_cache", None)
            if empty is not None:
                empty()


_FLUSH: list[Any] = []


def _flusher() -> Callable[[], Any]:
    """A write that evicts the L2 cache; while it runs, the host gets ahead."""
    if not _FLUSH:
        import tritorch

        cuda = tritorch.cuda
        bytes = 0 if cuda.is_simulated() else cuda.get_device_properties().L2_cache_size
        _FLUSH.append(cuda.empty(max(2 * bytes, 1024), dtype=tritorch.uint8))
    return _FLUSH[0].zero_


def summary(times: Sequence[float]) -> dict[str, Any]:
    """Median and quartiles, in microseconds."""
    ordered = sorted(times)
    low, high = (float(np.quantile(ordered, q)) for q in (0.25, 0.75))
    return {
        "median_us": statistics.median(ordered) * 1e6,
        "low_us": low * 1e6,
        "high_us": high * 1e6,
        "least_us": ordered[0] * 1e6,
        "count": len(ordered),
    }
