"""Profiles: what is written, what it comes to, and the files that other programs read."""

from __future__ import annotations

import gzip
import json
import os
import threading
import time
from typing import Any

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.autograd import profiler as legacy, profiler_legacy
from tritorch.autograd.profiler_util import EventList, FunctionEvent
from tritorch.core.profiling import events
from tritorch.profiler import (
    DeviceType,
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)


def _step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    with record_function("forward"):
        x, y = torch.randn(4, 8), torch.tensor([0, 1, 0, 1])
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def _training() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    return model, torch.optim.SGD(model.parameters(), 0.1)


def _names(found: Any) -> list[str]:
    return [event.name for event in found]


def test_a_training_step() -> None:
    training = _training()
    _step(*training)
    with profile(record_shapes=True, with_modules=True, with_stack=True, with_flops=True) as prof:
        _step(*training)
    found = prof.events()
    names = _names(found)
    assert names.count("aten::linear") == 2 and names.count("aten::cross_entropy_loss") == 1
    assert names.count("AddmmBackward0") == 2
    assert names.count("torch::autograd::AccumulateGrad") == 4
    assert "Optimizer.step#SGD.step" in names and "Optimizer.zero_grad#SGD.zero_grad" in names
    linear = found[names.index("aten::linear")]
    above = [linear.cpu_parent]
    while above[-1].cpu_parent is not None:
        above.append(above[-1].cpu_parent)
    assert _names(above) == ["nn.Module: Linear_0", "nn.Module: Sequential_0", "forward"]
    assert linear.input_shapes == [[4, 8], [16, 8], [16]] and linear.flops == 2 * 4 * 8 * 16
    assert above[-1].is_user_annotation and not linear.is_user_annotation
    assert any("test_profiler.py" in frame and ": _step" in frame for frame in linear.stack)
    # A node has the place, and the stack, of the call whose gradient it is.
    node = max(
        (each for each in found if each.name == "AddmmBackward0"), key=lambda x: x.time_range.start
    )
    assert (node.sequence_nr, node.scope, node.stack) == (linear.sequence_nr, 1, linear.stack)
    assert node.cpu_parent.name == "autograd::engine::evaluate_function: AddmmBackward0"
    assert {"aten::mm", "aten::sum"} <= set(_names(node.cpu_children))
    for event in found:
        inner = sum(child.cpu_time_total for child in event.cpu_children)
        assert event.self_cpu_time_total == pytest.approx(event.cpu_time_total - inner)
        assert event.self_cpu_time_total >= 0


def test_averages_and_tables() -> None:
    with profile(record_shapes=True, profile_memory=True) as prof:
        for rows in (1000, 1000, 500):
            torch.ones(rows, 10).add(1)
    averages = {each.key: each for each in prof.key_averages()}
    assert averages["aten::add"].count == 3 and averages["aten::ones"].count == 3
    assert averages["aten::add"].self_cpu_memory_usage == 4 * 10 * 2500
    shapes = [
        (each.input_shapes[0], each.count)
        for each in prof.key_averages(group_by_input_shape=True) if each.key == "aten::add"
    ]  # fmt: skip
    assert shapes == [([1000, 10], 2), ([500, 10], 1)]
    table = prof.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=1)
    assert "aten::add" in table or "aten::empty" in table
    assert "Self CPU Mem" in table and "Self CPU time total: " in table
    with pytest.raises(AttributeError):
        prof.key_averages().table(sort_by="nothing")


