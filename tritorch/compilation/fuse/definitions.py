"""Definitions: element by element, the results of calls that a written kernel may compute."""

from __future__ import annotations

import enum
import functools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.plan.lowering import meta_tensor
from tritorch.core.dtype import dtype as Dtype
from tritorch.core.layout import contiguous_strides
from tritorch.core.promotion import result_type
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.pointwise import Pointwise
from tritorch.ops.record.replacing import is_replaced
from tritorch.triton import sources

Shape = tuple[int, ...]
ROW = 4096  # elements that are one row, where all are reduced to one number
MOST = 2**31 - 1  # elements: places are counted in 32 bits
_WRITTEN = frozenset((
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
))  # fmt: skip


class Kind(enum.StrEnum):
    """The kinds of definitions; what each has for `params` is in the function that makes it."""

    MAP = "map"  # a scalar function of kernels/ of the elements in the same position
    CAST = "cast"  # the element, in another dtype
    VIEW = "view"  # the element of a value in another position
    CAT = "cat"  # the element of one of several values
    EMBED = "embed"  # the element of a value that is a part of this one, else 0
    ROWS = "rows"  # of a table, the row that an index says, in the same column
    PICK = "pick"  # of a row, the element that an index says
    DROP = "drop"  # dropout, of the numbers that eager draws
    IOTA = "iota"  # the index along the last dim
    FILL = "fill"  # one number
    REDUCE = "reduce"  # of all elements of a row: "sum", "mean", "larger", "smaller"
    SCAN = "scan"  # of a row's elements up to its own: "sum", "prod"; or of those from it on
    COLUMN = "column"  # the sum of all elements of a column
    TOTAL = "total"  # of all elements, where those are many: as REDUCE
    STORE = "store"  # the element, left in the memory of the array that `params` is


class Definition(NamedTuple):
    """The computation of a value.  operands: `Value`s and numbers; params: of its kind."""

    kind: Kind
    name: str
    operands: tuple[Any, ...]
    shape: Shape
    dtype: Dtype
    result: int
    params: Any = None

    @property
    def reads(self) -> list[int]:
        """The values that it reads, numbers too."""
        return [x.number for x in self.operands if type(x) is Value]


def is_written(form: Form) -> bool:
    """True if a written kernel may read or make such an array."""
    return (
        form.kind is _C.Array
        and form.dtype.name in _WRITTEN
        and 0 < math.prod(form.shape) <= MOST
        and sum((n - 1) * s for n, s in zip(form.shape, form.strides)) <= MOST
    )


def is_dense_row_major(form: Form) -> bool:
    """True if an array's elements lie one after the other."""
    return form.strides == contiguous_strides(form.shape)


def has_loop(function: str) -> bool:
    """True if a jit function, or one that it calls, has a loop: a variable that it changes has one
    shape from its start."""
    return _has(function, r"^\s+(for|while)\b")


def is_of_blocks(function: str) -> bool:
    """True if a jit function asks for something of all elements: of a block, of one dim."""
    return _has(function, r"\btl\.(max|min|sum|reduce)\(")


@functools.cache
def _has(function: str, pattern: str) -> bool:
    waiting, seen = [("pointwise", function)], set()
    while waiting:
        found = sources.definition(*waiting.pop())
        if found is None or found in seen:
            continue
        seen.add(found)
        family, text = found
        if re.search(pattern, text, re.MULTILINE):
            return True
        waiting += [(family, name) for name in re.findall(r"\b(\w+)\(", text)]
    return False


def definition(
    note: Note, forms: Sequence[Form], args: tuple[Any, ...] | None = None
) -> Definition | None:
    """The definition of a call's result; None if it has none.

    args: the call's arguments, where some numbers are dynamic values."""
    if note.form == NoteForm.STORE:
        value, target = note.inputs
        return _of(Kind.STORE, note._replace(inputs=(value,)), forms, target.number)
    found = _defined(note, forms)
    if found is None or args is None:
        return found
    given = args[: len(note.inputs)]
    if found.kind in (Kind.DROP, Kind.FILL):
        return found
    if any(type(x) is Value for x in args[len(note.inputs) :]):
        return None
    return found._replace(operands=given)


def _defined(note: Note, forms: Sequence[Form]) -> Definition | None:
    if len(note.results) != 1 or note.several:
        return None
    form = forms[note.results[0]]
    arrays = [forms[x.number] for x in note.inputs if type(x) is Value]
    if not is_written(form) or not all(map(is_written, arrays)):
        return None
    if note.form == NoteForm.POINTWISE:
        return _mapped(note, forms)
    if note.form == NoteForm.COPY:
        return _of(Kind.CAST, note, forms)
    if note.form not in (NoteForm.CALL, NoteForm.MAKE) or any(
        type(x) is Value for x in note.params
    ):
        return (
            _dropped(note, forms)
            if note.form == NoteForm.CALL and note.op.fuses == "drop"
            else None
        )
    if is_replaced(note.op, "gpu"):
        return None
    if note.op.is_view:
        return _viewed(note, forms)
    make = _MAKERS.get(note.op.fuses)
    return make(note, forms) if make is not None else None


def _of(kind: Kind, note: Note, forms: Sequence[Form], params: Any = None) -> Definition:
    form = forms[note.results[0]]
    name = note.op.name if isinstance(note.op, Operator) else kind.value
    return Definition(kind, name, note.inputs, form.shape, form.dtype, note.results[0], params)


