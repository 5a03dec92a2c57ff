#!/usr/bin/env python3
"""What a compiled kernel makes of a multiprocessor, read from its machine code.

    python tools/read_sass.py kernel.cubin [--warps 8] [--shared 65536]
    python tools/read_sass.py --record        every kernel, for sm_90: writes the table of
                                              docs/kernels/machine_code.md

Triton's wheel has the disassembler (`nvdisasm`).  Columns: registers of a thread; bytes that they
spill; shared memory of a program; programs that fit a multiprocessor at a time; instructions, and
those of the main loop (the innermost loop with matrix instructions, else with loads, else the
longest), but for what a branch may skip; matrix instructions of the loop, and how many others come
to each; waits in the loop; the bytes that its loads have in flight, of all programs of a
multiprocessor.

tests/cuda/test_machine_code.py compares with what is recorded.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "bench" / "results" / "machine_code.json"
PAGE = ROOT / "docs" / "kernels" / "machine_code.md"
TARGET = 90

# Of a multiprocessor of sm_90: threads, registers, bytes of shared memory, programs; registers are
# given to warps in portions, and each program takes 1 KB of shared memory more.
THREADS, REGISTERS, SHARED, PROGRAMS, PORTION, RESERVED = 2048, 65536, 233_472, 32, 256, 1024

MATRIX = re.compile(r"^(HGMMA|QGMMA|IGMMA|HMMA|QMMA|IMMA|DMMA|UTCHMMA|UTCQMMA)\b")
LOAD = re.compile(r"^(LDG|LDGSTS|UTMALDG|UBLKCP)\b")
WAIT = re.compile(r"^(BAR\.|DEPBAR|LDGDEPBAR|WARPGROUP\.DEPBAR|SYNCS\.PHASECHK)")
_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([^;]+?)\s*;")
_LABEL = re.compile(r"^\s*(\.L_\w+):")
_WIDTH = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


class Code(NamedTuple):
    """The instructions of a kernel, where labels stand among them, and which have a condition."""

    instructions: list[str]
    labels: dict[str, int]
    conditional: set[int]


class Figures(NamedTuple):
    """A kernel's row of the table."""

    registers: int
    spilled: int
    shared: int
    programs: int
    instructions: int
    loop: int
    matrix: int
    between: float
    waits: int
    in_flight: int


def disassembler() -> Path:
    """nvdisasm, as Triton's wheel ships it."""
    import triton

    return Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"


def disassemble(cubin: bytes) -> Code:
    """The kernel's machine code, without what pads it."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [disassembler(), "-c", file.name], check=True, capture_output=True, text=True
        ).stdout
    instructions: list[str] = []
    labels: dict[str, int] = {}
    conditional = set()
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif (found := _LINE.search(line)) and found[3] != "NOP":
            if found[2]:
                conditional.add(len(instructions))
            instructions.append(found[3])
    return Code(instructions, labels, conditional)


def loops(code: Code) -> Iterator[range]:
    """The innermost loops: from where a branch back leads to the branch."""
    found = set()
    for i, text in enumerate(code.instructions):
        if text.startswith("BRA") and (label := re.search(r"\.L_\w+", text)):
            start = code.labels.get(label[0], i + 1)
            if start < i:  # a branch to itself ends the program
                found.add((start, i))
    for start, end in sorted(found):
        if not any((start, end) != o and start <= o[0] and o[1] <= end for o in found):
            yield range(start, end + 1)


def main_loop(code: Code) -> range | None:
    """The innermost loop that does the kernel's work."""

    def worth(loop: range) -> tuple[int, int, int]:
        inside = [code.instructions[i] for i in loop]
        return (
            sum(bool(MATRIX.match(x)) for x in inside), sum(bool(LOAD.match(x)) for x in inside),
            len(inside),
        )  # fmt: skip

    return max(loops(code), key=worth, default=None)


def always(code: Code, loop: range) -> list[str]:
    """The loop's instructions but those that a branch forward may skip, and that multiply nothing:
    what a flattened loop does between tiles."""
    skipped: set[int] = set()
    for i in loop:
        label = re.search(r"\.L_\w+", code.instructions[i])
        if code.instructions[i].startswith("BRA") and label:
            over = range(i + 1, code.labels.get(label[0], 0))
            inside = over.stop <= loop.stop and i in code.conditional
            if inside and not any(MATRIX.match(code.instructions[j]) for j in over):
                skipped.update(over)
    return [code.instructions[i] for i in loop if i not in skipped]


def _bytes(load: str) -> int:
    """What one thread brings by a load from global memory."""
    if not load.startswith("LDG"):
        return 0
    words = load.split()[0].split(".")[1:]
    return next((_WIDTH[w] for w in words if w in _WIDTH), 4)


def _registers(operand: str, count: int = 1) -> set[int]:
    """Numbers of the registers that a text names, each with those that follow it."""
    return {
        int(number) + i
        for number, wide in re.findall(r"(?<![UP])R(\d+)(\.64)?", operand)
        for i in range(max(count, 2 if wide else 1))
    }


