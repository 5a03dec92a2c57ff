"""What a program tells the valgrind that runs it: to begin and to end a count.

The file imports nothing of the package: the script that is measured executes it by its path, and a
statement that needs no tensors is measured without the import of them.

valgrind sees a request in a sequence of instructions that changes nothing on a processor: four
rotations of a register, which together turn it once around, and an exchange of another with
itself.  rax points at the request's number and arguments.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Callable
from typing import Any

_DUMP, _TOGGLE, _START = (0x43540000 + n for n in (0, 2, 4))
_RUNNING_ON_VALGRIND = 0x1001
_MOV_RAX, _CLEAR_EDX, _RETURN_RDX = b"\x48\xb8", b"\x31\xd2", b"\x48\x89\xd0\xc3"
_REQUEST = b"".join(b"\x48\xc1\xc7" + bytes([n]) for n in (3, 13, 61, 51)) + b"\x48\x87\xdb"


def is_supported() -> bool:
    """Whether the requests are written for this machine's processor and system."""
    return platform.machine() in ("x86_64", "AMD64") and sys.platform == "linux"


def _function(*requests: int) -> Callable[[], int]:
    """A function of machine code that makes the requests and returns the last one's answer."""
    code, kept = b"", []
    for request in requests:
        arguments = (ctypes.c_size_t * 6)(request)
        kept.append(arguments)
        address = ctypes.addressof(arguments).to_bytes(8, "little")
        code += _MOV_RAX + address + _CLEAR_EDX + _REQUEST
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code + _RETURN_RDX)
    start = ctypes.c_char.from_buffer(page)
    # PYFUNCTYPE keeps the GIL, so that little is counted beside the statement.
    call: Any = ctypes.PYFUNCTYPE(ctypes.c_size_t)(ctypes.addressof(start))
    call.memory = start, kept  # the page is unmapped once nothing points at it
    return call


def requests() -> tuple[Callable[[], int], ...]:
    """Four functions: whether valgrind runs this, start to instrument, begin a count, end it."""
    return (
        _function(_RUNNING_ON_VALGRIND),
        _function(_START),
        _function(_TOGGLE),
        _function(_TOGGLE, _DUMP),
    )
