"""`torch.Stream` and `torch.Event` of any device: queues of work, and marks in them.

A backend with queues of its own registers its classes in `of_backends`; elsewhere work is done at
once, so that nothing is ever waited for.
"""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.core.device import device as Device
from tritorch.core.scopes import ScopeItself

of_backends: dict[str, tuple[type[Any], type[Any]]] = {}  # device type -> its Stream and Event
_TYPES = {"cpu": 0, "cuda": 1, "meta": 14, "mps": 13, "xpu": 12, "hpu": 17, "mtia": 19, "xla": 9}


def _where(device: Any) -> Device:
    if device is None:
        return Device("cuda") if _C.device_count() else Device("cpu")
    if isinstance(device, int) and not _C.device_count():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return Device(device)


def _without(where: Device) -> RuntimeError:
    return RuntimeError(f"{where.type} backend doesn't support events.")


class _ByDevice(type):
    """Makes an object of the class that is the device's own."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls not in (Stream, Event):
            return super().__call__(*args, **kwargs)
        device, *others = args or [kwargs.pop("device", None)]
        number = kwargs.get("device_type")
        if number is not None:
            device = next((kind for kind, of in _TYPES.items() if of == number), device)
        own = of_backends.get(_where(device).type)
        if own is None:
            return super().__call__(device, *others, **kwargs)
        if cls is Event:  # the device's own has no argument for it
            return own[1](*others, **kwargs)
        return own[0](device, *others, **kwargs)


class Stream(ScopeItself, metaclass=_ByDevice):
    """A queue of work on a device: `Stream("cuda")` is a `torch.cuda.Stream`."""

    __slots__ = ("_numbers", "_where")

    _where: Device
    _numbers: tuple[int, int, int] | None  # of a stream that is named by them: id, index, type

    def __init__(
        self, device: Any = None, priority: int = 0, *, stream_id: int = 0,
        device_index: int | None = None, device_type: int | None = None,
    ) -> None:  # fmt: skip
        self._where = _where(device)
        self._numbers = None
        if device_index is not None and device_type is not None:
            self._numbers = stream_id, device_index, device_type

    @property
    def device(self) -> Device:
        return self._where

    @property
    def device_type(self) -> int:
        named = getattr(self, "_numbers", None)  # not of a GPU's own class
        return named[2] if named else _TYPES.get(self.device.type, 20)

    @property
    def device_index(self) -> int:
        if self._numbers:
            return self._numbers[1]
        return -1 if self._where.index is None else self._where.index

    @property
    def stream_id(self) -> int:
        return self._numbers[0] if self._numbers else 0

    @property
    def native_handle(self) -> int:
        raise RuntimeError("Backend doesn't support getting stream native handle.")

    def query(self) -> bool:
        """Whether all work queued so far is done."""
        return True

    def synchronize(self) -> None:
        """Waits for all work queued so far."""

    def is_capturing(self) -> bool:
        """Whether its work is being captured into a graph."""
        return False

    def record_event(self, event: Any = None) -> Any:
        """Records an event (a new one if none is given) and returns it."""
        raise _without(self._where)

    def wait_event(self, event: Any) -> None:
        """Later work of this stream runs after the event."""

    def wait_stream(self, stream: Any) -> None:
        """Later work of this stream runs after all that is queued on the other one now."""
        raise _without(self._where)

    def changes(self) -> Any:
        """None: streams of the CPU differ in name only."""
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device and (
            self.stream_id == other.stream_id
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, "
            f"stream_id={self.stream_id}"
        )


class Event(metaclass=_ByDevice):
    """A mark in a device's queue: `Event("cuda")` is a `torch.cuda.Event`."""

    __slots__ = ("_where",)

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False,
        interprocess: bool = False,
    ) -> None:  # fmt: skip
        self._where = _where(device)

    @property
    def device(self) -> Any:
        return self._where

    @property
    def event_id(self) -> int:
        return 0

    def record(self, stream: Any = None) -> None:
        """Marks where the stream is now."""
        raise _without(self._where)

    def wait(self, stream: Any = None) -> None:
        """Later work of the stream runs after this event."""

    def query(self) -> bool:
        """Whether all work before the mark is done."""
        return True

    def synchronize(self) -> None:
        """Waits until all work before the mark is done."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds between two events."""
        raise ValueError("Both events must be created with argument 'enable_timing=True'.")

    def ipc_handle(self) -> Any:
        """Refuses, as PyTorch does."""
        raise NotImplementedError(
            "torch.Event ipc is not supported yet, please open an issue if you need this!"
        )

    def __repr__(self) -> str:
        index = -1 if self._where.index is None else self._where.index
        return (
            f"torch.Event device_type={self._where.type}, device_index={index}, event_flag=0, "
            f"event_id={self.event_id}"
        )


Stream.__module__ = Event.__module__ = "tritorch"
