"""Products whose kernels compute what precedes and follows them: `First` and `Then` of
`gpu/matmul.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch._following.fusing.definitions import Definition, is_dense_row_major, is_of_blocks
from tritorch._following.fusing.groups import Group
from tritorch._following.fusing.writing import beginning, ending
from tritorch._following.lowering import Lowered
from tritorch._following.tape import Form, Value
from tritorch._triton import written
from tritorch.core.layout import contiguous_strides
from tritorch.gpu import matmul
from tritorch.gpu.layout import LONG
from tritorch.ops.record.replacing import is_replaced

MOST = 8  # definitions
MOST_ARRAYS = 4  # that are read beside the product
# With a copy engine, products are faster of matrices in memory: of those that many rows meet; in
# eager's bits, of those for which another kernel would be used.
_FEW_ACROSS, _THIN = 512, 8
_KINDS = ("map", "cast", "view")
_PRODUCTS = ("linear", "mm", "addmm")


def matrices_of(call: Any, forms: Sequence[Form]) -> tuple[int, ...]:
    """The matrices that a call multiplies, if they are of floats and its kernel can go on."""
    if type(call) is not Lowered or call.note.form != "call" or len(call.results) != 1:
        return ()
    if call.note.op.fuses not in _PRODUCTS or is_replaced(call.note.op, "gpu"):
        return ()
    form = forms[call.results[0]]
    if form.kind is not _C.Array or not form.dtype.is_floating_point or form.dtype.is_complex:
        return ()
    given = [x.number for x in call.args if type(x) is Value]
    if not all(forms[n].dtype is form.dtype for n in given) or not is_dense_row_major(form):
        return ()
    return tuple(given[1:3] if call.note.op.fuses == "addmm" else given[:2])


def group_before(
    group: Group, operand: int, shape: tuple[int, int], across: int, exact: bool
) -> Group | None:
    """A group as what computes a matrix of a product, in its rows and columns; None if it cannot
    be, or is better left in memory: it is computed again for each tile of `across` others."""
    form, (rows, columns) = group.forms[operand], shape
    if group.holds or len(group.definitions) > MOST or len(group.inputs) > MOST_ARRAYS:
        return None
    if any(d.kind not in _KINDS or _is_loop(d) for d in group.definitions):
        return None
    if any(group.forms[n].kind is int for n in group.inputs):
        return None
    if sum(_size(group.forms[n]) for n in group.inputs) >= _size(form):
        return None  # the matrix itself is read sooner
    if matmul.newest() >= 90 and across > (_THIN if exact else _FEW_ACROSS):
        return None
    found = Group(group.definitions, rows, group.forms, group.roots)
    return found if found.fits({operand}) and found.columns == columns else None


def is_turned(d: Definition, base: Form) -> bool:
    """Whether a view is the transposed matrix."""
    rows, columns = base.shape if len(base.shape) == 2 else (0, 0)
    return d.shape == (columns, rows) and d.what == (0, (1, columns)) and rows > 0


def _size(form: Form) -> int:
    return math.prod(form.shape) * form.dtype.itemsize


def group_after(group: Group, product: int, read: set[int]) -> Group | None:
    """A group as what follows a product, in its rows and columns; None if it cannot be."""
    form = group.forms[product]
    columns = form.shape[-1]
    rows = math.prod(form.shape) // columns
    if group.holds or len(group.definitions) > MOST or len(group.inputs) > MOST_ARRAYS + 1:
        return None
    if any(d.kind not in _KINDS or _is_loop(d) for d in group.definitions):
        return None
    if any(group.forms[n].kind is int for n in group.inputs):
        return None
    found = Group(group.definitions, rows, group.forms, group.roots)
    if not found.fits(read) or found.columns != columns:
        return None
    outputs = found.outputs(read)
    whole = all(
        math.prod(group.forms[n].shape) == rows * columns and is_dense_row_major(group.forms[n])
        for n in outputs
    )
    return found if whole and outputs and _is_straight(found, product) else None


def _is_loop(d: Definition) -> bool:
    """Whether a function is too long for a product's kernel."""
    return d.kind == "map" and (d.what[0] in LONG or is_of_blocks(d.what[0]))


