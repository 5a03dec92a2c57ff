"""A recording as a tree of events, in PyTorch's terms: operators with their arguments, memory, and
Python's functions.

What is in a tree was measured: public functions with their parts (Note [Parts of calls]), nodes of
backward passes, annotations, modules, Python's functions (with `with_stack`), allocations.
"""

from __future__ import annotations

import enum
import itertools
from dataclasses import dataclass, field
from typing import Any

from tritorch.core import layout as layouts, precision, profiling
from tritorch.core.device import device as Device
from tritorch.core.dtype import all_dtypes
from tritorch.core.profiling import events
from tritorch.profiling.kinds import RecordScope
from tritorch.profiling.recordings import Recording, Shape, Thread, function_of, short_path
from tritorch.profiling.tensor_ids import number_tensors

_dtypes = {str(each).rpartition(".")[2]: each for each in all_dtypes}
_numbers = itertools.count(1)  # of operators, in all profiles of a process


class EventType(enum.Enum):
    """What an event is, in PyTorch's numbers."""

    TorchOp = 0
    Backend = 1
    Vulkan = 2
    Allocation = 3
    OutOfMemory = 4
    PyCall = 5
    PyCCall = 6
    Kineto = 7

    def __int__(self) -> int:
        return self.value


@dataclass
class TensorMetadata:
    """A tensor as a call found it.  id: of the tensor, whatever memory it has; allocation_id: of
    its memory, whatever address that has; None where memory was not written down."""

    impl_ptr: int | None
    storage_data_ptr: int | None
    device: Any
    dtype: Any
    layout: Any
    sizes: list[int]
    strides: list[int]
    id: int | None = None
    allocation_id: int | None = None

    @property
    def dim(self) -> int:
        """How many dims it has."""
        return len(self.sizes)


@dataclass
class TorchOpFields:
    """A call of an operator, a node of a backward pass or an annotation.  result: the tensor that a
    call has given, where memory was written down; PyTorch's has none."""

    name: str
    inputs: list[Any]
    scope: RecordScope
    sequence_number: int
    allow_tf32_cublas: bool
    result: TensorMetadata | None = None


@dataclass
class BackendFields:
    """What another back end has done."""


@dataclass
class AllocationFields:
    """Memory that was allocated, or, with a negative size, freed."""

    ptr: int
    alloc_size: int
    total_allocated: int
    total_reserved: int
    device: Any
    id: int | None = None
    allocation_id: int | None = None


@dataclass
class OutOfMemoryFields:
    """Memory that was not to be had."""


@dataclass
class FrameState:
    """A line of a function."""

    line_number: int
    file_name: str
    function_name: str


@dataclass
class ModuleInfo:
    """A module, with (name, parameter, gradient) as they were at its first call."""

    self_ptr: int
    cls_ptr: int
    cls_name: str
    parameters: list[tuple[str, TensorMetadata, TensorMetadata | None]] = field(
        default_factory=list
    )


@dataclass
class OptimizerInfo:
    """An optimizer, with (parameter, gradient, [(name, state)]) as they were after its first
    step."""

    self_ptr: int
    parameters: list[
        tuple[TensorMetadata, TensorMetadata | None, list[tuple[str, TensorMetadata]]]
    ] = field(default_factory=list)


@dataclass
class PyCallFields:
    """A call of a function of Python.  callsite: the function; caller: where it was called."""

    callsite: FrameState
    caller: FrameState
    module: ModuleInfo | None = None
    optimizer: OptimizerInfo | None = None


@dataclass
class PyCCallFields:
    """A call of a function that is not written in Python."""

    caller: FrameState


@dataclass
class KinetoFields:
    """What the host asks a device for."""


_TAGS = {
    TorchOpFields: EventType.TorchOp, BackendFields: EventType.Backend,
    AllocationFields: EventType.Allocation, OutOfMemoryFields: EventType.OutOfMemory,
    PyCallFields: EventType.PyCall, PyCCallFields: EventType.PyCCall,
    KinetoFields: EventType.Kineto,
}  # fmt: skip


@dataclass(eq=False)
class ProfilerEvent:
    """An event with what is inside of it.  Times are nanoseconds since 1970."""

    name: str
    start_tid: int
    start_time_ns: int
    end_time_ns: int
    extra_fields: Any
    parent: ProfilerEvent | None = None
    overload_name: str = ""
    children: list[ProfilerEvent] = field(default_factory=list)
    correlation_id: int = 0

    @property
    def id(self) -> int:
        """What tells it from all others that are there."""
        return id(self)

    @property
    def tag(self) -> EventType:
        """What it is."""
        return _TAGS[type(self.extra_fields)]

    @property
    def typed(self) -> tuple[EventType, Any]:
        """What it is, with what is known of such."""
        return self.tag, self.extra_fields

    @property
    def duration_time_ns(self) -> int:
        """How long it took."""
        return self.end_time_ns - self.start_time_ns

    def __repr__(self) -> str:
        return f"<{self.tag.name} {self.name}>"


_EVENT_NAMES = {
    EventType: "_EventType", TensorMetadata: "_TensorMetadata",
    TorchOpFields: "_ExtraFields_TorchOp", BackendFields: "_ExtraFields_Backend",
    AllocationFields: "_ExtraFields_Allocation", OutOfMemoryFields: "_ExtraFields_OutOfMemory",
    PyCallFields: "_ExtraFields_PyCall", PyCCallFields: "_ExtraFields_PyCCall",
    KinetoFields: "_ExtraFields_Kineto", FrameState: "_PyFrameState", ModuleInfo: "_NNModuleInfo",
    OptimizerInfo: "_OptimizerInfo", ProfilerEvent: "_ProfilerEvent",
}  # fmt: skip
for _class, _name in _EVENT_NAMES.items():
    _class.__name__ = _class.__qualname__ = _name
    _class.__module__ = "torch._C._profiler"


def event_tree(recording: Recording) -> list[ProfilerEvent]:
    """The outermost events of all threads, as they began."""
    found: list[ProfilerEvent] = []
    for thread in recording.threads:
        found += _OfThread(recording, thread).events
    found.sort(key=lambda event: event.start_time_ns)  # of those at once, the outer one is first
    number_tensors(found)
    return [event for event in found if event.parent is None]


