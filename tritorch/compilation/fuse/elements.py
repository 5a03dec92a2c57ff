"""The lines by which a kernel computes an element of a value in a position.

A value is computed where it is asked for, and asks for its operands: of most there is one line, of
one that a view shows in another position, another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.compilation.follow.tape import Form, Value
from tritorch.compilation.fuse import spaces
from tritorch.compilation.fuse.definitions import Definition, Kind, has_loop
from tritorch.compilation.fuse.groups import Group
from tritorch.compilation.fuse.spaces import Walk
from tritorch.compilation.fuse.words import (
    NARROW,
    SHORT,
    Number,
    Position,
    Word,
    held,
    identity,
    number_text,
    type_text,
)
from tritorch.core import dtype as dtypes
from tritorch.core.dtype import dtype as Dtype


class Elements:
    """The lines of a kernel, as they are written; exact: it rounds where eager does."""

    def __init__(
        self, group: Group, exact: bool, product: int = -1, tiled: bool = False
    ) -> None:  # fmt: skip
        self.group, self.exact, self.product = group, exact, product
        self.forms: Sequence[Form] = group.forms
        self.lines: list[str] = []
        self.known: dict[Any, Word] = {}
        self.texts: dict[str, str] = {}
        self.used: dict[str, set[str]] = {}  # functions of kernels/, by file
        self.names: dict[str, int] = {}
        self.arrays: dict[int, str] = {}
        self.read: dict[int, None] = {}
        self.numbers: dict[Number, str] = {}
        self.marks: tuple[str, int, int] | None = None
        rows, cols = group.rows, group.columns
        self.tiled = tiled or group.holds or product >= 0
        masked = rows > 1 or tiled or product >= 0
        self.row_position = Position("row", "", "row_mask" if masked else "", "", 1)
        self.position = (
            Position("row", "col", self.row_position.row_mask, "col_mask", cols)
            if self.tiled
            else Position("", "at", "", "mask", cols)
        )

    # ---- lines and names

    def function(self, name: str, file: str = "pointwise") -> str:
        self.used.setdefault(file, set()).add(name)
        return name

    def new(self, stem: str) -> str:
        stem = stem.strip("_")
        self.names[stem] = self.names.get(stem, 0) + 1
        return f"{stem}_{self.names[stem]}"  # `add_1`: a function may be named `add`

    def add(self, line: str) -> None:
        """A line of the body."""
        self.lines.append(line)

    def line(self, stem: str, text: str, kind: Dtype, *of: Word) -> Word:
        """The value of an expression, under a name; under its first one, if it was written
        before."""
        name = self.texts.get(text)
        if name is None:
            name = self.texts[text] = self.new(stem)
            self.add(f"{name} = {text}")
        return Word(name, kind, any(w.by_row for w in of), any(w.by_col for w in of))

    def pointer(self, number: int) -> str:
        self.read[number] = None
        number = self.group.roots.get(number, number)
        return self.arrays.setdefault(number, f"x{len(self.arrays)}_ptr")

    def number(self, number: int, kind: Dtype | None) -> str:
        key = Number(number, kind is not None and kind.is_floating_point)
        return self.numbers.setdefault(key, f"n{len(self.numbers)}")

    def said(self, word: Word, kind: Dtype) -> str:
        """A word, as of a type that is computed in."""
        if word.kind is kind:
            return word.text
        key = ("as", word.text, kind)
        if key not in self.known:
            self.function("convert", "copy")
            text = f"convert({word.text}, {type_text(kind)})"
            self.known[key] = self.line(f"{word.text}_{SHORT[kind.name]}", text, kind, word)
        return self.known[key].text

    # ---- positions

    def moved(self, position: Position, along: Walk | None) -> Position:
        """The position in an operand, whose columns are walked through."""
        assert along is not None
        if along.is_same and along.size == position.columns:
            return position
        if not self.tiled or position.col:
            if along.is_still and self.tiled and along.offset == 0:
                return self.row_position
            text = along.at(position.col)
            if along.is_still:  # of the same shape as masks are
                text = f"{position.col} * 0 + {text}"
            text = self.line("at", text, dtypes.int32).text
            columns = along.offset + sum((n - 1) * s for n, s in along.dims) + 1
            return position._replace(col=text, columns=columns, plain=False)
        if along.offset:  # of a row, an element that is not its first
            return position._replace(col=str(along.offset), columns=along.offset + 1, plain=False)
        return position

    def masked(self, position: Position, by_row: bool, by_col: bool) -> str:
        given = [position.row_mask] * by_row + [position.col_mask] * by_col
        given = [x for x in given if x]
        return " & ".join(given)

    # ---- values

    def value(self, x: Any, shape: tuple[int, ...], position: Position, kind: Dtype) -> str:
        """An operand's element for the elements of a value of a shape, as a type."""
        if type(x) is not Value:
            self.function("constant", "fused")
            return f"constant({number_text(x, kind)}, {type_text(kind)})"
        return self.said(self.element(x.number, shape, position, kind), kind)

    def element(
        self, number: int, shape: tuple[int, ...], position: Position, kind: Dtype | None = None
    ) -> Word:
        """A value's element, for a position in a value of a shape that it broadcasts to."""
        form = self.forms[number]
        if form.kind is int:
            name = self.number(number, kind)
            if kind is None or not kind.is_floating_point:
                return Word(name, dtypes.int64, False, False)
            self.function("number", "softmax")
            key = ("number", name, kind)
            if key not in self.known:
                text = f"number({name}, {type_text(kind)})"
                self.known[key] = self.line(f"{name}_value", text, kind)
            return self.known[key]
        d = self.group.made.get(number)
        if number == self.product or self.group.roots.get(number) == self.product:
            return self.multiplied()
        if d is None:
            return self.load(number, shape, position)
        along = spaces.own(form.shape, shape, self.group.rows)
        if along is None:  # its elements are computed in the positions of its readers
            return self.computed(d._replace(shape=shape), position)
        return self.computed(d, self.moved(position, along))

    def multiplied(self) -> Word:
        """The product's element."""
        kind = self.forms[self.product].dtype
        word = Word("acc", held(kind), True, True)
        if self.exact and kind.name in NARROW:
            self.function("convert", "copy")
            text = f"convert(convert(acc, {type_text(kind)}), {type_text(held(kind))})"
            word = self.line("acc", text, held(kind), word)
        return word

    def load(self, number: int, shape: tuple[int, ...], position: Position) -> Word:
        """An element of an array from outside."""
        form = self.forms[number]
        found = spaces.outside(form.shape, form.strides, shape, self.group.rows)
        assert found is not None
        by_row, by_col = found
        key = ("load", number, found, position)
        if key in self.known:
            return self.known[key]
        terms = []
        rowed, coled = not by_row.is_still, not by_col.is_still and bool(position.col)
        if rowed:
            terms.append(by_row.at(position.row))
        if coled:
            terms.append(by_col.at(position.col))
        pointer = self.pointer(number)
        at = " + ".join([pointer, *terms])
        mask = self.masked(position, rowed, coled)
        options = f", mask={mask}, other=0" if mask else ""
        word = self.line(pointer.removesuffix("_ptr"), f"tl.load({at}{options})", form.dtype)
        word = word._replace(by_row=rowed, by_col=coled)
        self.known[key] = word
        return word

    def computed(self, d: Definition, position: Position) -> Word:
        """A value of the group in a position."""
        if self.tiled and position.col and spaces.columns(d.shape, self.group.rows) == 1:
            position = self.row_position
        key = (d.result, d.shape, position)
        if key not in self.known:
            word = getattr(self, f"_{d.kind}")(d, position)
            self.known[key] = self.rounded(d, word)
        return self.known[key]

    def rounded(self, d: Definition, word: Word) -> Word:
        """A result as of its dtype; a narrow one is rounded where eager would, a cast always."""
        kind = held(d.dtype)
        if word.kind is not kind and d.kind not in (Kind.VIEW, Kind.CAT, Kind.ROWS, Kind.PICK):
            word = word._replace(text=self.said(word, kind), kind=kind)
        if d.dtype.name in NARROW and word.kind is dtypes.float32:
            whole = d.kind == Kind.FILL and abs(d.params) <= 128 and float(d.params).is_integer()
            if (d.kind in (Kind.CAST, Kind.FILL) and not whole) or (
                self.exact and d.kind in (Kind.MAP, Kind.REDUCE, Kind.DROP)
            ):
                self.function("convert", "copy")
                text = f"convert({word.text}, {type_text(d.dtype)})"
                return self.line(f"{word.text}_{SHORT[d.dtype.name]}", text, d.dtype, word)
        return word

    # ---- kinds of definitions

    def _operands(
        self, d: Definition, position: Position, kind: Dtype
    ) -> tuple[list[str], list[Word]]:
        texts, words = [], []
        masks = d.params[2] if d.kind == Kind.MAP else 0
        for i, x in enumerate(d.operands):
            wanted = kind
            if i < masks and type(x) is Value:
                words.append(self.element(x.number, d.shape, position))
                texts.append(words[-1].text)
                continue
            texts.append(self.value(x, d.shape, position, wanted))
            if type(x) is Value:
                words.append(self.element(x.number, d.shape, position, wanted))
        return texts, words

    def _map(self, d: Definition, position: Position) -> Word:
        name, compute, _ = d.params
        kind = held(compute)
        texts, words = self._operands(d, position, kind)
        if len(texts) > 1 and has_loop(name):  # what a loop changes has one shape from its start
            row = "row" if self.tiled else position.col
            col = row if not position.col or position.col.isdecimal() else position.col
            spread = self.function("spread", "fused")
            texts = [f"{spread}({text}, {row}, {col})" for text in texts]
        text = f"{self.function(name)}({', '.join(texts)})"
        made = kind
        if d.dtype is dtypes.bool_ or not kind.is_floating_point:  # Triton may widen those
            self.function("convert", "copy")
            made = held(d.dtype)
            text = f"convert({text}, {type_text(made)})"
        return self.line(d.name, text, made, *words)

    def _cast(self, d: Definition, position: Position) -> Word:
        x = d.operands[0]
        word = self.element(x.number, d.shape, position)
        return word._replace(text=self.said(word, held(d.dtype)), kind=held(d.dtype))

    def _store(self, d: Definition, position: Position) -> Word:
        return self.element(d.operands[0].number, d.shape, position)

    def _view(self, d: Definition, position: Position) -> Word:
        base = d.operands[0].number
        offset, strides = d.params
        along = spaces.seen(
            self.forms[base].shape, d.shape, strides, offset, self.group.rows
        )  # fmt: skip
        return self.computed(self.group.made[base], self.moved(position, along))

    def _cat(self, d: Definition, position: Position) -> Word:
        kind, start, word = held(d.dtype), 0, None
        for x in d.operands:
            chosen, said = self._part(d, x.number, d.params, start, position)
            if word is None:
                word = Word(said, kind, True, True)
            else:
                word = self.line("joined", f"tl.where({chosen}, {said}, {word.text})", kind)
            start += self.forms[x.number].shape[d.params]
        assert word is not None
        return word._replace(by_row=True, by_col=True)

    def _embed(self, d: Definition, position: Position) -> Word:
        kind, (dim, first) = held(d.dtype), d.params
        chosen, said = self._part(d, d.operands[0].number, dim, first, position)
        self.function("constant", "fused")
        zero = f"constant({number_text(0, kind)}, {type_text(kind)})"
        word = self.line("embedded", f"tl.where({chosen}, {said}, {zero})", kind)
        return word._replace(by_row=True, by_col=True)

    def _part(
        self, d: Definition, number: int, dim: int, start: int, position: Position
    ) -> tuple[str, str]:
        """For a value that is a part of another along a dim: a condition for the positions that it
        has, and its elements there."""
        form = self.forms[number]
        at = spaces.split(d.shape, self.group.rows) or 0
        inner = math.prod(d.shape[dim + 1 :])
        whole, size, first = d.shape[dim] * inner, form.shape[dim] * inner, start * inner
        several = math.prod(d.shape[at:dim]) > 1
        if not position.col:  # of a row of one element
            position = position._replace(col="row * 0", plain=False)
        within = position.col
        if several:
            within = self.line("within", f"{position.col} % {whole}", dtypes.int32).text
        text = f"{within} - {first}" if first else within
        if several:
            text = f"{position.col} // {whole} * {size} + {text}"
        part = self.line("place", text, dtypes.int32).text
        inside = [f"({within} >= {first})"] * (first > 0)
        inside += [f"({within} < {first + size})"] * (first + size < whole)
        chosen = self.line("inside", " & ".join(inside) or f"{within} >= 0", dtypes.bool_).text
        mask = f"({position.col_mask} & {chosen})" if position.col_mask else chosen
        here = position._replace(
            col=part, col_mask=mask, plain=False, columns=math.prod(form.shape[at:])
        )
        return chosen, self.said(self.element(number, form.shape, here), held(d.dtype))

    def _index(
        self, d: Definition, number: int, position: Position, dim: int, size: int, wraps: bool
    ) -> Word:
        """An index to read at: inside of so many, else an error is marked."""
        word = self.element(number, self.forms[number].shape, position)
        mask = self.masked(position, word.by_row, word.by_col)
        self.marks = self.marks or ("index" if wraps else d.name, dim, size)
        self.function("checked", "fused")
        text = f"checked({word.text}, {size}, {mask or None}, flag_ptr, launch, {wraps})"
        return self.line("index", text, word.kind, word)

    def _rows(self, d: Definition, position: Position) -> Word:
        table, index = (x.number for x in d.operands)
        form = self.forms[table]
        width = d.shape[-1]
        at = spaces.split(d.shape, self.group.rows) or 0
        lead = d.shape[at:-1]
        own = position
        if math.prod(lead) > 1 or not self.tiled:
            which = self.line("place", f"{position.col} // {width}", dtypes.int32)
            own = position._replace(col=which.text, columns=math.prod(lead), plain=False)
        else:
            own = self.row_position
        chosen = self._index(d, index, own, 0, form.shape[0], True)
        across = "" if width == 1 else f" + {self._within(position, width, form.strides[1])}"
        pointer = self.pointer(table)
        where = f"{pointer} + {chosen.text} * {form.strides[0]}{across}"
        mask = self.masked(position, chosen.by_row, True)
        options = f", mask={mask}, other=0" if mask else ""
        word = self.line(pointer.removesuffix("_ptr"), f"tl.load({where}{options})", form.dtype)
        return word._replace(by_row=chosen.by_row, by_col=True)

    def _within(self, position: Position, width: int, stride: int) -> str:
        text = position.col if position.columns == width else f"{position.col} % {width}"
        return text if stride == 1 else f"({text}) * {stride}"

    def _pick(self, d: Definition, position: Position) -> Word:
        base, index = (x.number for x in d.operands)
        form = self.forms[base]
        own = self.row_position
        chosen = self._index(d, index, own, len(form.shape) - 1, form.shape[-1], False)
        here = own._replace(
            col=chosen.text, columns=form.shape[-1], plain=False, col_mask=own.row_mask
        )  # fmt: skip
        word = self.element(base, form.shape, here)
        return word._replace(by_row=True, by_col=False)

    def _drop(self, d: Definition, position: Position) -> Word:
        x, seed, offset = d.operands
        kind = held(d.dtype)
        word = self.element(x.number, d.shape, position)
        said = self.said(word, kind)
        p = f"constant({number_text(d.params, kind)}, {type_text(kind)})"
        self.function("constant", "fused")
        drawn = [self.number(each.number, None) if type(each) is Value else repr(each)
                 for each in (seed, offset)]  # fmt: skip
        columns = spaces.columns(d.shape, self.group.rows) or 1
        whole = position.plain and columns == self.group.columns
        if self.product < 0 and whole and (not self.tiled or columns % 4 == 0):
            call, first = "kept_of_four", self.fours()
        else:
            call = "kept_each"
            first = f"row * {columns} + {position.col or 0}" if self.tiled else position.col
        self.function(call, "fused")
        kept = self.line("kept", f"{call}({first}, {', '.join(drawn)}, {p})", dtypes.bool_)
        self.function("dropped", "fused")
        made = self.line("dropout", f"dropped({said}, {kept.text}, {p})", kind)
        return made._replace(by_row=self.tiled, by_col=True)

    def fours(self) -> str:
        """The groups of four elements that a program computes."""
        if self.tiled:
            return f"row * {self.group.columns // 4} + tl.arange(0, WIDTH // 4)[None, :]"
        block = "block" if self.group.has_totals else "tl.program_id(0)"
        return f"{block} * (BLOCK // 4) + tl.arange(0, BLOCK // 4)"

    def _fill(self, d: Definition, position: Position) -> Word:
        kind = held(d.dtype)
        self.function("constant", "fused")
        text = f"constant({number_text(d.params, kind)}, {type_text(kind)})"
        return self.line("filled", text, kind)

    def _iota(self, d: Definition, position: Position) -> Word:
        start, step, size = d.params
        columns = spaces.columns(d.shape, self.group.rows)
        text = position.col or "0"
        if d.shape != (size,):  # for its reader, in that one's shape
            text = text if position.columns == size else f"({text} % {size})"
        elif self.group.rows > 1:
            text = f"(row * {columns} + {text})"
        text = text if step == 1 else f"{text} * {step}"
        text = text if start == 0 else f"{text} + {start}"
        self.function("convert", "copy")
        word = self.line("iota", f"convert({text}, {type_text(held(d.dtype))})", held(d.dtype))
        return word._replace(by_row=self.tiled, by_col=True)

    def tile(self, d: Definition, kind: Dtype) -> str:
        """All of a row of a reduction's operand."""
        x = d.operands[0].number
        word = self.element(x, self.forms[x].shape, self.position)
        text = self.said(word, kind)
        if not word.by_col or (d.kind == Kind.COLUMN and not word.by_row):
            where = "row, col" if self.tiled else "at, at"
            text = f"{self.function('spread', 'fused')}({text}, {where})"
        return text

    def _reduce(self, d: Definition, position: Position) -> Word:
        kind = held(d.dtype)
        return self.reduced(d, self.tile(d, kind), self.position.col_mask or "None")

    def _scan(self, d: Definition, position: Position) -> Word:
        how, _, backwards = d.params
        kind = held(d.dtype)
        call = self.function(f"running_{how}", "fused")
        mask = self.position.col_mask or "None"
        word = self.line(d.name, f"{call}({self.tile(d, kind)}, {mask}, {backwards})", kind)
        return word._replace(by_row=True, by_col=True)

    def reduced(self, d: Definition, tile: str, mask: str) -> Word:
        """All of a tile's rows as one number each."""
        how, count = d.params
        kind = held(d.dtype)
        more = f", {count}" if how == "mean" else "" if how == "sum" else f", {identity(d)}"
        call = self.function(f"row_{how}", "fused")
        word = self.line(d.name, f"{call}({tile}, {mask}{more})", kind)
        return word._replace(by_row=True, by_col=False)