def _is_straight(group: Group, product: int) -> bool:
    """Whether the product is read in the places in which it is computed alone."""
    size = math.prod(group.forms[product].shape)
    for d in group.definitions:
        for x in d.operands:
            if type(x) is not Value or group.roots.get(x.number, x.number) != product:
                continue
            form = group.forms[x.number]  # of the product, or of a view of it
            if d.kind == "view" or not math.prod(d.shape) == math.prod(form.shape) == size:
                return False
            if not is_dense_row_major(form):
                return False
    return True


class Before(NamedTuple):
    """What computes a matrix of a product."""

    operand: int  # as the product knows it
    made: int  # as its group knows it: the same, or what that is a view of
    shape: tuple[int, int]  # rows and columns of that
    turned: bool  # whether one is the transposed other
    group: Group


class Ended:
    """A product, what computes its matrices, and what follows it, as a function of arrays."""

    def __init__(
        self, call: Lowered, group: Group | None, before: Sequence[Before], forms: Sequence[Form],
        read: set[int], exact: bool,
    ) -> None:  # fmt: skip
        (product,) = call.results
        self.call, self.forms = call, forms
        self._firsts = {each.operand: _Computed(each, exact) for each in before}
        written = [first.written for first in self._firsts.values()]
        self.results: tuple[int, ...] = (product,)
        self.arrays: tuple[int, ...] = ()
        self._then: tuple[Any, Any] | None = None
        if group is not None:
            outputs = group.outputs(read)
            then = ending(group, read, product, outputs[-1], exact)
            self.results, self.arrays = then.outputs, then.arrays
            self._then = _both(then.source)
            written.append(then)
        names = [each.name.partition("_")[2] for each in written]
        self.name = "_".join([call.note.op.name, *names])
        self.source = "\n\n".join(_ordered(each.source, *_ORDERS[0]) for each in written)
        self._places = [
            x.number for x in call.args if type(x) is Value and x.number not in self._firsts
        ]
        read_first = [n for first in self._firsts.values() for n in first.written.arrays]
        self.inputs = (*self._places, *read_first, *self.arrays)
        made = [forms[n] for n in self.results]
        self._kind, self._shape = made[0].dtype, made[0].shape
        self._beside = [(form.shape, form.strides, form.dtype) for form in made[1:]]

    def bytes(self) -> int:
        """What it reads and writes, once each."""
        forms = [self.forms[n] for n in (*self.inputs, *self.results)]
        return sum(_size(form) for form in forms if form.kind is not int)

    def __call__(self, *given: Any) -> Any:
        known = dict(zip(self._places, given))
        at = len(self._places)
        for operand, first in self._firsts.items():
            known[operand] = first.of(given[at : at + first.count])
            at += first.count
        args = [known[x.number] if type(x) is Value else x for x in self.call.args]
        device = given[0].device_index
        beside = [_C.empty_strided(*made, device) for made in self._beside]
        then = None if self._then is None else matmul.Then(*self._then, (*given[at:], *beside))
        addend: Any = None
        numbers: Sequence[float] = (1.0, 1.0)
        if self.call.note.op.fuses == "linear":
            x, w, addend = args
            a, b = x.reshape((math.prod(x.shape[:-1]), x.shape[-1])), w.transpose(0, 1)
        elif self.call.note.op.fuses == "mm":
            a, b = args
        else:
            addend, a, b, *numbers = args
        out = matmul.ended(a, b, addend, numbers, self._kind, then).reshape(self._shape)
        return (out, *beside) if beside else out


class _Computed:
    """A matrix that a product computes, of arrays."""

    def __init__(self, before: Before, exact: bool) -> None:
        self.written = beginning(before.group, before.made, exact)
        self.functions = _both(self.written.source)
        self.count, self.turned = len(self.written.arrays), before.turned
        self.kind = before.group.forms[before.made].dtype
        self.shape = before.shape

    def of(self, arrays: tuple[Any, ...]) -> matmul.First:
        """The matrix."""
        strides = contiguous_strides(self.shape)
        found = matmul.First(*self.functions, arrays, self.shape, strides, self.kind)
        return found.transpose(0, 1) if self.turned else found


_ORDERS = (("row", "col"), ("col", "row"))


def _both(source: str) -> tuple[Any, Any]:
    """A function of places, and that of the transposed places."""
    one, other = (written.named(_ordered(source, *order)) for order in _ORDERS)
    return one, other


def _ordered(source: str, first: str, second: str) -> str:
    return source.replace("ROW", first).replace("COL", second)
