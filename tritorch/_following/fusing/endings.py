"""Products whose kernels go on with what follows them: `Then` of `gpu/matmul.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch import _C
from tritorch._following.fusing.definitions import Definition, is_dense_row_major, is_of_blocks
from tritorch._following.fusing.groups import Group
from tritorch._following.fusing.writing import ending
from tritorch._following.lowering import Lowered
from tritorch._following.tape import Form, Value
from tritorch._triton import written
from tritorch.gpu import matmul
from tritorch.gpu.layout import LONG
from tritorch.ops.record.replacing import is_replaced

MOST = 8  # definitions
MOST_ARRAYS = 4  # that are read beside the product
_KINDS = ("map", "cast", "view")
_PRODUCTS = ("linear", "mm", "addmm")


def is_product(call: Any, forms: Sequence[Form]) -> bool:
    """Whether a call is a product of matrices of floats whose kernel can go on."""
    if type(call) is not Lowered or call.note.form != "call" or len(call.results) != 1:
        return False
    if call.note.op.fuses not in _PRODUCTS or is_replaced(call.note.op, "gpu"):
        return False
    form = forms[call.results[0]]
    if form.kind is not _C.Array or not form.dtype.is_floating_point or form.dtype.is_complex:
        return False
    given = [forms[x.number].dtype for x in call.args if type(x) is Value]
    return all(kind is form.dtype for kind in given) and is_dense_row_major(form)


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


class Ended:
    """A product and what follows it, as a function of arrays."""

    def __init__(self, call: Lowered, group: Group, read: set[int], exact: bool) -> None:
        (product,) = call.results
        outputs = group.outputs(read)
        self.written = ending(group, read, product, outputs[-1], exact)
        self.name = f"{call.note.op.name}_{self.written.name.removeprefix('fused_')}"
        self.call, self.group = call, group
        self.results = self.written.outputs
        names = [written.named(_ordered(self.written.source, *order)) for order in _ORDERS]
        self.function, self.swapped = names
        self.source = _ordered(self.written.source, *_ORDERS[0])
        places = [x.number for x in call.args if type(x) is Value]
        self.inputs = (*places, *self.written.arrays)
        self._n_given = len(places)
        forms = [group.forms[n] for n in self.results]
        self._kind, self._shape = forms[0].dtype, forms[0].shape
        self._beside = [(form.shape, form.strides, form.dtype) for form in forms[1:]]

    def bytes(self) -> int:
        """What is read beside the product's operands, and written."""
        sizes = [self.group.forms[n] for n in (*self.written.arrays, *self.results)]
        return sum(math.prod(form.shape) * form.dtype.itemsize for form in sizes)

    def __call__(self, *given: Any) -> Any:
        values = iter(given[: self._n_given])
        args = [next(values) if type(x) is Value else x for x in self.call.args]
        device = given[0].device_index
        beside = [_C.empty_strided(*made, device) for made in self._beside]
        then = matmul.Then(self.function, self.swapped, (*given[self._n_given :], *beside))
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


_ORDERS = (("row", "col"), ("col", "row"))


def _ordered(source: str, first: str, second: str) -> str:
    return source.replace("ROW", first).replace("COL", second)
