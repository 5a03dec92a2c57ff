"""The steps of a thread: regions from one mark to the next, and what is counted of them."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from typing import Any

from tritorch import _C
from tritorch.compilation.follow.calls import Segment, SourceLine
from tritorch.compilation.follow.regions import (
    Follower,
    Listener,
    Options,
    break_here,
    held_by,
    listeners,
    segment_of,
    steps_of,
)
from tritorch.core.device import STAND_INS
from tritorch.core.tensor import Tensor
from tritorch.utils.weak import WeakIdKeyDictionary


class _Thread(threading.local):
    follower: Follower | None = None


_thread = _Thread()
counters: Counter[str] = Counter()
graph_sizes: list[int] = []
_numbers = itertools.count(1)
_named: Any = WeakIdKeyDictionary()


class _Watch(Listener):
    """Counts what the steps of all threads do."""

    def recorded(self, follower: Follower, segment: Segment) -> None:
        """A graph that was not known."""
        if follower.options.name == _NAME and segment.calls:
            counters["UncachedCompile"] += 1
            graph_sizes.append(len(segment.calls))
            _count(segment)

    def flushed(self, follower: Follower, reason: str, line: SourceLine | None) -> None:
        """A call that no graph holds."""
        if follower.options.name == _NAME:
            counters[f"aten::{reason.partition(':')[0].strip('_')}"] += 1


def _current(region: Any) -> Segment:
    """What was called since a step began, or since values were asked for."""
    steps = steps_of(region)
    return segment_of(steps, held_by(region, steps), 0, "", None)


def _count(segment: Segment) -> None:
    counters.update(f"lazy::{call.gate.__name__.strip('_')}" for call in segment.calls)


_NAME = "lazy step"
_watch = _Watch()


def where() -> str:
    """The type of device that computes."""
    return "cuda" if os.environ.get("LTC_TS_CUDA", "0") == "1" else "cpu"


def start() -> None:
    """This thread's steps begin; `lazy` names the device that computes."""
    STAND_INS["lazy"] = where()
    if _watch not in listeners:
        listeners.append(_watch)
    if _thread.follower is None:
        _thread.follower = Follower(_no_function, Options(name=_NAME))
        _thread.follower.begin()


def _no_function() -> None:
    raise AssertionError("a step is no function")


def mark() -> None:
    """A step ends, the next begins."""
    follower = _thread.follower
    if follower is None:
        raise RuntimeError("Lazy tensor backend not registered: call torch._lazy.ts_backend.init()")
    counters["MarkStep"] += 1
    region: Any = _C.current_region()
    if region.deferred:
        counters["CachedCompile"] += 1
        _count(_current(region))
    follower.end()
    follower.begin()


def stop() -> None:
    """The thread's calls run as they come again; for tests."""
    if _thread.follower is not None:
        _thread.follower.end()
        _thread.follower = None
        STAND_INS.pop("lazy", None)


def sync() -> None:
    """Computes what is pending."""
    break_here("sync")


def pending() -> Segment | None:
    """What was called since a step began, or since values were asked for."""
    region: Any = _C.current_region()
    return None if region is None else _current(region)


def forget() -> None:
    """Forgets what was recorded of steps; the one that runs is recorded."""
    follower = _thread.follower
    if follower is not None:
        follower.end()
        follower.reset()
        follower.begin()


def number_of(tensor: Tensor) -> int:
    """A tensor's number."""
    if tensor not in _named:
        _named[tensor] = next(_numbers)
    return _named[tensor]
