"""The text of values in graphs, as PyTorch writes constants: numbers, strings, lists, tensors."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from typing import Any

from tritorch.core.device import device
from tritorch.core.generator import Generator
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.schema import types
from tritorch.schema.infer import infer_type
from tritorch.schema.types import Type

_SHOWN_ELEMENTS = 10  # of a tensor; a larger one is written <Tensor>
_LINE = 80
_ESCAPES = {
    "\\": r"\\", "'": r"\'", '"': r"\"", "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n",
    "\r": r"\r", "\t": r"\t", "\v": r"\v",
}  # fmt: skip


def quoted(text: str) -> str:
    """A string in double quotes; bytes that are not ASCII as PyTorch's octal escapes, which are
    computed with signed characters."""
    return '"' + "".join(_escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if " " <= letter <= "~":
        return letter
    written = ""
    for byte in letter.encode("utf-8", "surrogatepass"):
        signed = byte - 256 if byte > 127 else byte
        digits = []
        for _ in range(3):
            digits.append(chr(ord("0") + int(math.fmod(signed, 8))))
            signed = int(signed / 8)
        written += "\\" + "".join(reversed(digits))
    return written


def float_text(value: float) -> str:
    """A float: `1.`, `0.10000000000000001`, `inf`."""
    if math.isfinite(value) and abs(value) < 1e10 and value == int(value):
        is_negative_zero = value == 0 and math.copysign(1, value) < 0
        return f"{'-' if is_negative_zero else ''}{int(value)}."
    return f"{value:.17g}"


def complex_text(value: complex) -> str:
    """A complex number: `1.+2.j`."""
    sign = "" if math.copysign(1, value.imag) < 0 else "+"
    return f"{float_text(value.real)}{sign}{float_text(value.imag)}j"


def value_text(value: Any, kind: Type | None = None) -> str:
    """A value inside of a constant; kind, its type, tells what an empty list would hold."""
    if isinstance(value, Tensor):
        return tensor_attribute(value)
    if isinstance(value, (list, tuple, dict)):
        return _container_text(value, kind)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, complex):
        return complex_text(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, device):
        return f'torch.device("{value}")'
    if isinstance(value, Generator):
        return f'torch.Generator(device="{value.device}", seed={value.initial_seed()})'
    if isinstance(value, enum.Enum):
        name = kind.annotation_str if isinstance(kind, types.EnumType) else type(value).__name__
        return f"{name}.{value.name}"
    if isinstance(value, ScriptObjectData):
        if value.type.is_module():
            return f"<{value.type.qualified_name()} object at {id(value):#x}>"
        return f"object({id(value):#x})"
    if isinstance(value, Type):
        return str(value)
    return str(value)


def _is_told_by_members(kind: Type) -> bool:
    unclear = (types.OptionalType, types.UnionType, types.NumberType, types.AnyType)
    return not isinstance(kind, unclear) and not kind.is_interface_type()


def _container_text(value: Any, kind: Type | None) -> str:
    if isinstance(value, tuple):
        places = kind.containedTypes() if isinstance(kind, types.TupleType) else [None] * len(value)
        items = [value_text(v, k) for v, k in zip(value, places, strict=True)]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    wanted = types.DictType if isinstance(value, dict) else types.ListType
    if not isinstance(kind, wanted):
        found = infer_type(value)
        kind = found.type() if found.success() else None
    parts = [None, None] if kind is None else kind.containedTypes()
    if isinstance(value, dict):
        items = [f"{value_text(k, parts[0])}: {value_text(v, parts[-1])}" for k, v in value.items()]
        text = "{" + ", ".join(items) + "}"
        comma = ","
    elif value and all(isinstance(item, Tensor) for item in value):
        return "[<Tensors>]"
    else:
        text, comma = f"[{', '.join(value_text(v, parts[0]) for v in value)}]", ", "
    if kind is not None and (not value or not _is_told_by_members(kind.containedTypes()[-1])):
        return f"annotate({kind.annotation_str}{comma}{text})"
    return text


# ---- tensors -------------------------------------------------------------------------------------


def tensor_attribute(tensor: Tensor) -> str:
    """A tensor in a graph: `{1}`, its elements if they are few, `<Tensor>`."""
    count = tensor.numel()
    if count > _SHOWN_ELEMENTS:
        return "<Tensor>"
    if count != 1:
        return tensor_text(tensor).replace("\n", " ")
    value: Any = tensor.reshape(()).item()
    if isinstance(value, complex):
        return f"{{({value.real:.6g},{value.imag:.6g})}}"
    return f"{{{value:.6g}}}" if isinstance(value, float) else f"{{{int(value)}}}"


def tensor_text(tensor: Tensor) -> str:
    """A tensor as C++ prints it, which is what `str(tensor)` gives in TorchScript."""
    kind = f"{tensor.device.type.upper()}{scalar_name(tensor.dtype)}Type"
    shape = tuple(tensor.shape)
    plain = tensor.detach()
    values: Any = (plain.real if plain.dtype.is_complex else plain).tolist()
    lines: list[str] = []
    if not shape:
        lines = [f"{float(values):.6g}\n"]
    elif tensor.numel() and len(shape) == 1:
        scale, write = _format_of(values)
        lines = [_scale_text(scale), *(f"{write(value / scale)}\n" for value in values)]
    elif tensor.numel() and len(shape) == 2:
        lines = [_matrix_text(values, 0)]
    elif tensor.numel():
        for number, (place, matrix) in enumerate(_matrices(values, shape[:-2])):
            where = "".join(f"{index + 1}," for index in place)
            lines += ["\n" * (number > 0), f"({where}.,.) = \n", _matrix_text(matrix, 1)]
    return f"{''.join(lines)}[ {kind}{{{','.join(map(str, shape))}}} ]"


def _matrices(values: Any, sizes: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The matrices of a tensor with their places, of which the first index runs fastest."""
    count = math.prod(sizes)
    for number in range(count):
        place, matrix = [], values
        for size in sizes:
            number, index = divmod(number, size)
            place.append(index)
            matrix = matrix[index]
        yield tuple(place), matrix


