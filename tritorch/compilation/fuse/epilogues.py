"""Epilogues and prologues: products whose kernels compute what follows and precedes them,
`WrittenEpilogue` and `Prologue` of `gpu/linalg/matmul.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.compilation.follow.tape import Form, NoteForm, Value, renumbered
from tritorch.compilation.fuse import spaces
from tritorch.compilation.fuse.definitions import (
    Definition,
    Kind,
    is_dense_row_major,
    is_of_blocks,
    is_written,
)
from tritorch.compilation.fuse.groups import Group
from tritorch.compilation.fuse.kernels import FIELDS, Launched, Left, left_of
from tritorch.compilation.fuse.orders import in_order, not_behind_views
from tritorch.compilation.fuse.words import Written
from tritorch.compilation.fuse.writing import epilogue, prologue
from tritorch.compilation.plan.lowering import Lowered
from tritorch.core.layout import contiguous_strides
from tritorch.gpu.linalg import matmul
from tritorch.gpu.nn import conv
from tritorch.gpu.pointwise.layout import LONG
from tritorch.ops.record.replacing import is_replaced
from tritorch.triton import written

MOST = 8  # definitions
MOST_OF_IMAGES = 6  # arrays that a convolution's epilogue reads
MOST_ARRAYS = 4  # that an epilogue or a prologue reads
MOST_SUMMED = 1 << 15  # rows of which a product's kernel leaves sums, for a second one to hold
# With a copy engine, products are faster of matrices in memory: of those that many rows meet; in
# eager's bits, of those for which another kernel would be used.
_FEW_ACROSS, _THIN = 512, 8
_KINDS = (Kind.MAP, Kind.CAST, Kind.VIEW, Kind.FILL)
_PRODUCTS = ("linear", "mm", "addmm", "convolution")


def matrices_of(call: Any, forms: Sequence[Form]) -> tuple[int, ...] | None:
    """The matrices that a call multiplies, if it is a product of floats whose kernel may have an
    epilogue; none of a convolution."""
    if type(call) is not Lowered or call.note.form != NoteForm.CALL or len(call.results) != 1:
        return None
    how = call.note.op.fuses
    if how not in _PRODUCTS or is_replaced(call.note.op, "gpu"):
        return None
    form = forms[call.results[0]]
    if form.kind is not _C.Array or not form.dtype.is_floating_point or form.dtype.is_complex:
        return None
    given = [x.number for x in call.args if type(x) is Value]
    if not all(forms[n].dtype is form.dtype for n in given):
        return None
    if how == "convolution":
        transposed = dict(zip(call.note.op.params, call.note.params))["transposed"]
        return () if not transposed and is_written(form) and len(form.shape) > 2 else None
    if not is_dense_row_major(form):
        return None
    return tuple(given[1:3] if how == "addmm" else given[:2])


def prologue_of(
    group: Group, operand: int, shape: tuple[int, int], across: int, exact: bool
) -> Group | None:
    """A group as the prologue of a product, which computes a matrix in its rows and columns; None
    if it cannot be, or is better left in memory: it is computed again for each tile of `across`
    others."""
    form, (rows, columns) = group.forms[operand], shape
    if group.holds or len(group.definitions) > MOST or len(group.inputs) > MOST_ARRAYS:
        return None
    if any(d.kind not in _KINDS or _is_loop(d) for d in group.definitions):
        return None
    if any(group.forms[n].kind is int for n in group.inputs):
        return None
    if sum(_size(group.forms[n]) for n in group.inputs) >= _size(form):
        return None  # the matrix itself is read sooner
    if matmul.any_has_engine() and across > (_THIN if exact else _FEW_ACROSS):
        return None
    found = Group(group.definitions, rows, group.forms, group.roots)
    return found if found.fits({operand}) and found.columns == columns else None


def is_turned(d: Definition, base: Form) -> bool:
    """True if a view is the transposed matrix."""
    rows, columns = base.shape if len(base.shape) == 2 else (0, 0)
    return d.shape == (columns, rows) and d.params == (0, (1, columns)) and rows > 0


def _size(form: Form) -> int:
    return math.prod(form.shape) * form.dtype.itemsize


def epilogue_of(group: Group, product: int, read: set[int]) -> Group | None:
    """A group as the epilogue of a product, in its rows and columns; None if it cannot be."""
    form = group.forms[product]
    columns = form.shape[-1]
    rows = math.prod(form.shape) // columns
    sums = [d for d in group.definitions if d.kind == Kind.COLUMN]
    others = [d for d in group.definitions if d.kind != Kind.COLUMN]
    holds = group.holds and (not sums or group.rows != rows or group.targets)
    if holds or len(others) > MOST or len(group.inputs) > MOST_ARRAYS + 1:
        return None
    if any(d.kind not in _KINDS or _is_loop(d) for d in others):
        return None
    if any(group.forms[n].kind is int for n in group.inputs):
        return None
    found = Group(others, rows, group.forms, group.roots)
    if not found.fits(read) or found.columns != columns:
        return None
    if sums and not (columns > _THIN < rows <= MOST_SUMMED and _are_left(found, sums, columns)):
        return None
    found.left = sums
    outputs = found.outputs(read)
    if instead_of(found, outputs, product, False) is None:
        return None
    whole = all(
        math.prod(group.forms[n].shape) == rows * columns and is_dense_row_major(group.forms[n])
        for n in outputs
    )
    return found if whole and _is_straight(found, product) else None


def _are_left(group: Group, sums: Sequence[Definition], columns: int) -> bool:
    """True if a product's kernel can leave parts of sums of columns."""
    operands = [d.reads[0] for d in sums]
    return all(
        n in group.made and spaces.columns(group.forms[n].shape, group.rows) == columns
        for n in operands
    )


