"""Files that are written whole or not at all.

# Note [Atomic writes]
A temporary file beside the target, written, flushed to the disk (fsync) and renamed over it, then
the folder's entry flushed: at every moment the target is the old file or the new one.  A writer
that was killed leaves its temporary file behind.  While a writer lives it holds a lock on its own,
so the next save() to the same target can tell which ones are nobody's, and removes those.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the block ends without an exception."""
    target = Path(os.path.realpath(os.fsdecode(path)))  # a link stays one
    if not target.parent.is_dir():
        raise RuntimeError(f"Parent directory {target.parent} does not exist.")
    mode = _mode_of(target)
    if mode is not None and not stat.S_ISREG(mode):
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(f"save(): {str(target)!r} is a folder")
        with open(target, "wb") as file:  # a pipe or a device
            yield file
        return
    _remove_leftovers(target)
    file, temporary = _open_temporary(target, mode)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _open_temporary(target: Path, mode: int | None) -> tuple[Any, Path]:
    while True:
        # Names of files are limited to 255 bytes; what is cut is still found by the next save().
        path = target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}.tmp")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if mode is not None:
            with contextlib.suppress(OSError):
                os.chmod(path, stat.S_IMODE(mode))
        if fcntl is None:
            return os.fdopen(fd, "wb"), path
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.path.exists(path):  # else another writer took it for a leftover before the lock
            return os.fdopen(fd, "wb"), path
        os.close(fd)


def _prefix(target: Path) -> str:
    return f".{os.fsdecode(os.fsencode(target.name)[:200])}."


def _remove_leftovers(target: Path) -> None:
    """Temporary files of writers that died."""
    if fcntl is None:
        return
    prefix, length = _prefix(target), len(_prefix(target)) + 16
    with contextlib.suppress(OSError):
        for name in os.listdir(target.parent):
            if name.startswith(prefix) and name.endswith(".tmp") and len(name) == length:
                _remove_if_dead(target.with_name(name))


def _remove_if_dead(path: Path) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(fd)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
