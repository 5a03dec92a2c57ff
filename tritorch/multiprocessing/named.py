"""Shared memory by name, the strategy 'file_system': no descriptor stays open.

# Note [Named segments]
A file in /dev/shm, whose first page counts who holds it: each process that mapped it, and each
message on its way.  Whoever takes the count to zero removes the file.  A process that is killed
cannot count down: what it left is removed by Python's resource tracker, when the last process of
the family has ended.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import secrets
import weakref
from multiprocessing import resource_tracker, util

from tritorch.core import sharing
from tritorch.core.sharing import PAGE, Segment

_FOLDER = "/dev/shm"
_numbers = itertools.count()


class NamedSegment(Segment):
    """A mapped file in /dev/shm, counted as long as this object lives."""

    def __init__(self, name: str, descriptor: int, nbytes: int) -> None:
        self.name = name
        super().__init__(descriptor, nbytes, PAGE)
        self.close_file()
        _by_name[name] = self
        _held[name] = os.getpid()

    def __del__(self) -> None:  # type: ignore[override]
        super().__del__()
        _let_go(self.name)


_held: dict[str, int] = {}  # by this process, or by the one that it was forked from
_by_name: weakref.WeakValueDictionary[str, NamedSegment] = weakref.WeakValueDictionary()


def _let_go(name: str) -> None:
    if _held and _held.pop(name, None) == os.getpid():
        _count(name, -1)


def _let_all_go() -> None:
    for name in list(_held):
        _let_go(name)


def _at_exit(_: object = None) -> None:
    util.Finalize(None, _let_all_go, exitpriority=-10)


_at_exit()
util.register_after_fork(NamedSegment, _at_exit)  # a child's own exit forgets what came before


def _path(name: str) -> str:
    return f"{_FOLDER}/{name}"


def _tracker() -> int:
    """Which tracker answers for this process: the number of the pipe to it."""
    resource_tracker.ensure_running()
    descriptor = resource_tracker.getfd()
    assert descriptor is not None
    return os.fstat(descriptor).st_ino


def create(nbytes: int) -> NamedSegment:
    """A new named segment, of which this process is the only holder."""
    name = f"tritorch-{os.getpid()}-{secrets.token_hex(4)}-{next(_numbers)}"
    tracker = _tracker()
    descriptor = os.open(_path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    resource_tracker.register(f"/{name}", "shared_memory")
    os.ftruncate(descriptor, PAGE + nbytes)
    _write(descriptor, 1, tracker)
    return NamedSegment(name, descriptor, nbytes)


def _write(descriptor: int, count: int, tracker: int) -> None:
    os.pwrite(descriptor, count.to_bytes(8, "little") + tracker.to_bytes(8, "little"), 0)


def _count(name: str, change: int) -> None:
    """Changes how many hold a segment, and removes it at zero."""
    try:
        descriptor = os.open(_path(name), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if change < 0:
            return
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        words = os.pread(descriptor, 16, 0)
        count = int.from_bytes(words[:8], "little") + change
        tracker = int.from_bytes(words[8:], "little")
        if count > 0:
            _write(descriptor, count, tracker)
            return
        os.unlink(_path(name))
        if _tracker() == tracker:
            resource_tracker.unregister(f"/{name}", "shared_memory")
    finally:
        os.close(descriptor)


def lend(segment: NamedSegment) -> str:
    """Counts a message on its way; gives the name to put into it."""
    _count(segment.name, 1)
    return segment.name


def receive(name: str, nbytes: int) -> Segment:
    """The segment of a message, whose count becomes this process's."""
    segment = _by_name.get(name)
    if segment is not None:
        _count(name, -1)
        return segment
    try:
        descriptor = os.open(_path(name), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RuntimeError(
            f"unable to open shared memory object </{name}>: whoever sent it has removed it"
        ) from None
    return NamedSegment(name, descriptor, nbytes)


def use(wanted: bool) -> None:
    """Whether new segments are named."""
    if wanted:
        _tracker()  # before children are forked, so that they have the same
    sharing.make_segment = create if wanted else None
