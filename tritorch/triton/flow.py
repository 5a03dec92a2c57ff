"""Control flow of translations: loops, branches, and the masks of those who go there."""

from __future__ import annotations

from tritorch.triton.ir import Block, Op, Type
from tritorch.triton.levels import FLAT, LANES, Region
from tritorch.triton.writer import DTYPES, UnsupportedError, Writer


class Flow(Writer):
    """A writer of operations with regions, and of branches."""

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
