"""How a line of a log looks: a prefix as glog's, and traces as JSON."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from pathlib import Path

from tritorch.compat.torch_private._logging._registry import log_registry
from tritorch.core import late_bound

LOG_FORMAT_ENV_VAR = "TORCH_LOGS_FORMAT"
LOG_TRACE_ID_FILTER = "TORCH_LOGS_TRACE_ID_FILTER"
_LETTERS = {"DEBUG": "V", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "C"}


def rank() -> int | None:
    """The process's rank, where torch.distributed is at work."""
    return late_bound.process_rank()


@functools.lru_cache
def _make_module_path_relative(abs_path: str, sys_path: tuple[str, ...]) -> str:
    path = Path(abs_path).resolve()
    parents = (folder for folder in sys_path if path.is_relative_to(folder))
    folder = next(parents, None)
    return str(path if folder is None else path.relative_to(folder))


def make_module_path_relative(abs_path: str) -> str:
    """A file's path from the folder of sys.path that it was imported from."""
    return _make_module_path_relative(abs_path, tuple(sys.path))


class TorchLogsFormatter(logging.Formatter):
    """Lines that begin with a level's letter, time, process, file and line."""

    def __init__(self, *, trace: bool = False, trace_id_filter: set[str] | None = None) -> None:
        super().__init__()
        self._is_trace, self._trace_id_filter = trace, trace_id_filter

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        artifact = getattr(logging.getLogger(record.name), "artifact_name", None)
        own = log_registry.artifact_log_formatters.get(artifact or "")
        if own is not None:
            return own.format(record)
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, "%m%d %H:%M:%S")
        if self._trace_id_filter:  # nothing here has the number of a compilation
            return ""
        letter = _LETTERS.get(record.levelname, record.levelname)
        where = f"{make_module_path_relative(record.pathname)}:{record.lineno}]"
        of_rank = None if self._is_trace else rank()
        prefix = (
            f"{'' if of_rank is None else f'[rank{of_rank}]:'}{letter}{record.asctime}."
            f"{int(record.msecs * 1000):06d} {record.process} {where}"
            f"{'' if artifact is None else f' [__{artifact}]'}"
        )
        if self._is_trace:
            metadata, payload = vars(record)["metadata"], vars(record)["payload"]
            lines = [] if payload is None else payload.split("\n")
            return "\n\t".join([f"{prefix} {json.dumps(metadata, default=repr)}", *lines])
        return "\n".join(f"{prefix} {line}" for line in self._text(record).split("\n"))

    def _text(self, record: logging.LogRecord) -> str:
        parts = [record.message]
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return (
            "\n".join(part.removesuffix("\n") for part in parts[:-1])
            + "\n" * (len(parts) > 1)
            + parts[-1]
        )


def default_formatter() -> logging.Formatter:
    """What TORCH_LOGS_FORMAT says, or lines as glog's."""
    chosen = os.environ.get(LOG_FORMAT_ENV_VAR)
    if chosen is None:
        ids = os.environ.get(LOG_TRACE_ID_FILTER, "").split(",")
        return TorchLogsFormatter(trace_id_filter={i.strip() for i in ids if i.strip()})
    return logging.Formatter(logging.BASIC_FORMAT if chosen in ("short", "basic") else chosen)
