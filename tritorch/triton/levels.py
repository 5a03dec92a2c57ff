"""Which values of a kernel differ between programs, and which are one number.

# Note [Levels]
Each value is at a level, found before anything is written:
    FLAT   one number: a scalar, or a block that holds one number everywhere; never spread out
    FULL   a block, the same in all programs; its array has the block's rank, dims of 1 are spread
    LANES  one for each program; its array has a dim in front
Operations of numbers take any mixture, because NumPy broadcasts; others bring what they take to the
level of their result.
"""

from __future__ import annotations

from typing import Any

from tritorch.triton.ir import Block, Op, Type

FLAT, FULL, LANES = 0, 1, 2
Region = list[Block]

# What a block ends with.
TERMINATORS = {
    "scf.yield", "tt.reduce.return", "tt.scan.return", "tt.return", "scf.condition", "cf.br",
    "cf.cond_br", "tt.map_elementwise.return",
}  # fmt: skip


def walk(region: Region) -> Any:
    for block in region:
        for op in block.ops:
            yield op
            for inner in op.regions:
                yield from walk(inner)


class Levels:
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
    return ops[-1].operands if ops and ops[-1].name in TERMINATORS else []


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
