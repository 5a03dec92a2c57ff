"""Regions that are followed: for now each run is recorded, and computed as it comes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tritorch import _C
from tritorch._following import stances
from tritorch._following.calls import Call, Place, Segment, Slot, Spec
from tritorch._trees.walk import tree_leaves, tree_map
from tritorch.core import gates
from tritorch.core.tensor import Tensor

Maker = Callable[[Segment, list[Tensor]], Callable[[list[Tensor]], list[Tensor]]]


class Broken(RuntimeError):
    """A region that was to be one graph has more."""

    def __init__(self, reason: str, place: Place | None) -> None:
        super().__init__(f"{reason}, at {place}")
        self.reason, self.place = reason, place


@dataclasses.dataclass
class Options:
    """How a region is compiled."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: Maker | None = None
    mode: str | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    recompile_limit: int | None = None
    name: str | None = None


class Listener:
    """Is told what happens in regions."""

    def recorded(self, follower: Follower, segment: Segment) -> None:
        """A segment was recorded."""

    def flushed(
        self, follower: Follower, segment: Segment | None, reason: str, place: Place | None
    ) -> None:
        """What was pending was computed."""

    def untracked(self, follower: Follower, gate: Any, reason: str, place: Place | None) -> None:
        """A call could not be part of a graph."""

    def recompiled(self, follower: Follower, why: str, place: Place | None) -> None:
        """A run took a way that was not known."""


listeners: list[Listener] = []
_here = threading.local()
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_READS = frozenset(
    (
        "item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__", "__complex__",
        "__array__", "__repr__", "__format__", "__str__", "backward",
    )
)  # fmt: skip


def following() -> Follower | None:
    """The follower whose region this thread is in."""
    return getattr(_here, "follower", None)


def _set(follower: Follower | None) -> None:
    _here.follower = follower
    gates.follow = _follow if follower is not None else None
    _C.set_function_modes(follower is not None or bool(gates.modes.stack))


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Inside, nothing is followed."""
    follower = following()
    if follower is None:
        yield
        return
    follower._flush("disabled", _place())
    _set(None)
    try:
        yield
    finally:
        _set(follower)


def break_here(reason: str) -> None:
    """Ends a segment."""
    follower = following()
    if follower is not None:
        follower._flush(reason, _place())


def _place() -> Place | None:
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(
        (_PACKAGE, contextlib.__file__)
    ):
        frame = frame.f_back
    if frame is None:
        return None
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def _follow(gate: Any, args: Any, kwargs: Any) -> Any:
    follower: Any = following()
    name = gate.__name__
    if name in _READS:
        follower._flush(name.strip("_"), _place())
    _set(None)
    try:
        result = gate(*args, **kwargs)
    finally:
        _set(follower)
    if name not in _READS:
        follower._note(gate, args, kwargs, result)
    return result


class Follower:
    """A function whose calls are followed."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function, self.options = function, options
        self.reset()

    def reset(self) -> None:
        """Forgets all."""
        self.segments: list[Segment] = []
        self._ways: dict[Any, list[Segment]] = {}
        self._compiled: dict[str, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.begin()
        try:
            result = self.function(*args, **kwargs)
            self._flush("end", None)
        finally:
            _set(None)
        return self._finish(result)

    def begin(self) -> None:
        """Enters the region in this thread."""
        self._run: list[Segment] = []
        self._kept: dict[int, list[Tensor]] = {}
        self._begin()
        _set(self)

    def end(self) -> None:
        """Leaves the region: what is pending is computed."""
        try:
            self._flush("end", None)
        finally:
            _set(None)
        self._finish(None)

    # ---- one run ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._now = Segment(number=len(self._run))
        self._slots: dict[int, int] = {}
        self._held: list[Tensor] = []
        self._made: set[int] = set()

    def _slot(self, x: Any, made: bool = False) -> Any:
        if not isinstance(x, Tensor):
            return x
        if id(x) not in self._slots:
            index = self._slots[id(x)] = len(self._held)
            self._held.append(x)
            shape, stride = tuple(x.shape), tuple(x.stride())
            self._now.specs.append(Spec(shape, x.dtype, stride, x.device, x.requires_grad))
            (self._made.add if made else self._now.inputs.append)(index)
        return Slot(self._slots[id(x)])

    def _note(self, gate: Any, args: Any, kwargs: Any, result: Any) -> None:
        tensors = any(isinstance(x, Tensor) for x in tree_leaves(result))
        if not tensors and gate.__name__ != "__setitem__":
            return
        given, named = tree_map(self._slot, args), tree_map(self._slot, kwargs)
        made = tree_map(lambda x: self._slot(x, made=True), result)
        self._now.calls.append(Call(gate, given, named, made, _place()))

    def _flush(self, reason: str, place: Place | None) -> None:
        segment = self._now
        segment.reason, segment.place = reason, place
        segment.outputs = sorted(self._made)
        if reason != "end" and self.options.fullgraph:
            raise Broken(reason, place)
        self._run.append(segment)
        self._last = self._held
        self._kept[id(segment)] = self._held
        self._begin()
        for listener in listeners:
            listener.flushed(self, segment, reason, place)

    def _finish(self, result: Any) -> Any:
        key = repr([(s.specs, s.reason, [(c.gate, c.args, c.kwargs) for c in s.calls])
                    for s in self._run])  # fmt: skip
        if key not in self._ways:
            why = "another stream of calls"
            if not stances.may_record(self, len(self._ways), why):
                return result
            if self._ways:
                for listener in listeners:
                    listener.recompiled(self, why, None)
            self._ways[key] = self._run
            for segment in self._run:
                segment.number = len(self.segments)
                self.segments.append(segment)
                for listener in listeners:
                    listener.recorded(self, segment)
                if self.options.backend is not None and segment.calls:
                    held = [self._kept[id(segment)][i] for i in segment.inputs]
                    self._compiled[key] = self.options.backend(segment, held)
            return result
        make, segment = self._compiled.get(key), self._run[-1]
        written = {i for c in segment.calls for i in segment.inputs if Slot(i) == c.results}
        if make is None or written or not segment.calls:
            return result
        found = make([self._last[i] for i in segment.inputs])
        new = {id(self._last[i]): x for i, x in zip(segment.outputs, found, strict=True)}
        return tree_map(lambda x: new.get(id(x), x) if isinstance(x, Tensor) else x, result)


def compile_segment(
    segment: Segment, examples: list[Tensor], options: Options
) -> Callable[[list[Tensor]], list[Tensor]]:
    """The package's own way to run a segment: its calls, one after the other."""

    def run(given: list[Tensor]) -> list[Tensor]:
        held: dict[int, Any] = dict(zip(segment.inputs, given, strict=True))

        def put(slot: Any, x: Any) -> None:
            if isinstance(slot, Slot):
                held[slot.index] = x
            elif isinstance(slot, (list, tuple)):
                for each, value in zip(slot, x, strict=True):
                    put(each, value)

        def take(x: Any) -> Any:
            return held[x.index] if isinstance(x, Slot) else x

        is_slot = lambda x: isinstance(x, Slot)
        for call in segment.calls:
            args = tree_map(take, call.args, is_leaf=is_slot)
            kwargs = tree_map(take, call.kwargs, is_leaf=is_slot)
            put(call.results, call.gate(*args, **kwargs))
        return [held[i] for i in segment.outputs]

    return run
