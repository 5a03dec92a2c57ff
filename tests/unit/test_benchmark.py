"""The timers: statistics, texts as in PyTorch, and that they measure what they say."""

import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest

import tritorch
from tests.patience import Clock
from tritorch import _C
from tritorch.utils import benchmark
from tritorch.utils.benchmark import Compare, Measurement, TaskSpec, Timer, do_bench


def measurement(times, number=1, threads=1, **fields):
    fields = {"stmt": "f(x)", "setup": "pass", **fields}
    return Measurement(number, times, TaskSpec(num_threads=threads, **fields))


# ---- do_bench ------------------------------------------------------------------------------------


def wait():
    time.sleep(0.001)


@pytest.mark.parametrize("on_device", [False, True])
def test_do_bench_returns_what_is_asked_for(monkeypatch, on_device):
    times = [3.0, 1.0, 2.0, 10.0]
    monkeypatch.setattr(tritorch.cuda, "is_initialized", lambda: on_device)
    monkeypatch.setattr(
        benchmark, "_time_on_device" if on_device else "_time_on_host", lambda *_: times
    )
    assert do_bench(wait) == 4.0
    assert do_bench(wait, return_mode="median") == 2.5
    assert do_bench(wait, return_mode="min") == 1.0
    assert do_bench(wait, return_mode="max") == 10.0
    assert do_bench(wait, return_mode="all") is times
    assert do_bench(wait, quantiles=[0.5]) == 2.5
    assert do_bench(wait, quantiles=(0.5, 0.2, 0.8)) == pytest.approx(
        list(np.quantile(times, (0.5, 0.2, 0.8)))
    )


def test_do_bench_refuses_other_modes_and_quantiles():
    with pytest.raises(ValueError, match="got 'mode'"):
        do_bench(wait, return_mode="mode")
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        do_bench(wait, warmup=1, rep=1, quantiles=[1.5])


def test_do_bench_on_the_host_measures_milliseconds(monkeypatch):
    monkeypatch.setattr(tritorch.cuda, "is_initialized", lambda: False)
    clock = Clock()
    monkeypatch.setattr(benchmark, "time", SimpleNamespace(perf_counter=clock.read))
    times = do_bench(lambda: clock.spend(0.001), warmup=2, rep=20, return_mode="all")
    assert times == pytest.approx([1.0] * len(times))
    assert len(times) in (19, 20)  # times of calls add up to a little more or less than they are


def test_do_bench_clears_gradients(monkeypatch):
    monkeypatch.setattr(tritorch.cuda, "is_initialized", lambda: False)

    class Leaf:
        grad = 0

    leaf, seen = Leaf(), []

    def accumulate():
        seen.append(leaf.grad)
        leaf.grad = (leaf.grad or 0) + 1

    n = len(do_bench(accumulate, warmup=0, rep=0.01, grad_to_none=[leaf], return_mode="all"))
    assert seen[-n:] == [None] * n


@pytest.mark.device
def test_do_bench_on_a_device_times_the_work_and_not_the_flush():
    n = 1 << 20
    x = tritorch.cuda.empty(n, dtype=tritorch.float32)
    y = tritorch.cuda.empty(n, dtype=tritorch.float32)
    calls = []

    def copy():
        calls.append(1)
        y.copy_(x)

    times = do_bench(copy, warmup=1, rep=5, return_mode="all")
    assert len(calls) > len(times) >= 1
    assert all(t >= 0 for t in times) and max(times) < 1000


@pytest.mark.device
def test_do_bench_serves_an_autotuner():
    from triton.runtime import driver

    benchmark = driver.active.get_benchmarker()
    if not _C.is_simulated():
        assert benchmark is do_bench
        return
    calls = []  # there nothing is timed: each choice runs once, and all are as good
    assert benchmark(lambda: calls.append(1), quantiles=(0.5, 0.2, 0.8)) == [1.0, 1.0, 1.0]
    assert calls == [1]


# ---- Measurement ---------------------------------------------------------------------------------


