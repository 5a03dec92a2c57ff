"""The page of a program on the CPU, and what else is made of a profile: files by what they are."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.core import profiling
from tritorch.profiler import profile
from tritorch.profiler._memory_profiler import Category
from tritorch.profiler._snapshots import snapshot_data
from tritorch.profiling.perfetto import write_perfetto
from tritorch.profiling.recordings import Options, Recorder, Recording
from tritorch.profiling.traces import write_trace

ROUNDED = 0.5  # microseconds: times since 1970 as float64 are multiples of a quarter

PROGRAM = """\
import sys, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 1024), nn.Linear(1024, 4)

    def forward(self, x):
        hidden = self.first(x)  # the widest
        return self.second(hidden.relu())

net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
for step in range(2):
    loss = net(torch.randn(64, 8)).square().mean()
    loss.backward()
    optimizer.step()
    with torch.profiler.profile() as own:
        optimizer.zero_grad()
        torch.ones(3).neg()
    counts = {e.key: e.count for e in own.key_averages()}
    assert counts["aten::neg"] == 1 and "aten::linear" not in counts
sys.exit(int(sys.argv[1]))
"""


def read(page: Path) -> dict[str, Any]:
    text = page.read_text()
    start = text.index('id="data">') + len('id="data">')
    found: dict[str, Any] = json.loads(text[start : text.index("</script>", start)])
    return found


def test_a_program_is_profiled(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tritorch", "profile", "--trace", "t.pftrace", "train.py", "7"],
        cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"TRITORCH_SIMULATE_CUDA": ""},
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert (tmp_path / "t.pftrace").stat().st_size > 1000
    data = read(tmp_path / "train.profile.html")
    assert data["title"] == "train.py 7" and "no peaks are known" in data["peaks"]
    ops = {row[0]: row for row in data["ops"]}
    assert ops["aten::linear"][1] == 4 and ops["AddmmBackward0"][1] == 4
    flops = 2 * 2 * (64 * 8 * 1024 + 64 * 1024 * 4)
    assert ops["aten::linear"][9] == flops
    assert [row[0] for row in data["modules"]] == ["Net", "Net.first", "Net.second"]
    widest = 1 + PROGRAM.splitlines().index("        hidden = self.first(x)  # the widest")
    lines = {data["line_table"][row[0]][1]: row for row in data["lines"]}
    assert lines[widest][2 + 2] > 0  # the backward pass belongs to it, too
    # Both products, and the sum that is the bias' gradient.
    assert lines[widest][9] == 2 * (2 * 2 * 64 * 8 * 1024 + 64 * 1024)
    assert data["files"]["train.py"] == PROGRAM.splitlines()
    (memory,) = data["memory"]
    held = {(data["line_table"][h[0]][1], h[2]): h[3] for h in memory["holders"] if h[0] >= 0}
    assert held[widest + 1, "activations"] == 64 * 1024 * 4  # relu's result, which it needs again
    at_peak = dict(zip(memory["roles"], memory["at_peak"]))
    assert at_peak["parameters"] == 4 * (8 * 1024 + 1024 + 1024 * 4 + 4)
    assert at_peak["optimizer"] == at_peak["parameters"]


def recorded(**options: bool) -> Recording:
    recorder = Recorder(Options(**options))
    recorder.start()
    model = nn.Linear(4, 4)
    model(torch.ones(2, 4)).sum().backward()
    return recorder.stop()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _fields(data: bytes) -> list[tuple[int, Any]]:
    found, at = [], 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        elif key & 7 == 1:
            value, at = int.from_bytes(data[at : at + 8], "little"), at + 8
        else:
            assert key & 7 == 2
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        found.append((key >> 3, value))
    return found


def test_perfettos_own_format(tmp_path: Path) -> None:
    recording = recorded(memory=True, modules=True)
    path = tmp_path / "trace.pftrace"
    with path.open("wb") as file:
        write_perfetto(recording, file)
    open_ones: dict[int, int] = {}
    names: dict[int, bytes] = {}
    begun, counters, last = [], 0, 0
    for number, packet in _fields(path.read_bytes()):
        assert number == 1
        fields = dict(_fields(packet))
        assert fields[10] == 1  # all are of one sequence
        for kind, entry in _fields(fields.get(12, b"")):
            assert kind == 2
            names[dict(_fields(entry))[1]] = dict(_fields(entry))[2]
        if 11 not in fields:
            continue
        event = dict(_fields(fields[11]))
        track = event[11]
        if event[9] == 1:
            open_ones[track] = open_ones.get(track, 0) + 1
            begun.append(names[event[10]].decode())
            assert fields[8] >= last
            last = fields[8]
        elif event[9] == 2:
            open_ones[track] -= 1
        else:
            counters += 1
    assert set(open_ones.values()) == {0} and counters > 4
    (thread,) = recording.threads
    shown = [
        name for name, kind in zip(recording.names_of(thread.events), thread.events["kind"])
        if kind not in (profiling.MEMORY, profiling.ROLE)
    ]  # fmt: skip
    assert begun == shown


# What Kineto's readers want of an event, by its phase: fields and their types.
SCHEMA: dict[str, dict[str, Any]] = {
    "M": {"name": str, "pid": int, "args": dict},
    "X": {"name": str, "cat": str, "ts": float, "dur": float, "pid": int, "tid": int, "args": dict},
    "i": {"name": str, "ts": float, "s": str},
    "s": {"id": int, "cat": str, "name": str, "ts": float, "pid": int, "tid": int},
    "f": {"id": int, "cat": str, "name": str, "ts": float, "pid": int, "tid": int, "bp": str},
}
CATEGORIES = {"cpu_op", "user_annotation", "python_function", "cuda_runtime"}


def test_traces_have_kinetos_form(tmp_path: Path) -> None:
    recording = recorded(memory=True, modules=True, shapes=True, stacks=True)
    path = tmp_path / "trace.json.gz"
    write_trace(recording, str(path), {}, {})
    with gzip.open(path, "rt") as file:
        trace = json.load(file)
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms"
    for event in trace["traceEvents"]:
        for name, kind in SCHEMA[event["ph"]].items():
            assert isinstance(event[name], (int, float) if kind is float else kind), (name, event)
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["cat"] in CATEGORIES
    (thread,) = {event["tid"] for event in trace["traceEvents"] if event["ph"] == "X"}
    spans = sorted(

            (e["ts"], -e["dur"], e["ts"] + e["dur"])
            for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == thread

    )  # fmt: skip
    ends: list[float] = []
    for begin, _, end in spans:  # events of a thread lie within each other
        while ends and ends[-1] <= begin + ROUNDED:
            ends.pop()
        assert not ends or end <= ends[-1] + ROUNDED
        ends.append(end)


def test_memory_timelines(tmp_path: Path) -> None:
    model = nn.Linear(32, 32)
    optimizer = torch.optim.Adam(model.parameters())
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
        model(torch.randn(16, 32)).relu().square().mean().backward()
        optimizer.step()
    with pytest.warns(FutureWarning, match="deprecated"):
        prof.export_memory_timeline(str(tmp_path / "m.json"), "cpu")
        prof.export_memory_timeline(str(tmp_path / "m.raw.json.gz"), "cpu")
        prof.export_memory_timeline(str(tmp_path / "m.html"), "cpu")
    times, sizes = json.loads((tmp_path / "m.json").read_text())
    assert times == sorted(times) and all(len(row) == 9 and row[0] == 0 for row in sizes)
    assert all(n >= 0 for row in sizes for n in row)
    parameters = 4 * (32 * 32 + 32)
    assert sizes[0][1] == parameters  # they were there before
    assert sizes[-1][2] == 2 * parameters + 4 * 2  # moments, and two counts of steps
    with gzip.open(tmp_path / "m.raw.json.gz", "rt") as file:
        raw = json.load(file)
    assert sum(row[2] for row in raw) == sum(sizes[-1])
    assert "<polygon" in (tmp_path / "m.html").read_text()
    categories = prof._memory_profile()._category_snapshot().values()
    assert {Category.ACTIVATION, Category.GRADIENT, Category.PARAMETER} <= set(categories)
    with profile(record_shapes=True, with_stack=True) as without:
        pass
    with pytest.raises(ValueError, match="^profile_memory=True required for memory profiling"):
        without._memory_profile()


def _snapshot(n: int) -> dict[str, Any]:
    frames = [[{"filename": f"/home/me/{i}.py", "line": i, "name": "f"}] for i in range(50)]
    trace = []
    for i in range(n // 2):
        for action, time_us in (("alloc", 2 * i), ("free_completed", 2 * i + 1)):
            trace.append(
                {
                    "action": action, "addr": 512 * i, "size": 512, "stream": 0,
                    "time_us": time_us, "frames": frames[i % 50],
                }
            )  # fmt: skip
    return {"segments": [], "device_traces": [trace], "allocator_settings": {}}


def test_a_snapshot_of_many_events_is_opened_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(_snapshot(100_000)))
    start = time.process_time()
    from tritorch.profiler import _snapshots

    assert _snapshots.main([str(path), "-o", str(tmp_path / "page.html")]) == 0
    assert time.process_time() - start < 2  # a twentieth of it, elsewhere
    data = read(tmp_path / "page.html")
    assert data["events"] == 100_000 and data["memory"][0]["peak"] == 512


def test_a_snapshot_says_who_held_memory() -> None:
    here = [{"filename": __file__, "line": 3, "name": "f"}]
    there = [{"filename": os.__file__, "line": 1, "name": "g"}, *here]

    def entry(action: str, address: int, size: int, frames: Any, at: int) -> dict[str, Any]:
        return {
            "action": action, "addr": address, "size": size, "stream": 0, "time_us": at,
            "frames": frames,
        }  # fmt: skip

    trace = [
        entry("free_completed", 9, 100, [], 0), entry("alloc", 1, 1000, here, 1),
        entry("alloc", 2, 500, there, 2), entry("free_completed", 1, 1000, here, 3),
        entry("alloc", 3, 200, here, 4),
    ]  # fmt: skip
    segment = {"device": 0, "allocated_size": 750, "blocks": []}
    data = snapshot_data({"segments": [segment], "device_traces": [trace]}, "snapshot")
    (memory,) = data["memory"]
    # 50 bytes nobody knows of, and 100 that were freed first.
    assert memory["peak"] == 1000 + 500 + 50 and memory["peak_at"] == 2
    assert memory["holders"] == [[0, "", "", 1500, 2]]
    assert data["line_table"] == [[__file__, 3, "f"]]
    assert sum(memory["sizes"][0]) == 50 and sum(memory["sizes"][-1]) == 750


def test_a_snapshot_runs_no_code(tmp_path: Path) -> None:
    path = tmp_path / "bad.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[os.system]]}))
    from tritorch.profiler import _snapshots

    with pytest.raises(pickle.UnpicklingError, match="a snapshot of memory has no"):
        _snapshots.main([str(path)])
