"""torch.monitor: statistics over windows of time, and events that handlers get."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tritorch.core import locks
from tritorch.schema.tags import Listed

if TYPE_CHECKING:
    from tritorch.utils.tensorboard import SummaryWriter

__all__ = [
    "STAT_EVENT",
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]


class _WaitCounterTracker:
    """A context in which something waits."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


class _WaitCounter:
    """A named count of waits; nobody collects them here."""

    def __init__(self, key: str) -> None:
        self._key = key

    def guard(self) -> _WaitCounterTracker:
        """A context for one wait."""
        return _WaitCounterTracker()


for _class in (_WaitCounter, _WaitCounterTracker):
    _class.__module__ = "tritorch._C._monitor"
data_value_t: TypeAlias = str | float | int | bool
STAT_EVENT = "torch.monitor.Stat"


class Aggregation(Listed):
    """What a `Stat` makes of the values of a window."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN


class Event:
    """Something that happened: a name, a time, and values by name."""

    def __init__(
        self, name: str, timestamp: datetime.datetime, data: Mapping[str, data_value_t]
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Event: name must be a str, got {type(name).__name__}")
        if not isinstance(timestamp, datetime.datetime):
            raise TypeError(f"Event: timestamp must be a datetime, got {type(timestamp).__name__}")
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, (str, float, int)):
                raise TypeError(
                    "Event: data must have str as keys and str, float, int or bool as values, got "
                    f"{key!r}: {type(value).__name__}"
                )
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What `register_event_handler` gives, for `unregister_event_handler`."""

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []
_handlers_lock = locks.lock()


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """From now on, callback(event) is called for each event that is logged."""
    if not callable(callback):
        raise TypeError(
            f"register_event_handler(): expected a callable, got {type(callback).__name__}"
        )
    handle = EventHandlerHandle(callback)
    with _handlers_lock:
        _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """The callback is not called any more."""
    with _handlers_lock, contextlib.suppress(ValueError):
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Gives the event to every handler."""
    if not isinstance(event, Event):
        raise TypeError(f"log_event(): expected an Event, got {type(event).__name__}")
    with _handlers_lock:
        handlers = list(_handlers)
    for handle in handlers:
        handle._handler(event)


class _Window:
    """The values of one window of time, aggregated."""

    def __init__(self) -> None:
        self.count = 0
        self.last = self.sum = self.max = self.min = 0.0

    def add(self, value: float) -> None:
        self.max = max(self.max, value) if self.count else value
        self.min = min(self.min, value) if self.count else value
        self.last = value
        self.sum += value
        self.count += 1

    def get(self, how: Aggregation) -> float:
        if how is MEAN:
            return self.sum / self.count if self.count else 0.0
        found = {VALUE: self.last, COUNT: self.count, SUM: self.sum, MAX: self.max, MIN: self.min}
        return float(found[how])


class Stat:
    """A statistic over windows of time, each of which is logged as an event when it is over.

    max_samples: the window is logged as soon as it has so many; what comes before its end is
    dropped.
    """

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: datetime.timedelta,
        max_samples: int = 2**63 - 1,
    ) -> None:
        self._name = name
        self._aggregations = list(dict.fromkeys(aggregations))
        given = window_size
        self._seconds = given if isinstance(given, (int, float)) else given.total_seconds()
        if self._seconds <= 0:
            raise ValueError(f"Stat: window_size must be above 0, got {window_size}")
        self._max_samples = max_samples
        self._lock = locks.lock()
        self._current, self._previous = _Window(), _Window()
        self._number = self._now()
        self._is_logged = False

    @property
    def name(self) -> str:
        """The name, which begins those of the values in its events."""
        return self._name

    @property
    def count(self) -> int:
        """The number of values in the window so far."""
        with self._lock:
            event = self._close()
            found = self._current.count
        self._log(event)
        return found

    def add(self, v: float) -> None:
        """Adds a value to the window."""
        value = float(v)
        with self._lock:
            events = [self._close()]
            if not self._is_logged:
                self._current.add(value)
                events.append(self._close())
        for event in events:
            self._log(event)

    def get(self) -> dict[Aggregation, float]:
        """What the last window that is over came to."""
        with self._lock:
            event = self._close()
            found = {how: self._previous.get(how) for how in self._aggregations}
        self._log(event)
        return found

    def __del__(self) -> None:
        if hasattr(self, "_is_logged"):
            self._log(self._next())

    def _now(self) -> int:
        return int(time.monotonic() / self._seconds)

    def _close(self) -> Event | None:
        """Begins a new window if this one is over or full; its event, if it has one."""
        number = self._now()
        is_over = number != self._number
        event = None
        if (is_over and not self._is_logged) or self._current.count >= self._max_samples:
            event = self._next()
            self._is_logged = True
        if is_over:
            self._is_logged = False
        self._number = number
        return event

    def _next(self) -> Event | None:
        self._previous, self._current = self._current, _Window()
        if not self._previous.count:
            return None
        data = {
            f"{self._name}.{how.name.lower()}": self._previous.get(how)
            for how in self._aggregations
        }
        return Event(STAT_EVENT, datetime.datetime.now(), data)

    @staticmethod
    def _log(event: Event | None) -> None:
        if event is not None:
            log_event(event)


class TensorboardEventHandler:
    """Writes the values of `Stat`s as scalars.

    register_event_handler(TensorboardEventHandler(SummaryWriter("runs")))
    """

    def __init__(self, writer: SummaryWriter) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        """Writes the event, if it is a statistic's."""
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
