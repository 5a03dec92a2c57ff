"""A recording as a file of Kineto's form, which Perfetto, Chrome and TensorBoard show.

Each event is one line of JSON, put together from pieces that are made once for a name: a million
events take seconds.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import sys
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from tritorch.core import profiling
from tritorch.profiling.perfetto import write_perfetto
from tritorch.profiling.recordings import Call, Recording, Shape, Thread, function_of, spans

_CATEGORIES = {
    profiling.OP: "cpu_op", profiling.ANNOTATION: "user_annotation", profiling.NODE: "cpu_op",
    profiling.MODULE: "python_function", profiling.LAUNCH: "cuda_runtime",
    profiling.WAIT: "cuda_runtime", profiling.WORK: "user_annotation",
}  # fmt: skip
_CALLS = (profiling.FUNCTION, profiling.BUILTIN, profiling.MODULE)


def write_trace(
    recording: Recording, path: str, config: dict[str, Any], metadata: dict[str, Any]
) -> None:
    """Writes the file; one that ends in .gz is compressed, one in .pftrace is Perfetto's."""
    if str(path).endswith((".pftrace", ".perfetto-trace")):
        with open(path, "wb") as binary:
            write_perfetto(recording, binary)
        return
    opened: Any = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        _write(recording, file, config, metadata)


def _write(
    recording: Recording, file: IO[str], config: dict[str, Any], metadata: dict[str, Any]
) -> None:
    head = {
        "schemaVersion": 1, "deviceProperties": [], "host_name": socket.gethostname(),
        **{name: int(x) if isinstance(x, bool) else x for name, x in config.items()},
        "displayTimeUnit": "ms", "baseTimeNanoseconds": 0, **metadata,
    }  # fmt: skip
    file.write(json.dumps(head, indent=1)[:-2])
    file.write(',\n "traceEvents": [\n')
    lines = _lines(recording)
    file.write(next(lines))
    for line in lines:
        file.write(",\n")
        file.write(line)
    file.write("\n]}\n")


def _lines(recording: Recording) -> Iterator[str]:
    process, text = os.getpid(), json.dumps
    program = os.path.basename(sys.executable)
    start = _microseconds(recording, recording.begin)

    def about(kind: str, thread: int, **args: Any) -> str:
        return text(
            {"ph": "M", "name": kind, "ts": start, "pid": process, "tid": thread, "args": args}
        )

    yield about("process_name", 0, name=program)
    yield about("process_labels", 0, labels="CPU")
    yield about("process_sort_index", 0, sort_index=process)
    for thread in recording.threads:
        yield about("thread_name", thread.id, name=f"thread {thread.id} ({program})")
        yield about("thread_sort_index", thread.id, sort_index=thread.id)
    number = called = 0
    launches = _correlations(recording)
    for thread, names in spans(recording):
        yield from _of_thread(recording, thread, names, process, number, launches)
        number += len(thread.events)
        if recording.options.functions:
            yield from _functions(recording, thread, process, called)
            called += len(thread.whole)
    yield from _of_devices(recording, process, launches)
    yield from _flows(recording, process)
    end = _microseconds(recording, recording.end)
    window = f'Record Window End", "pid": "", "tid": "", "ts": {end}'
    yield f'{{"ph": "i", "s": "g", "name": "{window}}}'


def _microseconds(recording: Recording, nanoseconds: int) -> float:
    return (nanoseconds + recording.wall) / 1e3