def test_statistics_agree_with_numpy():
    rng = np.random.default_rng(0)
    raw = list(rng.lognormal(size=37))
    m = measurement(raw, number=10)
    runs = np.array(raw) / 10
    assert m.times == pytest.approx(list(runs))
    assert m.median == pytest.approx(np.median(runs))
    assert m.mean == pytest.approx(runs.mean())
    assert m.iqr == pytest.approx(np.quantile(runs, 0.75) - np.quantile(runs, 0.25))
    assert m.label is None and m.stmt == "f(x)" and m.num_threads == 1
    with pytest.raises(AttributeError, match="nonsense"):
        m.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("times", "figures"),
    [([1.0, 1.0, 1.0, 1.0], 4), ([1.0, 1.1, 0.9, 1.0, 1.05], 1), ([1e-7] * 5, 1)],
)
def test_significant_figures(times, figures):
    assert measurement(times).significant_figures == figures


def test_repr_is_as_in_pytorch():
    m = measurement([4e-6, 5e-6, 6e-6, 7e-6], number=1, label="Add", sub_label="4x8")
    text = repr(m).splitlines()
    assert text[0].startswith("<tritorch.utils.benchmark.Measurement object at 0x")
    assert "\n".join(text[1:]) == textwrap.dedent("""\
        Add: 4x8
          Median: 5.50 us
          IQR:    1.50 us (4.75 to 6.25)
          4 measurements, 1 runs per measurement, 1 thread
          WARNING: Interquartile range is 27.3% of the median measurement.
                   This suggests significant environmental influence.""")
    single = measurement([2.0], number=1000, threads=2, setup="x = 1", description="new")
    assert repr(single).splitlines()[1:] == [
        "f(x)", "new", "setup: x = 1", "  2.00 ms", "  1 measurement, 1000 runs , 2 threads",
    ]  # fmt: skip


def test_merge_joins_replicates_only():
    one, two = measurement([2.0], number=2), measurement([3.0, 4.0])
    other = measurement([9.0], env="branch")
    merged = Measurement.merge([one, other, two])
    assert [m.raw_times for m in merged] == [[1.0, 3.0, 4.0], [9.0]]
    assert merged[0].number_per_run == 1


def test_measurements_travel_between_processes():
    import copy
    import pickle

    m = measurement([1.0, 2.0])
    assert pickle.loads(pickle.dumps(m)) == m == copy.deepcopy(m)


@pytest.mark.parametrize(
    ("seconds", "unit"),
    [(2.0, "s"), (0.5, "ms"), (1e-3, "ms"), (3e-5, "us"), (4e-9, "ns"), (0, "ns")],
)
def test_units(seconds, unit):
    assert benchmark.select_unit(seconds)[0] == unit
    assert benchmark.unit_to_english(unit).endswith("second")


def test_trim_sigfig():
    assert benchmark.trim_sigfig(3.14159, 2) == pytest.approx(3.1)
    assert benchmark.trim_sigfig(1234.0, 2) == 1200
    assert benchmark.trim_sigfig(0.0, 2) == 0
    assert benchmark.ordered_unique([2, 1, 2]) == [2, 1]


# ---- Timer ---------------------------------------------------------------------------------------


def test_timeit_runs_what_it_says():
    m = Timer("calls.append(1)", globals={"calls": (calls := [])}, label="append").timeit(200)
    assert len(calls) == 202 and m.number_per_run == 200
    assert len(m.raw_times) == 1 and m.label == "append"
    assert Timer("tritorch").timeit(2).median > 0


def test_blocked_autorange_amortises_the_clock():
    seen, clock = [], Clock()
    m = Timer("spend(1e-6)", timer=clock.read, globals={"spend": clock.spend}).blocked_autorange(
        callback=lambda number, t: seen.append((number, t)), min_run_time=0.05
    )
    assert m.number_per_run == 100 and sum(m.raw_times) >= 0.05
    assert seen == [(100, t) for t in m.raw_times]
    assert m.median == pytest.approx(1e-6)
    assert Timer("sum(range(100))").blocked_autorange(min_run_time=1e-3).median > 0


