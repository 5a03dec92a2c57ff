"""What is recorded of a region: calls of gates, in segments."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

Place = tuple[str, int, str]  # file, line, function of the user's code


class Slot(NamedTuple):
    """A tensor of a segment, by number."""

    index: int  # type: ignore[assignment]


class Spec(NamedTuple):
    """What is known of a tensor without its values."""

    shape: tuple[int, ...]
    dtype: Any
    stride: tuple[int, ...]
    device: Any
    requires_grad: bool


@dataclasses.dataclass
class Call:
    """A call of a gate, with slots in place of tensors."""

    gate: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: Any
    place: Place | None = None


@dataclasses.dataclass
class Segment:
    """The calls between two flushes."""

    calls: list[Call] = dataclasses.field(default_factory=list)
    inputs: list[int] = dataclasses.field(default_factory=list)
    outputs: list[int] = dataclasses.field(default_factory=list)
    specs: list[Spec] = dataclasses.field(default_factory=list)
    reason: str = "end"
    place: Place | None = None
    number: int = 0
