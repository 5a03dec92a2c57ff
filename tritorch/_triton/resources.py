"""What a compiled kernel takes of a multiprocessor, read from its cubin."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_REGISTERS, _FRAME = 0x2F, 0x11  # attributes of .nv.info
_WITH_DATA = 4  # the format of attributes whose value follows them


class Resources(NamedTuple):
    """Registers of a thread, and bytes of its stack: spilled registers and local arrays."""

    registers: int
    stack: int


def resources(cubin: bytes) -> Resources:
    """Of the kernel in a cubin."""
    found = {_REGISTERS: 0, _FRAME: 0}
    for name, data in _sections(cubin):
        if name != ".nv.info":
            continue
        at = 0
        while at + 4 <= len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form == _WITH_DATA:
                if attribute in found and size >= 8:
                    _, value = struct.unpack_from("<II", data, at)
                    found[attribute] = max(found[attribute], value)
                at += size
    return Resources(found[_REGISTERS], found[_FRAME])


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    texts = headers[names][4]
    for name, kind, _, _, start, length in headers:
        end = elf.index(b"\0", texts + name)
        holds_data = kind != 8  # SHT_NOBITS
        yield elf[texts + name : end].decode(), elf[start : start + length] if holds_data else b""
