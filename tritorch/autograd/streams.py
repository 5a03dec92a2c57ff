"""Gradients run on the streams that their forward ran on.

# Note [Streams in the backward pass]
Each node runs with its forward's stream as the current one, and its gradients are delivered there.
Whoever consumes a gradient waits for the stream that produced it, and records its use with the
allocator.  At the end the caller's stream waits for every stream that was used.
All of this is off until a process uses a stream other than the default one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tritorch import _C

Queue = tuple[int, int]  # device, stream

_DISABLE_TIMING = 2
_used = False


def notice(stream: int) -> None:
    """A stream becomes the current one.  From the first side stream on, nodes note theirs."""
    global _used
    if stream and not _used:
        _used = True
        _C.register_part("stream_probe", _current)


def _current(array: Any) -> Queue | None:
    if type(array) is not _C.Array:
        return None
    index = array.device_index
    return index, _C.current_stream(index)


def stream_of(outputs: Iterable[Any]) -> Queue | None:
    """The stream that a node written in Python notes: its outputs'."""
    array = next(iter(_arrays(outputs)), None) if _used else None
    return None if array is None else _current(array)


def wait(queue: Queue, other: Queue) -> None:
    """Later work of `queue` runs after all that is queued on `other` now."""
    event = _C.Event(_DISABLE_TIMING)
    event.record(*other)
    event.wait(*queue)


class Streams:
    """The streams of one backward pass."""

    def __init__(self) -> None:
        self.here: Queue | None = None  # where the running node's gradients are produced
        self.callers: dict[int, int] = {}  # device -> the stream that was current
        self.started: set[Queue] = set()
        self.origins: dict[Any, Queue] = {}  # pending node or leaf -> who produced its gradient

    def enter(self, node: Any, grads: Any) -> None:
        """Makes a node's stream the current one, ordered after those that produced its gradient."""
        found = list(_arrays(grads if node._node_n_outputs else (grads,)))
        self.here = node._node_stream
        if self.here is None and found:
            self.here = (found[0].device_index, 0)
        if self.here is None:
            return
        self._start(self.here)
        self._after(self.origins.pop(node, None), found)

    def _after(self, origin: Queue | None, arrays: Iterable[_C.Array]) -> None:
        """Here comes after what produced the arrays: another node, or the caller."""
        assert self.here is not None
        device, stream = self.here
        if origin is None:
            origin = (device, self.callers[device])
        if origin == self.here:
            return
        wait(self.here, origin)
        for array in arrays:
            if array.device_index == device:
                array._record_stream(stream)

    def _start(self, queue: Queue) -> None:
        device, stream = queue
        if device not in self.callers:
            self.callers[device] = _C.current_stream(device)
        if queue not in self.started:
            self.started.add(queue)
            if stream != self.callers[device]:
                wait(queue, (device, self.callers[device]))
        _C.set_stream(device, stream)

    def deliver(self, target: Any, pending: dict[Any, Any], sums: dict[int, Any]) -> None:
        """The running node is about to add to what is pending for a node, or for a leaf."""
        if self.here is None:
            return
        if isinstance(target, _C.NodeBase):
            waiting = pending.get(target)
            if waiting is not None:
                grads = waiting if target._node_n_outputs else (waiting,)
                self._after(self.origins.get(target), _arrays(grads))
            self.origins[target] = self.here
        else:
            waiting = sums.get(id(target))
            self._after(self.origins.get(id(target)), _arrays((target._grad, waiting)))
            self.origins[id(target)] = self.here

    def leave(self) -> None:
        """Back to the caller's streams, which wait for all others."""
        for device, stream in self.callers.items():
            _C.set_stream(device, stream)
            for queue in self.started:
                if queue != (device, stream):
                    wait((device, stream), queue)


def of_pass() -> Streams | None:
    """The streams of a new backward pass; None while all work is on default streams."""
    return Streams() if _used else None


def _arrays(grads: Iterable[Any]) -> Iterable[_C.Array]:
    return (g._a for g in grads if g is not None and type(getattr(g, "_a", None)) is _C.Array)
