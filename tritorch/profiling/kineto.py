"""What `profile.kineto_results` gives: a recording's events as PyTorch's library of traces has
them, and their tree."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tritorch.profiling.event_trees import ProfilerEvent, event_tree
from tritorch.profiling.kinds import DeviceType

if TYPE_CHECKING:
    from tritorch.autograd.profiler_util import FunctionEvent
    from tritorch.profiling.recordings import Recording

_correlations = itertools.count(1)  # of what devices were asked for, in all profiles of a process


class KinetoEvent:
    """An event of the host or of a device.  Times are nanoseconds since 1970."""

    def __init__(self, event: FunctionEvent, begin: int, correlation: int, linked: int) -> None:
        self._event, self._begin = event, begin
        self._correlation, self._linked = correlation, linked

    def __repr__(self) -> str:
        return f"<_KinetoEvent {self._event.name}>"

    def name(self) -> str:
        """What it is called."""
        return self._event.name

    def overload_name(self) -> str:
        """The overload that was called."""
        return str(self._event.overload_name or "")

    def start_ns(self) -> int:
        """When it began."""
        return self._begin + round(self._event.time_range.start * 1e3)

    def end_ns(self) -> int:
        """When it ended."""
        return self._begin + round(self._event.time_range.end * 1e3)

    def duration_ns(self) -> int:
        """How long it took."""
        return self.end_ns() - self.start_ns()

    def device_type(self) -> DeviceType:
        """Where it ran."""
        return self._event.device_type

    def device_index(self) -> int:
        """On which of those devices."""
        return int(self._event.device_index)

    def device_resource_id(self) -> int:
        """The thread, or the stream."""
        return int(self._event.device_resource_id or self._event.thread)

    def start_thread_id(self) -> int:
        """The thread in which it began."""
        return int(self._event.thread)

    def end_thread_id(self) -> int:
        """The thread in which it ended."""
        return int(self._event.thread)

    def fwd_thread_id(self) -> int:
        """Of a node: the thread of the call that made it."""
        return int(self._event.fwd_thread or 0)

    def correlation_id(self) -> int:
        """Its own number, which no other event has; 0 of what has none."""
        return self._correlation

    def linked_correlation_id(self) -> int:
        """Of what a device did: the number of who asked for it."""
        return self._linked

    def sequence_nr(self) -> int:
        """The place of the node that it made, or is."""
        return int(self._event.sequence_nr)

    def scope(self) -> int:
        """What it is of: a number of `RecordScope`."""
        return int(self._event.scope)

    def shapes(self) -> list[Any]:
        """The sizes of its arguments."""
        return list(self._event.input_shapes or [])

    def stack(self) -> list[str]:
        """Where in Python it was called."""
        return list(self._event.stack or [])

    def flops(self) -> int:
        """Its operations."""
        return int(self._event.flops or 0)

    def is_async(self) -> bool:
        """Whether it is under way beside what its thread does."""
        return bool(self._event.is_async)

    def is_user_annotation(self) -> bool:
        """Whether the program named it."""
        return bool(self._event.is_user_annotation)

    def is_python_function(self) -> bool:
        """Whether it is a call of a function of Python, which only trees show."""
        return False


KinetoEvent.__name__ = KinetoEvent.__qualname__ = "_KinetoEvent"
KinetoEvent.__module__ = "torch._C._autograd"


class ProfilerResult:
    """A recording in the form in which PyTorch's tools ask for it."""

    def __init__(self, recording: Recording, use_device: str | None) -> None:
        self._recording, self._use_device = recording, use_device

    def events(self) -> list[KinetoEvent]:
        """All events of the host and of devices, as they began."""
        return self._events

    @cached_property
    def _events(self) -> list[KinetoEvent]:
        found = []
        begin = self._recording.begin + self._recording.wall
        for event in self._recording.function_events(self._use_device):
            on_host = event.device_type == DeviceType.CPU
            number = next(_correlations) if on_host else 0
            found.append(KinetoEvent(event, begin, number, 0))
        return found

    @cached_property
    def _tree(self) -> list[ProfilerEvent]:
        return event_tree(self._recording)

    def experimental_event_tree(self) -> list[ProfilerEvent]:
        """The outermost events, with what is inside of them."""
        return self._tree

    def trace_start_ns(self) -> int:
        """When the profile began."""
        return self._recording.begin + self._recording.wall

    def save(self, path: str) -> None:
        """A file of Kineto's form."""
        from tritorch.profiling.traces import write_trace

        write_trace(self._recording, path, {}, {})


ProfilerResult.__name__ = ProfilerResult.__qualname__ = "_ProfilerResult"
ProfilerResult.__module__ = "torch._C._autograd"
