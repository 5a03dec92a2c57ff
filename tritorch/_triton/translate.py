"""Kernels as Python functions of NumPy arrays: what the simulated device runs.

# Note [Programs side by side]
A translated kernel runs many programs of its grid at once.  What differs between programs has a
first dim with an entry for each (its "lanes"); what does not, has none, and is computed once.
Where programs take different ways, all are gone, under a mask of the programs that go there: their
stores and loads are masked, and what they carry is chosen.  A kernel whose programs wait for each
other (a lock, a flag) is translated without lanes, and its programs run one after the other, as are
those whose blocks are so large that there is nothing to gain.

# Note [Levels]
Each value is at a level, found before anything is written:
    FLAT   one number: a scalar, or a block that holds one number everywhere; never spread out
    FULL   a block, the same in all programs; its array has the block's rank, dims of 1 are spread
    LANES  one for each program; its array has a dim in front
Operations of numbers take any mixture, because NumPy broadcasts; others bring what they take to the
level of their result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tritorch._triton import ir
from tritorch._triton.ir import Block, Op, Type

FLAT, FULL, LANES = 0, 1, 2
Region = list[Block]

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


# Operations of numbers: the function of `device_functions` that computes each.
ELEMENTWISE = {
    "arith.addi": "add", "arith.subi": "subtract", "arith.muli": "multiply",
    "arith.divsi": "divsi", "arith.remsi": "remsi", "arith.divui": "divui",
    "arith.remui": "remui", "arith.andi": "bitwise_and", "arith.ori": "bitwise_or",
    "arith.xori": "bitwise_xor", "arith.shli": "shli", "arith.shrsi": "right_shift",
    "arith.shrui": "shrui", "arith.maxsi": "maximum", "arith.minsi": "minimum",
    "arith.maxui": "maxui", "arith.minui": "minui", "arith.addf": "add",
    "arith.subf": "subtract", "arith.mulf": "multiply", "arith.divf": "divide",
    "arith.remf": "fmod", "arith.negf": "negative", "arith.maxnumf": "fmax",
    "arith.minnumf": "fmin", "arith.maximumf": "maximum", "arith.minimumf": "minimum",
    "arith.select": "where", "math.exp": "exp", "math.exp2": "exp2", "math.log": "log",
    "math.log2": "log2", "math.sin": "sin", "math.cos": "cos", "math.sqrt": "sqrt",
    "math.rsqrt": "rsqrt", "math.erf": "erf", "math.floor": "floor", "math.ceil": "ceil",
    "math.absf": "absolute", "math.absi": "absolute", "math.fma": "fma",
    "tt.precise_divf": "divide", "tt.precise_sqrt": "sqrt", "tt.mulhiui": "mulhiui",
    "math.tanh": "tanh", "math.log1p": "log1p", "math.expm1": "expm1",
}  # fmt: skip
CASTS = {
    "arith.extsi": "extsi", "arith.extui": "extui", "arith.trunci": "trunci",
    "arith.sitofp": "extsi", "arith.uitofp": "extui", "arith.fptosi": "cast",
    "arith.fptoui": "fptoui", "arith.extf": "cast", "arith.truncf": "cast",
    "tt.fp_to_fp": "cast", "arith.bitcast": "bitcast", "tt.bitcast": "bitcast",
    "tt.int_to_ptr": "same", "tt.ptr_to_int": "same", "arith.index_cast": "cast",
}  # fmt: skip
_COMPARISONS = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip
# Sums and the like that NumPy reduces and scans by itself.
_UFUNCS = {
    "arith.addi": "add", "arith.addf": "add", "arith.muli": "multiply", "arith.mulf": "multiply",
    "arith.maxsi": "maximum", "arith.minsi": "minimum", "arith.maximumf": "maximum",
    "arith.minimumf": "minimum", "arith.maxnumf": "fmax", "arith.minnumf": "fmin",
    "arith.andi": "bitwise_and", "arith.ori": "bitwise_or", "arith.xori": "bitwise_xor",
}  # fmt: skip
_PASSES_ON = {"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.split", "tt.unsplat"}
_WAITING = {"tt.atomic_cas", "tt.atomic_poll"}
_TERMINATORS = {
    "scf.yield", "tt.reduce.return", "tt.scan.return", "tt.return", "scf.condition", "cf.br",
    "cf.cond_br", "tt.map_elementwise.return",
}  # fmt: skip
_IGNORED = {"ttg.barrier", "gpu.barrier", "llvm.intr.assume", "ub.poison"}


def walk(region: Region) -> Any:
    for block in region:
        for op in block.ops:
            yield op
            for inner in op.regions:
                yield from walk(inner)


def programs_wait(body: Region) -> bool:
    """Whether programs may wait for one another, so that they cannot run side by side."""
    for op in walk(body):
        if op.name in _WAITING or (op.name == "tt.atomic_rmw" and " exch" in op.text):
            return True
        if op.name == "scf.while" and any(
            inner.name in ("tt.load", "tt.atomic_rmw", "tt.atomic_load")
            for region in op.regions[:1]
            for inner in walk(region)
        ):
            return True
        if op.name == "tt.load" and "isVolatile = true" in op.text:
            return True
    return False


def largest_block(body: Region) -> int:
    return max((int(np.prod(t.shape)) for op in walk(body) for t in op.types), default=1)


class _Levels:
    """Finds the level of every value (Note [Levels])."""

    def __init__(self, body: Region, lanes: bool) -> None:
        self.known: dict[str, int] = {}
        self.types: dict[str, Type] = {}
        self.lanes = lanes
        self.divergent: set[int] = set()  # operations with regions, by id
        self.branches = len(body) > 1
        for name, kind in zip(body[0].arguments, body[0].types):
            self.types[name] = kind
            self.known[name] = FLAT
        self.changed = True
        while self.changed:
            self.changed = False
            self.region(body)

    def of(self, name: str) -> int:
        return self.known.get(name, FLAT)

    def put(self, name: str, level: int, kind: Type) -> None:
        self.types[name] = kind
        if level == FULL and not kind.shape:
            level = FLAT
        if level > self.known.get(name, -1):
            self.known[name] = level
            self.changed = True

    def region(self, region: Region, function: bool = False) -> None:
        for block in region:
            for op in block.ops:
                self.op(op)
                if op.name in ("cf.br", "cf.cond_br"):
                    for label, values in op.targets:
                        block_of = next(b for b in region if b.label == label)
                        merged = LANES if self.lanes else FLAT
                        for name, kind, value in zip(block_of.arguments, block_of.types, values):
                            self.put(name, max(merged, self.of(value)), kind)

    def all(self, names: list[str], types: list[Type], level: list[int]) -> None:
        for name, kind, x in zip(names, types, level):
            self.put(name, x, kind)

    def op(self, op: Op) -> None:
        name = op.name
        level = max((self.of(x) for x in op.operands), default=FLAT)
        if name == "scf.for":
            self._for(op)
        elif name == "scf.if":
            diverges = self.of(op.operands[0]) == LANES
            for region in op.regions:
                self.region(region)
                made = region[-1].ops[-1].operands if region[-1].ops else []
                low = LANES if diverges else FLAT
                self.all(op.results, op.types, [max(low, self.of(x)) for x in made])
            if diverges:
                self.divergent.add(id(op))
        elif name == "scf.while":
            before, after = op.regions
            low = LANES if id(op) in self.divergent else FLAT
            block = before[0]
            self.all(block.arguments, block.types, [max(low, self.of(x)) for x in op.operands])
            self.region(before)
            condition = before[-1].ops[-1]
            if self.of(condition.operands[0]) == LANES:
                self.divergent.add(id(op))
                low = LANES
            passed = [max(low, self.of(x)) for x in condition.operands[1:]]
            self.all(after[0].arguments, after[0].types, passed)
            self.all(op.results, op.types, passed)
            self.region(after)
            yielded = [max(low, self.of(x)) for x in after[-1].ops[-1].operands]
            self.all(block.arguments, block.types, yielded)
        elif name in ("tt.reduce", "tt.scan", "tt.map_elementwise"):
            block = op.regions[0][0]
            self.all(block.arguments, block.types, [LANES] * len(block.arguments))
            self.region(op.regions[0])
            self.all(op.results, op.types, [max(level, FULL)] * len(op.results))
        elif op.results:
            if name == "arith.constant":
                level = FULL if "dense<[" in op.text or 'dense<"' in op.text else FLAT
            elif name == "tt.make_range":
                level = FULL
            elif name == "tt.get_program_id":
                level = LANES if self.lanes else FLAT
            elif name in ("tt.atomic_rmw", "tt.atomic_cas"):
                level = LANES if self.lanes else FULL
            elif name in ("tt.dot", "tt.dot_scaled", "tt.cat", "tt.join", "tt.gather",
                          "tt.histogram"):  # fmt: skip
                level = max(level, FULL)
            kinds = op.types * len(op.results) if len(op.types) == 1 else op.types
            for result, kind in zip(op.results, kinds):
                self.put(result, level, result_type(op, kind))

    def _for(self, op: Op) -> None:
        block = op.regions[0][0]
        bounds = max(self.of(x) for x in op.operands[:3])
        if bounds == LANES:
            self.divergent.add(id(op))
        low = LANES if bounds == LANES else FLAT
        self.put(block.arguments[0], low, block.types[0])
        for _ in range(2):
            yielded = block_end(op.regions[0])
            for i, result in enumerate(op.results):
                level = max(low, self.of(op.operands[3 + i]), self.of(block.arguments[1 + i]))
                if yielded:
                    level = max(level, self.of(yielded[i]))
                self.put(block.arguments[1 + i], level, op.types[i])
                self.put(result, level, op.types[i])
            self.region(op.regions[0])


def block_end(region: Region) -> list[str]:
    """What a region hands on."""
    ops = region[-1].ops
    return ops[-1].operands if ops and ops[-1].name in _TERMINATORS else []


def result_type(op: Op, kind: Type) -> Type:
    """The type of a result: most lines name it, some that of an operand."""
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return Type("i1", kind.shape)
    if op.name in ("tt.load", "tt.atomic_load"):
        pointed = kind.of
        assert pointed
        return Type(pointed.kind, kind.shape, pointed.of)
    if op.name == "tt.addptr" and op.types[0].kind == "ptr":
        return op.types[0]
    return op.types[-1] if op.name == "arith.select" else kind


class Translation:
    """Writes one function.  source: its text; constants: its globals; locations: by line."""

    def __init__(self, function: ir.Function, lanes: bool) -> None:
        self.lanes = lanes
        self.body = function.body
        self.levels = _Levels(self.body, lanes)
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
        arguments = [self.new(name) for name in self.body[0].arguments]
        self.write(f"def kernel(P, pid, grid, {', '.join(arguments)}):")
        self.depth = 1
        if len(self.body) > 1:
            self.branching()
        else:
            self.block(self.body[0])
        if self.lines[-1].startswith("def "):
            self.write("pass")
        self.source = "\n".join(self.lines) + "\n"

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
            if op.name in _TERMINATORS:
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

    def op(self, op: Op) -> None:
        name = op.name
        if name in ELEMENTWISE:
            self.elementwise(op)
        elif name in CASTS:
            kind = op.types[0]
            self.result(op, self.cast(op, CASTS[name], kind))
        elif name in _IGNORED:
            if op.results:
                self.result(op, self.constant(np.zeros((), DTYPES[op.types[0].kind])[()]))
        else:
            method: Callable[[Translation, Op], None] | None = _METHODS.get(name)
            if method is None:
                raise UnsupportedError(f"the simulated device does not compute {name}")
            method(self, op)

    def result(self, op: Op, expression: str) -> None:
        self.write(f"{self.new(op.results[0])} = {expression}")

    def elementwise(self, op: Op) -> None:
        function = ELEMENTWISE[op.name]
        kind = op.types[-1].kind
        if kind == "i1":
            function = {"add": "bitwise_xor", "subtract": "bitwise_xor",
                        "multiply": "bitwise_and"}.get(function, function)  # fmt: skip
        operands = [self.operand(x) for x in op.operands]
        if op.name == "arith.select" and not self.combining:
            # The condition of a block may be a scalar.
            condition, shape = op.operands[0], op.types[-1].shape
            if shape and not self.type(condition).shape and self.level(condition) == LANES:
                operands[0] = f"{operands[0]}.reshape({self.constant((-1,) + (1,) * len(shape))})"
        self.result(op, f"{function}({', '.join(operands)})")

    def operand(self, value: str) -> str:
        return self[value]

    def cast(self, op: Op, function: str, kind: Type) -> str:
        x = self[op.operands[0]]
        if function == "same":
            return x
        if function == "cast" and "rounding = rtz" in op.text:
            function = "truncated"
        if kind.kind not in DTYPES:
            raise UnsupportedError(f"the simulated device has no type {kind.kind}")
        return f"{function}({x}, {self.constant(DTYPES[kind.kind])})"

    def _constant(self, op: Op) -> None:
        self.names[op.results[0]] = self.constant(constant_value(op.text, op.types[0]))

    def _compare(self, op: Op) -> None:
        predicate = op.text.split(",")[0].split()[-1]
        names = [self[x] for x in op.operands]
        if op.name == "arith.cmpi":
            unsigned = predicate[0] == "u"
            function = _COMPARISONS[predicate if predicate in _COMPARISONS else predicate[1:]]
            if unsigned:
                names = [f"unsigned({x})" for x in names]
            self.result(op, f"{function}({', '.join(names)})")
        elif predicate in ("ord", "uno"):
            self.result(op, f"unordered({', '.join(names)}, {predicate == 'uno'})")
        elif predicate in ("true", "false"):
            self.result(op, self.constant(np.bool_(predicate == "true")))
        else:
            function = _COMPARISONS[predicate[1:]]
            made = f"{function}({', '.join(names)})"
            # NumPy's != is unordered, its others are ordered.
            if predicate == "one":
                made = f"bitwise_and({made}, unordered({', '.join(names)}, False))"
            elif predicate[0] == "u" and predicate != "une":
                made = f"bitwise_or({made}, unordered({', '.join(names)}, True))"
            self.result(op, made)

    def _program_id(self, op: Op) -> None:
        axis = "xyz".index(op.text.split()[0])
        self.result(op, f"{'pid' if 'program_id' in op.name else 'grid'}[{axis}]")

    def _range(self, op: Op) -> None:
        values = np.arange(ir.integer(op, "start"), ir.integer(op, "end")).astype(np.int32)
        self.names[op.results[0]] = self.constant(values)

    def _splat(self, op: Op) -> None:
        value, rank = op.operands[0], op.types[0].rank
        if self.level(value) == LANES:
            self.result(op, f"{self[value]}.reshape({self.constant((-1,) + (1,) * rank)})")
        else:
            self.result(op, self[value])

    def _unsplat(self, op: Op) -> None:
        lanes = self.level(op.results[0]) == LANES
        self.result(
            op,
            f"{self[op.operands[0]]}.reshape({'-1' if lanes else '()'})"
            + ("" if lanes else "[()]"),
        )

    def _same(self, op: Op) -> None:
        self.result(op, self[op.operands[0]])

    def _expand_dims(self, op: Op) -> None:
        value = op.operands[0]
        level = self.level(value)
        axis = ir.integer(op, "axis") + (level == LANES)
        at = ":, " * axis + "None"
        self.result(op, self[value] if level == FLAT else f"{self[value]}[{at}]")

    def _reshape(self, op: Op) -> None:
        value = op.operands[0]
        if self.level(value) == FLAT:
            self.result(op, self[value])
        else:
            level = self.level(value)
            shape = self.shape(op.types[0].shape, level)
            self.result(op, f"{self.full(value)}.reshape({shape})")

    def _trans(self, op: Op) -> None:
        value = op.operands[0]
        level = self.level(value)
        found = re.search(r"order = array<i32: ([\d, ]*)>", op.text)
        assert found
        order = [int(n) for n in found[1].split(",")]
        if level == LANES:
            order = [0, *(n + 1 for n in order)]
        made = (
            self[value]
            if level == FLAT
            else f"{self[value]}.transpose({self.constant(tuple(order))})"
        )
        self.result(op, made)

    def _join(self, op: Op) -> None:
        level = self.level(op.results[0])
        parts = ", ".join(self.full(x, level) for x in op.operands)
        function = "stacked" if op.name == "tt.join" else "concatenated"
        self.result(op, f"{function}(({parts}), {int(level == LANES)})")

    def _split(self, op: Op) -> None:
        value = op.operands[0]
        if self.level(value) == FLAT:
            for result in op.results:
                self.write(f"{self.new(result)} = {self[value]}")
            return
        whole = self.fresh()
        self.write(f"{whole} = {self.full(value)}")
        for i, result in enumerate(op.results):
            self.write(f"{self.new(result)} = {whole}[..., {i}]")

    def _addptr(self, op: Op) -> None:
        pointer, offset = op.operands
        pointed = op.types[0].of
        assert pointed
        size = DTYPES[pointed.kind].itemsize
        self.result(op, f"moved({self[pointer]}, {self[offset]}, {self.constant(np.int64(size))})")

    # -- memory

    def _masked(self, mask: str | None, level: int, rank: int) -> str:
        """A mask, in a region that not all programs are in."""
        if not self.active or level != LANES:
            return mask or "None"
        return f"bitwise_and({mask}, {self.mask(rank)})" if mask else self.mask(rank)

    def _load(self, op: Op) -> None:
        pointer, *rest = op.operands
        kind = self.type(op.results[0])
        level = max(self.level(x) for x in op.operands)
        mask = self._masked(self[rest[0]] if rest else None, level, kind.rank)
        other = self[rest[1]] if len(rest) > 1 else "None"
        self.result(
            op, f"load({self[pointer]}, {mask}, {other}, {self.constant(DTYPES[kind.kind])})"
        )
        self._by_lane(level)

    def _store(self, op: Op) -> None:
        pointer, value, *rest = op.operands
        level = max(self.level(x) for x in op.operands)
        mask = self._masked(self[rest[0]] if rest else None, level, self.type(pointer).rank)
        self.write(f"store({self[pointer]}, {self[value]}, {mask})")
        self._by_lane(level)

    def _by_lane(self, level: int) -> None:
        if level == LANES:
            self.by_lane.add(len(self.lines))

    def _atomic(self, op: Op) -> None:
        kind = self.type(op.results[0])
        level = self.level(op.results[0])
        shape = self.shape(kind.shape, level)
        if op.name == "tt.atomic_cas":
            pointer, expected, value = (self[x] for x in op.operands)
            self.result(op, f"compare_and_swap({pointer}, {expected}, {value}, {shape})")
            return
        pointer, value, *rest = op.operands
        mask = self._masked(self.at(rest[0], level) if rest else None, level, kind.rank)
        kind_of = op.text.split(",")[0].split()[-1]
        arguments = f"{self.at(pointer, level)}, {self.at(value, level)}, {mask}, {shape}"
        self.result(op, f"atomic_{kind_of}({arguments})")
        self._by_lane(level)

    # -- whole blocks

    def _dot(self, op: Op) -> None:
        a, b, c = op.operands
        tf32 = "inputPrecision = tf32" in op.text
        self.result(op, f"dot({self.full(a)}, {self.full(b)}, {self[c]}, {tf32})")

    def _dot_scaled(self, op: Op) -> None:
        kinds = re.search(r"lhs = (\w+) rhs = (\w+)", op.text)
        assert kinds
        if "k_pack = false" in op.text:
            raise UnsupportedError("the simulated device packs pairs of 4 bits along K only")
        operands = iter(op.operands)
        given: list[str] = []
        for part in op.text.split(", ")[:2]:
            given.append(self.full(next(operands)))
            given.append(self.full(next(operands)) if " scale " in part else "None")
        given += [self[next(operands)], repr(kinds[1]), repr(kinds[2])]
        self.result(op, f"dot_scaled({', '.join(given)})")

    def _histogram(self, op: Op) -> None:
        value, *mask = op.operands
        level = self.level(op.results[0])
        chosen = self.full(mask[0], level) if mask else "None"
        bins = op.types[0].shape[0]
        self.result(op, f"histogram({self.full(value, level)}, {chosen}, {bins})")

    def _gather(self, op: Op) -> None:
        source, indices = op.operands
        level = self.level(op.results[0])
        axis = ir.integer(op, "axis") + (level == LANES)
        self.result(
            op, f"take_along_axis({self.full(source, level)}, {self.full(indices, level)}, {axis})"
        )

    def _combine(self, op: Op) -> str:
        """The name of the function that a reduction or a scan combines with."""
        block = op.regions[0][0]
        name = self.fresh("combine")
        kept, self.free, combining, self.combining = self.free, [], self.combining, True
        outside = dict(self.names)
        arguments = [self.fixed(x) for x in block.arguments]
        self.write(f"def {name}({', '.join(arguments)}):")
        self.depth += 1
        out = self.block(block)
        values = ", ".join(self[x] for x in out)
        self.write(f"return ({values},)")
        self.depth -= 1
        self.names = outside
        self.free, self.combining = kept, combining
        return name

    def _reduce(self, op: Op) -> None:
        level = max(max(self.level(x) for x in op.operands), FULL)
        lanes = int(level == LANES)
        axis = ir.integer(op, "axis") + lanes
        values = [self.full(x, level) for x in op.operands]
        scans = op.name == "tt.scan"
        reverse = scans and "reverse = true" in op.text
        block = op.regions[0][0]
        ufunc = _UFUNCS.get(block.ops[0].name) if len(block.ops) == 2 else None
        if ufunc and len(values) == 1 and block.ops[0].operands == block.arguments:
            kind = self.type(op.operands[0]).kind
            if kind == "i1":
                ufunc = {"add": "bitwise_xor", "multiply": "bitwise_and"}.get(ufunc, ufunc)
            verb = (
                f"scanned({ufunc}, {{}}, {axis}, {reverse})"
                if scans
                else f"reduced({ufunc}, {{}}, {axis})"
            )
            self.result(op, verb.format(values[0]))
            return
        function = self._combine(op)
        inside = f"{function}, ({', '.join(values)},), {axis}"
        made = f"scanned_by({inside}, {reverse})" if scans else f"reduced_by({inside})"
        self.write(f"{', '.join(self.new(x) for x in op.results)}, = {made}")

    def _map(self, op: Op) -> None:
        if "pack = 1 " not in op.text:
            raise UnsupportedError("the simulated device maps single elements only")
        function = self._combine(op)
        values = ", ".join(self.at(x, self.level(op.results[0])) for x in op.operands)
        self.write(f"{', '.join(self.new(x) for x in op.results)}, = {function}({values})")

    # -- functions of the device

    def _extern(self, op: Op) -> None:
        symbol = ir.attribute(op, "symbol").strip('"')
        kinds = ", ".join(self[x] for x in op.operands)
        from tritorch._triton import libdevice

        function = libdevice.function(symbol)
        if function is None:
            raise UnsupportedError(f"the simulated device has no function {symbol}")
        kind = op.types[0].kind
        self.result(op, f"{self.constant(function)}({kinds}).astype({self.constant(DTYPES[kind])})")

    def _assembly(self, op: Op) -> None:
        from tritorch._triton import libdevice

        text = op.text[: op.text.rindex("{constraints")].strip()
        function = libdevice.assembly(text[1:-1])
        if function is None:
            raise UnsupportedError(f"the simulated device runs no assembly: {text}")
        kinds = [self.constant(DTYPES[kind.kind]) for kind in op.types]
        operands = ", ".join(self[x] for x in op.operands)
        self.write(
            f"{self.new(op.results[0])} = {self.constant(function)}({operands}).astype({kinds[0]})"
        )

    def _clamp(self, op: Op) -> None:
        propagates = "propagateNan = all" in op.text
        self.result(op, f"clamped({', '.join(self[x] for x in op.operands)}, {propagates})")

    def _assert(self, op: Op) -> None:
        message = re.search(r'"((?:[^"\\]|\\.)*)"', op.text)
        level = self.level(op.operands[0])
        condition = self[op.operands[0]]
        if self.active and level == LANES:
            condition = f"bitwise_or({condition}, ~{self.mask(self.type(op.operands[0]).rank)})"
        self.write(f"assert_true({condition}, {message[1] if message else ''!r}, {level == LANES})")

    def _print(self, op: Op) -> None:
        prefix = re.search(r'"((?:[^"\\]|\\.)*)"', op.text)
        values = ", ".join(self.full(x) if self.type(x).shape else self[x] for x in op.operands)
        lanes = [self.level(x) == LANES for x in op.operands]
        active = self.active or "None"
        self.write(
            f"device_print({prefix[1] if prefix else ''!r}, ({values}{',' * bool(values)}), "
            f"{lanes}, {'hex = true' in op.text}, P, pid, {active})"
        )

    # -- control flow

    def _assigned(self, targets_: list[tuple[str, int, Type]], values: list[str]) -> None:
        """targets = values, all at once, each at its target's level."""
        if not targets_:
            return
        right = []
        for (_, level, kind), value in zip(targets_, values):
            right.append(self.at(value, level if kind.shape or level == LANES else FLAT))
        self.write(f"{', '.join(t[0] for t in targets_)} = {', '.join(right)}")

    def _chosen(self, targets_: list[tuple[str, int, Type]], values: list[str]) -> None:
        """The active programs' targets take values, the others keep theirs."""
        right = [
            f"where({self.mask(kind.rank)}, {self[value]}, {name})"
            for (name, _, kind), value in zip(targets_, values)
        ]
        if right:
            self.write(f"{', '.join(t[0] for t in targets_)} = {', '.join(right)}")

    def _variables(self, names: list[str], types: list[Type]) -> list[tuple[str, int, Type]]:
        return [(self.fixed(n), self.level(n), kind) for n, kind in zip(names, types)]

    def _for(self, op: Op) -> None:
        block = op.regions[0][0]
        low, high, step = op.operands[:3]
        diverges = id(op) in self.levels.divergent
        carried = self._variables(block.arguments[1:], block.types[1:])
        self._assigned(carried, op.operands[3:])
        counter = self.fixed(block.arguments[0])
        if not diverges:
            kind = self.constant(DTYPES[block.types[0].kind].type)
            i = self.fresh()
            self.write(f"for {i} in range({self[low]}, {self[high]}, {self[step]}):")
            self.depth += 1
            self.write(f"{counter} = {kind}({i})")
            self.depth -= 1
            yielded = self.nested(block)
            self.depth += 1
            self._assigned(carried, yielded)
            self.depth -= 1
        else:
            outer, mask = self.active, self.fresh("active")
            self.write(f"{counter} = {self.at(low, LANES)}")
            bounds = f"less({counter}, {self.at(high, LANES)})"
            both = f"bitwise_and({outer}, {bounds})" if outer else bounds
            self.write(f"{mask} = {both}")
            self.write(f"while {mask}.any():")
            self.active = mask
            yielded = self.nested(block)
            self.depth += 1
            self._chosen(carried, yielded)
            self.write(f"{counter} = add({counter}, {self[step]})")
            self.write(f"{mask} = bitwise_and({mask}, {bounds})")
            self.depth -= 1
            self.active = outer
        for result, (name, _, _) in zip(op.results, carried):
            self.names[result] = name

    def _if(self, op: Op) -> None:
        condition = op.operands[0]
        results = self._variables(op.results, op.types)
        branches = [region[0] for region in op.regions] + [Block("", [], [], [])] * (
            2 - len(op.regions)
        )
        if self.combining and self.level(condition) == LANES:
            made = []
            for block in branches:
                made.append([self[x] for x in self.block(block)])
            for (name, _, _), a, b in zip(results, *made):
                self.write(f"{name} = where({self[condition]}, {a}, {b})")
            return
        if id(op) not in self.levels.divergent:
            self.write(f"if {self[condition]}:")
            self._branch(branches[0], results)
            if branches[1].ops and (results or len(branches[1].ops) > 1):
                self.write("else:")
                self._branch(branches[1], results)
            return
        outer = self.active
        if results:
            self.write(f"{' = '.join(name for name, _, _ in results)} = None")
        for block, test in zip(branches, (self[condition], f"~{self[condition]}")):
            if len(block.ops) == 0 or (len(block.ops) == 1 and not block.ops[0].operands):
                continue
            mask = self.fresh("active")
            self.write(f"{mask} = bitwise_and({outer}, {test})" if outer else f"{mask} = {test}")
            self.write(f"if {mask}.any():")
            self.active = mask
            yielded = self.nested(block)
            self.depth += 1
            for (name, _, kind), value in zip(results, yielded):
                self.write(
                    f"{name} = merged({self.mask(kind.rank)}, {self.at(value, LANES)}, {name})"
                )
            self.depth -= 1
            self.active = outer

    def _branch(self, block: Block, results: list[tuple[str, int, Type]]) -> None:
        out = self.nested(block)
        self.depth += 1
        self._assigned(results, out)
        self.depth -= 1

    def _while(self, op: Op) -> None:
        before, after = op.regions[0][0], op.regions[1][0]
        carried = self._variables(before.arguments, before.types)
        self._assigned(carried, op.operands)
        passed = self._variables(after.arguments, after.types)
        diverges = id(op) in self.levels.divergent
        outer = self.active
        if diverges:
            mask = self.fresh("active")
            self.write(f"{mask} = {outer or 'ones(P, bool)'}")
            if passed:
                self.write(f"{' = '.join(name for name, _, _ in passed)} = None")
            self.active = mask
        self.write("while True:")
        condition, *values = self.nested(before)
        self.depth += 1
        if diverges:
            for (name, _, kind), value in zip(passed, values):
                self.write(
                    f"{name} = merged({self.mask(kind.rank)}, {self.at(value, LANES)}, {name})"
                )
            self.write(f"{mask} = bitwise_and({mask}, {self[condition]})")
            self.write(f"if not {mask}.any(): break")
        else:
            self._assigned(passed, values)
            self.write(f"if not {self[condition]}: break")
        self.depth -= 1
        yielded = self.nested(after)
        self.depth += 1
        if diverges:
            self._chosen(carried, yielded)
        else:
            self._assigned(carried, yielded)
        self.depth -= 1
        self.active = outer
        for result, (name, _, _) in zip(op.results, passed):
            self.names[result] = name

    def branching(self) -> None:
        """A body of several blocks: branches go forward only, loops are regions."""
        labels = {block.label: block for block in self.body}
        variables = {
            block.label: self._variables(block.arguments, block.types) for block in self.body[1:]
        }
        masks = {block.label: self.fresh("here") for block in self.body}
        for block in self.body:
            first = block is self.body[0]
            always = "ones(P, bool)" if self.lanes else "True"
            self.write(f"{masks[block.label]} = {always if first else 'False'}")
        for names in variables.values():
            for name, _, _ in names:
                self.write(f"{name} = None")
        for block in _in_order(self.body):
            mask = masks[block.label]
            self.write(f"if {mask} is not False and {mask}.any():" if self.lanes else f"if {mask}:")
            self.active = mask if self.lanes else ""
            self.free = []
            kept, self.combining = self.combining, False
            branch = block.ops[-1]
            start = len(self.lines)
            self.depth += 1
            for op in block.ops[:-1]:
                self.location = op.location
                self.op(op)
            if branch.name in ("cf.br", "cf.cond_br"):
                ways = branch.targets
                tests = [""]
                if branch.name == "cf.cond_br":
                    condition = self[branch.operands[0]]
                    no = f"~{condition}" if self.lanes else f"not {condition}"
                    tests = [condition, no]
                for (label, values), test in zip(ways, tests):
                    taken = self.fresh("go")
                    if self.lanes:
                        self.write(
                            f"{taken} = bitwise_and({mask}, {test})"
                            if test
                            else f"{taken} = {mask}"
                        )
                        for (name, _, kind), value in zip(variables[label], values):
                            shape = self.constant((-1,) + (1,) * kind.rank)
                            mine = self.at(value, LANES)
                            self.write(f"{name} = merged({taken}.reshape({shape}), {mine}, {name})")
                        self.write(f"{masks[label]} = bitwise_or({masks[label]}, {taken})")
                    else:
                        self.write(f"if {test or 'True'}:")
                        self.depth += 1
                        self._assigned(variables[label], values)
                        self.write(f"{masks[label]} = True")
                        self.depth -= 1
            if len(self.lines) == start:
                self.write("pass")
            self.depth -= 1
            self.combining = kept
        assert labels


