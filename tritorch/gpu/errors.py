"""Bad inputs that only a kernel can see: it marks a flag, the next synchronisation raises.

    flag, where = errors.mark(x.device_index, "index", "index {value} is out of bounds", ())
    kernel(...)(grid, ..., flag, where)        # calls `report` of kernels/errors.py

# Note [Error flags]
Each device has a buffer in page-locked host memory that its kernels write to directly, so that a
synchronisation only reads one word.  A launch takes the next of 4096 slots in a ring and remembers
there the line of the user's program.  `where` holds the number of the launch and, in its low 16
bits, that of the operator: a slot that has been used again since (as when a graph is replayed)
still tells the operator, and is never blamed on the wrong line.  Launches of a recorded program
(`src/launch/recording.h`) keep theirs.
"""

from __future__ import annotations

import itertools
import os
import sys
from types import CodeType, FrameType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tritorch import _C
from tritorch.core import locks
from tritorch.core.dtype import int64

_SLOTS = 4096  # as in kernels/errors.py
_FIRST = 1 << 16  # so that `where` is always more than 32 bits wide: one kernel for all launches
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_Site = tuple[int, str, tuple[Any, ...], CodeType | None, int]


class _Flags:
    """One device's buffer, and who holds its slots."""

    __slots__ = ("array", "host", "next_launch", "posted", "sites")

    def __init__(self, device: int) -> None:
        self.host = _C.pinned_buffer(8 * (2 + 2 * _SLOTS)).view(np.int64)
        self.host[:] = 0
        address = self.host.__array_interface__["data"][0]
        self.array = _C.adopt(self.host, address, self.host.shape, None, int64, device)
        self.sites: list[_Site | None] = [None] * _SLOTS
        self.posted: list[BaseException] = []
        self.next_launch = itertools.count(_FIRST).__next__


class _Kept:
    """The site of a launch that was recorded; what makes the launch again keeps it."""

    __slots__ = ("__weakref__", "device", "site")

    def __init__(self, device: int, site: _Site | None) -> None:
        self.device, self.site = device, site

    def again(self) -> int:
        """The number of another launch of the same operator, at the line that runs now."""
        assert self.site is not None
        where, message, details, _, _ = self.site
        return _note(_flags[self.device], where & 0xFFFF, message, details)


_flags: dict[int, _Flags] = {}
_operators: list[tuple[str, type[Exception]]] = []
_operator_ids: dict[str, int] = {}
_recorded: WeakValueDictionary[int, _Kept] = WeakValueDictionary()
_inside: dict[CodeType, bool] = {}  # whether code is the package's own
_lock = locks.lock()


def mark(
    device: int,
    operator: str,
    message: str = "index {value} is out of bounds",
    details: tuple[Any, ...] = (),
    kind: type[Exception] = IndexError,
) -> tuple[_C.Array, int]:
    """The arguments (flag_ptr, where) of a launch whose kernel may report a bad value.

    The message is formatted with `value` and, by position, the details, when the error is raised.
    """
    try:
        flags = _flags[device]
        number = _operator_ids[operator]
    except KeyError:
        flags, number = _register(device, operator, kind)
    where = _note(flags, number, message, details)
    if _C.is_recording():  # a launch that is made again says what it says now, or is noted anew
        kept = _recorded[where] = _Kept(device, flags.sites[(where >> 16) % _SLOTS])
        where = _C.recorded_number(where, kept)
    return flags.array, where


def _note(flags: _Flags, number: int, message: str, details: tuple[Any, ...]) -> int:
    """Notes a launch of an operator, and the line of the program that it is of; gives `where`."""
    launch = flags.next_launch()
    where = launch << 16 | number
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        try:
            inside = _inside[code]
        except KeyError:
            inside = _inside[code] = code.co_filename.startswith(_PACKAGE)
        if not inside:
            break
        frame = frame.f_back
    if frame is None:
        site: _Site = (where, message, details, None, 0)
    else:
        site = (where, message, details, frame.f_code, frame.f_lasti)
    flags.sites[launch % _SLOTS] = site
    return where


def _register(device: int, operator: str, kind: type[Exception]) -> tuple[_Flags, int]:
    with _lock:
        if device not in _flags:
            _flags[device] = _Flags(device)
        if operator not in _operator_ids:
            _operators.append((operator, kind))
            _operator_ids[operator] = len(_operators) - 1
        return _flags[device], _operator_ids[operator]


def post(device: int, error: BaseException) -> None:
    """Has the next synchronisation of a device raise this: what it waited for was given up."""
    with _lock:
        if device not in _flags:
            _flags[device] = _Flags(device)
    flags = _flags[device]
    flags.posted.append(error)
    flags.host[0] = 1


def check(device: int) -> None:
    """Raises what kernels of a device have reported; called after a synchronisation."""
    flags = _flags.get(device)
    if flags is not None and flags.host[0]:
        _raise(flags)


def _raise(flags: _Flags) -> None:
    """Raises what was posted, or for the first bad launch, and forgets all."""
    if flags.posted:
        error = flags.posted[0]
        flags.posted.clear()
        flags.host[:] = 0
        raise error
    launches, values = flags.host[2::2], flags.host[3::2]
    marked = np.flatnonzero(launches)
    found = sorted((int(launches[slot]), int(values[slot]), int(slot)) for slot in marked)
    flags.host[:] = 0
    if not found:
        return
    where, value, slot = found[0]
    operator, kind = _operators[where & 0xFFFF]
    site = flags.sites[slot]
    if site is None or site[0] != where:
        kept = _recorded.get(where)
        site = None if kept is None else kept.site
    if site is None:
        raise kind(f"{operator}(): bad value {value} (in a launch whose line is no longer known)")
    _, message, details, code, instruction = site
    text = f"{operator}(): {message.format(*details, value=value)}"
    if code is not None:
        text += f"\n  at {code.co_filename}:{_line(code, instruction)}, in {code.co_name}"
    if len(found) > 1:
        text += f"\n  ({len(found) - 1} later launches reported bad values too)"
    raise kind(text)


def _line(code: CodeType, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno
