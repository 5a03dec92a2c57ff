"""What a profile wrote, read into events.

A recording is an array of events for each thread, in the order in which they began, and a table of
names.  Objects are made only when somebody asks for them.
"""

from __future__ import annotations

import importlib.util
import os
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tritorch.autograd.profiler_util import EventList, FunctionEvent, _filter_name
from tritorch.core import profiling
from tritorch.core.profiling import events
from tritorch.profiling.kinds import ActiveProfilerType, DeviceType
from tritorch.profiling.parts import with_parts

EVENT = np.dtype(
    [
        ("begin", "i8"), ("end", "i8"), ("sequence", "i8"), ("detail", "i8"), ("name", "u4"),
        ("shapes", "u4"), ("stack", "u4"), ("extra", "u4"), ("parent", "u4"), ("kind", "u1"),
        ("captured", "u1"), ("unused", "u1", 2),
    ]
)  # fmt: skip


class Identity(NamedTuple):
    """Which tensor it is, and where its memory begins; device: -1 is the host."""

    serial: int
    address: int
    device: int
    requires_grad: bool


@dataclass(frozen=True)
class Shape:
    """A tensor among the arguments of a call; identity: where memory is written down, too."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    layout: str = ""
    identity: Identity | None = None


@dataclass
class Call:
    """The arguments of a call, by position and by keyword."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    def values(self) -> list[Any]:
        """All of them, in the order in which they were given."""
        return [*self.args, *self.kwargs.values()]


class Words:
    """The arguments of a thread's calls: Note [Arguments as words] in src/profiling/words.cpp."""

    def __init__(self, words: np.ndarray, names: list[str]) -> None:
        self.words, self.names = words.tolist(), names
        self.at = 0

    def call(self, place: int) -> Call:
        """The arguments that are written there."""
        self.at = place
        found = Call()
        for _ in range(self._next()):
            keyword = self._next()
            value = self._value()
            if keyword:
                found.kwargs[self.names[keyword - 1]] = value
            else:
                found.args.append(value)
        return found

    def value(self, place: int) -> Any:
        """The value that is written there."""
        self.at = place
        return self._value()

    def _next(self) -> int:
        self.at += 1
        return int(self.words[self.at - 1])

    def _some(self, n: int) -> tuple[int, ...]:
        self.at += n
        return tuple(self.words[self.at - n : self.at])

    def _value(self) -> Any:
        tag = self._next()
        if tag in (1, 8):
            name, dims = self.names[self._next()], self._next()
            sizes, strides = self._some(dims), self._some(dims)
            if tag == 1:
                return Shape(name, sizes, strides)
            serial, address, device, requires_grad = self._some(4)
            known = Identity(serial, address, device - 1, bool(requires_grad))
            return Shape(name, sizes, strides, identity=known)
        if tag == 9:
            name, layout = self.names[self._next()], self.names[self._next()]
            return Shape(name, self._some(self._next()), (), layout)
        if tag == 2:
            return self._next()
        if tag == 3:
            return struct.unpack("d", struct.pack("q", self._next()))[0]
        if tag == 4:
            return bool(self._next())
        if tag == 5:
            self._next()
            return [self._value() for _ in range(self._next())]
        if tag == 7:
            return self.names[self._next()]
        return None if tag == 0 else ...


@dataclass
class Thread:
    """What one thread wrote.  whole: with what only trees of events show, Python's functions and
    what optimizers say."""

    id: int
    is_main: bool
    events: np.ndarray
    words: Words
    whole: np.ndarray


class Span(NamedTuple):
    """What a device did, and which event of the host asked for it: a place in a thread, which is 0
    where nobody of ours did.  op, module, stack: as noted of the nodes of graphs."""

    name: str
    device: int
    stream: int
    thread: int
    place: int
    begin: int
    end: int
    node: int = 0
    bytes: int = 0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int = 0
    shared: int = 0
    op: str = ""
    module: str = ""
    stack: int = 0