def _mapped(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Params: the jit function's name, the dtype of the computation, how many inputs are masks."""
    op = note.op
    if note.params != (None,) or not isinstance(op, Pointwise) or is_replaced(op, "gpu"):
        return None
    metas = [meta_tensor(forms[x.number]) if type(x) is Value else x for x in note.inputs]
    compute = op.compute_dtype(result_type(*metas[op.masks : len(metas) - op.beside]))
    if compute.name not in _WRITTEN or op.narrow.get(compute.name):
        return None
    return _of(Kind.MAP, note, forms, (op.gpu_name, compute, op.masks))


def _viewed(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Params: the offset and the strides by which its base, dense in row-major order, is read."""
    base = forms[note.inputs[0].number]
    dense = MetaArray(base.shape, base.dtype, contiguous_strides(base.shape))
    view = note.op.infer((dense,), note.params)
    form = forms[note.results[0]]
    if type(view) is not MetaArray or view.dtype is not base.dtype or view.shape != form.shape:
        return None
    if view.memory is not dense.memory:
        return None
    return _of(Kind.VIEW, note, forms, (view.offset, tuple(view.strides)))


def _cast(note: Note, forms: Sequence[Form]) -> Definition | None:
    """None if it goes to a device that is named: that may be another one."""
    params = dict(zip(note.op.params, note.params))
    return None if params.get("device") is not None else _of(Kind.CAST, note, forms)


def _cat(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Params: the dim."""
    dtypes = {forms[x.number].dtype for x in note.inputs}
    shapes = [forms[x.number].shape for x in note.inputs]
    if len(dtypes) > 1 or len({len(shape) for shape in shapes}) > 1:
        return None
    return _of(Kind.CAT, note, forms, note.params[0] % len(shapes[0]))


def _embed(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Params: the dim, and where the part begins."""
    shape, dim, start, end, step = note.params
    dim %= len(shape)
    first, last, step = slice(start, end, step).indices(shape[dim])
    x = forms[note.inputs[0].number]
    if step != 1 or x.shape != (*shape[:dim], last - first, *shape[dim + 1 :]):
        return None
    return _of(Kind.EMBED, note, forms, (dim, first))


def _rows(note: Note, forms: Sequence[Form]) -> Definition | None:
    return _of(Kind.ROWS, note, forms)


def _pick(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Picks along the last dim, of rows that all have one index."""
    x, index = (forms[each.number] for each in note.inputs)
    if note.params[0] % max(len(x.shape), 1) != len(x.shape) - 1 or not x.shape:
        return None
    if index.shape[:-1] != x.shape[:-1] or index.shape[-1] != 1:
        return None
    return _of(Kind.PICK, note, forms)


def _dropped(note: Note, forms: Sequence[Form]) -> Definition:
    """Operands: the elements, the seed and the offset; params: the probability."""
    form = forms[note.results[0]]
    p, *drawn = note.params
    return Definition(
        Kind.DROP, "dropout", (*note.inputs, *drawn), form.shape, form.dtype, note.results[0], p
    )  # fmt: skip


def _iota(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Params: the first and the step, of integers; how many."""
    start, _, step = note.params[:3]
    if type(start) is not int or type(step) is not int:
        return None
    return _of(Kind.IOTA, note, forms, (start, step, forms[note.results[0]].shape[0]))


def _filled(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Params: the number."""
    form, (_, *said) = forms[note.results[0]], note.op.fuses.split()
    value = int(said[0]) if said else dict(zip(note.op.params, note.params))["value"]
    if type(value) not in (bool, int, float):
        return None
    return Definition(Kind.FILL, note.op.name, (), form.shape, form.dtype, note.results[0], value)


def _reduced(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Params: (the reduction, how many elements); a column's is the sum over the first dims."""
    x = forms[note.inputs[0].number]
    dims = sorted(dim % len(x.shape) for dim in note.params[0])
    rank, how = len(x.shape), note.op.fuses
    gone = math.prod(x.shape[dim] for dim in dims)
    if gone == math.prod(x.shape):
        is_row = gone <= ROW or len(dims) < rank
        return _of(Kind.REDUCE if is_row else Kind.TOTAL, note, forms, (how, gone))
    last = [dim for dim in range(rank) if x.shape[dim] != 1][-1]
    if all(x.shape[dim] == 1 for dim in range(dims[0], rank) if dim not in dims) and last in dims:
        return _of(Kind.REDUCE, note, forms, (how, gone))
    if how == "sum" and all(x.shape[dim] == 1 for dim in range(dims[-1]) if dim not in dims):
        return _of(Kind.COLUMN, note, forms, (how, gone))
    return None


def _scanned(note: Note, forms: Sequence[Form]) -> Definition | None:
    """Along the last dim.  Params: (the reduction, how many elements, whether from the end)."""
    shape = forms[note.results[0]].shape
    dim = note.params[0] % max(len(shape), 1)
    if not shape or shape[dim] == 1 or math.prod(shape[dim + 1 :]) > 1:
        return None
    _, how, *way = note.op.fuses.split()
    return _of(Kind.SCAN, note, forms, (how, shape[dim], way == ["backwards"]))


_MAKERS = {
    "fill": _filled, "fill 0": _filled, "fill 1": _filled,
    "cast": _cast, "cat": _cat, "embed": _embed, "rows": _rows, "pick": _pick, "iota": _iota,
    "sum": _reduced, "mean": _reduced, "larger": _reduced, "smaller": _reduced,
    "running sum": _scanned, "running prod": _scanned, "running sum backwards": _scanned,
}  # fmt: skip
