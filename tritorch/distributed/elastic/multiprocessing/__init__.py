"""What programs ask a launcher for: where output goes, and the signals that end it."""

from __future__ import annotations

from tritorch.distributed.elastic.logs import DefaultLogsSpecs, LogsSpecs, Std

__all__ = ["DefaultLogsSpecs", "LogsSpecs", "SignalException", "Std"]


class SignalException(Exception):
    """A launcher was told to end by a signal."""

    def __init__(self, msg: str, sigval: int) -> None:
        super().__init__(msg)
        self.sigval = sigval