@dataclass(frozen=True)
class Options:
    """What a profile writes beside times."""

    shapes: bool = False
    memory: bool = False
    stacks: bool = False
    flops: bool = False
    modules: bool = False
    device: bool = False
    functions: bool = False


class Recording:
    """What a profile wrote between its start and its end."""

    def __init__(
        self, options: Options, begin: int, end: int, wall: int, lent: bool = False
    ) -> None:
        """wall: nanoseconds since 1970 where the clock of events was 0.  lent: another profile,
        which began before and may ask for more, wrote it."""
        self.options, self.begin, self.end, self.wall = options, begin, end, wall
        threads, self.names, self.modules = events.read()
        self.threads = []
        places: dict[int, np.ndarray] = {}  # by thread: where each event is without functions
        for number, is_main, written, words in threads:
            found = np.frombuffer(written, EVENT).copy()
            first = int(np.searchsorted(found["begin"], begin)) if lent else 0
            found, wanted = self._asked_for(found, first) if lent else (found, slice(None))
            still_open = (found["end"] == 0) & (found["kind"] != profiling.MEMORY)
            found["end"][still_open] = end  # what was under way
            order = Words(np.frombuffer(words, "i8"), self.names)
            found, known = with_parts(found, order.words, self.names)
            shown, kept = self._without_functions(found)
            places[number] = np.concatenate((np.full(first, -1), kept[known][wanted]))
            self.threads.append(Thread(number, bool(is_main), shown, order, found))
        self.graphs: dict[tuple[int, int], int] = {}  # by (thread, place of the launch)
        for thread in self.threads:
            launches = np.flatnonzero(thread.events["kind"] == profiling.LAUNCH)
            for place in launches[thread.events["shapes"][launches] > 0].tolist():
                self.graphs[thread.id, place] = int(thread.events["shapes"][place])
            thread.events["shapes"][launches] = 0
            thread.events["sequence"][launches] = -1
        self.device = self._spans(places) if options.device else []
        self.threads.sort(key=lambda thread: not thread.is_main)
        self._module_names: dict[int, str] = {}
        self._stacks: dict[int, list[str]] = {}

    def _asked_for(self, found: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
        """Events from a place on, without what this profile did not ask for, and where each is."""
        found = found[first:].copy()
        found["parent"] = np.maximum(found["parent"].astype("i8") - first, 0)
        if not (self.options.shapes or self.options.flops):
            found["shapes"][found["kind"] != profiling.LAUNCH] = 0
        if not self.options.stacks:
            found["stack"] = 0
        return _without(found, () if self.options.memory else _OF_MEMORY)

    def _without_functions(self, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Events that belong to no function's call but to what is around it, and where each is."""
        left_out = _LEFT_OUT if self.options.modules else (*_LEFT_OUT, profiling.MODULE)
        return _without(found, left_out)

    def _spans(self, places: dict[int, np.ndarray]) -> list[Span]:
        """What devices did.  Note [Nodes of graphs] in src/profiling/device.h."""
        found, in_graphs = [], dict[tuple[int, int], list[Span]]()
        for row in events.read_device():
            number, device, stream, thread, place, begin, end, called, *more = row
            if thread in places:
                place = int(places[thread][place])
            if place < 0:  # it was launched before
                continue
            name = self.names[number] if thread else called
            span = Span(name, device, stream, thread, place, begin, end, *more)
            if called and (thread, place) in self.graphs:
                in_graphs.setdefault((thread, place), []).append(span._replace(name=called))
            else:
                found.append(span)
        notes = events.read_graphs()
        for launch, spans in in_graphs.items():
            found += self._of_nodes(spans, notes[self.graphs[launch]])
        return sorted(found, key=lambda span: span.begin)

    def _of_nodes(
        self, spans: list[Span], notes: list[tuple[int, int, int, int]]
    ) -> Iterator[Span]:
        """The kernels of a graph, each as the node that it is of: nodes are numbered as they were
        captured."""
        waiting: dict[str, deque[tuple[int, int, int, int]]] = {}
        for note in notes:
            kernel = self.names[note[0]].rpartition(".")[2]
            waiting.setdefault(kernel, deque()).append(note)
        for span in sorted(spans, key=lambda span: (span.node, span.begin)):
            if not waiting.get(span.name):
                yield span
                continue
            name, op, module, stack = waiting[span.name].popleft()
            yield span._replace(
                name=self.names[name], op=self.names[op], module=self.names[module], stack=stack
            )

    def names_of(self, found: np.ndarray) -> list[str]:
        """What the events of a thread are called."""
        names = [self.names[i] for i in found["name"].tolist()]
        for i in np.flatnonzero(found["kind"] == profiling.MODULE).tolist():
            names[i] = self.module_name(int(found["sequence"][i]), names[i])
        for i in np.flatnonzero(found["kind"] == profiling.MEMORY).tolist():
            names[i] = "[memory]"
        return names

    def module_name(self, address: int, kind: str) -> str:
        """`nn.Module: Linear_0`: modules of a class are numbered as they are called first."""
        if address not in self._module_names:
            count = Counter(name.rpartition("_")[0] for name in self._module_names.values())
            start = f"nn.Module: {kind}"
            self._module_names[address] = f"{start}_{count[start]}"
        return self._module_names[address]

    def stack(self, number: int) -> list[str]:
        """`file(line): function` of each frame, innermost first; of ours, only those of modules."""
        if number not in self._stacks:
            self._stacks[number] = [
                f"{_shown(file)}({line}): {name}" for file, line, name in events.stack(number)
                if not file.startswith(_OURS) or file.startswith(_MODULES)
            ]  # fmt: skip
        return self._stacks[number]

    def function_events(self, use_device: str | None = None) -> EventList:
        """All events as objects, with their tree."""
        found = EventList(
            use_device=use_device, profile_memory=self.options.memory,
            with_flops=self.options.flops,
        )  # fmt: skip
        forward = self._forward_threads()
        launches: dict[tuple[int, int], FunctionEvent] = {}
        for place, thread in enumerate(self.threads, 1):
            self._add(found, thread, place, use_device, forward, launches)
        for span in self.device:
            name = span.name
            begin, end = (span.begin - self.begin) / 1e3, (span.end - self.begin) / 1e3
            if (launch := launches.get((span.thread, span.place))) is not None:
                launch.append_kernel(name, span.device, end - begin)
            found.append(
                FunctionEvent(
                    0, name, span.stream, begin, end, overload_name="", trace_name=name,
                    use_device=use_device, input_shapes=[], stack=[], flops=0,
                    device_type=DeviceType.CUDA, device_index=span.device,
                    device_resource_id=span.stream, activity_type="kernel",
                    extra_meta={
                        "stream": span.stream, "device": span.device, "bytes": span.bytes or None,
                        **(
                            {
                                "grid": span.grid, "block": span.block,
                                "shared_memory": span.shared,
                                "registers_per_thread": span.registers,
                            }
                            if any(span.grid) else {}
                        ),
                    },
                )
            )  # fmt: skip
        found.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
        for number, event in enumerate(found):
            event.id = number
        found._build_tree()
        return found

    def _forward_threads(self) -> dict[int, int]:
        """By the place of a node: which thread's call made it."""
        found: dict[int, int] = {}
        for place, thread in enumerate(self.threads, 1):
            calls = thread.events[thread.events["kind"] == profiling.OP]
            for sequence in np.unique(calls["sequence"]).tolist():
                found.setdefault(sequence, place)
        return found

    def _add(
        self, to: EventList, thread: Thread, place: int, use_device: str | None,
        forward: dict[int, int], launches: dict[tuple[int, int], FunctionEvent],
    ) -> None:  # fmt: skip
        columns = zip(
            self.names_of(thread.events), *(thread.events[each].tolist() for each in _READ)
        )
        open_ones: list[FunctionEvent] = []
        for number, row in enumerate(columns):
            name, begin, end, sequence, shapes, stack, device, kind = row
            while open_ones and open_ones[-1].time_range.end <= (begin - self.begin) / 1e3:
                open_ones.pop()
            if kind == profiling.MEMORY:
                field_name = "cpu_memory_usage" if device == 0 else "device_memory_usage"
                for each in open_ones:
                    vars(each)[field_name] += int(sequence)
                if open_ones:
                    continue
                end = begin
            elif kind == profiling.ROLE or _filter_name(name):
                continue
            call = thread.words.call(int(shapes) - 1) if shapes else None
            event = FunctionEvent(
                0, name, place, (begin - self.begin) / 1e3, (end - self.begin) / 1e3,
                overload_name="", trace_name=name, use_device=use_device,
                input_shapes=[] if call is None else [_sizes(v, kind) for v in call.values()],
                concrete_inputs=[] if call is None else list(map(_concrete, call.args)),
                kwinputs={} if call is None else {k: _concrete(v) for k, v in call.kwargs.items()},
                stack=self.stack(int(stack)) if stack else [],
                scope=_SCOPES.get(kind, 0), device_type=DeviceType.CPU,
                sequence_nr=int(sequence) if kind in _PLACED else -1,
                fwd_thread=forward.get(int(sequence), place) if kind == profiling.NODE else None,
                is_user_annotation=kind == profiling.ANNOTATION,
                is_async=kind == profiling.WORK,
                flops=self._flops(name, call) if kind == profiling.OP else 0,
            )  # fmt: skip
            if kind == profiling.MEMORY:
                event.sequence_nr = -1
                vars(event)[field_name] = int(sequence)
            elif kind != profiling.WORK:
                if kind == profiling.LAUNCH:
                    launches[thread.id, number] = open_ones[-1] if open_ones else event
                open_ones.append(event)
            to.append(event)

    def _flops(self, name: str, call: Call | None) -> int:
        if not self.options.flops or call is None:
            return 0
        cost = profiling.cost_of(name, call.args, call.kwargs)
        return 0 if cost is None else cost[0]


_LEFT_OUT = (profiling.FUNCTION, profiling.BUILTIN, profiling.STATE, profiling.RECORD)
_OF_MEMORY = (profiling.MEMORY, profiling.ROLE)
_READ = ("begin", "end", "sequence", "shapes", "stack", "extra", "kind")
_PLACED = (profiling.OP, profiling.NODE)
_SCOPES = {profiling.NODE: 1, profiling.ANNOTATION: 7}
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MODULES = os.path.join(_OURS, "nn", "modules")


# Folders whose functions are Python's in PyTorch, too: a trace of calls shows them.
_PYTHONS = tuple(
    os.path.join(_OURS, *folder.split("/")) + os.sep
    for folder in ("nn", "optim", "utils", "distributions", "profiler", "distributed")
)


def _without(found: np.ndarray, kinds: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Events that are not of some kinds, and where each is; inner ones go to what is around."""
    kept = ~np.isin(found["kind"], kinds)
    places = np.cumsum(kept) - 1
    if kept.all():
        return found, places
    above = np.concatenate(([0], found["parent"]))  # by place plus one
    while (out := (above > 0) & ~kept[above - 1]).any():
        above[out] = above[above[out]]
    shown = found[kept]
    parents = above[1:][kept]
    shown["parent"] = np.where(parents > 0, places[parents.astype("i8") - 1] + 1, 0)
    return shown, places


def _helping() -> tuple[str, ...]:
    """Folders of what our own functions call, whose functions show only where a program calls
    them."""
    kernels = importlib.util.find_spec("tritorch.kernels")
    own = kernels.submodule_search_locations if kernels else None
    folders = [os.path.dirname(np.__file__), *(own or ())]
    return tuple(os.path.join(os.path.abspath(folder), "") for folder in folders)


def _shown(file: str) -> str:
    """A file's path, from the package on."""
    _, found, after = file.rpartition(f"site-packages{os.sep}")
    return after if found else file


def _parameters_of(module: Any) -> tuple[tuple[str, Any, Any], ...]:
    """What a profile notes of a module at its first call: names, parameters, gradients."""
    found = module._parameters.items()
    return tuple((name, x, x.grad) for name, x in found if x is not None)


def _sizes(value: Any, kind: int = profiling.OP) -> Any:
    if isinstance(value, Shape):
        return list(value.sizes)
    if kind != profiling.OP:  # an annotation shows lists' sizes as little as PyTorch's does
        return []
    if isinstance(value, list) and any(isinstance(each, Shape) for each in value):
        return [_sizes(each) for each in value]
    return []


def _concrete(value: Any) -> Any:
    if value is ... or isinstance(value, Shape):
        return ""
    return [_concrete(each) for each in value] if isinstance(value, list) else value


_KINETO = ActiveProfilerType.KINETO


class Recorder:
    """Starts and ends what is written; one at a time, but that one may lend what it writes to
    another one."""

    active: Recorder | None = None

    def __init__(
        self, options: Options, kind: ActiveProfilerType = _KINETO, lends: bool = False
    ) -> None:
        self.options, self.kind, self.lends = options, kind, lends
        self._lender: Recorder | None = None
        self.begin = self.wall = 0

    def start(self) -> None:
        """Writes from now on."""
        if Recorder.active is not None:
            if not Recorder.active.lends:
                raise RuntimeError("Profiler is already enabled on this thread")
            self._lender, Recorder.active = Recorder.active, self
            self.wall, self.begin = self._lender.wall, events.now()
            return
        profiling.prepare()
        Recorder.active = self
        events.set_path_handler(profiling.ModulePaths())
        events.set_parameters_handler(_parameters_of)
        events.hide_files(_OURS, _PYTHONS, _helping())
        self.wall = time.time_ns() - events.now()
        wanted = self.options
        if wanted.device:
            events.use_activities(profiling.activity_libraries())
        profiling.remembering = wanted.memory
        events.start(
            wanted.shapes or wanted.flops, wanted.stacks, wanted.memory, wanted.modules,
            wanted.device, wanted.functions,
        )  # fmt: skip
        self.begin = events.now()

    @classmethod
    def toggle(cls, enabled: bool) -> None:
        """Writes nothing for a while, or goes on."""
        if cls.active is not None:
            events.pause(not enabled)

    def stop(self) -> Recording:
        """What was written."""
        if self._lender is not None:
            end = events.now()
            events.pause(True)  # so that no thread writes what is read
            Recorder.active, self._lender = self._lender, None
            found = Recording(self.options, self.begin, end, self.wall, lent=True)
            events.pause(False)
            return found
        events.stop()
        profiling.remembering = False
        Recorder.active = None
        return Recording(self.options, self.begin, events.now(), self.wall)


def _leave_to_parent() -> None:
    """A forked process, a loader's say, writes nothing into a profile that its parent reads."""
    if Recorder.active is not None:
        events.stop()
        profiling.remembering = False
        Recorder.active = None


os.register_at_fork(after_in_child=_leave_to_parent)


def function_of(name: str) -> tuple[str, int, str]:
    """The parts of `file(line): function`: the file's path as a program imports it, the line, the
    function."""
    before, _, function = name.rpartition("): ")
    file, _, line = before.rpartition("(")
    return short_path(file), int(line), function


_short_names: dict[str, str] = {}


def short_path(file: str) -> str:
    """A file's path without the folder in which Python finds it."""
    if file not in _short_names:
        folders = [os.path.join(each, "") for each in (*sys.path, os.path.dirname(_OURS[:-1]))]
        within = max((each for each in folders if file.startswith(each)), key=len, default="")
        _short_names[file] = file[len(within) :]
    return _short_names[file]


def spans(recording: Recording) -> Iterator[tuple[Thread, list[str]]]:
    """Each thread with the names of its events."""
    for thread in recording.threads:
        yield thread, recording.names_of(thread.events)
