"""Timing, as in torch.utils.benchmark, and `do_bench`, as in triton.testing.

    from tritorch.utils.benchmark import Compare, Timer, do_bench

    Timer("x + 1", globals={"x": x}).blocked_autorange()   # a Measurement: median, IQR, repr
    do_bench(lambda: kernel[grid](x, y, n, BLOCK=1024))     # milliseconds on the device

`Timer` takes wall time, and waits for the GPU before each look at the clock once the process uses
one; its `collect_callgrind` counts instructions instead.  `do_bench` times single calls on the
device by events, with a flushed L2 cache.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import enum
import functools
import math
import statistics
import textwrap
import time
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tritorch.core.naming import package
from tritorch.utils.benchmark._callgrind import CopyIfCallgrind, collect as _collect_callgrind
from tritorch.utils.benchmark._counts import CallgrindStats, FunctionCount, FunctionCounts
from tritorch.utils.fuzzer import (
    FuzzedParameter,
    FuzzedSparseTensor,
    FuzzedTensor,
    Fuzzer,
    Language,
    ParameterAlias,
)

__all__ = [
    "CallgrindStats",
    "Colorize",
    "Compare",
    "CopyIfCallgrind",
    "FunctionCount",
    "FunctionCounts",
    "FuzzedParameter",
    "FuzzedSparseTensor",
    "FuzzedTensor",
    "Fuzzer",
    "Language",
    "Measurement",
    "ParameterAlias",
    "TaskSpec",
    "Timer",
    "do_bench",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]

_MAX_SIGNIFICANT_FIGURES = 4
_MIN_CONFIDENCE_INTERVAL = 25e-9  # seconds: no clock here is better
# A measurement whose interquartile range is a larger share of its median carries a warning.
_IQR_WARN_THRESHOLD = 0.1
_IQR_GROSS_WARN_THRESHOLD = 0.25


# ---- single calls on a device --------------------------------------------------------------------


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds that one call of fn takes; the signature and meaning of triton.testing.do_bench.

    If the process uses a GPU, each call is timed by a pair of events, after a write that evicts the
    L2 cache, outside the timed region; while that write runs the host gets ahead, so that launch
    overhead is hidden.  Otherwise calls are timed by the wall clock, with nothing evicted.

    Args:
        fn: what to time.
        warmup, rep: milliseconds to warm up and to measure for, the evictions included.
        grad_to_none: tensors whose `grad` is set to None before each call.
        quantiles: the quantiles to return, in place of return_mode: a float for one, else a list.
        return_mode: "min", "max", "mean", "median", or "all" for a list of every time.
    """
    if return_mode not in ("min", "max", "mean", "median", "all"):
        raise ValueError(
            f"do_bench(): return_mode must be 'min', 'max', 'mean', 'median' or 'all', "
            f"got {return_mode!r}"
        )
    from tritorch import cuda

    fn()
    measure = _time_on_device if cuda.is_initialized() else _time_on_host
    times = measure(fn, warmup, rep, grad_to_none or ())
    if quantiles is not None:
        found = [_quantile(sorted(times), q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    if return_mode == "all":
        return times
    choose: dict[str, Callable[[list[float]], float]] = {
        "min": min,
        "max": max,
        "mean": statistics.fmean,
        "median": statistics.median,
    }
    return choose[return_mode](times)


def _time_on_device(
    fn: Callable[[], Any], warmup: float, rep: float, grad_to_none: Sequence[Any]
) -> list[float]:
    from tritorch import cuda
    from tritorch.core.dtype import uint8

    # Twice the cache, so that nothing of it survives whatever the replacement policy.  The
    # simulated device has no cache.
    l2_bytes = 0 if cuda.is_simulated() else cuda.get_device_properties().L2_cache_size
    flush = cuda.empty(max(2 * l2_bytes, 1024), dtype=uint8)
    cuda.synchronize()

    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    for _ in range(5):
        flush.zero_()
        fn()
    end.record()
    end.synchronize()
    n_warmup, n_repeat = _repetitions(start.elapsed_time(end) / 5, warmup, rep)

    for _ in range(n_warmup):
        fn()
    pairs = [
        (cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(n_repeat)
    ]
    for start, end in pairs:
        for tensor in grad_to_none:
            tensor.grad = None
        flush.zero_()
        start.record()
        fn()
        end.record()
    cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


def _time_on_host(
    fn: Callable[[], Any], warmup: float, rep: float, grad_to_none: Sequence[Any]
) -> list[float]:
    clock = time.perf_counter

    def one_call() -> float:
        for tensor in grad_to_none:
            tensor.grad = None
        start = clock()
        fn()
        return (clock() - start) * 1e3

    n_warmup, n_repeat = _repetitions(statistics.fmean(one_call() for _ in range(5)), warmup, rep)
    for _ in range(n_warmup):
        fn()
    return [one_call() for _ in range(n_repeat)]


def _repetitions(estimate_ms: float, warmup: float, rep: float) -> tuple[int, int]:
    estimate_ms = max(estimate_ms, 1e-3)  # a call costs the host that much, whatever the clock says
    return max(1, int(warmup / estimate_ms)), max(1, int(rep / estimate_ms))


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Linear interpolation between the nearest two, as NumPy does by default."""
    if not 0 <= q <= 1:
        raise ValueError(f"Quantiles must be in the range [0, 1], got {q}")
    point = q * (len(ordered) - 1)
    low, high = math.floor(point), math.ceil(point)
    return ordered[low] + (point - low) * (ordered[high] - ordered[low])


# ---- measurements --------------------------------------------------------------------------------


@dataclasses.dataclass(repr=False, frozen=True)
class TaskSpec:
    """What a Timer measures, except globals: measurements with equal specs are replicates."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """A name for the measurement."""
        suffix = f": {self.sub_label}" if self.sub_label else ""
        if self.label is not None:
            return self.label + suffix
        if "\n" not in self.stmt:
            return self.stmt + suffix
        sub_label = f" ({self.sub_label})" if self.sub_label else ""
        return f"stmt:{sub_label}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """The setup as it appears in summaries; nothing if it is the default."""
        if self.setup == "pass" or not self.setup:
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """The part of a repr that describes the task."""
        sections = [self.title, self.description or "", self.setup_str()]
        return "\n".join(f"{s}\n" if "\n" in s else s for s in sections if s)


@dataclasses.dataclass(repr=False)
class Measurement:
    """One or more timings of a statement, in seconds, and what they say together."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None  # the user's

    def __getattr__(self, name: str) -> Any:
        # The task's fields (label, stmt, num_threads, ...) are read as if they were our own.
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """Seconds a run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _at(self, q: float) -> float:
        return _quantile(sorted(self.times), q)

    @property
    def median(self) -> float:
        return self._at(0.5)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range: half of all times lie within it."""
        return self._at(0.75) - self._at(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median can be trusted, roughly.

        Taken from the times between the quartiles, so that outliers do not count, with the normal
        distribution's 90% interval.
        """
        n = len(self.raw_times)
        middle = sorted(self.times)[n // 4 : math.ceil(3 * n / 4)]
        deviation = statistics.pstdev(middle) / math.sqrt(len(middle))
        interval = max(1.645 * deviation, _MIN_CONFIDENCE_INTERVAL)
        figures = math.floor(math.log10(self.median / interval))
        return min(max(figures, 1), _MAX_SIGNIFICANT_FIGURES)

    def meets_confidence(self, threshold: float = _IQR_WARN_THRESHOLD) -> bool:
        """Whether the interquartile range is a smaller share of the median than threshold."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        return not self.meets_confidence()

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n = len(self.raw_times)
        unit, scale = select_unit(self.median)
        threads = self.task_spec.num_threads
        lines = [
            f"<{__name__}.Measurement object at {id(self):#x}>",
            self.task_spec.summarize(),
            f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}",
        ]
        if n >= 4:
            low, high = self._at(0.25) / scale, self._at(0.75) / scale
            lines.append(f"  IQR:    {high - low:.2f} {unit} ({low:.2f} to {high:.2f})")
        lines.append(
            f"  {n} measurement{'s' if n > 1 else ''}, {self.number_per_run} runs "
            f"{'per measurement,' if n > 1 else ','} {threads} thread{'s' if threads > 1 else ''}"
        )
        if self.has_warnings:
            gross = not self.meets_confidence(_IQR_GROSS_WARN_THRESHOLD)
            lines += [
                f"  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% "
                "of the median measurement.",
                "           This suggests significant environmental influence."
                if gross
                else "           This could indicate system fluctuation.",
            ]
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Joins replicates: one Measurement a task, with times of single runs and no metadata."""
        groups: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, task_spec) for task_spec, times in groups.items()]


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which t seconds is a handy number, and that unit in seconds."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if t >= scale:
            return unit, scale
    return "ns", 1e-9


def unit_to_english(u: str) -> str:
    """A unit's name: "us" is a microsecond."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x: float, n: int) -> float:
    """x to n significant figures: (3.14159, 2) -> 3.1."""
    if x == 0:
        return 0.0
    scale = 10 ** (math.ceil(math.log10(abs(x))) - n)
    return float(round(x / scale) * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetitions, in the order of their first."""
    return list(dict.fromkeys(elements))


# ---- Timer ---------------------------------------------------------------------------------------


def timer() -> float:
    """The wall clock in seconds, once the GPU's work is done if this process uses one."""
    from tritorch import cuda

    if cuda.is_initialized():
        cuda.synchronize()
    return timeit.default_timer()


@functools.cache
def _blas() -> tuple[Callable[[int], None], Callable[[], int]] | None:
    """How to set and get the threads of the OpenBLAS that NumPy's wheels bring; None without it."""
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))  # loads it
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "openblas" in line}
    except OSError:
        return None
    for path in paths:
        library = ctypes.CDLL(path)
        for name in ("scipy_openblas_%s_num_threads64_", "openblas_%s_num_threads"):
            with contextlib.suppress(AttributeError):
                return getattr(library, name % "set"), getattr(library, name % "get")
    return None


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Lets NumPy's matrix products use n threads."""
    blas = _blas()
    if blas is None:
        yield
        return
    set_threads, get_threads = blas
    before = get_threads()
    set_threads(n)
    try:
        yield
    finally:
        set_threads(before)


class Timer:
    """Times a statement: torch.utils.benchmark.Timer.

    Unlike timeit.Timer it warms up, waits for the GPU, runs with a fixed number of threads, and
    returns a Measurement, whose replicates show the spread.

    Args:
        stmt, setup: code, as in timeit.
        global_setup: for C++ only, in PyTorch; must be empty.
        timer: a clock in seconds.
        globals: names that stmt can use; `tritorch`, also as `torch`, is always among them.
        label, sub_label, description, env: what `Compare` groups by: tables, rows, columns, and
            the environments of an A/B test.
        num_threads: of NumPy's matrix products (OpenBLAS) while stmt runs.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str = "python",
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in ("py", "python"):
            raise ValueError(f"Timer(): language must be 'python', got {language!r}")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can "
                "simply be moved to `setup`."
            )
        tritorch = package()
        stmt, setup = _tidy(stmt), _tidy(setup)
        self._globals = {"tritorch": tritorch, "torch": tritorch, **(globals or {})}
        plain = CopyIfCallgrind.unwrap_all(self._globals)
        self._timer = timeit.Timer(stmt, setup, timer, plain)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)  # nothing takes less; never divide by zero

    def _measurement(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Runs stmt number times, after a hundredth as many to warm up: one timing."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measurement(number, [self._timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Use blocked_autorange."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Use blocked_autorange."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(
        self,
        callback: Callable[[int, float], Any] | None = None,
        min_run_time: float = 0.2,
    ) -> Measurement:
        """Times blocks of runs, each long enough that the clock's cost vanishes, for min_run_time
        seconds."""
        number = self._estimate_block_size(min_run_time)
        return self._replicate(number, lambda times: True, min_run_time, None, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Like blocked_autorange, until the interquartile range is below threshold of the median
        or max_run_time seconds have passed."""
        number = self._estimate_block_size(min_run_time=0.05)

        def settled(times: list[float]) -> bool:
            return len(times) > 3 and self._measurement(number, times).meets_confidence(threshold)

        return self._replicate(number, settled, min_run_time, max_run_time, callback)

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> Any:
        """Counts the instructions of number runs of stmt, in a process under valgrind.

        The process has copies of the globals: each is wrapped in `CopyIfCallgrind`.  Returns
        CallgrindStats, or with repeats a tuple of so many.

        Args:
            collect_baseline: whether to count as many runs of `pass` too.
            retain_out_file: whether to keep callgrind's file, as `stmt_callgrind_out`.
        """
        if repeats is not None and repeats < 1:
            raise ValueError("If specified, `repeats` must be >= 1")
        self._timeit(1)  # an error in stmt shows here rather than in the other process
        found = _collect_callgrind(
            self._task_spec, self._globals, number, repeats or 1, collect_baseline, retain_out_file
        )
        return found[0] if repeats is None else found

    def _replicate(
        self,
        number: int,
        settled: Callable[[list[float]], bool],
        min_run_time: float,
        max_run_time: float | None,
        callback: Callable[[int, float], Any] | None,
    ) -> Measurement:
        times: list[float] = []
        total = 0.0
        with set_torch_threads(self._task_spec.num_threads):
            while not times or total < min_run_time or not settled(times):
                spent = self._timeit(number)
                times.append(spent)
                total += spent
                if callback:
                    callback(number, spent)
                if max_run_time and total > max_run_time:
                    break
        return self._measurement(number, times)

    def _estimate_block_size(self, min_run_time: float) -> int:
        """Runs a block so that reading the clock is at most 1e-4 of it.  Warms up on the way."""
        with set_torch_threads(self._task_spec.num_threads):
            overhead = statistics.median(self._timeit(0) for _ in range(5))
            number = 1
            while True:
                taken = self._timeit(number)
                if overhead / taken <= 1e-4 and taken >= min_run_time / 1000:
                    return number
                if taken > min_run_time:
                    return number
                number *= 10


def _tidy(code: str) -> str:
    """Code from a block string: no common indentation, no leading newline, no trailing space."""
    return textwrap.dedent(code).removeprefix("\n").rstrip()


# ---- Compare -------------------------------------------------------------------------------------

_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m"
_BOLD, _TERMINATE = "\033[1m", "\033[0m"


class Colorize(enum.Enum):
    """What the best value is looked for in."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _color(text: str, value: float, best: float) -> str:
    if value <= best * 1.01 or value <= best + 100e-9:
        return _BEST + _BOLD + text + _TERMINATE * 2
    if value <= best * 1.1:
        return _GOOD + _BOLD + text + _TERMINATE * 2
    if value >= best * 5:
        return _VERY_BAD + _BOLD + text + _TERMINATE * 2
    if value >= best * 2:
        return _BAD + text + _TERMINATE * 2
    return text


class Compare:
    """A table of measurements: one a label, with sub-labels as rows and descriptions as columns."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim_significant_figures = False
        self._colorize = Colorize.NONE
        self._highlight_warnings = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements; replicates are merged when the table is made."""
        results = list(results)
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """From now on, shows only figures that can be trusted."""
        self._trim_significant_figures = True

    def colorize(self, rowwise: bool = False) -> None:
        """From now on, colours what is near to or far from the best of its column (or row)."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """From now on, marks measurements that vary much."""
        self._highlight_warnings = True

    def print(self) -> None:
        """Prints the table."""
        print(str(self))

    def __str__(self) -> str:
        groups: dict[str | None, list[Measurement]] = collections.defaultdict(list)
        for r in Measurement.merge(self._results):
            groups[r.task_spec.label].append(r)
        return "\n".join(self._table(label, group) for label, group in groups.items())

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(r.median for r in results))
        columns = ordered_unique(r.task_spec.description for r in results)
        rows = ordered_unique(_row_key(r) for r in results)
        rows.sort(key=lambda key: key[:2])  # statements stay in the order in which they came
        cells = {(_row_key(r), r.task_spec.description): r for r in results}
        envs = {env for _, env, _ in rows}
        env_width = max(len(env) for env in envs) if len(envs) > 1 else 0
        formats = {
            column: self._cell_format([cells.get((row, column)) for row in rows], scale)
            for column in columns
        }

        table = [["", *(column or "" for column in columns)]]
        previous: tuple[int, str] | None = None
        for row in rows:
            threads, env, name = row
            shown = f"({env})" if env_width and (threads, env) != previous else ""
            previous = (threads, env)
            line = ["  " + shown.ljust(env_width + 4) + name]
            for column in columns:
                line.append(formats[column](cells.get((row, column))))
            table.append(line)
        widths = [max(map(len, column)) for column in zip(*table)]

        lines = ["  |  ".join(text.center(w) for text, w in zip(table[0], widths))]
        width = len(lines[0])
        seen_threads: int | None = None
        for row, line in zip(rows, table[1:]):
            if row[0] != seen_threads:
                seen_threads = row[0]
                lines.append(f"{seen_threads} threads: ".ljust(width, "-"))
            parts = [line[0].ljust(widths[0])]
            for column, text, w in zip(columns, line[1:], widths[1:]):
                text, cell = text.center(w), cells.get((row, column))
                if cell is not None and self._colorize is not Colorize.NONE:
                    rivals = (
                        [cells.get((row, other)) for other in columns]
                        if self._colorize is Colorize.ROWWISE
                        else [cells.get((other, column)) for other in rows if other[0] == row[0]]
                    )
                    text = _color(text, cell.median, min(r.median for r in rivals if r))
                parts.append(text)
            lines.append("  |  ".join(parts))

        title = f" {label or ''} ".center(width - 2, "-")
        end = f"\nTimes are in {unit_to_english(unit)}s ({unit}).\n"
        if self._highlight_warnings and any(r.has_warnings for r in results):
            end += "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"
        return "\n".join([f"[{title}]", *lines, end])

    def _cell_format(
        self, cells: list[Measurement | None], scale: float
    ) -> Callable[[Measurement | None], str]:
        """A function that writes a cell of a column, all with the same number of decimals."""
        there = [m for m in cells if m is not None]
        warn = self._highlight_warnings and any(m.has_warnings for m in there)
        digits = [math.ceil(math.log10(m.median / scale)) for m in there]
        decimals = 1
        if self._trim_significant_figures:
            decimals = min(max(m.significant_figures - d, 0) for m, d in zip(there, digits))
        width = max(digits) + decimals + (1 if decimals else 0)

        def write(m: Measurement | None) -> str:
            value, mark = 1.0, ""
            if m is not None:
                value = m.median / scale
                if self._trim_significant_figures:
                    value = trim_sigfig(value, m.significant_figures)
                if warn and m.has_warnings:
                    mark = f" (! {m.iqr / m.median * 100:.0f}%)"
            text = f"{value:>{max(width, 0)}.{decimals}f}{mark:>{7 if warn else 0}}"
            return text if m is not None else " " * len(text)

        return write


def _row_key(m: Measurement) -> tuple[int, str, str]:
    return m.task_spec.num_threads, m.task_spec.env or "Unspecified env", m.as_row_name
