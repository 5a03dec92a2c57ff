"""How a translation is written: lines, names of values, constants, blocks of operations."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tritorch.triton import ir
from tritorch.triton.ir import Block, Op, Type
from tritorch.triton.levels import FULL, LANES, TERMINATORS, Levels, walk

DTYPES: dict[str, Any] = {
    "i1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "ptr": np.dtype(np.int64),
    "index": np.dtype(np.int64), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2), "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
}  # fmt: skip


class UnsupportedError(Exception):
    """An operation that the simulated device does not compute."""


class Writer:
    """Writes one function.  source: its text; constants: its globals; locations: by line."""

    def __init__(self, function: ir.Function, lanes: bool) -> None:
        self.lanes = lanes
        self.body = function.body
        self.levels = Levels(self.body, lanes)
        self.lines: list[str] = []
        self.locations: dict[int, str] = {}
        self.by_lane: set[int] = set()  # lines whose addresses differ between programs
        self.constants: dict[str, Any] = {}
        self._known_constants: dict[Any, str] = {}
        self.names: dict[str, str] = {}
        self.depth = 0
        self.location = ""
        self.active = ""  # the mask of the programs that are here; "": all
        self.combining = False
        self.counter = 0
        self.free: list[str] = []

    def op(self, op: Op) -> None:
        """Writes an operation."""
        raise NotImplementedError

    # -- names and lines

    def write(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)
        self.locations[len(self.lines)] = self.location

    def fresh(self, prefix: str = "t") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def new(self, value: str) -> str:
        name = self.names[value] = self.free.pop() if self.free else self.fresh("v")
        return name

    def fixed(self, value: str) -> str:
        """A name that is not given away again."""
        name = self.names[value] = self.fresh("v")
        return name

    def constant(self, value: Any) -> str:
        key = value
        if isinstance(value, (np.ndarray, np.generic)):
            key = value.tobytes(), value.dtype, value.shape
        name = self._known_constants.get(key)
        if name is None:
            name = self._known_constants[key] = f"K{len(self.constants)}"
            self.constants[name] = value
        return name

    def __getitem__(self, value: str) -> str:
        return self.names[value]

    def level(self, value: str) -> int:
        return self.levels.of(value)

    def type(self, value: str) -> Type:
        return self.levels.types[value]

    def shape(self, shape: tuple[int, ...], level: int) -> str:
        if level == LANES:
            return f"(P, {', '.join(map(str, shape))})" if shape else "(P,)"
        return self.constant(shape)

    def full(self, value: str, level: int | None = None) -> str:
        """A value spread out to its whole shape."""
        level = max(self.level(value) if level is None else level, FULL)
        shape = self.type(value).shape
        return f"spread({self.at(value, level)}, {self.shape(shape, level)})"

    def at(self, value: str, level: int) -> str:
        """A value at a level that is not below its own."""
        own, rank = self.level(value), self.type(value).rank
        if own >= level or (level == FULL and rank == 0):
            return self[value]
        if level == FULL:
            return f"ranked({self[value]}, {rank})"
        return f"laned({self[value]}, P, {rank})"

    def mask(self, rank: int) -> str:
        """The active programs, for a block of this rank."""
        return f"{self.active}.reshape({self.constant((-1,) + (1,) * rank)})"

    # -- blocks

    def block(self, block: Block) -> list[str]:
        """Writes a block; returns what its last operation hands on."""
        last: dict[str, int] = {}
        own: set[str] = set()
        for i, op in enumerate(block.ops):
            for name in used(op):
                last[name] = i
            own.update(op.results)
        dying: dict[int, list[str]] = {}
        for name in own:
            dying.setdefault(last.get(name, -1), []).append(name)
        for i, op in enumerate(block.ops):
            self.location = op.location
            if op.name in TERMINATORS:
                return op.operands
            ended = [] if self.combining else dying.get(i, [])
            names = {self.names[x] for x in ended if x in self.names and x not in op.results}
            self.free += [] if op.regions else [x for x in names if x[0] == "v"]
            self.op(op)
            if op.regions:
                self.free += [x for x in names if x[0] == "v"]
        return []

    def nested(self, block: Block) -> list[str]:
        """A block of its own scope: names that were free outside are not taken inside a loop."""
        kept, self.free = self.free, []
        self.depth += 1
        start = len(self.lines)
        out = self.block(block)
        if len(self.lines) == start:
            self.write("pass")
        self.depth -= 1
        self.free = kept
        return out


def used(op: Op) -> Any:
    yield from op.operands
    for _, values in op.targets:
        yield from values
    for region in op.regions:
        for inner in walk(region):
            yield from inner.operands
