"""torch._C._profiler: stacks of Python frames as data."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

__all__ = ["gather_traceback", "symbolize_tracebacks"]


def gather_traceback(python: bool = True, script: bool = False, cpp: bool = False) -> Any:
    """The frames of now, the innermost first; script, cpp: of other languages, which have none."""
    return list(reversed(traceback.extract_stack()[:-1])) if python else []


def symbolize_tracebacks(tracebacks: Sequence[Any]) -> list[list[dict[str, Any]]]:
    """Names, files and lines of the frames of several."""
    return [
        [{"name": f.name, "filename": f.filename, "line": f.lineno} for f in frames]
        for frames in tracebacks
    ]
