"""Execution traces: each call with its arguments as a node of a graph, for replay."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from tritorch.core import profiling
from tritorch.profiling.recordings import Call, Options, Recorder, Recording, Shape, spans

__all__ = ["ExecutionTraceObserver"]


class ExecutionTraceObserver:
    """Writes a file of PyTorch's schema of execution traces while it runs."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._running = False
        self._recorder: Recorder | None = None

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """One that writes to a new file, where ENABLE_PYTORCH_EXECUTION_TRACE asks for it."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        with tempfile.NamedTemporaryFile("w", suffix=".et.json", delete=False) as file:
            return ExecutionTraceObserver().register_callback(file.name)

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Says where to write."""
        self._path = output_file_path
        return self

    def unregister_callback(self) -> None:
        """Stops, and forgets where to write."""
        self.stop()
        self._path = None

    @property
    def is_registered(self) -> bool:
        """Whether it knows where to write."""
        return self._path is not None

    def is_running(self) -> bool:
        """Whether calls are written now."""
        return self._running

    def get_output_file_path(self) -> str | None:
        """Where it writes."""
        return self._path

    def start(self) -> None:
        """Writes from now on; beside a profile, what that writes."""
        if self._path is None or self._running:
            return
        self._running = True
        if Recorder.active is None or Recorder.active.lends:
            self._recorder = Recorder(Options(shapes=True))
            self._recorder.start()

    def stop(self) -> None:
        """Ends it, and writes the file."""
        if not self._running:
            return
        self._running = False
        if self._recorder is not None:
            self.write(self._recorder.stop())
            self._recorder = None

    def cleanup(self) -> None:
        """`unregister_callback`."""
        self.unregister_callback()

    def write(self, recording: Recording) -> None:
        """Writes what a profile has written."""
        if self._path is None:
            return
        nodes = [_node(1, 1, "[pytorch|profiler|execution_trace|process]", 0, 0)]
        number = 1
        for place, (thread, names) in enumerate(spans(recording), 1):
            number += 1
            root = number
            nodes.append(_node(root, 1, "[pytorch|profiler|execution_trace|thread]", place, 0))
            open_ones: list[tuple[int, int]] = []
            for name, event in zip(names, thread.events):
                if int(event["kind"]) not in (profiling.OP, profiling.ANNOTATION, profiling.NODE):
                    continue
                number += 1
                while open_ones and open_ones[-1][1] <= int(event["begin"]):
                    open_ones.pop()
                parent = open_ones[-1][0] if open_ones else root
                call = thread.words.call(int(event["shapes"]) - 1) if event["shapes"] else Call()
                sequence = int(event["sequence"])
                nodes.append(_node(number, parent, name, place, sequence, call))
                open_ones.append((number, int(event["end"])))
        schema = {"schema": "1.1.1-chakra.0.0.4", "pid": os.getpid(), "time": "", "nodes": nodes}
        with open(self._path, "w") as file:
            json.dump(schema, file)


def _node(
    number: int, parent: int, name: str, thread: int, sequence: int, call: Call | None = None
) -> dict[str, Any]:
    values = [] if call is None else call.values()
    shapes = [list(v.sizes) if isinstance(v, Shape) else [] for v in values]
    strides = [list(v.strides) if isinstance(v, Shape) else [] for v in values]
    attributes = {
        "rf_id": number, "fw_parent": 0, "seq_id": sequence, "scope": 0, "tid": thread,
        "fw_tid": 0, "op_schema": "", "kernel_backend": "", "kernel_file": "",
    }  # fmt: skip
    return {
        "id": number, "name": name, "ctrl_deps": parent,
        "inputs": {
            "values": [_value(v) for v in values], "shapes": shapes, "strides": strides,
            "types": [_type(v) for v in values],
        },
        "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
        "attrs": [
            {"name": key, "type": "uint64" if isinstance(v, int) else "string", "value": v}
            for key, v in attributes.items()
        ],
    }  # fmt: skip


def _value(value: Any) -> Any:
    if value is ... or isinstance(value, Shape):
        return "<none>" if value is ... else ""
    return [_value(each) for each in value] if isinstance(value, list) else value


def _type(value: Any) -> str:
    if isinstance(value, Shape):
        return f"Tensor({value.dtype.rpartition('.')[2]})"
    if isinstance(value, list):
        return f"GenericList[{','.join(map(_type, value))}]"
    return {bool: "Bool", int: "Int", float: "Double"}.get(type(value), "None")
