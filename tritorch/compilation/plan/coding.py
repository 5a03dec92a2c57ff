"""Plain data of plans as JSON, both ways: numbers, texts, tuples, dtypes, devices, dynamic sizes,
records' calls.

A tuple is a list; all else that JSON has no word for is an object of one item, whose name says what
it is.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tritorch import _C
from tritorch.arrays.arrays import ndarray
from tritorch.compilation.dynamic_shapes.symbols import DynamicNumber
from tritorch.compilation.follow.tape import Form, Note, NoteForm, Value
from tritorch.core import dtype as dtypes, layout
from tritorch.core.device import device as Device
from tritorch.core.dispatching import COPY
from tritorch.core.dtype import from_numpy_dtype
from tritorch.ops.random.random import RESERVE
from tritorch.ops.record.checks import LOOKING, ValueCheck
from tritorch.ops.record.operator import OPERATORS

_DEEPEST = 32
_OPERATIONS = frozenset("+-*/%dmM=!<,>.&|nirfN~")


def _last_name(x: Any) -> str:
    """The name of a constant of torch's, whatever the package is called."""
    return str(x).rpartition(".")[2]


_DTYPES: dict[str, Any] = {x.name: x for x in vars(dtypes).values() if type(x) is dtypes.dtype}
_FORMATS: dict[str, Any] = {
    _last_name(x): x
    for x in vars(layout).values()
    if type(x) in (layout.memory_format, layout.layout)
}
_ERRORS: dict[str, Any] = {x.__name__: x for x in (RuntimeError, ValueError, IndexError, TypeError)}
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class PackageError(RuntimeError):
    """A program cannot be packaged, or a file is no package that can be used here; says why."""


def dtype_of(name: Any) -> Any:
    """The dtype of a name."""
    if not isinstance(name, str) or name not in _DTYPES:
        raise PackageError(f"there is no dtype {name!r}")
    return _DTYPES[name]


def encoded(x: Any) -> Any:
    """The data as JSON can write it."""
    if x is None or type(x) in (bool, int, str):
        return x
    if isinstance(x, enum.StrEnum):
        return x.value
    if type(x) is float:
        return x if math.isfinite(x) else {"float": str(x)}
    if type(x) is Value:
        return {"value": x.number}
    if isinstance(x, tuple):
        return [encoded(item) for item in x]
    for name, (kind, write, _) in _KINDS.items():
        if isinstance(x, kind):
            return {name: write(x)}
    raise PackageError(f"{x!r}, a {type(x).__qualname__}, has no place in a package")


class Reader:
    """Reads what `encoded` wrote.  values, numbers: how many there are; device: that of a plan."""

    def __init__(self, values: int = 0, numbers: int = 0, device: Any = None) -> None:
        self.values, self.numbers, self.device = values, numbers, device

    def __call__(self, x: Any, depth: int = 0) -> Any:
        """The data."""
        if depth > _DEEPEST:
            raise PackageError("data is nested too deeply")
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        if isinstance(x, list):
            return tuple(self(item, depth + 1) for item in x)
        if isinstance(x, dict) and len(x) == 1:
            ((name, given),) = x.items()
            if name == "value":
                return Value(self.value(given))
            if name in _KINDS:
                return _KINDS[name][2](self, given, depth + 1)
        raise PackageError(f"{str(x)[:80]} is no data of a package")

    def value(self, number: Any) -> int:
        """The number of a value."""
        return whole(number, 0, self.values - 1)


def whole(x: Any, low: int = 0, high: float = math.inf) -> int:
    """An integer between two others."""
    if type(x) is not int or not low <= x <= high:
        raise PackageError(f"{str(x)[:40]} is no integer from {low} to {high}")
    return x


def _text(x: Any) -> str:
    if not isinstance(x, str):
        raise PackageError(f"{str(x)[:40]} is no text")
    return x


def _read_dynamic(reader: Reader, given: Any, depth: int) -> Any:
    if not isinstance(given, list) or len(given) != 2 or not isinstance(given[1], list):
        raise PackageError("a dynamic number is not written as one")
    code = []
    for part in given[1]:
        if not isinstance(part, list) or len(part) != 2 or part[0] not in _OPERATIONS:
            raise PackageError("a dynamic number has an unknown operation")
        sign, operand = part
        if sign == "n":
            whole(operand, 0, reader.numbers - 1)
        elif sign == "i":
            whole(operand, -(2**63), 2**63 - 1)
        elif (type(operand) is not float) if sign == "r" else (operand is not None):
            raise PackageError("a dynamic number has a wrong operand")
        code.append((sign, operand))
    try:
        return DynamicNumber(tuple(code), _text(given[0]))
    except (TypeError, ValueError, OverflowError) as error:
        raise PackageError(f"a dynamic number: {error}") from None


def _read_device(reader: Reader, given: Any, depth: int) -> Any:
    if given == "own" and reader.device is not None:
        return reader.device
    if given == "cpu":
        return Device("cpu")
    raise PackageError(f"there is no device {given!r} in a package")


def _read_slice(reader: Reader, given: Any, depth: int) -> slice:
    return slice(*_fields(reader, given, 3, depth))


def _read_complex(reader: Reader, given: Any, depth: int) -> complex:
    real, imaginary = _fields(reader, given, 2, depth)
    if type(real) is not float or type(imaginary) is not float:
        raise PackageError("a complex number has two floats")
    return complex(real, imaginary)


def _fields(reader: Reader, given: Any, count: int, depth: int) -> tuple[Any, ...]:
    found = reader(given, depth)
    if type(found) is not tuple or len(found) != count:
        raise PackageError(f"{str(given)[:40]} has not {count} parts")
    return found