def _of_thread(
    recording: Recording, thread: Thread, names: list[str], process: int, number: int,
    launches: dict[tuple[int, int], int],
) -> Iterator[str]:  # fmt: skip
    found = thread.events
    shown = {name: json.dumps(name) for name in set(names)}
    kinds = {kind: f'{{"ph": "X", "cat": "{x}", "name": ' for kind, x in _CATEGORIES.items()}
    middle = f', "pid": {process}, "tid": {thread.id}, "ts": '
    begin = (found["begin"] + recording.wall) / 1e3
    lasted = (found["end"] - found["begin"]) / 1e3
    total = np.cumsum(np.where(found["kind"] == profiling.MEMORY, found["sequence"], 0))
    columns = (
        names, found["kind"].tolist(), begin.tolist(), lasted.tolist(),
        found["sequence"].tolist(), found["shapes"].tolist(), found["stack"].tolist(),
        range(len(found)),
    )  # fmt: skip
    for name, kind, at, time, sequence, shapes, stack, i in zip(*columns):
        if kind == profiling.ROLE or (kind == profiling.MODULE and recording.options.functions):
            continue  # modules' calls are functions'
        if kind == profiling.MEMORY:
            yield _memory(recording, thread, found[i], int(total[i]), at, process)
            continue
        said = f'"External id": {number + i + 1}, "Ev Idx": {number + i}'
        if kind == profiling.LAUNCH:
            said += f', "correlation": {launches.get((thread.id, i), 0)}'
        elif kind == profiling.MODULE:
            said += f', "Python id": {number + i}, "Python module id": {names_number(name)}'
        elif sequence >= 0:
            said += f', "Sequence number": {sequence}, "Fwd thread id": 0'
        if shapes:
            said += ", " + _arguments(thread.words.call(shapes - 1))
        if stack:
            frames = ";".join(recording.stack(stack))
            said += f', "Call stack": {json.dumps(frames)}'
        yield f'{kinds[kind]}{shown[name]}{middle}{at:.3f}, "dur": {time:.3f}, "args": {{{said}}}}}'


def _functions(recording: Recording, thread: Thread, process: int, first: int) -> Iterator[str]:
    """Python's functions, numbered from `first` on, each with who called it."""
    rows = thread.whole
    shown = np.isin(rows["kind"], _CALLS)
    around = np.concatenate(([0], rows["parent"])).astype("i8")  # by place plus one
    while (out := (around > 0) & ~shown[around - 1]).any():
        around[out] = around[around[out]]
    names = recording.names_of(rows)
    for place in np.flatnonzero(shown).tolist():
        row, name = rows[place], names[place]
        if row["kind"] == profiling.FUNCTION:
            file, line, function = function_of(name)
            name = f"{file}({line}): {function}"
        args: dict[str, Any] = {"Python id": first + place + 1}
        if around[place + 1]:
            args["Python parent id"] = first + int(around[place + 1])
        if row["kind"] == profiling.MODULE:
            args["Python module id"] = names_number(name)
        yield json.dumps(
            {
                "ph": "X", "cat": "python_function", "name": name, "pid": process,
                "tid": thread.id, "ts": _microseconds(recording, int(row["begin"])),
                "dur": int(row["end"] - row["begin"]) / 1e3, "args": args,
            }
        )  # fmt: skip


def _correlations(recording: Recording) -> dict[tuple[int, int], int]:
    """The number of each launch that a device did something for."""
    found: dict[tuple[int, int], int] = {}
    for span in recording.device:
        if span.thread:
            found.setdefault((span.thread, span.place), len(found) + 1)
    return found


def _of_devices(
    recording: Recording, process: int, correlations: dict[tuple[int, int], int]
) -> Iterator[str]:
    """What devices did, each with an arrow from its launch."""
    launches = {thread.id: thread.events for thread in recording.threads}
    for number, span in enumerate(recording.device):
        begin = _microseconds(recording, span.begin)
        kind = "kernel"
        name = span.name
        if name.startswith("Memcpy"):
            kind = "gpu_memcpy"
        elif name.startswith("Memset"):
            kind = "gpu_memset"
        common = {"pid": span.device, "tid": span.stream, "ts": begin}
        correlation = correlations.get((span.thread, span.place), 0)
        args: dict[str, Any] = {
            "device": span.device, "stream": span.stream, "correlation": correlation,
        }  # fmt: skip
        if any(span.grid):
            args |= {
                "grid": list(span.grid), "block": list(span.block),
                "registers per thread": span.registers, "shared memory": span.shared,
            }  # fmt: skip
        elif span.bytes:
            args["bytes"] = span.bytes
        lasted = (span.end - span.begin) / 1e3
        yield json.dumps(
            {"ph": "X", "cat": kind, "name": name, **common, "dur": lasted, "args": args}
        )
        if not span.thread:
            continue
        host = launches[span.thread][span.place]
        at = _microseconds(recording, int(host["begin"]))
        flow = {"id": number, "cat": "ac2g", "name": "ac2g"}
        yield json.dumps({"ph": "s", **flow, "pid": process, "tid": span.thread, "ts": at})
        yield json.dumps({"ph": "f", "bp": "e", **flow, **common})