def test_adaptive_autorange_stops_when_settled_or_late():
    ticks = iter(range(1, 10**9))
    noisy = Timer("pass", timer=lambda: 1e-3 * next(ticks) ** 2).adaptive_autorange(
        threshold=1e-9, max_run_time=0.5
    )
    assert sum(noisy.raw_times) > 0.5
    clock = Clock()
    steady = Timer("spend(0.002)", timer=clock.read, globals={"spend": clock.spend})
    times = steady.adaptive_autorange(0.5).raw_times
    assert times == pytest.approx([0.002] * 5)  # the fifth makes 0.01 s


def test_block_strings_are_dedented():
    m = Timer(
        """
        x = 1
        y = x
        """
    ).timeit(2)
    assert m.stmt == "x = 1\ny = x"
    assert m.title == "stmt:\n  x = 1\n  y = x"


def test_timer_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="Currently only a `str`"):
        Timer(lambda: None)
    with pytest.raises(ValueError, match=r"global_setup is C\+\+ only"):
        Timer(global_setup="#include <x>")
    with pytest.raises(ValueError, match="language must be 'python'"):
        Timer(language="c++")
    with pytest.raises(NotImplementedError):
        Timer().repeat()
    with pytest.raises(NotImplementedError):
        Timer().autorange()


def test_num_threads_reaches_numpy_and_is_put_back():
    blas = benchmark._blas()
    if blas is None:
        pytest.skip("this NumPy brings no OpenBLAS")
    before = blas[1]()
    inside = []
    for n in (1, 2):
        Timer(
            "inside.append(get())", globals={"inside": inside, "get": blas[1]}, num_threads=n
        ).timeit(1)
    assert set(inside[:3]) == {1} and set(inside[3:]) in ({2}, {before})
    assert blas[1]() == before


@pytest.mark.device
def test_the_clock_waits_for_the_device(monkeypatch):
    waits = []
    monkeypatch.setattr(tritorch.cuda, "synchronize", lambda: waits.append(1))
    tritorch.cuda.init()
    Timer("pass").timeit(1)
    assert len(waits) == 4  # before and after each of two runs
    monkeypatch.setattr(tritorch.cuda, "is_initialized", lambda: False)
    Timer("pass").timeit(1)
    assert len(waits) == 4


# ---- Compare -------------------------------------------------------------------------------------


def results(**extra):
    return [
        measurement(
            [base * scale] * 5,
            label="add",
            sub_label=row,
            description=column,
            threads=threads,
            **extra,
        )
        for threads in (1, 2)
        for row, base in (("float", 1e-6), ("int", 2.5e-5))
        for column, scale in (("n=1", 1), ("n=64", 3.2))
        if (threads, row, column) != (2, "int", "n=64")
    ]


def test_table_is_as_in_pytorch():
    # What PyTorch 2.13 prints for the same measurements.
    assert str(Compare(results())).split("\n") == [
        "[----------- add -----------]",
        "             |  n=1   |  n=64",
        "1 threads: ------------------",
        "      float  |   1.0  |   3.2",
        "      int    |  25.0  |  80.0",
        "2 threads: ------------------",
        "      float  |   1.0  |   3.2",
        "      int    |  25.0  |      ",
        "",
        "Times are in microseconds (us).",
        "",
    ]


def test_trimmed_coloured_and_highlighted(capsys):
    table = Compare(results())
    table.trim_significant_figures()
    table.colorize()
    assert "\033[92m\033[1m" in str(table)
    table.colorize(rowwise=True)
    table.extend_results([measurement([1e-6, 2e-6, 3e-6, 4e-6, 5e-6], label="wild")])
    table.highlight_warnings()
    table.print()
    text = capsys.readouterr().out
    assert "(! 67%)" in text and "has high variance" in text and " wild " in text


def test_environments_get_a_column_of_names():
    text = str(Compare(results(env="master") + results(env="branch")))
    assert "(master)" in text and "(branch)" in text
    text = str(Compare(results() + results(env="branch")))
    assert "(Unspecified env)" in text


def test_compare_takes_measurements_only():
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        Compare([1.0])