def _scale_text(scale: float) -> str:
    return "" if scale == 1 else f"{scale:.17g} *\n"


def _format_of(values: list[Any]) -> tuple[float, Any]:
    """The divisor of all values, and the function that writes one."""
    finite = [float(value) for value in values if math.isfinite(value)]
    smallest = largest = 1.0
    if finite:
        smallest = min(map(abs, finite))
        largest = abs(finite[0])
        for value in finite:
            largest = abs(value) if value > largest else largest
        smallest, largest = (
            math.floor(math.log10(x)) + 1 if x else 1 for x in (smallest, largest)
        )  # fmt: skip
    if all(value == math.ceil(value) for value in finite):
        if largest > 9:
            return 1, lambda value: f"{value:11.4e}"
        return 1, lambda value: f"{float(value):{int(largest) + 1}.6g}"
    if largest - smallest > 4:
        width = 12 if abs(largest) > 99 or abs(smallest) > 99 else 11
        return 1, lambda value: f"{value:{width}.4e}"
    if largest > 5 or largest < 0:
        return 10.0 ** int(largest - 1), lambda value: f"{value:7.4f}"
    width = 7 if largest == 0 else int(largest) + 6
    return 1, lambda value: f"{value:{width}.4f}"


def _width(write: Any) -> int:
    return len(write(1))


def _matrix_text(rows: list[list[Any]], indent: int) -> str:
    scale, write = _format_of([value for row in rows for value in row])
    margin = " " * indent
    columns, per_line = len(rows[0]), (_LINE - indent) // (_width(write) + 1)
    text = ""
    for first in range(0, columns, per_line):
        last = min(first + per_line, columns)
        if per_line < columns:
            text += f"{chr(10) if first else ''}Columns {first + 1} to {last}{margin}"
        if scale != 1:
            text += _scale_text(scale) + margin
        for number, row in enumerate(rows):
            text += " ".join(write(value / scale) for value in row[first:last]) + "\n"
            if number < len(rows) - 1:
                text += margin + (" " if scale != 1 else "")
    return text
