"""Kernels as Python functions of NumPy arrays: what the simulated device runs.

# Note [Programs side by side]
A translated kernel runs many programs of its grid at once.  What differs between programs has a
first dim with an entry for each (its "lanes"); what does not, has none, and is computed once.
Where programs take different ways, all are gone, under a mask of the programs that go there: their
stores and loads are masked, and what they carry is chosen.  A kernel whose programs wait for each
other (a lock, a flag) is translated without lanes, and its programs run one after the other, as are
those whose blocks are so large that there is nothing to gain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch.triton import ir
from tritorch.triton.flow import Flow
from tritorch.triton.ir import Op, Type
from tritorch.triton.levels import FLAT, FULL, LANES, Region, walk
from tritorch.triton.writer import DTYPES, UnsupportedError

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
_IGNORED = {"ttg.barrier", "gpu.barrier", "llvm.intr.assume", "ub.poison"}


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


class Translation(Flow):
    """What each operation becomes."""

    def __init__(self, function: ir.Function, lanes: bool) -> None:
        super().__init__(function, lanes)
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
        from tritorch.triton import libdevice

        function = libdevice.function(symbol)
        if function is None:
            raise UnsupportedError(f"the simulated device has no function {symbol}")
        kind = op.types[0].kind
        self.result(op, f"{self.constant(function)}({kinds}).astype({self.constant(DTYPES[kind])})")

    def _assembly(self, op: Op) -> None:
        from tritorch.triton import libdevice

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
