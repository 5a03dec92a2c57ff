"""torch.monitor, ThroughputBenchmark, and torch.jit's containers and counters."""

import datetime
import pickle
import threading

import pytest

import tritorch as torch
from tritorch import monitor
from tritorch.utils.throughput_benchmark import ThroughputBenchmark, format_time

LONG = datetime.timedelta(days=1)


@pytest.fixture
def events():
    """The events that are logged while a test runs."""
    seen = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_a_full_window_is_logged(events):
    every = list(monitor.Aggregation)
    stat = monitor.Stat("loss", every, LONG, max_samples=3)
    for value in (2, 4.5, 1, 100):  # the last comes after the window is full
        stat.add(value)
    expected = {"value": 1.0, "mean": 2.5, "count": 3.0, "sum": 7.5, "max": 4.5, "min": 1.0}
    assert stat.count == 0
    assert stat.get() == {how: expected[how.name.lower()] for how in every}
    (event,) = events
    assert event.name == monitor.STAT_EVENT
    assert event.data == {f"loss.{name}": value for name, value in expected.items()}


def test_a_window_that_is_over_is_logged(events, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stat = monitor.Stat("x", [monitor.MEAN], datetime.timedelta(seconds=10))
    stat.add(1)
    stat.add(2)
    assert stat.count == 2 and stat.get() == {monitor.MEAN: 0.0}
    now[0] = 11.0
    assert stat.count == 0 and stat.get() == {monitor.MEAN: 1.5}
    stat.add(7)
    del stat
    assert [event.data for event in events] == [{"x.mean": 1.5}, {"x.mean": 7.0}]


def test_events_reach_handlers_until_they_leave(events):
    event = monitor.Event("name", datetime.datetime.now(), {"a": 1.5, "b": "text"})
    monitor.log_event(event)
    assert events == [event]
    with pytest.raises(TypeError, match="timestamp must be a datetime"):
        monitor.Event("name", 3, {})
    with pytest.raises(TypeError, match="'a': list"):
        monitor.Event("name", event.timestamp, {"a": [1]})
    with pytest.raises(TypeError, match="expected an Event"):
        monitor.log_event(3)


def test_tensorboard_handler():
    class Writer:
        def __init__(self):
            self.calls = []

        def add_scalar(self, *args, walltime):
            self.calls.append((*args, walltime))

    writer, when = Writer(), datetime.datetime.now()
    handler = monitor.TensorboardEventHandler(writer)
    handler(monitor.Event("other", when, {"a": 1}))
    handler(monitor.Event(monitor.STAT_EVENT, when, {"a.mean": 1.0}))
    assert writer.calls == [("a.mean", 1.0, when.timestamp())]


def test_throughput_counts_every_call():
    calls, lock = [], threading.Lock()

    def module(x, y=0):
        with lock:
            calls.append((threading.get_ident(), torch.is_grad_enabled(), x + y))

    bench = ThroughputBenchmark(module)
    with pytest.raises(RuntimeError, match="provide benchmark inputs"):
        bench.benchmark()
    bench.add_input(1)
    bench.add_input(1, y=1)
    with torch.no_grad():
        stats = bench.benchmark(num_calling_threads=3, num_warmup_iters=2, num_iters=40)
    assert stats.num_iters == 40 and len(calls) == 40 + 3 * 2
    assert {grad for _, grad, _ in calls} == {False} and {x for *_, x in calls} == {1, 2}
    assert str(stats).startswith("Average latency per example: ")
    low = torch.ThroughputBenchmark(module)
    low.add_input(1)
    assert low.benchmark(torch.BenchmarkConfig()).num_iters == 100


def test_throughput_raises_what_the_module_raised():
    bench = ThroughputBenchmark(torch.nn.Linear(2, 2))
    bench.add_input(torch.ones(3))
    with pytest.raises(RuntimeError, match="shape"):
        bench.benchmark(num_calling_threads=2)


def test_format_time():
    assert format_time(time_us=3.2) == "3.200us" and format_time(time_ms=3.2) == "3.200ms"
    assert format_time(time_us=3.2e6) == format_time(time_s=3.2) == "3.200s"


def test_script_list_keeps_its_type():
    numbers = torch.jit.script([1, 2, 3])
    assert type(numbers) is torch.ScriptList and repr(numbers[1:]) == "[2, 3]"
    for wrong in (lambda: numbers.append("a"), lambda: numbers.extend([1, 2.5]),
                  lambda: "a" in numbers, lambda: numbers.__setitem__(0, None)):  # fmt: skip
        with pytest.raises(TypeError, match="expected a value of type int"):
            wrong()
    with pytest.raises(IndexError):
        numbers.insert(4, 1)
    with pytest.raises(RuntimeError, match="different sizes"):
        numbers[:2] = [1]
    numbers[:2] = [8, 9]
    assert list(numbers) == [8, 9, 3] == list(pickle.loads(pickle.dumps(numbers)))
    nested = torch.ScriptList([[1.5], [2.0]])
    nested[0].append("not kept")
    assert repr(nested) == "[[1.5], [2.]]"
    with pytest.raises(torch.jit.Error, match="Found int and str"):
        torch.ScriptList([1, "a"])


def test_script_dict_keeps_its_types():
    table = torch.jit.script({"a": 1})
    table["b"] = 2
    assert repr(table) == "{a: 1, b: 2}" and list(table.items()) == [("a", 1), ("b", 2)]
    with pytest.raises(TypeError, match="expected a value of type str"):
        table[1] = 1
    for key in ("z", 1):
        with pytest.raises(KeyError):
            table[key]
    del table["a"]
    assert list(table) == ["b"] == list(table.keys()) and "a" not in table


def test_counters():
    logging = torch.jit._logging
    logger = torch.LockingLogger()
    before = logging.set_logger(logger)
    try:
        logging.add_stat_value("x", 3)
        logging.add_stat_value("x", 4)
    finally:
        assert logging.set_logger(before) is logger
    logging.add_stat_value("x", 100)
    assert logger.get_counter_val("x") == 7 and logger.get_counter_val("y") == 0
    logger.set_aggregation_type("x", torch.AVG)
    assert logger.get_counter_val("x") == 3
