"""Traces: records of JSON, each with a payload, in a file of the folder that TORCH_TRACE names.

`trace_structured` does nothing unless the logger `torch.__trace` has a handler.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from tritorch.compat.torch_private._logging._format import TorchLogsFormatter, rank

TRACE_ENV_VAR, DTRACE_ENV_VAR = "TORCH_TRACE", "TORCH_DTRACE"
LOG_PREFIX = "dedicated_log_torch_trace_"
INTERN_TABLE: dict[str, int] = {}
_RESERVED = (
    "rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "severity",
    "timestamp", "pathname", "thread", "subgraph_name",
)  # fmt: skip

trace_log = logging.getLogger("torch.__trace")


def intern_string(s: str | None) -> int:
    """A text's number; a trace has the text where it occurs first."""
    if s is None:
        return -1
    if s not in INTERN_TABLE:
        number = INTERN_TABLE[s] = len(INTERN_TABLE)
        trace_structured("str", lambda: (s, number), suppress_context=True)
    return INTERN_TABLE[s]


def from_traceback(tb: Iterable[traceback.FrameSummary]) -> list[dict[str, Any]]:
    """The frames of a stack, for JSON."""
    return [
        {
            "line": frame.lineno,
            "name": frame.name,
            "filename": intern_string(frame.filename),
            "loc": frame.line,
        }
        for frame in tb
    ]


def _as_text(payload: Any) -> str:
    if isinstance(payload, str):
        return payload
    if isinstance(payload, list):
        return "[\n" + ",\n".join(json.dumps(item) for item in payload) + "\n]"

    def plain(obj: Any) -> Any:
        if isinstance(obj, set):
            return list(obj)
        raise TypeError(f"Object of type {type(obj)} is not JSON serializable")

    return json.dumps(payload, default=plain, indent=0)


def trace_structured(
    name: str,
    metadata_fn: Callable[[], dict[str, Any] | tuple[str, int]] = dict,
    *,
    payload_fn: Callable[[], str | object | None] = lambda: None,
    suppress_context: bool = False,
    expect_trace_id: bool = True,
    record_logging_overhead: bool = True,
    compile_id: Any = None,
) -> None:
    """Adds a record to the trace, if there is one.

    The functions that give a record's contents are called only then.  A record has the stack of
    the call, unless suppress_context.
    """
    if name in _RESERVED:
        raise AssertionError(f"name {name!r} is reserved and cannot be used")
    for what, fn in (("metadata_fn", metadata_fn), ("payload_fn", payload_fn)):
        if not callable(fn):
            raise AssertionError(f"{what} should be callable, but got {type(fn)}")
    if not trace_log.handlers:
        return
    record: dict[str, Any] = {name: metadata_fn()}
    if not suppress_context:
        if (of_rank := rank()) is not None:
            record["rank"] = of_rank
        if expect_trace_id and compile_id is None:
            record["stack"] = from_traceback(traceback.extract_stack()[:-1])
        for field in ("compiled_autograd_id", "frame_id", "frame_compile_id"):
            if (value := getattr(compile_id, field, None)) is not None:
                record[field] = value
    payload = payload_fn()
    if payload is not None:
        payload = _as_text(payload)
        digest = hashlib.md5(payload.encode(), usedforsecurity=False)
        record["has_payload"] = digest.hexdigest()
    trace_log.debug("", extra={"metadata": record, "payload": payload}, stacklevel=2)


def trace_structured_artifact(
    name: str,
    encoding: str,
    payload_fn: Callable[[], str | object | None] = lambda: None,
    compile_id: Any = None,
) -> None:
    """Adds a named payload to the trace."""
    trace_structured(
        "artifact",
        lambda: {"name": name, "encoding": encoding},
        payload_fn=payload_fn,
        compile_id=compile_id,
    )


def dtrace_structured(
    name: str,
    metadata_fn: Callable[[], dict[str, Any] | tuple[str, int]] = dict,
    *,
    payload_fn: Callable[[], str | object | None] = lambda: None,
    suppress_context: bool = False,
    expect_trace_id: bool = False,
    record_logging_overhead: bool = True,
) -> None:
    """`trace_structured`, where TORCH_DTRACE asks for details."""
    if os.environ.get(DTRACE_ENV_VAR):
        trace_structured(
            name,
            metadata_fn,
            payload_fn=payload_fn,
            suppress_context=suppress_context,
            expect_trace_id=expect_trace_id,
        )


def get_structured_logging_overhead() -> float | None:
    """The seconds that traces of a compilation took: None, since nothing is being compiled."""
    return None


class LazyTraceHandler(logging.StreamHandler):
    """Writes to a file that each process makes for its first record."""

    def __init__(self, root_dir: str) -> None:
        logging.Handler.__init__(self)
        self.root_dir, self._process = root_dir, -1
        self.stream = None

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record."""
        if self._process != os.getpid():
            os.makedirs(self.root_dir, exist_ok=True)
            of_rank = rank()
            prefix = LOG_PREFIX + ("" if of_rank is None else f"rank_{of_rank}_")
            handle, _ = tempfile.mkstemp(".log", prefix, self.root_dir)
            self._process = os.getpid()
            self.stream = os.fdopen(handle, "w")
        super().emit(record)


def _init_trace() -> None:
    """Starts the trace that the environment asks for; all levels are part of it, always."""
    trace_log.propagate = False
    trace_log.setLevel(logging.DEBUG)
    trace_log.isEnabledFor = lambda level: level >= trace_log.level  # type: ignore[method-assign]
    folder = os.environ.get(DTRACE_ENV_VAR) or os.environ.get(TRACE_ENV_VAR)
    if folder and not trace_log.handlers:
        handler = LazyTraceHandler(folder)
        handler.setFormatter(TorchLogsFormatter(trace=True))
        trace_log.addHandler(handler)
