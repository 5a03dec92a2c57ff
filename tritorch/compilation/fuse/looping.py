"""The source of a group's kernel where rows are too long to be held.

A program goes through one row in parts of WIDTH columns, once for each depth of reductions: those
of rows as they are read, then those that need the first, and so on; at last for the values that are
stored.  It reads a row again each time, from the cache.  A sum of exponentials below a row's
largest element does not wait for that: it is rescaled where a larger one comes.  Loop invariants
are computed between the loops.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tritorch.compilation.fuse.definitions import Definition, Kind
from tritorch.compilation.fuse.groups import Group
from tritorch.compilation.fuse.words import Written, held, identity, type_text
from tritorch.compilation.fuse.writing import Source

_NAME = re.compile(r"[A-Za-z_]\w*")


class Looped(Source):
    """The lines of a kernel of such rows."""

    def __init__(self, group: Group, exact: bool) -> None:
        super().__init__(group, exact)
        self.inner: list[str] = []  # lines of the loop that is written
        self.loop_variant = {"start", "col", "col_mask"}  # names that differ between rounds
        self.left: set[int] = set()  # values that are in memory

    def add(self, line: str) -> None:
        """A line of the loop, or before it if it is loop-invariant."""
        names = _NAME.findall(line)
        if self.loop_variant.isdisjoint(names):
            self.lines.append(line)
            return
        self.inner.append(line)
        if line.startswith(f"{names[0]} = "):
            self.loop_variant.add(names[0])

    def fours(self) -> str:
        """The groups of four elements that a round computes."""
        first = f"row * {self.group.columns // 4} + start // 4"
        return f"{first} + tl.arange(0, WIDTH // 4)[None, :]"

    def written(self, outputs: Sequence[int]) -> Written:
        """One loop for each depth, and one for the stored values that need all of them."""
        depths, alike = self._depths(outputs)
        for depth, reductions in enumerate(alike):
            totals = [
                self._gathered(d) if self._maximum_of(d) is None else self._rescaled(d)
                for d in reductions
            ]
            for i, number in enumerate(outputs):
                if depths.get(number, 0) == depth and number not in self.left:
                    self.stored(self.group.made[number], f"y{i}_ptr")
            self._close()
            for d, total in zip(reductions, totals):
                highest = self._maximum_of(d)
                if highest is None:
                    word = self.reduced(d, total, "None")
                else:
                    top = self.known[highest.result, highest.shape, self.row_position].text
                    call = self.function("row_rescaled_sum", "fused")
                    word = self.line(d.name, f"{call}({total}, {top})", held(d.dtype))
                    word = word._replace(by_row=True)
                self.known[d.result, d.shape, self.row_position] = self.rounded(d, word)
        return super().written(outputs)

    def stored(self, d: Definition, pointer: str) -> None:
        """A value, left in memory once."""
        if d.result not in self.left:
            self.left.add(d.result)
            super().stored(d, pointer)

    def body(self, sums: Sequence[int]) -> list[str]:
        """The kernel's lines."""
        self._close()
        row = ["row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]"]
        row += [f"row_mask = row < {self.group.rows}"] * (self.group.rows > 1)
        return [*row, *self.lines]

    def _close(self) -> None:
        """Ends the loop; what was computed in it is not known after it."""
        if self.inner:
            self.lines += [
                f"for start in range(0, {self.group.columns}, WIDTH):",
                "    col = start + tl.arange(0, WIDTH)[None, :]",
                f"    col_mask = col < {self.group.columns}",
                *(f"    {line}" for line in self.inner),
            ]
        self.inner = []
        gone = self.loop_variant
        self.texts = {text: name for text, name in self.texts.items() if name not in gone}
        self.known = {
            key: word for key, word in self.known.items()
            if gone.isdisjoint(_NAME.findall(word.text))
        }  # fmt: skip

    def _gathered(self, d: Definition) -> str:
        """The name of a row's partial results: as many numbers as a round has columns."""
        kind = held(d.dtype)
        tile = self.tile(d, kind)
        total = self.new("part")
        self.lines.append(f"{total} = tl.full([ROWS, WIDTH], {identity(d)}, {type_text(kind)})")
        self.inner.append(f"{total} = {self.combined(d, total, tile, 'col_mask')}")
        return total

    def _maximum_of(self, d: Definition) -> Definition | None:
        """The reduction to the largest element of a row, if a definition sums exponentials below
        that."""
        made = self.group.made
        if d.kind != Kind.REDUCE or d.params[0] != "sum":
            return None
        power = made.get(d.operands[0].number)
        if power is None or power.kind != Kind.MAP or power.params[0] != "exp" or not power.reads:
            return None
        away = made.get(power.reads[0])
        if away is None or away.kind != Kind.MAP or away.params[0] != "sub" or len(away.reads) != 2:
            return None
        x, top = away.reads
        highest = made.get(top)
        if highest is None or highest.kind != Kind.REDUCE or highest.params[0] != "larger":
            return None
        alike = highest.reads == [x] and power.shape == away.shape == self.forms[x].shape
        return highest if alike and highest.dtype is away.dtype is power.dtype is d.dtype else None

    def _rescaled(self, d: Definition) -> str:
        """The names of a row's partial sums of exponentials, and of the maxima that they are
        below."""
        kind, highest = held(d.dtype), self._maximum_of(d)
        assert highest is not None
        tile = self.tile(highest, kind)
        total, top, higher = self.new("part"), self.new("top"), self.new("higher")
        lowest = identity(highest)
        self.lines += [
            f"{total} = tl.zeros([ROWS, WIDTH], {type_text(kind)})",
            f"{top} = tl.full([ROWS, WIDTH], {lowest}, {type_text(kind)})",
        ]
        x = f"{self.function('whole_row', 'fused')}({tile}, col_mask, {lowest})"
        self.inner += [
            f"{higher} = {self.function('larger', 'reduction')}({top}, {x})",
            f"{total} = {self.function('rescaled', 'fused')}({total}, {top}, {x}, {higher})",
            f"{top} = {higher}",
        ]
        return f"{total}, {top}"

    def _depths(
        self, outputs: Sequence[int]
    ) -> tuple[dict[int, int], list[list[Definition]]]:  # fmt: skip
        """The number of loops that the values need from which outputs are computed, and the
        reductions of each loop."""
        made = self.group.made
        depths: dict[int, int] = {}
        found: list[list[Definition]] = []

        def depth(number: int) -> int:
            d = made.get(number)
            if d is None:
                return 0
            if number not in depths:
                highest = self._maximum_of(d)
                own = max(map(depth, d.reads), default=0)
                if highest is not None:
                    own = depth(highest.result) - 1
                if d.kind == Kind.REDUCE:
                    found.extend([] for _ in range(own + 1 - len(found)))
                    found[own].append(d)
                depths[number] = own + (d.kind == Kind.REDUCE)
            return depths[number]

        for number in outputs:
            depth(number)
        return depths, found