def thread_in_flight(code: list[str]) -> int:
    """The most bytes of loads that one thread has begun before it reads one of them."""
    pending: list[tuple[set[int], int]] = []  # in the order in which they arrive
    most = asynchronous = groups = group = 0
    for text in code:
        if text.startswith("LDGSTS"):
            group += _bytes(text)
        elif text.startswith("LDGDEPBAR"):
            asynchronous, group = max(asynchronous, group), 0
        elif found := re.match(r"DEPBAR\.LE SB0, 0x([0-9a-f]+)", text):
            groups = max(groups, int(found[1], 16))
        first, _, rest = text.partition(",")
        if text.startswith(("LDG.", "LDG ")):
            size = _bytes(text)
            into = _registers(first, max(size // 4, 1))
        else:
            size, into = 0, set()
        reads = _registers(rest) | (_registers(first) if text.startswith("ST") else set())
        for i in reversed(range(len(pending))):
            if pending[i][0] & reads:
                del pending[: i + 1]
                break
        if size:
            pending.append((into, size))
            most = max(most, sum(n for _, n in pending))
    return max(most, asynchronous * (groups + 1) if asynchronous else 0)


def programs(registers: int, warps: int, shared: int) -> int:
    """How many programs a multiprocessor of sm_90 holds at a time."""
    of_warp = -(-registers * 32 // PORTION) * PORTION
    by_registers = REGISTERS // of_warp // warps if registers else PROGRAMS
    by_shared = SHARED // (shared + RESERVED)
    return min(PROGRAMS, THREADS // (32 * warps), by_registers, by_shared)


def figures(cubin: bytes, warps: int, shared: int, spilled: int = 0) -> Figures:
    """A kernel's row."""
    from tritorch.triton.resources import resources

    code = disassemble(cubin)
    loop = main_loop(code)
    inside = always(code, loop) if loop else code.instructions
    matrix = sum(bool(MATRIX.match(x)) for x in inside) if loop else 0
    registers = resources(cubin).registers
    fit = programs(registers, warps, shared)
    bulk = any(re.match(r"UTMALDG|UBLKCP", x) for x in inside)  # rings fill the shared memory
    in_flight = shared if bulk else 32 * warps * thread_in_flight(inside)
    return Figures(
        registers, spilled, shared, fit, len(code.instructions), len(inside) if loop else 0, matrix,
        round((len(inside) - matrix) / matrix, 1) if matrix else 0.0,
        sum(bool(WAIT.match(x)) for x in inside) if loop else 0, fit * in_flight,
    )  # fmt: skip


def of_compiled(compiled: Any) -> Figures:
    """The row of what Triton compiled."""
    from tritorch.triton.resources import resources, spilled_bytes

    data = compiled.metadata
    stack = resources(compiled.asm["cubin"]).stack
    spilled = spilled_bytes(compiled.asm["ptx"]) if stack else 0
    return figures(compiled.asm["cubin"], data.num_warps, data.shared, spilled)


@functools.cache
def variants() -> Any:
    """tests/cuda/test_compile.py, which knows what is launched."""
    sys.path.insert(0, str(ROOT))
    import tests.cuda.test_compile as module

    return module


def chosen() -> list[tuple[str, str]]:
    """The kernels of the table, each of which stands there with its first variant for sm_90."""
    tests = variants()
    return sorted(
        (family, name)
        for (family, name), those in tests.VARIANTS.items()
        if any(tests.is_launched(TARGET, *each) for each in those)
    )


def _first(family: str, name: str) -> Any:
    tests = variants()
    return next(v for v in tests.VARIANTS[family, name] if tests.is_launched(TARGET, *v))


def row(family: str, name: str) -> Figures:
    """The figures of a kernel's first variant."""
    return of_compiled(variants().compile_for(TARGET, family, name, *_first(family, name)))


def digest(family: str, name: str, variant: Any = None) -> str:
    """Of all that a Triton makes the machine code from: of what has the same, figures are known."""
    source, options = variants().source_of(family, name, *(variant or _first(family, name)))
    return hashlib.sha256(f"{source.hash()} {sorted(options.items())}".encode()).hexdigest()[:16]


def _row_of(key: tuple[str, str]) -> tuple[tuple[str, str], dict[str, Any]]:
    return key, {**row(*key)._asdict(), "of": digest(*key)}


def record() -> None:
    """Writes what every kernel has, and the page."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    import triton

    variants()
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        found = dict(pool.map(_row_of, chosen()))
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    known[triton.__version__] = {".".join(key): figures for key, figures in found.items()}
    lines = [f' "{version}": {{\n' + ",\n".join(
        f'  "{name}": {json.dumps(row)}' for name, row in sorted(rows.items())
    ) + "\n }" for version, rows in sorted(known.items())]  # fmt: skip
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    newest = known[max(known, key=lambda v: tuple(map(int, v.split(".")[:2])))]
    PAGE.write_text(page(newest, triton.__version__))


def page(rows: dict[str, dict[str, Any]], version: str) -> str:
    """The table as Markdown."""
    head = ("kernel registers spilled shared programs instructions loop matrix between waits "
            "in-flight")  # fmt: skip
    text = [
        "# Machine code", "",
        "Each kernel's first variant in the tests (tests/cuda), compiled for sm_90 by Triton",
        f"{version}; `tools/read_sass.py --record` writes it and says what the columns are,",
        "tests/cuda/test_machine_code.py holds it.", "",
        "| " + " | ".join(head.split()) + " |", "|---" + "|--:" * 10 + "|",
    ]  # fmt: skip
    for name, values in sorted(rows.items()):
        text.append(
            f"| {name} | " + " | ".join(f"{values[column]:,}" for column in Figures._fields) + " |"
        )
    return "\n".join(text) + "\n"


def main() -> None:
    """Prints one kernel's row, or records all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cubin", type=Path, nargs="?")
    parser.add_argument("--warps", type=int, default=4)
    parser.add_argument("--shared", type=int, default=0)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if options.record:
        record()
    elif options.cubin:
        found = figures(options.cubin.read_bytes(), options.warps, options.shared)
        for name, value in found._asdict().items():
            print(f"{name:14}{value:>12,}")
    else:
        parser.error("which cubin?")


if __name__ == "__main__":
    main()
