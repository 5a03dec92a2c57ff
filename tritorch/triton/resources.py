"""What a compiled kernel takes of a multiprocessor, and which instructions it has."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_REGISTERS, _FRAME, _PARAMETER = 0x2F, 0x11, 0x17  # attributes of .nv.info
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
        for attribute, value in _attributes(data):
            if attribute in found and len(value) >= 8:
                found[attribute] = max(found[attribute], struct.unpack_from("<II", value)[1])
    return Resources(found[_REGISTERS], found[_FRAME])


def parameter_sizes(cubin: bytes) -> list[int]:
    """Bytes of each parameter of the kernel in a cubin, by the table that the driver reads."""
    found: dict[int, int] = {}
    for name, data in _sections(cubin):
        if not name.startswith(".nv.info."):
            continue
        for attribute, value in _attributes(data):
            if attribute == _PARAMETER:
                _, ordinal, _, shape = struct.unpack_from("<IHHI", value)
                found[ordinal] = shape >> 18
    return [found[ordinal] for ordinal in sorted(found)]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Of a section .nv.info, those with data."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _WITH_DATA:
            yield attribute, data[at : at + size]
            at += size


def _sections(elf: bytes) -> Iterator[tuple[str, bytes]]:
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    texts = headers[names][4]
    for name, kind, _, _, start, length in headers:
        end = elf.index(b"\0", texts + name)
        holds_data = kind != 8  # SHT_NOBITS
        yield elf[texts + name : end].decode(), elf[start : start + length] if holds_data else b""


# How instructions that make a difference look in PTX.
INSTRUCTIONS = {
    "wgmma": r"\bwgmma\.mma_async",
    "tcgen05": r"\btcgen05\.mma",
    "mma": r"(?<!wg)\bmma\.sync",
    "TMA": r"\bcp\.async\.bulk\.tensor",
    "cp.async": r"\bcp\.async\.c[ag]\b",
    "16-byte loads": r"\bld\.global[\w.:]*\.v(4\.b32|2\.b64|8\.b16|4\.f32)",
}


def instructions(ptx: str) -> list[str]:
    """Which of INSTRUCTIONS a kernel has."""
    return [name for name, pattern in INSTRUCTIONS.items() if re.search(pattern, ptx)]


def spilled_bytes(ptx: str) -> int:
    """What the assembler stores and loads of spilled registers (a stack alone is a local array)."""
    import triton

    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    target = re.search(r"\.target (sm_\w+)", ptx)
    assert target is not None
    complaint = "Triton brings no assembler"
    for program in ("ptxas-blackwell", "ptxas"):  # the first is the newer one, if there is one
        if (folder / program).exists():
            options = ["-v", f"--gpu-name={target[1]}", "-o", "/dev/null", "/dev/stdin"]
            command = [str(folder / program), *options]
            done = subprocess.run(command, input=ptx, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return sum(map(int, re.findall(r"(\d+) bytes spill", done.stderr)))
            complaint = done.stderr
    raise RuntimeError(complaint)
