"""Counters by name, as in torch.jit._logging: a logger adds up what it is told, or ignores it."""

from __future__ import annotations

import time

from tritorch.core import locks
from tritorch.schema.tags import Listed


class AggregationType(Listed):
    """What a counter shows: the sum of its values, or their mean."""

    SUM = 0
    AVG = 1


SUM, AVG = AggregationType.SUM, AggregationType.AVG


class LoggerBase:
    """What takes the values of counters."""

    def add_stat_value(self, name: str, value: int) -> None:
        """Takes a value."""
        raise NotImplementedError


class NoopLogger(LoggerBase):
    """Ignores every value."""

    def add_stat_value(self, name: str, value: int) -> None:
        """Nothing happens."""


class LockingLogger(LoggerBase):
    """Adds values up, from any thread."""

    def __init__(self) -> None:
        self._lock = locks.lock()
        self._sums: dict[str, tuple[int, int]] = {}
        self._types: dict[str, AggregationType] = {}

    def add_stat_value(self, name: str, value: int) -> None:
        """Takes a value."""
        with self._lock:
            total, count = self._sums.get(name, (0, 0))
            self._sums[name] = total + int(value), count + 1

    def set_aggregation_type(self, stat_name: str, type: AggregationType) -> None:
        """What a counter shows from now on; at first it is the sum."""
        with self._lock:
            self._types[stat_name] = AggregationType(type)

    def get_counter_val(self, name: str) -> int:
        """The sum of a counter's values, or their mean, rounded down; 0 if it has none."""
        with self._lock:
            total, count = self._sums.get(name, (0, 0))
            if self._types.get(name, SUM) is AVG and count:
                return int(total / count)
            return total


for _class in (AggregationType, LockingLogger, NoopLogger):
    _class.__module__ = "tritorch"

_logger: LoggerBase = NoopLogger()


def set_logger(logger: LoggerBase) -> LoggerBase:
    """Values go to this logger from now on; returns the one before."""
    global _logger
    if not isinstance(logger, LoggerBase):
        raise TypeError(
            f"set_logger(): expected a LockingLogger or NoopLogger, got {type(logger).__name__}"
        )
    before, _logger = _logger, logger
    return before


def add_stat_value(name: str, value: int) -> None:
    """Gives a value to the logger."""
    _logger.add_stat_value(name, value)


def time_point() -> int:
    """Nanoseconds of a clock that only goes forward."""
    return time.perf_counter_ns()
