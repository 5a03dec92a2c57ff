"""Events of a profile as objects: their tree, averages, tables and files."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tritorch.core.deprecation import deprecated
from tritorch.profiling.kinds import DeviceType
from tritorch.profiling.tables import (
    _build_table,
    _format_memory as _format_memory,
    _format_time,
    _format_time_share as _format_time_share,
    _of_device,
)

__all__ = [
    "EventList", "EventMetadata", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg",
    "Interval", "Kernel", "MemRecordsAcc", "StringTable",
]  # fmt: skip

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"
_BACKWARD = 1  # a scope: of nodes of backward passes


# ---- events of a profile -------------------------------------------------------------------------


def _time_as_text(name: str) -> property:
    return property(lambda self: _format_time(getattr(self, name)))


class FormattedTimesMixin:
    """What `FunctionEvent` and `FunctionEventAvg` say of their times: averages, and text."""

    cpu_time_total: float
    device_time_total: float
    count: int

    if TYPE_CHECKING:  # the other fields stand in tables

        def __getattr__(self, name: str) -> Any: ...

    cpu_time_str = _time_as_text("cpu_time")
    device_time_str = _time_as_text("device_time")
    cpu_time_total_str = _time_as_text("cpu_time_total")
    device_time_total_str = _time_as_text("device_time_total")
    self_cpu_time_total_str = _time_as_text("self_cpu_time_total")
    self_device_time_total_str = _time_as_text("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        """Of a call, in microseconds."""
        return 0.0 if self.count == 0 else self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Of a call, in microseconds."""
        return 0.0 if self.count == 0 else self.device_time_total / self.count

    @property
    @deprecated(
        "`cuda_time` is deprecated, please use `device_time` instead.", category=FutureWarning
    )
    def cuda_time(self) -> float:
        """`device_time`."""
        return self.device_time


# ---- events --------------------------------------------------------------------------------------


class Interval:
    """From when to when, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long."""
        return self.end - self.start


class Kernel(NamedTuple):
    """A kernel that an operator launched, and its microseconds."""

    name: str
    device: int
    duration: float


class EventMetadata(NamedTuple):
    """What a trace says of a device's event beside its times."""

    stream: int | None = None
    correlation_id: int | None = None
    external_id: int | None = None
    device: int | None = None
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared_memory: int | None = None
    registers_per_thread: int | None = None
    bytes: int | None = None


_FIELDS: dict[str, Any] = {
    "overload_name": None, "fwd_thread": None, "input_shapes": None, "stack": None, "scope": 0,
    "use_device": None, "cpu_memory_usage": 0, "device_memory_usage": 0, "is_async": False,
    "is_remote": False, "sequence_nr": -1, "node_id": -1, "device_type": DeviceType.CPU,
    "device_index": 0, "device_resource_id": None, "is_legacy": False, "flops": None,
    "trace_name": None, "concrete_inputs": None, "kwinputs": None, "is_user_annotation": False,
    "is_python_function": False, "activity_type": None, "flow_id": None, "flow_type": None,
    "flow_start": None, "external_id": 0, "linked_correlation_id": 0,
    "structured_input_shapes": None, "structured_input_strides": None, "input_dtypes": None,
    "python_id": -1, "python_parent_id": -1, "python_module_id": -1,
}  # fmt: skip


