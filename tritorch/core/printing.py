"""`repr` of tensors, in PyTorch's format."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tritorch.arrays.arrays import as_numbers
from tritorch.arrays.meta import MetaArray, is_fake
from tritorch.arrays.sparse import BY_ROW
from tritorch.core import defaults, dtype as dtypes, late_bound, scopes
from tritorch.core.dtype import FROM_ML_DTYPES
from tritorch.core.layout import strided
from tritorch.core.tensor import Tensor


class PrinterOptions:
    """How tensors are printed."""

    def __init__(
        self, precision: int = 4, threshold: float = 1000, edgeitems: int = 3, linewidth: int = 80,
        sci_mode: bool | None = None,
    ) -> None:  # fmt: skip
        self.precision, self.threshold, self.edgeitems = precision, threshold, edgeitems
        self.linewidth, self.sci_mode = linewidth, sci_mode

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        return type(other) is PrinterOptions and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


PrinterOptions.__name__ = PrinterOptions.__qualname__ = "__PrinterOptions"
OPTIONS = PrinterOptions()
_PROFILES = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, math.inf, 3, 80),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors are printed."""
    if profile is not None:
        (OPTIONS.precision, OPTIONS.threshold, OPTIONS.edgeitems, OPTIONS.linewidth) = _PROFILES[
            profile
        ]
    for name, value in (
        ("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems),
        ("linewidth", linewidth),
    ):  # fmt: skip
        if value is not None:
            setattr(OPTIONS, name, value)
    OPTIONS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """How tensors are printed, as a dict."""
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    return {name: getattr(OPTIONS, name) for name in names}


class _Formatter:
    """One format for all shown elements."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.floats = values.dtype.kind == "f"
        self.int_mode, self.sci_mode, self.width = True, False, 1
        flat = values.reshape(-1)
        if not self.floats:
            self.width = max((len(str(v)) for v in flat.tolist()), default=1)
            return
        # Zeros, infinities and nans are padded to the width of the rest, and do not widen it.
        finite = flat[np.isfinite(flat) & (flat != 0)].astype(np.float64)
        if finite.size == 0:
            return
        sizes = np.abs(finite)
        largest, smallest = float(sizes.max()), float(sizes.min())
        self.int_mode = bool((finite == np.ceil(finite)).all())
        self.sci_mode = largest / smallest > 1000 or largest > 1.0e8 or smallest < 1.0e-4
        if OPTIONS.sci_mode is not None:
            self.sci_mode = OPTIONS.sci_mode
        self.width = max(len(self.format(value)) for value in finite.tolist())

    def format(self, value: Any) -> str:
        if not self.floats:
            return str(value)
        if self.sci_mode:
            return f"{value:.{OPTIONS.precision}e}"
        if self.int_mode:
            return f"{value:.0f}." if math.isfinite(value) else str(value)
        return f"{value:.{OPTIONS.precision}f}"

    def __call__(self, value: Any) -> str:
        return self.format(value).rjust(self.width)


class _ComplexFormatter:
    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.real, self.imag = _Formatter(values.real), _Formatter(values.imag)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = self.imag.format(value.imag)
        sign = "" if imag.startswith("-") else "+"
        return f"{self.real(value.real)}{sign}{imag}j"


def _summarised(values: np.ndarray[Any, Any], summarise: bool) -> np.ndarray[Any, Any]:
    """The elements that are shown."""
    edge = OPTIONS.edgeitems
    if not summarise:
        return values
    for dim in range(values.ndim):
        n = values.shape[dim]
        if n > 2 * edge:
            values = np.take(values, [*range(edge), *range(n - edge, n)], axis=dim)
    return values


def _vector(values: Any, indent: int, summarise: bool, formatter: Any) -> str:
    per_line = max(1, (OPTIONS.linewidth - indent) // (formatter.width + 2))
    edge = OPTIONS.edgeitems
    if summarise and not edge:
        data = ["..."]
    elif summarise and len(values) > 2 * edge:
        data = [*map(formatter, values[:edge].tolist()), " ...",
                *map(formatter, values[len(values) - edge :].tolist())]  # fmt: skip
    else:
        data = [formatter(v) for v in values.tolist()]
    lines = [data[i : i + per_line] for i in range(0, len(data), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"


def _nested(values: Any, indent: int, summarise: bool, formatter: Any) -> str:
    if values.ndim == 0:
        return formatter(values.item())
    if values.ndim == 1:
        return _vector(values, indent, summarise, formatter)
    edge = OPTIONS.edgeitems
    inner = lambda v: _nested(v, indent + 1, summarise, formatter)
    if summarise and len(values) > 2 * edge:
        parts = [*map(inner, values[:edge]), "...", *map(inner, values[len(values) - edge :])]
    else:
        parts = [inner(v) for v in values]
    joint = "," + "\n" * (values.ndim - 1) + " " * (indent + 1)
    return "[" + joint.join(parts) + "]"


def contents_of(tensor: Tensor, indent: int) -> str:
    """The elements, in brackets."""
    array = tensor._array
    if type(array) is MetaArray:
        return "..."
    host = array if type(array) is np.ndarray else array.numpy()
    if host.size == 0:
        return "[]"
    summarise = host.size > OPTIONS.threshold
    if host.dtype.name in FROM_ML_DTYPES:
        host = host.astype(np.float32)
    elif host.dtype.names:
        host = as_numbers(host)
    shown = _summarised(host, summarise)
    formatter: Any = _ComplexFormatter(shown) if host.dtype.kind == "c" else _Formatter(shown)
    return _nested(host, indent, summarise, formatter)


def _part(name: str, tensor: Tensor) -> str:
    """A part of a sparse tensor: "values=tensor(...)"."""
    prefix = f"{name}=tensor("
    indent = len(prefix) + len("tensor(")
    suffixes = [f"size={tuple(tensor.shape)}"] if tensor.numel() == 0 else []
    return add_suffixes(prefix + contents_of(tensor, indent), suffixes, indent)


def _sparse_contents(tensor: Tensor) -> tuple[str, list[str]]:
    """The parts of a sparse tensor, each on its line, and what is said after them."""
    array = tensor._array
    joint = ",\n" + " " * len("tensor(")
    size = [f"size={tuple(tensor.shape)}", f"nnz={array.nnz}"]
    if array.plain is None:
        parts = [_part("indices", array.indices), _part("values", array.values)]
        return joint.join([*parts, ", ".join(size)]), []
    names = ("crow", "col") if array.layout in BY_ROW else ("ccol", "row")
    parts = [
        _part(f"{names[0]}_indices", array.indices), _part(f"{names[1]}_indices", array.plain),
        _part("values", array.values),
    ]  # fmt: skip
    return joint.join(parts), size


def tensor_str(tensor: Tensor, contents: str | None = None) -> str:
    """The repr of a tensor."""
    kind = type(tensor)
    prefix = "tensor(" if kind is Tensor or kind.__name__ == "Parameter" else f"{kind.__name__}("
    if tensor.is_nested:
        prefix = "nested_tensor("
    if is_fake(tensor._array):
        prefix = "FakeTensor("
    indent = len(prefix)
    suffixes: list[str] = []
    device = tensor.device
    if device.type != defaults.device().type or (device.type == "cuda"):
        suffixes.append(f"device='{device}'")
    default_complex = defaults.dtype().to_complex()
    has_default = tensor.dtype in (defaults.dtype(), default_complex, dtypes.int64, dtypes.bool_)
    if tensor.layout is not strided:
        if not has_default:
            dtype_shown = [f"dtype={tensor.dtype}"]
        else:
            dtype_shown = []
        text, own = _sparse_contents(tensor)
        suffixes = own + suffixes + dtype_shown + [f"layout={tensor.layout}"]
    elif tensor.is_nested:
        with scopes.unrecorded:
            parts = [indented(str(part)) for part in tensor.unbind()]
        text = "[\n" + ",\n".join(parts) + "\n]" if contents is None else contents
    elif tensor._is_described and (contents is None or device.type == "meta"):
        suffixes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not defaults.dtype():
            suffixes.append(f"dtype={tensor.dtype}")
        text = contents_of(tensor, indent) if contents is None else contents
    elif tensor.numel() == 0:
        if tensor.ndim != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not defaults.dtype():
            suffixes.append(f"dtype={tensor.dtype}")
        text = "[]" if contents is None else contents
    else:
        if not OPTIONS.edgeitems:
            suffixes.append(f"size={tuple(tensor.shape)}")
        if not has_default:
            suffixes.append(f"dtype={tensor.dtype}")
        text = contents_of(tensor, indent) if contents is None else contents
    node = tensor._node
    if node is not None:
        name = type(node).__name__
        suffixes.append(f"grad_fn=<{name}>")
    elif tensor._requires_grad:
        suffixes.append("requires_grad=True")
    if tensor._tangent is not None:
        suffixes.append(f"tangent={tensor._tangent}")
    return add_suffixes(prefix + text, suffixes, indent)


def indented(text: str) -> str:
    """Lines moved to the right."""
    return "\n".join(f"  {line}" for line in text.split("\n"))


def add_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """What is said after the elements, in lines that are not too long."""
    parts = [text]
    last = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if last + len(suffix) + 2 > OPTIONS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            last = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            last += len(suffix) + 2
    parts.append(")")
    return "".join(parts)


late_bound.tensor_str = tensor_str