def epilogue_of_convolution(group: Group, product: int, read: set[int]) -> Group | None:
    """A group as the epilogue of a convolution, in rows of pixels and columns of channels."""
    form = group.forms[product]
    rank, channels = len(form.shape), form.shape[1]
    stored = group.outputs(read)
    if group.holds or group.targets or len(group.inputs) > MOST_OF_IMAGES + 1:
        return None
    if any(d.kind not in _KINDS or _is_loop(d) for d in group.definitions):
        return None
    if any(group.forms[n].kind is int for n in group.inputs):
        return None
    inside = not_behind_views(group, stored)
    if product not in inside or any(len(group.forms[n].shape) > rank for n in inside):
        return None
    found = _without_views(in_order(group, inside, (0, *range(2, rank), 1)))
    if found is None:
        return None
    found = Group(found.definitions, math.prod(form.shape) // channels, found.forms, group.roots)
    if not found.fits(read) or found.columns != channels:
        return None
    if instead_of(found, stored, product, True) is None:
        return None
    whole = all(math.prod(group.forms[n].shape) == math.prod(form.shape) for n in stored)
    return found if whole and _is_straight(found, product, dense=False) else None


def instead_of(group: Group, stored: Sequence[int], product: int, image: bool) -> int | None:
    """The stored value that takes the place of a product: floats; of a convolution (an image), one
    with the same layout."""
    form = group.forms[product]
    fits = lambda own: own == form if image else own.dtype.is_floating_point
    return next((n for n in reversed(stored) if fits(group.forms[n])), None)


def _without_views(group: Group) -> Group | None:
    """A group that reads its values in place of views that only add dims of one element."""
    same: dict[int, int] = {}
    found = []
    for d in group.definitions:
        operands = renumbered(d.operands, same)
        if d.kind == Kind.VIEW:
            (base,) = (x.number for x in operands)
            if not _adds_dims(d, group.forms[base]):
                return None
            same[d.result] = base
        else:
            found.append(d._replace(operands=operands))
    return Group(found, group.rows, group.forms, group.roots)


def _adds_dims(d: Definition, base: Form) -> bool:
    offset, strides = d.params
    own = [(n, s) for n, s in zip(d.shape, strides) if n > 1]
    theirs = [(n, s) for n, s in zip(base.shape, contiguous_strides(base.shape)) if n > 1]
    first = next((i for i, n in enumerate(d.shape) if n > 1), len(d.shape))
    return offset == 0 and own == theirs and len(d.shape[first:]) <= len(base.shape)


def _is_loop(d: Definition) -> bool:
    """True if a function is too long for a product's kernel."""
    return d.kind == Kind.MAP and (d.params[0] in LONG or is_of_blocks(d.params[0]))


def _is_straight(group: Group, product: int, dense: bool = True) -> bool:
    """True if the product is read only in the positions in which it is computed."""
    size = math.prod(group.forms[product].shape)
    for d in group.definitions:
        for x in d.operands:
            if type(x) is not Value or group.roots.get(x.number, x.number) != product:
                continue
            form = group.forms[x.number]  # of the product, or of a view of it
            if d.kind == Kind.VIEW or not math.prod(d.shape) == math.prod(form.shape) == size:
                return False
            if dense and not is_dense_row_major(form):
                return False
    return True


class ProloguePart(NamedTuple):
    """A group that computes a matrix of a product."""

    operand: int  # as the product knows it
    made: int  # as its group knows it: the same, or what that is a view of
    shape: tuple[int, int]  # rows and columns of that
    turned: bool  # whether one is the transposed other
    group: Group


class FusedProduct(Launched):
    """A product with its prologues and its epilogue, as a function of arrays."""

    plain = (*FIELDS, "_how", "_args", "_n_arguments", "_prologues", "_epilogue", "_made", "_left")
    call: Lowered  # the product's

    def __init__(
        self, call: Lowered, group: Group | None, parts: Sequence[ProloguePart], forms: list[Form],
        read: set[int], exact: bool,
    ) -> None:  # fmt: skip
        """forms: of all values; those of parts of column sums are added."""
        (product,) = call.results
        self.call, self._how = call, call.note.op.fuses
        operands = [each.operand for each in parts]
        prologues = [prologue(each.group, each.made, exact) for each in parts]
        self._prologues: tuple[Any, ...] = tuple(map(_prologue_fields, parts, prologues))
        names, sources = [each.name for each in prologues], [each.source for each in prologues]
        self.results: tuple[int, ...] = (product,)
        arrays: tuple[int, ...] = ()
        self._epilogue: str | None = None
        self.left: Left | None = None
        if group is not None:
            outputs = group.outputs(read)
            image = self._how == "convolution"
            result = instead_of(group, outputs, product, image)
            assert result is not None
            then = epilogue(group, read, product, result, exact)
            self.results, arrays, self._epilogue = then.outputs, then.arrays, then.source
            names.append(then.name)
            sources.append(then.source)
            if group.left:
                most = matmul.most_parts(group.rows)
                sums = [d.result for d in group.left]
                self.left = left_of(sums, most, group.columns, forms, is_most=True)
        self.name = "_".join([call.note.op.name, *(name.partition("_")[2] for name in names)])
        self.source = "\n\n".join(_ordered(source, *_ORDERS[0]) for source in sources)
        arguments = [x.number for x in call.args if type(x) is Value and x.number not in operands]
        self._n_arguments = len(arguments)
        known = {number: i for i, number in enumerate((*arguments, *operands))}
        self._args = tuple(Value(known[x.number]) if type(x) is Value else x for x in call.args)
        self.inputs = (*arguments, *(n for each in prologues for n in each.arrays), *arrays)
        made = [forms[n] for n in self.results]
        self._left = () if self.left is None else tuple(forms[n].dtype for n in self.left.parts)
        self.results += () if self.left is None else self.left.parts
        self._made = tuple((form.shape, form.strides, form.dtype) for form in made)
        moved = [forms[n] for n in (*self.inputs, *self.results)]
        self.moved = sum(_size(form) for form in moved if form.kind is not int)
        self.load()

    def load(self) -> None:
        self._functions = None if self._epilogue is None else _both(self._epilogue)
        self._computed = [_Computed(*first) for first in self._prologues]

    def __call__(self, *given: Any) -> Any:
        known, at = [*given[: self._n_arguments]], self._n_arguments
        for first in self._computed:
            known.append(first.of(given[at : at + first.count]))
            at += first.count
        args: list[Any] = [known[x.number] if type(x) is Value else x for x in self._args]
        device = given[0].device_index
        (shape, _, kind), *rest = self._made
        others = [_C.empty_strided(*made, device) for made in rest]
        sums = matmul.Sums(self._left) if self._left else None
        then = self._functions and matmul.WrittenEpilogue(
            *self._functions, (*given[at:], *others), sums
        )
        if self._how == "convolution":
            x, w, bias, stride, padding, dilation, _, _, groups = args
            out = conv.with_epilogue(x, w, bias, stride, padding, dilation, groups, shape, then)
            return (out, *others) if others else out
        addend: Any = None
        numbers: Sequence[float] = (1.0, 1.0)
        if self._how == "linear":
            x, w, addend = args
            a, b = x.reshape((math.prod(x.shape[:-1]), x.shape[-1])), w.transpose(0, 1)
        elif self._how == "mm":
            a, b = args
        else:
            addend, a, b, *numbers = args
        out = matmul.with_epilogue(a, b, addend, numbers, kind, then).reshape(shape)
        if sums is not None:
            return (out, *others, *sums.parts)
        return (out, *others) if others else out


def _prologue_fields(part: ProloguePart, written: Written) -> tuple[Any, ...]:
    """The fields of a prologue, as plain data."""
    kind = part.group.forms[part.made].dtype
    return written.source, len(written.arrays), part.turned, kind, part.shape


class _Computed:
    """A matrix that a prologue computes, from arrays."""

    def __init__(self, source: str, count: int, turned: bool, kind: Any, shape: Any) -> None:
        self.functions = _both(source)
        self.count, self.turned, self.kind, self.shape = count, turned, kind, shape

    def of(self, arrays: tuple[Any, ...]) -> matmul.Prologue:
        """The matrix."""
        strides = contiguous_strides(self.shape)
        found = matmul.Prologue(*self.functions, arrays, self.shape, strides, self.kind)
        return found.transpose(0, 1) if self.turned else found


_ORDERS = (("row", "col"), ("col", "row"))


def _both(source: str) -> tuple[Any, Any]:
    """A function of positions, and that of the transposed positions."""
    one, other = (written.named(_ordered(source, *order)) for order in _ORDERS)
    return one, other


def _ordered(source: str, first: str, second: str) -> str:
    return source.replace("ROW", first).replace("COL", second)