class FunctionEvent(FormattedTimesMixin):
    """One event: an operator's call, a node of a backward pass, an annotation, a kernel."""

    time_range: Interval
    sequence_nr: int
    device_resource_id: Any
    cpu_children: list[FunctionEvent]
    cpu_parent: FunctionEvent | None
    kernels: list[Kernel]

    def __init__(
        self, id: int, name: str, thread: int, start_us: float, end_us: float,
        overload_name: str | None = None, *more: Any, metadata_json: str | None = None,
        extra_meta: dict[str, Any] | None = None, **fields: Any,
    ) -> None:  # fmt: skip
        names = iter(_FIELDS)
        values = _FIELDS | dict(zip(names, (overload_name, *more))) | fields
        if unknown := values.keys() - _FIELDS.keys():
            raise TypeError(
                f"FunctionEvent.__init__() got an unexpected keyword argument {min(unknown)!r}"
            )
        vars(self).update(values)
        self.id, self.name, self.thread = id, name, thread
        self.time_range = Interval(start_us, end_us)
        if self.device_resource_id is None:
            self.device_resource_id = thread
        self.kernels, self.cpu_children, self.cpu_parent = [], [], None
        self.count = 1
        self.self_cpu_percent = self.total_cpu_percent = self.total_device_percent = -1
        self._metadata_json = metadata_json
        self.event_metadata = EventMetadata(**extra_meta) if extra_meta else None

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Notes a kernel that this operator launched."""
        self._require_cpu("device_type")
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Notes a call that this one made itself."""
        self._require_cpu("device_type")
        self._require_event("child", child)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Notes the call that made this one."""
        self._require_cpu("device_type")
        self._require_event("parent", parent)
        self.cpu_parent = parent

    def _require_cpu(self, what: str) -> None:
        if self.device_type != DeviceType.CPU:
            raise AssertionError(f"Expected {what} to be CPU")

    @staticmethod
    def _require_event(what: str, event: Any) -> None:
        if not isinstance(event, FunctionEvent):
            raise AssertionError(f"Expected {what} to be a FunctionEvent")
        event._require_cpu(f"{what} device_type")

    @property
    def _on_cpu(self) -> bool:
        return not self.is_async and self.device_type == DeviceType.CPU

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes that it allocated itself, less what it freed."""
        if not self._on_cpu:
            return 0
        return self.cpu_memory_usage - sum(each.cpu_memory_usage for each in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """The same of the device's memory."""
        if not self._on_cpu:
            return 0
        inner = sum(each.device_memory_usage for each in self.cpu_children)
        return self.device_memory_usage - inner

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds on the host, with those of what it called."""
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds on the host without those of what it called."""
        if not self._on_cpu:
            return 0
        return self.cpu_time_total - sum(each.cpu_time_total for each in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of its kernels on the device, and of those of what it called."""
        if self.is_async or not self.use_device:
            return 0
        if self.device_type != DeviceType.CPU:
            return self.time_range.elapsed_us()
        own = sum(kernel.duration for kernel in self.kernels)
        if self.is_legacy:
            return own
        return own + sum(each.device_time_total for each in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of its own kernels on the device."""
        if self.is_async or not self.use_device:
            return 0
        if self.device_type != DeviceType.CPU:
            return self.device_time_total
        return self.device_time_total - sum(each.device_time_total for each in self.cpu_children)

    @property
    @deprecated(
        "`metadata_json` is deprecated. Use `event_metadata` instead.", category=FutureWarning
    )
    def metadata_json(self) -> str | None:
        """What a trace says of it, as JSON."""
        return self._metadata_json

    @property
    def key(self) -> str:
        """What it is averaged by: its name."""
        return self.name

    def __repr__(self) -> str:
        device = self.use_device
        children = [child.id for child in self.cpu_children]
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name}"
            f" device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str}"
            f" start_us={self.time_range.start} end_us={self.time_range.end}"
            f" cpu_children={children} {device}_time={self.device_time_str}"
            f" name={self.name} thread={self.thread} input_shapes={self.input_shapes}"
            f" cpu_memory_usage={self.cpu_memory_usage}"
            f" {device}_memory_usage={self.device_memory_usage} is_async={self.is_async}"
            f" is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


def _old_name(new: str) -> property:
    old = new.replace("device", "cuda")

    @deprecated(f"`{old}` is deprecated. Use `{new}` instead.", category=FutureWarning)
    def read(self: Any) -> Any:
        return getattr(self, new)

    read.__name__, read.__doc__ = old, f"`{new}`."
    return property(read)


for _name in ("self_device_memory_usage", "device_time_total", "self_device_time_total"):
    setattr(FunctionEvent, _name.replace("device", "cuda"), _old_name(_name))

_SUMS = (
    "cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total",
    "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage",
    "count",
)  # fmt: skip
_OF_THE_FIRST = (
    "key", "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children", "overload_name",
    "input_shapes", "stack", "scope", "device_type", "is_legacy", "use_device",
    "is_user_annotation",
)  # fmt: skip


class FunctionEventAvg(FormattedTimesMixin):
    """What events of one key come to together."""

    key: str | None

    def __init__(self) -> None:
        vars(self).update(dict.fromkeys(_SUMS, 0))
        vars(self).update(dict.fromkeys(_OF_THE_FIRST))
        self.node_id, self.is_async, self.is_remote, self.is_legacy = 0, False, False, False
        self.device_type = DeviceType.CPU
        self.flops: int | None = 0

    def add(self, other: Any) -> FunctionEventAvg:
        """Adds an event, or what others come to."""
        if self.key is None:
            for name in _OF_THE_FIRST:
                setattr(self, name, getattr(other, name, None))
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError("Expected other to be a FunctionEvent or FunctionEventAvg")
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.flops is not None:
            self.flops = (self.flops or 0) + other.flops
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str}"
            f" cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str}"
            f" {device}_time={self.device_time_str} input_shapes={self.input_shapes}"
            f" cpu_memory_usage={self.cpu_memory_usage}"
            f" {device}_memory_usage={self.device_memory_usage}>"
        )