def names_number(name: str) -> int:
    """The number at the end of a module's name."""
    return int(name.rpartition("_")[2])


def _arguments(call: Call) -> str:
    values = call.values()
    fields = {
        "Input Dims": [_field(v, lambda x: list(x.sizes), []) for v in values],
        "Input Strides": [_field(v, lambda x: list(x.strides), []) for v in values],
        "Input type": [_field(v, lambda x: x.dtype.rpartition(".")[2], _kind(v)) for v in values],
        "Concrete Inputs": [_said(v) for v in values],
    }
    return json.dumps(fields)[1:-1]


def _field(value: Any, read: Any, other: Any) -> Any:
    if isinstance(value, Shape):
        return read(value)
    if isinstance(value, list) and any(isinstance(each, Shape) for each in value):
        return [_field(each, read, other) for each in value]
    return other


def _kind(value: Any) -> str:
    if isinstance(value, list):
        if any(isinstance(each, Shape) for each in value):
            return "TensorList"
        return "ScalarList"
    return "Scalar" if isinstance(value, (bool, int, float)) else ""


def _said(value: Any) -> str:
    if value is None or value is ... or isinstance(value, Shape):
        return ""
    if isinstance(value, list):
        if any(isinstance(each, Shape) for each in value):
            return ""
        return f"[{', '.join(map(_said, value))}]"
    return str(value)


def _memory(
    recording: Recording, thread: Thread, event: Any, total: int, at: float, process: int
) -> str:
    device = int(event["extra"]) - 1
    args = {
        "Device Type": 0 if device < 0 else 1, "Device Id": device, "Addr": int(event["detail"]),
        "Bytes": int(event["sequence"]), "Total Allocated": total, "Total Reserved": 0,
    }  # fmt: skip
    return json.dumps(
        {
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": process,
            "tid": thread.id, "ts": at, "args": args,
        }
    )  # fmt: skip


def _flows(recording: Recording, process: int) -> Iterator[str]:
    """An arrow from each call to the node of its gradient: the last call that begins with the
    node's place is the one that made it."""
    calls: dict[int, tuple[int, int]] = {}
    for thread in recording.threads:
        made = thread.events[thread.events["kind"] == profiling.OP]
        for sequence, begin in zip(made["sequence"].tolist(), made["begin"].tolist()):
            calls[sequence] = thread.id, begin
    done: set[int] = set()
    for thread in recording.threads:
        nodes = thread.events[thread.events["kind"] == profiling.NODE]
        for sequence, begin in zip(nodes["sequence"].tolist(), nodes["begin"].tolist()):
            if sequence < 0 or sequence not in calls or sequence in done:
                continue
            done.add(sequence)
            for kind, (place, at) in (("s", calls[sequence]), ("f", (thread.id, begin))):
                ends = ', "bp": "e"' if kind == "f" else ""
                yield (
                    f'{{"ph": "{kind}", "id": {sequence}, "pid": {process}, "tid": {place}, '
                    f'"ts": {_microseconds(recording, at):.3f}, "cat": "fwdbwd", '
                    f'"name": "fwdbwd"{ends}}}'
                )
