"""The records of followed calls, and of segments: the calls between two graph breaks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.core import locks
from tritorch.core.device import device as Device
from tritorch.core.dtype import dtype
from tritorch.core.scopes import Scope


@dataclass(frozen=True)
class Slot:
    """A tensor of a segment, by its number in the region."""

    index: int


class Spec(NamedTuple):
    """The description of a tensor before it is computed."""

    shape: tuple[int, ...]
    dtype: dtype
    stride: tuple[int, ...]
    device: Device
    requires_grad: bool


class SourceLine(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class Reason(NamedTuple):
    """The reason of a graph break."""

    text: str
    captured: bool = (
        False  # whether PyTorch's graphs hold such a call: no error with fullgraph=True
    )

    def __str__(self) -> str:
        return self.text


class _Filing(Scope):
    """Held while a call is written down, or runs with symbols: other threads read what is known,
    and a function's symbols have the values of one run at a time.

    A thread that flushes a region may wait for it, so a thread that holds it neither waits for
    those nor flushes.  Nor is there a reason to: calls that run meanwhile touch no memory."""

    def __init__(self) -> None:
        self.lock = locks.rlock()

    def changes(self) -> Any:
        return (self.lock.acquire, None, self.lock.release), (_C.hold_flushes, 1)


filing = _Filing()


Layout = tuple[tuple[Any, ...], tuple[Any, ...]]  # sizes and strides, of which some are symbols


@dataclass
class Dynamic:
    """The dynamic numbers of a call: Note [Dynamic shapes] in `automatic.py`."""

    symbols: list[Any] = field(default_factory=list)  # that begin here
    layouts: dict[int, Layout] = field(default_factory=dict)  # by slot
    conditions: set[str] = field(default_factory=set)
    args: tuple[Any, ...] = ()  # with a `DynamicNumber` for each dynamic one
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Call:
    """A call of a public function: arguments and results are nested data, with a `Slot` for each
    tensor."""

    gate: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: Any
    source_line: SourceLine | None
    specs: dict[int, Spec] = field(default_factory=dict)  # of the tensors that come into play here
    graph_break: Reason | None = None  # why it needs all before it computed
    gradients: bool = True  # whether they were recorded
    segment: Segment | None = None  # that it is the last of
    dynamic: Dynamic | None = None


@dataclass
class Segment:
    """The calls between two graph breaks, of one path through a program: its graph."""

    number: int
    calls: list[Call]
    inputs: list[int]  # slots of tensors that come from outside, in the order of their first use
    outputs: list[int]  # slots that the program held at the end
    specs: dict[int, Spec]
    reason: str  # of the graph break at its end
    source_line: SourceLine | None  # where


_OURS = (
    os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
)  # modules may be called torch's


def users_line(depth: int = 1) -> SourceLine | None:
    """The innermost line that is not of this package."""
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if not (
            code.co_filename.startswith(_OURS) or frame.f_globals.get("__name__") == "contextlib"
        ):
            return SourceLine(code.co_filename, frame.f_lineno, code.co_qualname)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def mapped(leaf: Callable[[Any], Any], value: Any) -> Any:
    """Nested data with what a function gives for all that is no tuple, list or slice."""
    kind = type(value)
    if kind is slice:
        return slice(*(mapped(leaf, x) for x in (value.start, value.stop, value.step)))
    if isinstance(value, (tuple, list)):
        items = [mapped(leaf, item) for item in value]
        return kind._make(items) if hasattr(kind, "_make") else kind(items)
    return leaf(value)


def slotted(value: Any, slots: dict[int, int]) -> Any:
    """Nested data with a `Slot` for each tensor, by its id."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([slotted(item, slots) for item in value])
    if kind is slice or isinstance(value, (tuple, list)):
        return mapped(lambda x: slotted(x, slots), value)
    slot = slots.get(id(value))
    return value if slot is None else Slot(slot)


def slots_of(value: Any) -> list[int]:
    """The slots in nested data, in their order."""
    if type(value) is Slot:
        return [value.index]
    if isinstance(value, (tuple, list)):
        return [slot for item in value for slot in slots_of(item)]
    if isinstance(value, slice):
        return slots_of((value.start, value.stop, value.step))
    if isinstance(value, dict):
        return slots_of(tuple(value.values()))
    return []