class _OfThread:
    """The events of a thread, outer ones before inner ones."""

    def __init__(self, recording: Recording, thread: Thread) -> None:
        self.recording, self.thread = recording, thread
        self.events: list[ProfilerEvent] = []
        self.allows_tf32 = precision.get_float32_matmul_precision() != "highest"
        self.unplaced: FrameState | None = None
        self.at: list[ProfilerEvent | None] = []  # by place; None: it is part of what is around it
        rows = thread.whole
        # Threads that began later than the profile show no functions of Python, modules' calls
        # among them.
        self.has_modules = recording.options.modules or bool(
            (rows["kind"] == profiling.FUNCTION).any()
        )
        names = recording.names_of(rows)
        parents = rows["parent"].tolist()
        for place, name in enumerate(names):
            around = self.at[parents[place] - 1] if parents[place] else None
            event = self._event(name, rows[place], around)
            self.at.append(event or around)
            if event is not None:
                event.parent = around
                self.events.append(event)
                if around is not None:
                    around.children.append(event)

    def _event(self, name: str, row: Any, around: ProfilerEvent | None) -> ProfilerEvent | None:
        kind = int(row["kind"])
        begin, end = int(row["begin"]), int(row["end"])
        overload = ""
        fields: Any
        if kind in _SCOPES:
            overload, inputs = self._inputs(name, row, kind)
            if self.unplaced is not None and row["stack"]:
                self.unplaced.line_number = self._line(int(row["stack"]), self.unplaced)
            self.unplaced = None
            placed = int(row["sequence"]) if kind != profiling.ANNOTATION else -1
            given = self.thread.words.value(int(row["extra"]) - 1) if row["extra"] else None
            fields = TorchOpFields(
                name, inputs, _SCOPES[kind], placed, self.allows_tf32, _input(given)
            )
        elif kind == profiling.MEMORY:
            fields = AllocationFields(
                int(row["detail"]), int(row["sequence"]), end, 0, _device(int(row["extra"]) - 1)
            )
            end = begin
        elif kind == profiling.MODULE and self.has_modules:
            fields = self._module(row, around)
        elif kind == profiling.FUNCTION:
            name, site = _function(name)
            fields = PyCallFields(site, _caller(around, row))
        elif kind == profiling.BUILTIN:
            fields = PyCCallFields(_caller(around, row))
            if not row["detail"]:  # the operator in it knows the place
                self.unplaced = fields.caller
        elif kind == profiling.STATE:
            self._state(row, around)
            return None
        elif kind in (profiling.LAUNCH, profiling.WAIT):
            fields = KinetoFields()
        else:
            return None
        wall = self.recording.wall
        event = ProfilerEvent(name, self.thread.id, begin + wall, end + wall, fields)
        event.overload_name = overload
        if kind in _SCOPES:
            event.correlation_id = next(_numbers)
        return event

    def _line(self, stack: int, function: FrameState) -> int:
        """Where in a function a call is, by the stack of that."""
        for file, line, name in events.stack(stack):
            if name == function.function_name and short_path(file) == function.file_name:
                return line
        return 0

    def _inputs(self, name: str, row: Any, kind: int) -> tuple[str, list[Any]]:
        if not row["shapes"]:
            return "", []
        call = self.thread.words.call(int(row["shapes"]) - 1)
        known = None
        if kind == profiling.OP:
            known = profiling.inputs_of(name, call.args, call.kwargs)
        overload, values = known if known is not None else ("", call.values())
        return overload, [_input(value) for value in values]

    def _module(self, row: Any, around: ProfilerEvent | None) -> PyCallFields:
        address = int(row["sequence"])
        kind = type(self.recording.modules[address])
        info = ModuleInfo(address, id(kind), kind.__name__)
        if row["shapes"]:
            call = self.thread.words.call(int(row["shapes"]) - 1)
            for name, parameter, gradient in call.args:
                info.parameters.append((name, _input(parameter), _input(gradient)))
        caller = _caller(around, row)
        return PyCallFields(caller, caller, module=info)  # the call itself is native: no line

    def _state(self, row: Any, around: ProfilerEvent | None) -> None:
        while around is not None and not isinstance(around.extra_fields, PyCallFields):
            around = around.parent
        if around is None:
            return
        info = OptimizerInfo(int(row["sequence"]))
        for parameter, gradient, state in self.thread.words.call(int(row["shapes"]) - 1).args:
            named = [(name, _input(value)) for name, value in state]
            info.parameters.append((_input(parameter), _input(gradient), named))
        around.extra_fields.optimizer = info


_SCOPES = {
    profiling.OP: RecordScope.FUNCTION, profiling.NODE: RecordScope.BACKWARD_FUNCTION,
    profiling.ANNOTATION: RecordScope.USER_SCOPE,
}  # fmt: skip


def _device(index: int) -> Device:
    return Device("cpu") if index < 0 else Device("cuda", index)


def _input(value: Any) -> Any:
    if isinstance(value, list):
        return [_input(each) for each in value]
    if not isinstance(value, Shape):
        return None if value is ... else value
    kind = _dtypes.get(value.dtype.rpartition(".")[2])
    layout = getattr(layouts, value.layout.rpartition(".")[2]) if value.layout else layouts.strided
    sizes, strides = list(value.sizes), list(value.strides)
    if (known := value.identity) is None:
        return TensorMetadata(None, None, Device("cpu"), kind, layout, sizes, strides)
    return TensorMetadata(
        known.serial, known.address, _device(known.device), kind, layout, sizes, strides
    )


def _caller(around: ProfilerEvent | None, row: Any) -> FrameState:
    """Where a function was called: by the innermost function of Python around it."""
    while around is not None and not isinstance(around.extra_fields, PyCallFields):
        around = around.parent
    if around is None:
        return FrameState(int(row["detail"]), "", "")
    site = around.extra_fields.callsite
    return FrameState(int(row["detail"]), site.file_name, site.function_name)


def _function(name: str) -> tuple[str, FrameState]:
    file, line, function = function_of(name)
    return f"{file}({line}): {function}", FrameState(line, file, function)