def _in_order(body: Region) -> list[Block]:
    """Blocks, each behind those that lead to it."""
    labels = {block.label: block for block in body}
    done: list[Block] = []

    def visit(block: Block, path: tuple[str, ...]) -> None:
        if block.label in path:
            raise UnsupportedError("the simulated device has no branches backward")
        if block in done:
            return
        for label, _ in block.ops[-1].targets if block.ops else ():
            visit(labels[label], (*path, block.label))
        done.append(block)

    visit(body[0], ())
    return done[::-1]


def used(op: Op) -> Any:
    yield from op.operands
    for _, values in op.targets:
        yield from values
    for region in op.regions:
        for inner in walk(region):
            yield from inner.operands


def constant_value(text: str, kind: Type) -> Any:
    """The number, or the array, that a constant's text stands for."""
    dtype = DTYPES.get(kind.kind)
    if dtype is None:
        raise UnsupportedError(f"the simulated device has no type {kind.kind}")
    text = text.strip()
    text = re.sub(r"^\{[^}]*\} ", "", text)
    if not text.startswith("dense<"):
        return _number(text, dtype)
    inner = text[6:-1]
    if inner.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(inner[3:-1]), dtype).reshape(kind.shape)
    if inner.startswith("["):
        numbers = [_number(item.strip(), dtype) for item in re.sub(r"[\[\]]", "", inner).split(",")]
        return np.array(numbers, dtype).reshape(kind.shape)
    return _number(inner, dtype)


