"""Operators of older archives: what they computed when the archive was written."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

CURRENT = 10
# The versions since which operators mean what they mean now.
CHANGED = {
    "aten::div": 4, "aten::div_": 4, "aten::full": 5, "aten::linspace": 8, "aten::logspace": 9,
    "aten::gelu": 10,
}  # fmt: skip
_version: contextvars.ContextVar[int] = contextvars.ContextVar("version", default=CURRENT)


@contextlib.contextmanager
def reading(version: int) -> Iterator[None]:
    """Compiles source of an archive of a version inside."""
    token = _version.set(version)
    try:
        yield
    finally:
        _version.reset(token)


def version() -> int:
    """The version of the source that is being compiled."""
    return _version.get()


def is_old(name: str) -> bool:
    """Tells if an operator of the source that is being compiled meant something else."""
    return version() < CHANGED.get(name, 0)
