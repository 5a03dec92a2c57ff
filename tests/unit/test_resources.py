"""Registers and stack of a kernel, read from its cubin."""

import struct

from tritorch.triton.resources import resources


def cubin(*attributes):
    """A small ELF file with one section of kernel attributes."""
    info = b"".join(struct.pack("<BBHII", 4, a, 8, 1, value) for a, value in attributes)
    info = struct.pack("<BBH", 3, 0x19, 7) + info  # an attribute without data before them
    names = b"\0.shstrtab\0.nv.info\0"
    header = bytearray(64)
    struct.pack_into("<Q", header, 0x28, 64 + len(names) + len(info))
    struct.pack_into("<HHH", header, 0x3A, 64, 3, 1)
    rows = [(0, 0, 0, 0), (1, 3, 64, len(names)), (11, 1, 64 + len(names), len(info))]
    sections = [struct.pack("<IIQQQQ16x", n, kind, 0, 0, at, size) for n, kind, at, size in rows]
    sections = b"".join(section.ljust(64, b"\0") for section in sections)
    return bytes(header) + names + info + sections


def test_reads_registers_and_stack():
    assert resources(cubin((0x2F, 40), (0x11, 24))) == (40, 24)
    assert resources(cubin((0x11, 0), (0x2F, 255))) == (255, 0)
    assert resources(cubin()) == (0, 0)