def _number(text: str, dtype: Any) -> Any:
    if text in ("true", "false"):
        return np.bool_(text == "true")
    if text.startswith("0x") and dtype.kind not in "iu":
        bits = np.array(int(text, 16)).astype(f"u{dtype.itemsize}")
        return bits.view(dtype)[()]
    if dtype.kind in "iu":
        return np.array(int(text)).astype(dtype)[()]
    if dtype == np.bool_:
        return np.bool_(int(text))
    return np.array(float(text)).astype(dtype)[()]


_METHODS: dict[str, Any] = {
    "arith.constant": Translation._constant, "arith.cmpi": Translation._compare,
    "arith.cmpf": Translation._compare, "tt.get_program_id": Translation._program_id,
    "tt.get_num_programs": Translation._program_id, "tt.make_range": Translation._range,
    "tt.splat": Translation._splat, "tt.unsplat": Translation._unsplat,
    "tt.broadcast": Translation._same, "tt.expand_dims": Translation._expand_dims,
    "tt.reshape": Translation._reshape, "tt.trans": Translation._trans,
    "tt.join": Translation._join, "tt.cat": Translation._join, "tt.split": Translation._split,
    "tt.addptr": Translation._addptr, "tt.load": Translation._load,
    "tt.store": Translation._store, "tt.atomic_rmw": Translation._atomic,
    "tt.atomic_cas": Translation._atomic, "tt.dot": Translation._dot,
    "tt.dot_scaled": Translation._dot_scaled, "tt.histogram": Translation._histogram,
    "tt.gather": Translation._gather, "tt.reduce": Translation._reduce,
    "tt.scan": Translation._reduce, "tt.map_elementwise": Translation._map,
    "tt.extern_elementwise": Translation._extern,
    "tt.elementwise_inline_asm": Translation._assembly, "tt.clampf": Translation._clamp,
    "tt.assert": Translation._assert, "tt.print": Translation._print, "scf.for": Translation._for,
    "scf.if": Translation._if, "scf.while": Translation._while,
}  # fmt: skip
