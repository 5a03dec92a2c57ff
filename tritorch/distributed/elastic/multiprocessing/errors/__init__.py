"""Errors of a job's processes, as their launcher tells them.

A process writes its error into the file that TORCHELASTIC_ERROR_FILE names; the launcher reads the
files of all, and shows the first error first.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tritorch.distributed.elastic.multiprocessing.errors.error_handler import ErrorHandler

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.distributed.elastic.multiprocessing.errors import error_handler as error_handler


__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_NONE = "<N/A>"


def get_error_handler() -> ErrorHandler:
    """Who records errors in this process."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """How a process ended, and why as far as its error file says."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: float = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data, self.message = {"message": "<NONE>"}, ""
        self.timestamp, self.host = time.time(), socket.gethostname()
        if os.path.isfile(self.error_file):
            with open(self.error_file) as file:
                self.error_file_data = data = json.load(file)
            self.message = data["message"]
            told = data if isinstance(self.message, str) else self.message["extraInfo"]
            self.timestamp = float(told.get("timestamp", 0))
        else:
            self.error_file = _NONE
        if not self.message:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
                if self.exitcode < 0
                else "the process wrote no error file: see what it has printed"
            )

    def signal_name(self) -> str:
        """The name of the signal that ended it."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else _NONE
        except ValueError:
            return _NONE

    def timestamp_isoformat(self) -> str:
        """When it failed."""
        return datetime.fromtimestamp(int(self.timestamp)).isoformat(sep="_")

    @property
    def told(self) -> str:
        """The traceback, or what else is known."""
        if isinstance(self.message, str):
            return self.message
        text = self.message.get("message", _NONE)
        return str(self.message.get("extraInfo", {}).get("py_callstack", text))

    def follows(self) -> bool:
        """Whether it only says that another member of a group had failed."""
        text = self.message if isinstance(self.message, str) else self.message.get("message", "")
        return str(text).startswith("DistBackendError")

    def to_json(self) -> dict[str, Any]:
        """All of it, for launchers on other hosts."""
        return vars(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ProcessFailure:
        """What `to_json` gave there."""
        failure = cls.__new__(cls)
        vars(failure).update(data)
        return failure


class ChildFailedError(Exception):
    """Processes of a job have failed: which, by rank, and the first one's error."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        self.name, self.failures = name, failures
        if not failures:
            raise AssertionError("a failed job has a failed process")
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """(rank, failure) of the one that the others follow from."""
        key = lambda rank: (self.failures[rank].follows(), self.failures[rank].timestamp)
        rank = min(self.failures, key=key)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """The failures, the first one last."""
        first, _ = self.get_first_failure()
        parts = {rank: _described(rank, each) for rank, each in self.failures.items()}
        width = min(60, max(len(line) for part in parts.values() for line in part.split("\n")))
        border, section = boarder_delim * width, section_delim * width
        others = [part for rank, part in parts.items() if rank != first]
        return "\n".join([
            "", border, f"{self.name} FAILED", section, "Failures:",
            *(others or ["  <NO_OTHER_FAILURES>"]), section,
            "Root Cause (first observed failure):", parts[first], border,
        ])  # fmt: skip


def _described(rank: int, failure: ProcessFailure) -> str:
    name = failure.signal_name()
    signal_text = f" ({name})" if name != _NONE else ""
    return "\n".join([
        f"  rank      : {rank} (local_rank: {failure.local_rank})",
        f"  host      : {failure.host}",
        f"  time      : {failure.timestamp_isoformat()}",
        f"  exitcode  : {failure.exitcode} (pid: {failure.pid}){signal_text}",
        f"  error_file: {failure.error_file}",
        "  traceback : " + failure.told.rstrip("\n").replace("\n", "\n  "),
    ])  # fmt: skip


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Any:
    """A function whose errors the launcher hears of: for a program's main function."""
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as ended:
            if ended.code == 0:
                return None
            raise
        except ChildFailedError as error:  # its own children's error is this process's
            _, failure = error.get_first_failure()
            if failure.error_file != _NONE:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return wrapper
