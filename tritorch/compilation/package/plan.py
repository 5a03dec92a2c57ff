"""Plans of packages: a program's records' calls, and its arguments."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tritorch import _C
from tritorch.arrays.arrays import ndarray
from tritorch.compilation.dynamic_shapes.symbols import DynamicNumber
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.compilation.plan.coding import (
    PackageError,
    Reader,
    as_list,
    dtype_of,
    encoded,
    form_in,
    form_out,
    note_in,
    note_out,
    whole,
)


class GivenKind(enum.StrEnum):
    """The kinds of arguments; packages keep the values."""

    TENSOR = "tensor"
    NUMBER = "number"  # a dynamic integer
    CONSTANT = "constant"


class ResultKind(enum.StrEnum):
    """The kinds of results; packages keep the values."""

    VALUE = "value"
    SAME = "same"  # a tensor that was given
    NUMBER = "number"
    CONSTANT = "constant"


class Given(NamedTuple):
    """An argument, by its position among the leaves of all."""

    name: str
    kind: GivenKind
    value: Any  # of a tensor: the number of its value; the integer or the constant
    shape: tuple[Any, ...] = ()  # with dynamic numbers
    strides: tuple[Any, ...] = ()
    dtype: Any = None
    device: str = "own"  # the plan's, or "cpu"


class Free(NamedTuple):
    """A number that each call has its own of: (argument's size or value - addend) / factor."""

    name: str
    low: int
    high: int | None
    argument: int
    dim: int  # -1: the argument is the number
    factor: int
    addend: int


class Result(NamedTuple):
    """A leaf of the results. like: a value whose memory it shows, given or given back before."""

    kind: ResultKind
    value: Any
    like: int | None = None


@dataclass
class Plan:
    """The computation of a program, for arguments of some sizes."""

    device: str  # "cpu", "cuda"
    targets: list[int]  # of GPUs, as 90, whose kernels were compiled
    ones: list[str]  # dynamic sizes of the program that are one
    structure: tuple[Any, Any]  # of arguments and results
    given: list[Given]
    free: list[Free]
    conditions: list[tuple[str, Any]]
    state: list[tuple[str, int]]  # names of weights, and the values that they are
    constants: list[str]  # those of them that are no state of the module's
    forms: list[Form]  # of all values
    notes: list[Note]
    whole: list[bool]  # for each note, whether the record's own call is made
    args: list[dict[int, Any]]  # as in `SymbolicArguments`
    layouts: dict[int, Any]
    alone: list[int]
    written: list[tuple[int, int]]  # values whose memory is written, and how often
    results: list[Result] = field(default_factory=list)

    @property
    def inputs(self) -> list[int]:
        """The values that there are before the first call."""
        tensors = [each.value for each in self.given if each.kind == GivenKind.TENSOR]
        return list(dict.fromkeys([*tensors, *(number for _, number in self.state)]))

    @property
    def kept(self) -> set[int]:
        """The values that are needed at the end."""
        return {each.value for each in self.results if each.kind == ResultKind.VALUE}

    def to_json(self) -> dict[str, Any]:
        """As JSON writes it."""
        found = {name: getattr(self, name) for name in _PLAIN}
        found["given"] = [_row(each, dtype=each.dtype and each.dtype.name) for each in self.given]
        found["free"] = [list(each) for each in self.free]
        found["conditions"] = [[text, encoded(what)] for text, what in self.conditions]
        found["state"] = [list(each) for each in self.state]
        found["forms"] = [form_out(form) for form in self.forms]
        found["notes"] = [note_out(note) for note in self.notes]
        found["args"] = [[[i, encoded(x)] for i, x in args.items()] for args in self.args]
        found["layouts"] = [[i, encoded(x)] for i, x in self.layouts.items()]
        found["written"] = [list(each) for each in self.written]
        found["results"] = [_row(each) for each in self.results]
        return found

    @classmethod
    def from_json(cls, data: Any, device: Any) -> Plan:
        """The plan that JSON has, for a device; PackageError if it is none."""
        try:
            return _read(cls, data, device)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as e:
            raise PackageError(f"the plan is damaged: {type(e).__name__}: {e}") from None


_PLAIN = ("device", "targets", "ones", "structure", "constants", "whole", "alone")


def _row(each: Any, **others: Any) -> list[Any]:
    return [encoded(x) for x in each._replace(**others)]


# ---- reading -------------------------------------------------------------------------------------


def _read(cls: type[Plan], data: Any, device: Any) -> Plan:
    if not isinstance(data, dict) or data.keys() != set(cls.__dataclass_fields__):
        raise PackageError("the plan has other parts")
    if data["device"] not in ("cpu", "cuda"):
        raise PackageError(f"there is no device {data['device']!r}")
    read = Reader(len(data["forms"]), len(data["free"]), device)
    own = ndarray if data["device"] == "cpu" else _C.Array
    forms = [form_in(row, own) for row in data["forms"]]
    found = cls(
        device=data["device"],
        targets=[whole(x) for x in as_list(data["targets"])],
        ones=[str(name) for name in as_list(data["ones"])],
        structure=(data["structure"][0], data["structure"][1]),
        given=[_given(row, read) for row in as_list(data["given"])],
        free=[_free(row) for row in as_list(data["free"])],
        conditions=[(str(text), _dynamic(read(x))) for text, x in as_list(data["conditions"])],
        state=[(str(name), read.value(number)) for name, number in as_list(data["state"])],
        constants=[str(name) for name in as_list(data["constants"])],
        forms=forms,
        notes=[note_in(row, read) for row in as_list(data["notes"])],
        whole=[x is True for x in as_list(data["whole"])],
        args=[{whole(i): read(x) for i, x in row} for row in as_list(data["args"])],
        layouts={read.value(i): _layout(read(x)) for i, x in as_list(data["layouts"])},
        alone=[read.value(number) for number in as_list(data["alone"])],
        written=[(read.value(number), whole(times)) for number, times in as_list(data["written"])],
        results=[_result(row, read) for row in as_list(data["results"])],
    )
    _require_order(found)
    return found


def _dynamic(x: Any) -> Any:
    if type(x) is not DynamicNumber:
        raise PackageError("a condition is none")
    return x


def _given(row: Any, read: Reader) -> Given:
    name, text, value, shape, strides, dtype, device = row
    if text not in [*GivenKind] or device not in ("own", "cpu"):
        raise PackageError(f"there is no argument {str(text)[:40]!r}")
    kind = GivenKind(text)
    if kind != GivenKind.TENSOR:
        return Given(str(name), kind, read(value))
    found = read(shape), read(strides)
    if not len(found[0]) == len(found[1]) <= 64:
        raise PackageError("an argument has not as many strides as sizes")
    for n in (*found[0], *found[1]):
        if type(n) not in (int, DynamicNumber):
            raise PackageError("an argument's size is none")
    return Given(str(name), kind, read.value(value), *found, dtype_of(dtype), device)


def _free(row: Any) -> Free:
    name, low, high, argument, dim, factor, addend = row
    top = None if high is None else whole(high)
    limit = 2**62
    return Free(
        str(name), whole(low, -limit), top, whole(argument), whole(dim, -1),
        whole(factor, 1), whole(addend, -limit, limit),
    )  # fmt: skip


def _layout(x: Any) -> Any:
    shape, strides = x
    if len(shape) != len(strides) or any(
        type(n) not in (int, DynamicNumber) for n in (*shape, *strides)
    ):
        raise PackageError("a layout is none")
    return shape, strides


def _result(row: Any, read: Reader) -> Result:
    text, value, like = row
    if text not in [*ResultKind]:
        raise PackageError(f"there is no result {str(text)[:40]!r}")
    kind = ResultKind(text)
    is_tensor = kind in (ResultKind.VALUE, ResultKind.SAME)
    known = read.value(value) if is_tensor else read(value)
    return Result(kind, known, None if like is None else read.value(like))


def _require_order(plan: Plan) -> None:
    """Refuses plans that read what nobody has given or computed."""
    if not len(plan.notes) == len(plan.whole) or len(plan.args) not in (0, len(plan.notes)):
        raise PackageError("the plan's parts have different lengths")
    known = set(plan.inputs)
    for note in plan.notes:
        read = {x.number for x in (*note.inputs, *note.params) if type(x) is Value}
        if not read <= known:
            raise PackageError(f"{note.op.name} reads what is not computed yet")
        if note.form == NoteForm.IN_PLACE:
            if type(note.inputs[0]) is not Value or note.results != (note.inputs[0].number,):
                raise PackageError(f"{note.op.name} writes nothing that it is given")
        elif any(n in known and n not in read for n in note.results):
            raise PackageError(f"{note.op.name} gives a value that there is")
        elif len({n for n in note.results if n >= 0}) != sum(n >= 0 for n in note.results):
            raise PackageError(f"{note.op.name} gives a value twice")
        if not note.several and len(note.results) != 1:
            raise PackageError(f"{note.op.name} gives nothing")
        known.update(n for n in note.results if n >= 0)
    wanted = [*plan.kept, *(n for n, _ in plan.written), *plan.layouts, *plan.alone]
    wanted += [each.value for each in plan.results if each.kind == ResultKind.SAME]
    if not known.issuperset(wanted) or not _sources_fit(plan):
        raise PackageError("the plan asks for what is not computed")


def _sources_fit(plan: Plan) -> bool:
    for each in plan.free:
        if each.argument >= len(plan.given):
            return False
        given = plan.given[each.argument]
        if given.kind != (
            GivenKind.NUMBER if each.dim < 0 else GivenKind.TENSOR
        ) or each.dim >= len(given.shape):
            return False
    for given in plan.given:
        form = plan.forms[given.value] if given.kind == GivenKind.TENSOR else None
        if form is not None and (form.kind is int or len(form.shape) != len(given.shape)):
            return False
    return all(plan.forms[number].kind is not int for _, number in plan.state)
