"""How many calls of a module several threads make in a second, as in torch.utils."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from tritorch.core import locks

__all__ = ["BenchmarkConfig", "BenchmarkExecutionStats", "ExecutionStats", "ThroughputBenchmark"]

_SEED = 0  # of the order in which a thread takes the inputs


@dataclasses.dataclass(eq=False)
class BenchmarkConfig:
    """How to measure.

    num_worker_threads is here because programs set it: calls run in the threads that make them.
    """

    num_calling_threads: int = 1
    num_worker_threads: int = 1
    num_warmup_iters: int = 1
    num_iters: int = 100
    profiler_output_path: str = ""


@dataclasses.dataclass(eq=False, frozen=True)
class BenchmarkExecutionStats:
    """What was measured: the time a call took, and how many calls there were."""

    latency_avg_ms: float
    num_iters: int


BenchmarkConfig.__module__ = BenchmarkExecutionStats.__module__ = "tritorch"


def format_time(
    time_us: float | None = None, time_ms: float | None = None, time_s: float | None = None
) -> str:
    """A time, given in one of three units, in the unit it was given in."""
    given = {"us": time_us, "ms": time_ms, "s": time_s}
    found = [(value, unit) for unit, value in given.items() if value is not None]
    if len(found) != 1:
        raise AssertionError("Expected only one of time_us, time_ms, time_s is given.")
    ((value, unit),) = found
    scale = {"us": 1.0, "ms": 1e3, "s": 1e6}
    microseconds = value * scale[unit]
    for larger in ("s", "ms"):
        if microseconds >= scale[larger]:
            return f"{microseconds / scale[larger]:.3f}{larger}"
    return f"{microseconds:.3f}us"


class ExecutionStats:
    """What was measured, with what follows from it."""

    def __init__(self, c_stats: BenchmarkExecutionStats, benchmark_config: BenchmarkConfig) -> None:
        self._c_stats = c_stats
        self.benchmark_config = benchmark_config

    @property
    def latency_avg_ms(self) -> float:
        """The time that a call took."""
        return self._c_stats.latency_avg_ms

    @property
    def num_iters(self) -> int:
        """The number of calls, of all threads together."""
        return self._c_stats.num_iters

    @property
    def iters_per_second(self) -> float:
        """The calls in a second, of all threads together."""
        return self.num_iters / self.total_time_seconds

    @property
    def total_time_seconds(self) -> float:
        """The time that all calls took, side by side."""
        calls = self.num_iters / self.benchmark_config.num_calling_threads
        return calls * self.latency_avg_ms / 1000

    def __str__(self) -> str:
        return "\n".join(
            (
                f"Average latency per example: {format_time(time_ms=self.latency_avg_ms)}",
                f"Total number of iterations: {self.num_iters}",
                "Total number of iterations per second (across all threads): "
                f"{self.iters_per_second:.2f}",
                f"Total time: {format_time(time_s=self.total_time_seconds)}",
            )
        )


class ThroughputBenchmark:
    """Calls a module from several threads, with inputs that were added before.

    bench = ThroughputBenchmark(model)
    bench.add_input(torch.randn(8, 16))
    print(bench.benchmark(num_calling_threads=2))
    """

    def __init__(self, module: Callable[..., Any]) -> None:
        self._module = module
        self._inputs: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def run_once(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module and returns what it gives."""
        return self._module(*args, **kwargs)

    def add_input(self, *args: Any, **kwargs: Any) -> None:
        """Adds arguments to call the module with; which thread takes which is random."""
        self._inputs.append((args, kwargs))

    def benchmark(
        self,
        num_calling_threads: int | BenchmarkConfig = 1,
        num_warmup_iters: int = 10,
        num_iters: int = 100,
        profiler_output_path: str = "",
    ) -> Any:
        """Warms each thread up, then measures so many calls of all of them together.

        Given a `BenchmarkConfig` it returns `BenchmarkExecutionStats`, else `ExecutionStats`.
        """
        if isinstance(num_calling_threads, BenchmarkConfig):
            return self._measure(num_calling_threads)
        config = BenchmarkConfig(
            num_calling_threads=num_calling_threads,
            num_warmup_iters=num_warmup_iters,
            num_iters=num_iters,
            profiler_output_path=profiler_output_path,
        )
        return ExecutionStats(self._measure(config), config)

    def _measure(self, config: BenchmarkConfig) -> BenchmarkExecutionStats:
        if config.profiler_output_path:
            raise RuntimeError("ThroughputBenchmark: tritorch has no profiler to write a profile")
        if config.num_calling_threads < 1:
            raise RuntimeError(
                f"ThroughputBenchmark: needs a calling thread, got {config.num_calling_threads}"
            )
        if not self._inputs:
            raise RuntimeError(
                "Please provide benchmark inputs.Did you forget to call add_input()? "
            )
        return _Threads(self._module, self._inputs, config).run()


class _Threads:
    """The threads of one measurement: they warm up, wait for each other, and share the calls."""

    def __init__(self, module: Callable[..., Any], inputs: list[Any], config: Any) -> None:
        from tritorch.autograd import grad_mode

        self._module, self._inputs, self._config = module, inputs, config
        self._is_grad_enabled = grad_mode.is_grad_enabled()
        self._set_grad_enabled = grad_mode.set_grad_enabled
        self._ready = threading.Barrier(config.num_calling_threads + 1)
        self._lock = locks.lock()
        self._left = config.num_iters
        self._error: BaseException | None = None

    def run(self) -> BenchmarkExecutionStats:
        """The measurement; raises what the module raised."""
        count = self._config.num_calling_threads
        threads = [
            threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(count)
        ]
        for thread in threads:
            thread.start()
        try:
            self._ready.wait()
        except threading.BrokenBarrierError:
            pass
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error
        _wait_for_devices()
        total_ms = (time.perf_counter() - start) * 1000
        calls = self._config.num_iters
        return BenchmarkExecutionStats(total_ms * count / calls if calls else 0.0, calls)

    def _work(self, number: int) -> None:
        order = random.Random(_SEED + number)
        try:
            with self._set_grad_enabled(self._is_grad_enabled):
                for _ in range(self._config.num_warmup_iters):
                    self._call(order)
                _wait_for_devices()
                self._ready.wait()
                while self._take():
                    self._call(order)
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            with self._lock:
                self._error, self._left = self._error or error, 0
            self._ready.abort()

    def _call(self, order: random.Random) -> None:
        args, kwargs = order.choice(self._inputs)
        self._module(*args, **kwargs)

    def _take(self) -> bool:
        """Whether there is a call left, which is then taken."""
        with self._lock:
            self._left -= 1
            return self._left >= 0


def _wait_for_devices() -> None:
    from tritorch import cuda

    if cuda.is_initialized():
        cuda.synchronize()