def _of(table: dict[str, Any], what: str) -> Callable[..., Any]:
    def read(reader: Reader, given: Any, depth: int) -> Any:
        if not isinstance(given, str) or given not in table:
            raise PackageError(f"there is no {what} {str(given)[:40]!r}")
        return table[given]

    return read


def _function_out(x: Any) -> str:
    name = f"{x.__module__}.{x.__name__}"
    if LOOKING.get(name) is not x:
        raise PackageError(f"{name} has no place in a package")
    return name


def _error_out(x: type[Any]) -> str:
    if _ERRORS.get(x.__name__) is not x:
        raise PackageError(f"{x.__qualname__} has no place in a package")
    return x.__name__


# By name: the type, the writer of its JSON, and the reader.
_KINDS: dict[str, tuple[Any, Callable[[Any], Any], Callable[..., Any]]] = {
    "float": ((), str, _of(_FLOATS, "float")),
    "open": (DynamicNumber, lambda x: [str(x), [list(part) for part in x.code]], _read_dynamic),
    "dtype": (dtypes.dtype, lambda x: x.name, lambda reader, given, depth: dtype_of(given)),
    "device": (Device, lambda x: "cpu" if x.type == "cpu" else "own", _read_device),
    "format": ((layout.memory_format, layout.layout), _last_name, _of(_FORMATS, "format")),
    "slice": (slice, lambda x: [encoded(n) for n in (x.start, x.stop, x.step)], _read_slice),
    "complex": (complex, lambda x: [encoded(x.real), encoded(x.imag)], _read_complex),
    "function": (FunctionType, _function_out, _of(LOOKING, "function")),
    "error": (type, _error_out, _of(_ERRORS, "error")),
    "list": (list, lambda x: [encoded(item) for item in x],
             lambda reader, given, depth: list(_fields(reader, given, len(given), depth))),
}  # fmt: skip


# ---- arrays and calls ----------------------------------------------------------------------------

FORMS = (  # that a file may have
    NoteForm.CALL, NoteForm.POINTWISE, NoteForm.IN_PLACE, NoteForm.MAKE, NoteForm.COPY,
    NoteForm.DRAW, NoteForm.CHECK,
)  # fmt: skip
_OF_NO_RECORD: dict[str, Any] = {NoteForm.COPY: COPY, NoteForm.DRAW: RESERVE}


def form_out(form: Form) -> list[Any]:
    """The form of an array as JSON can write it."""
    if form.kind is int:
        return ["number"]
    if form.kind is ndarray:
        name = from_numpy_dtype(form.dtype).name
    elif form.kind is _C.Array:
        name = form.dtype.name
    else:
        raise PackageError(f"a {form.kind.__name__} has no place in a package")
    return ["cpu" if form.kind is ndarray else "own", name, list(form.shape), list(form.strides)]


def form_in(row: Any, own: type) -> Form:
    """The form that `form_out` wrote; own: the type of arrays that are not the CPU's."""
    if row == ["number"]:
        return Form(int, (), None, ())
    where, name, shape, strides = row
    kind = ndarray if where == "cpu" else own
    dtype = dtype_of(name)
    if len(shape) != len(strides) or len(shape) > 64:
        raise PackageError("a value has not as many strides as sizes")
    lengths = tuple(whole(n, 0, 2**62) for n in as_list(shape))
    return Form(kind, lengths, dtype.numpy if kind is ndarray else dtype, _sizes(strides))


def _sizes(x: Any) -> tuple[int, ...]:
    return tuple(whole(n, -(2**62), 2**62) for n in as_list(x))


def as_list(x: Any) -> list[Any]:
    """A list."""
    if not isinstance(x, list):
        raise PackageError(f"{str(x)[:40]} is no list")
    return x


def name_of(note: Note) -> str | None:
    """The name by which a note's record is found; None if it is no record of tritorch's own."""
    if note.form not in FORMS or note.op is None:  # a check that only its block has
        return None
    name = note.op.name
    if note.form == NoteForm.CHECK:
        function = note.op.function
        name = f"{function.__module__}.{function.__name__}"
    return name if _op(note.form, name) == note.op else None


def note_out(note: Note) -> list[Any]:
    """A record's call as JSON can write it."""
    name = name_of(note)
    if name is None:
        what = getattr(note.op, "name", note.form)
        raise PackageError(f"{what} is no record of tritorch's own, which a package could name")
    row = note.form, name, note.inputs, note.params
    try:
        return [encoded(x) for x in row] + [list(note.results), note.several]
    except PackageError as error:
        raise PackageError(f"{note.op.name}: {error}") from None


def note_in(row: Any, read: Reader) -> Note:
    """The call that `note_out` wrote."""
    form, name, inputs, params, results, several = row
    op = _op(form, name)
    if form not in FORMS or op is None:
        raise PackageError(f"there is no record {str(name)[:60]!r}")
    numbers = tuple(whole(n, -1, read.values - 1) for n in as_list(results))
    given = read(inputs), read(params)
    if not all(type(x) is tuple for x in given) or type(several) is not bool:
        raise PackageError(f"{name}: the call is none")
    return Note(NoteForm(form), op, *given, numbers, several)


def _op(form: Any, name: Any) -> Any:
    """The record, or its stand-in, of a call's form and name; None if there is no such thing."""
    if form == NoteForm.CHECK:
        return ValueCheck(LOOKING[name]) if name in LOOKING else None
    return _OF_NO_RECORD.get(form) or OPERATORS.get(name)
