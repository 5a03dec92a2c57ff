"""Streams and events, as in torch.cuda."""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.autograd.streams import notice
from tritorch.core import streams
from tritorch.core.device import cuda_index, device
from tritorch.core.scopes import ABOUT_TO_CHANGE, Scope
from tritorch.gpu import errors

_BLOCKING_SYNC, _DISABLE_TIMING, _INTERPROCESS = 1, 2, 4


class Stream(streams.Stream):
    """A queue of work on one GPU.

    Streams come from a pool of 32 a priority and are never destroyed, so making one is cheap.
    Lower numbers are more urgent; what lies outside the device's range is clamped to it.
    """

    __slots__ = ("__weakref__", "cuda_stream", "device_index")

    cuda_stream: int
    device_index: int

    def __init__(
        self,
        device: Any = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
    ) -> None:
        if stream_id is not None:
            self.device_index = cuda_index(device if device_index is None else device_index)
            self.cuda_stream = stream_id
        else:
            self.device_index = cuda_index(device)
            self.cuda_stream = _C.stream_from_pool(self.device_index, priority)

    @property
    def device(self) -> device:
        return device("cuda", self.device_index)

    @property
    def stream_id(self) -> int:
        return self.cuda_stream

    @property
    def native_handle(self) -> int:
        return self.cuda_stream

    @property
    def priority(self) -> int:
        return _C.stream_priority(self.device_index, self.cuda_stream)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the most urgent priority of the current device."""
        return _C.stream_priority_range(_C.current_device())

    def wait_event(self, event: Event) -> None:
        """Later work of this stream runs after the event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Later work of this stream runs after all that is queued on the other one now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event (a new one if none is given) and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work queued so far is done."""
        _C.flush()
        return _C.stream_query(self.device_index, self.cuda_stream)

    def synchronize(self) -> None:
        """Waits for all work queued so far."""
        _C.flush()
        _C.stream_synchronize(self.device_index, self.cuda_stream)
        from tritorch.cuda.memory import raise_sanitizer_reports

        raise_sanitizer_reports(self.device_index)
        errors.check(self.device_index)

    def is_capturing(self) -> bool:
        """Whether the stream's work is being captured into a graph."""
        return _C.stream_capture_id(self.device_index, self.cuda_stream) > 0

    @property
    def _as_parameter_(self) -> Any:
        import ctypes

        return ctypes.c_void_p(self.cuda_stream)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.cuda_stream

    def changes(self) -> Any:
        return _stream_changes(self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stream)
            and self.cuda_stream == other.cuda_stream
            and self.device_index == other.device_index
        )

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<tritorch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def _stream_changes(stream: Stream) -> tuple[Any, ...]:
    """The changes that make a stream and its device current, Note [Scopes]."""
    notice(stream.cuda_stream)
    return (
        ABOUT_TO_CHANGE,
        (_C.exchange_device, stream.device_index),
        (_C.exchange_stream, (stream.device_index, stream.cuda_stream)),
    )


class ExternalStream(Stream):
    """Another library's stream, by its address.  That library keeps it alive."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        super().__init__(stream_id=stream_ptr, device_index=cuda_index(device))


class Event(streams.Event):
    """A mark in a stream, to wait for or to take the time at."""

    __slots__ = ("__weakref__", "_event", "enable_timing")

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess and enable_timing:
            raise RuntimeError("an event between processes has no timing")
        flags = (_BLOCKING_SYNC if blocking else 0) | (0 if enable_timing else _DISABLE_TIMING)
        flags |= _INTERPROCESS if interprocess else 0
        self._event = _C.Event(flags)
        self.enable_timing = enable_timing

    def ipc_handle(self) -> bytes:
        """What another process opens, of an event that is made with `interprocess=True`."""
        if not self._event.flags & _INTERPROCESS:
            raise RuntimeError("ipc_handle(): the event was not made with interprocess=True")
        index = self._event.device_index
        return self._event.ipc_handle(_C.current_device() if index < 0 else index)

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """Another process's event."""
        made = cls(interprocess=True)
        made._event = _C.Event.from_ipc_handle(cuda_index(device), handle)
        return made

    @property
    def cuda_event(self) -> int:
        return self._event.handle

    @property
    def device(self) -> device | None:
        index = self._event.device_index
        return None if index < 0 else device("cuda", index)

    def record(self, stream: Stream | None = None) -> None:
        """Marks where the stream (the current one) is now."""
        _C.flush()  # deferred calls come before
        if stream is None:
            index = _C.current_device()
            self._event.record(index, _C.current_stream(index))
        else:
            self._event.record(stream.device_index, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Later work of the stream (the current one) runs after this event."""
        if stream is None:
            index = _C.current_device()
            self._event.wait(index, _C.current_stream(index))
        else:
            self._event.wait(stream.device_index, stream.cuda_stream)

    def query(self) -> bool:
        """Whether all work before the mark is done."""
        return self._event.query()

    def synchronize(self) -> None:
        """Waits until all work before the mark is done."""
        self._event.synchronize()
        errors.check(self._event.device_index)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between this event and a later one, both recorded with enable_timing."""
        for event in (self, end_event):
            if not event.enable_timing:
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if event._event.device_index < 0:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
        return self._event.elapsed_time(end_event._event)

    def __repr__(self) -> str:
        if not self.cuda_event:
            return "<tritorch.cuda.Event uninitialized>"
        return f"<tritorch.cuda.Event {self.cuda_event:#x}>"


streams.of_backends["cuda"] = Stream, Event


def current_stream(device: Any = None) -> Stream:
    """The stream that work on a device goes to, on this thread."""
    _C.load_driver()
    index = cuda_index(device)
    return Stream(stream_id=_C.current_stream(index), device_index=index)


def default_stream(device: Any = None) -> Stream:
    """The device's default stream."""
    _C.load_driver()
    return Stream(stream_id=0, device_index=cuda_index(device))


def set_stream(stream: Stream | None) -> None:
    """Makes a stream, and its device, the current ones.  Prefer `with stream(s):`."""
    if stream is not None:
        _C.ambient_changes()
        _C.set_device(stream.device_index)
        _C.set_stream(stream.device_index, stream.cuda_stream)
        notice(stream.cuda_stream)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A Stream for another library's stream."""
    return ExternalStream(data_ptr, device)


class StreamContext(Scope):
    """`with StreamContext(s):` makes s and its device current; None does nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def changes(self) -> Any:
        return () if self.stream is None else _stream_changes(self.stream)


def stream(stream: Stream | None) -> StreamContext:
    """A context in which work goes to the stream."""
    return StreamContext(stream)