def test_a_table_is_pytorchs() -> None:
    """The text that PyTorch 2.13 prints of these events."""
    outer = FunctionEvent(0, "aten::outer", 1, 0.0, 1500.0, input_shapes=[[2, 3]], flops=4000)
    inner = FunctionEvent(1, "aten::inner", 1, 100.5, 400.0, input_shapes=[], flops=0)
    found = EventList([outer, inner], with_flops=True)
    for event in found:
        event.stack, event.overload_name = [], ""
    found._build_tree()
    expected = """\
---------------  ------------  ------------  ------------  ------------  ------------  ------------\
  ------------  ------------  \n\
           Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls\
  Input Shapes  Total KFLOPs  \n\
---------------  ------------  ------------  ------------  ------------  ------------  ------------\
  ------------  ------------  \n\
    aten::outer        80.03%       1.200ms       100.00%       1.500ms       1.500ms             1\
      [[2, 3]]         4.000  \n\
    aten::inner        19.97%     299.500us        19.97%     299.500us     299.500us             1\
            []            --  \n\
---------------  ------------  ------------  ------------  ------------  ------------  ------------\
  ------------  ------------  \n\
Self CPU time total: 1.500ms\n"""
    assert found.table() == expected
    assert repr(inner) == (
        "<FunctionEvent id=1 name=aten::inner overload_name= device_type=DeviceType.CPU node_id=-1 "
        "cpu_time=299.500us start_us=100.5 end_us=400.0 cpu_children=[] None_time=0.000us "
        "name=aten::inner thread=1 input_shapes=[] cpu_memory_usage=0 None_memory_usage=0 "
        "is_async=False is_remote=False seq_nr=-1 is_legacy=False>"
    )


def test_schedules() -> None:
    found = []
    plan = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=lambda p: found.append(_names(p.events()))) as prof:
        for _ in range(12):
            torch.ones(2).add(1)
            prof.step()
    assert [[name for name in names if name.startswith("ProfilerStep")] for names in found] == [
        ["ProfilerStep#3", "ProfilerStep#4"], ["ProfilerStep#7", "ProfilerStep#8"],
    ]  # fmt: skip
    assert all(names.count("aten::add") == 2 for names in found)
    actions = [schedule(wait=1, warmup=1, active=1, skip_first_wait=1)(i) for i in range(3)]
    none, warmup, record, save = list(ProfilerAction)[:4]
    assert actions == [warmup, save, none] and record not in actions
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=-1, warmup=1, active=1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_traces(tmp_path: Any) -> None:
    training = _training()
    handler = tensorboard_trace_handler(str(tmp_path), use_gzip=True)
    with profile(record_shapes=True, with_stack=True, on_trace_ready=handler) as prof:
        _step(*training)
    prof.add_metadata("note", "mine")
    (file,) = tmp_path.glob("*.pt.trace.json.gz")
    with gzip.open(file, "rt") as opened:
        trace = json.load(opened)
    shown = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    calls = [each for each in shown if each["cat"] == "python_function"]
    others = {each["name"] for each in shown if each["cat"] != "python_function"}
    assert others == {name for name in _names(prof.events()) if not name.startswith("nn.Module")}
    by_number = {each["args"]["Python id"]: each for each in calls}
    assert len(by_number) == len(calls)
    for each in shown:
        assert {"name", "cat", "ts", "dur", "pid", "tid", "args"} <= set(each)
    linear = next(each for each in shown if each["name"] == "aten::linear")
    assert linear["args"]["Input Dims"] == [[4, 8], [16, 8], [16]]
    assert linear["args"]["Input type"] == ["float32"] * 3 and "Call stack" in linear["args"]
    starts = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "s" and e["cat"] == "fwdbwd"}
    ends = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "f" and e["cat"] == "fwdbwd"}
    assert starts.keys() == ends.keys() and len(starts) >= 4
    assert all(starts[i]["ts"] <= ends[i]["ts"] for i in starts)
    prof.export_stacks(str(tmp_path / "stacks"))
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert lines and all(line.rpartition(" ")[2].isdigit() for line in lines)
    prof.export_chrome_trace(str(tmp_path / "again.json"))
    assert json.loads((tmp_path / "again.json").read_text())["note"] == "mine"