# ---- lists of events -----------------------------------------------------------------------------


class EventList(list[Any]):
    """Events, or averages of them."""

    def __init__(
        self, events: Iterable[Any] = (), *, use_device: str | None = None,
        profile_memory: bool = False, with_flops: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(events)
        self._use_device, self._profile_memory = use_device, profile_memory
        self._with_flops, self._tree_built = with_flops, False

    def __str__(self) -> str:
        return self.table()

    # The tree: who called whom.

    def _build_tree(self) -> None:
        self._populate_cpu_children()
        self._remove_dup_nodes()
        self._set_backward_stacktraces()
        self._tree_built = True

    def _populate_cpu_children(self) -> None:
        """An event that lies within another one of its thread is called by it."""
        threads: dict[Any, list[FunctionEvent]] = defaultdict(list)
        for event in self:
            if event._on_cpu:
                threads[event.thread, event.node_id].append(event)
        for events in threads.values():
            events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
            open_ones: list[FunctionEvent] = []
            for event in events:
                span = event.time_range
                while open_ones and span.end > open_ones[-1].time_range.end:
                    open_ones.pop()
                while open_ones and span.start >= open_ones[-1].time_range.end:
                    open_ones.pop()
                if open_ones:
                    open_ones[-1].append_cpu_child(event)
                    event.set_cpu_parent(open_ones[-1])
                open_ones.append(event)

    def _remove_dup_nodes(self) -> None:
        """An event that only calls one of its own name takes the place of both."""
        removed: set[int] = set()
        for event in self:
            parent = event.cpu_parent
            if parent is None or parent.name != event.name or len(parent.cpu_children) != 1:
                continue
            parent.cpu_children, parent.kernels = event.cpu_children, event.kernels
            for child in event.cpu_children:
                child.cpu_parent = parent
            removed.add(id(event))
        if removed:
            self[:] = [event for event in self if id(event) not in removed]

    def _set_backward_stacktraces(self) -> None:
        """What runs in a backward pass has the stack of the call whose gradient it is."""
        called: dict[Any, Any] = {}
        backward = []
        for event in self:
            node = event
            while node is not None and node.scope != _BACKWARD:
                node = node.cpu_parent
            if node is not None:
                backward.append((event, node))
            elif event.stack is not None and event.sequence_nr >= 0:
                called.setdefault((event.sequence_nr, event.thread), event.stack)
        for event, node in backward:
            if node.fwd_thread is None:
                raise AssertionError("Expected fwd_thread to be set for backward parent")
            event.stack = called.get((node.sequence_nr, node.fwd_thread), [])

    # What it comes to.

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds on the host, each counted once."""
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:  # fmt: skip
        """What events of one name come to; or of one name and shapes, or the same callers."""
        if not self._tree_built:
            raise AssertionError("Expected tree to be built before calling key_averages")
        found: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        for event in self:
            key: list[Any] = [
                event.key, event.node_id, event.device_type, event.is_legacy,
                event.is_user_annotation,
            ]  # fmt: skip
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key += (event.stack or [])[:group_by_stack_n]
            found[tuple(key)].add(event)
        averages = EventList(
            found.values(), use_device=self._use_device, profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )  # fmt: skip
        for each in averages:
            each.stack = (each.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                each.input_shapes = ""
            if not group_by_overload_name:
                each.overload_name = ""
        return averages

    def total_average(self) -> FunctionEventAvg:
        """What all of them come to."""
        total = FunctionEventAvg()
        for event in self:
            total += event
            total.key = None
        total.key = "Total"
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80,
        header: str | None = None, top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """All of it as text, a row for each; sort_by: the name of a field, greatest first."""
        return _build_table(
            self, sort_by, header, row_limit, max_src_column_width, max_name_column_width,
            max_shapes_column_width, self._with_flops, self._profile_memory,
            top_level_events_only, time_unit,
        )  # fmt: skip

    # Files.

    def export_chrome_trace(self, path: str) -> None:
        """A file for Chrome's tracing page."""
        device = self._use_device or "cuda"
        entries: list[dict[str, Any]] = []
        flow = 0
        for event in self:
            if event.trace_name is None:
                continue
            thread = event.thread
            if event.is_remote:
                thread = f" node_id:{event.node_id}, thread_id:{event.thread} "
            common = {"name": event.trace_name, "ts": event.time_range.start, "tid": thread}
            common["pid"] = "CPU functions"
            duration = event.time_range.elapsed_us()
            entries.append({**common, "ph": "X", "dur": duration, "args": {}})
            for _ in event.kernels:
                kind = f"cpu_to_{device}"
                entries.append({**common, "ph": "s", "id": flow, "cat": kind, "args": {}})
                flow += 1
        with open(path, "w") as file:
            json.dump(entries, file)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` takes."""
        return [
            f"self_{kind}_time_total" for kind in ("cpu", "cuda", "xpu", "privateuse1")
        ]  # fmt: skip

    def export_stacks(self, path: str, metric: str) -> None:
        """A file for flame graphs: a stack in a line, and its microseconds."""
        if metric not in (known := self.supported_export_stacks_metrics()):
            raise ValueError(f"metric should be one of: {known}")
        blanks = str.maketrans(" ;\t\n", "____")
        with open(path, "w") as file:
            for event in self:
                spent = int(getattr(event, _of_device(metric)))
                if event.stack and spent > 0:
                    frames = (entry.translate(blanks) for entry in reversed(event.stack))
                    file.write(f"{';'.join(frames)} {spent}\n")


# ---- names ---------------------------------------------------------------------------------------


class StringTable(defaultdict[str, str]):
    """Names as they are shown."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


def _rewrite_name(name: str, with_wildcard: bool = False) -> str:
    """with_wildcard: steps count as one name."""
    if with_wildcard and name.startswith("ProfilerStep#"):
        return "ProfilerStep*"
    return name


_UNSHOWN = {
    MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME, "profiler::_record_function_enter",
    "profiler::_record_function_enter_new", "profiler::_record_function_exit", "aten::is_leaf",
    "aten::output_nr", "aten::_version",
}  # fmt: skip


def _filter_name(name: str) -> bool:
    """Whether a name is left out of lists."""
    return name in _UNSHOWN


def _filter_stack_entry(entry: str) -> bool:
    """Whether a frame says something of the user's program."""
    ours = (
        ("autograd/__init__", "_make_grads"), ("autograd/__init__", "backward"),
        ("torch/tensor", "backward"), ("_internal/common_utils", "prof_callable"),
        ("_internal/common_utils", "prof_func_call"), ("_internal/common_utils", "prof_meth_call"),
    )  # fmt: skip
    return not any(file in entry and name in entry for file, name in ours)


class MemRecordsAcc:
    """Records of memory, found by their time."""

    def __init__(self, mem_records: Sequence[Any]) -> None:
        self._records = sorted(mem_records, key=lambda record: record[0].start_ns())
        self._starts = [record[0].start_ns() for record in self._records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """Those of an interval."""
        first, last = bisect_left(self._starts, start_ns), bisect_right(self._starts, end_ns)
        yield from self._records[first:last]