def test_execution_traces(tmp_path: Any) -> None:
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "trace.json"))
    observer.start()
    with record_function("outer"):
        torch.ones(2, 3).add(2, alpha=3)
    observer.stop()
    nodes = json.loads((tmp_path / "trace.json").read_text())["nodes"]
    by_name = {node["name"]: node for node in nodes}
    assert by_name["aten::add"]["ctrl_deps"] == by_name["outer"]["id"]
    assert by_name["aten::add"]["inputs"]["shapes"][0] == [2, 3]
    assert by_name["aten::add"]["inputs"]["values"][1:] == [2, 3]
    observer.unregister_callback()
    assert not observer.is_registered
    observer.register_callback(str(tmp_path / "beside.json"))
    with profile(execution_trace_observer=observer):
        torch.ones(2, 3).exp()
    nodes = json.loads((tmp_path / "beside.json").read_text())["nodes"]
    (shapes,) = [node["inputs"]["shapes"] for node in nodes if node["name"] == "aten::exp"]
    assert shapes == [[2, 3]] and not observer.is_running()


def test_the_older_profiler() -> None:
    with profiler_legacy.profile(record_shapes=True) as prof:
        torch.ones(2).add(1)
    (add,) = [each for each in prof.function_events if each.name == "aten::add"]
    assert add.input_shapes == [[2], []] and "aten::add" in prof.table()
    with profiler_legacy.profile(enabled=False) as nothing:
        pass
    assert nothing is None


def test_other_threads_have_lines_of_their_own() -> None:
    with profile() as prof:
        torch.ones(2).exp()
        thread = threading.Thread(target=lambda: torch.ones(2).sin())
        thread.start()
        thread.join()
    places = {event.name: event.thread for event in prof.events()}
    assert places["aten::exp"] != places["aten::sin"]


def test_loaders_and_functions_are_named() -> None:
    @record_function("mine")
    def inner(n: int) -> int:
        return inner(n - 1) if n else 0

    loader = torch.utils.data.DataLoader(torch.arange(4), batch_size=2)
    with profile() as prof:
        list(loader)
        inner(2)
    names = _names(prof.events())
    assert "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__" in names
    # One that only calls its like is the same event.
    assert names.count("mine") == 1


def test_errors_and_states() -> None:
    with pytest.raises(RuntimeError, match="inner"), profile() as prof, record_function("part"):
        torch.ones(2).exp()
        raise RuntimeError("inner")
    assert _names(prof.events())[:2] == ["part", "aten::ones"] and not events.enabled()
    with profile(), pytest.raises(RuntimeError, match="already enabled"):
        legacy.profile().__enter__()
    assert not events.enabled()
    with legacy.profile(enabled=False) as nothing:
        pass
    assert nothing is None
    unfinished = legacy.profile()
    assert str(unfinished) == "<unfinished torch.autograd.profile>"
    with pytest.raises(RuntimeError, match="didn't finish running"):
        unfinished.key_averages()
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])
    assert DeviceType.CUDA.value == 1 and int(ProfilerActivity.CUDA) == 3


def test_nothing_is_written_while_it_is_paused() -> None:
    with profile() as prof:
        torch.ones(2).exp()
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        torch.ones(2).sin()
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
        torch.ones(2).cos()
    names = _names(prof.events())
    assert "aten::exp" in names and "aten::cos" in names and "aten::sin" not in names


def test_a_forked_process_writes_nothing() -> None:
    with profile(profile_memory=True) as prof:
        if (child := os.fork()) == 0:
            torch.ones(2).exp()
            with profile() as own:
                torch.ones(2).sin()
            os._exit(0 if "aten::sin" in _names(own.events()) and not events.enabled() else 1)
        assert os.waitpid(child, 0)[1] == 0
        torch.ones(2).cos()
    names = _names(prof.events())
    assert "aten::cos" in names and "aten::exp" not in names


def test_many_events_are_read_in_seconds(tmp_path: Any) -> None:
    """A trace of many events takes time that grows with them alone."""
    x = torch.ones(2)
    with profile(record_shapes=True) as prof:
        for _ in range(20_000):
            x.neg()
    start = time.process_time()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    each = (time.process_time() - start) / 20_000
    assert each < 100e-6, each  # 3 on a quiet machine would be a million in 3 s
    assert len(json.loads((tmp_path / "trace.json").read_text())["traceEvents"]) > 20_000
