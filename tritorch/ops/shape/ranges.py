"""Factories of ranges: arange, linspace, logspace, eye, indices of triangles."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch.arrays import arrays
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import META, MetaArray
from tritorch.arrays.symbolic import SymFloat, SymInt
from tritorch.core import defaults, dtype as dtypes, published
from tritorch.core.arguments import Number, type_name
from tritorch.core.dtype import dtype, float64, int64
from tritorch.core.promotion import category, not_implemented
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import (
    TOO_MANY,
    require_int,
    require_known,
    require_options,
    require_out,
    require_storage,
)
from tritorch.ops.record.maker import Maker
from tritorch.ops.record.publishing import public
from tritorch.ops.shape.factory import _check_shape, _finish, place


def _made(
    shape: Callable[..., tuple[int, ...]], make: Callable[..., Any], on_gpu: str = ""
) -> Callable[..., Any]:
    """The function that makes an ndarray, with a device as its last argument; nothing is made for
    one without memory.  on_gpu: the function of gpu/shape/shaping.py, without which it is
    copied."""

    def made(*params: Any) -> Any:
        *values, where = params
        if where.backend == "meta":
            return MetaArray(shape(*values), values[-1], None, where)
        if on_gpu and where.backend == "cuda":
            return getattr(backend("gpu", "shaping"), on_gpu)(*values, where.index or 0)
        return arrays.move(make(*values), where)

    return made


def _place(device: Any, out: Any) -> Any:
    return place(out.device if out is not None and device is None else device)


def _number(x: Tensor) -> Any:
    """The number in a tensor; any one of its dtype for a tensor without memory."""
    return x.dtype.numpy.type(0).item() if x._is_described else x.item()


def _count(start: Any, end: Any, step: Any, kind: dtype) -> Any:
    if SymInt in (type(start), type(end), type(step)):
        return -((start - end) // step)
    if kind is int64:
        return max(-(-(end - start) // step), 0)
    return max(math.ceil((end - start) / step), 0)


def _steps(start: Any, end: Any, step: Any, kind: dtype, where: Any) -> Any:
    count = _count(start, end, step, kind)
    if where.backend == "meta":
        return MetaArray((count,), kind, None, where)
    if where.backend == "cuda":
        from tritorch.gpu.shape import shaping

        return shaping.arange(start, step, count, kind, where.index or 0)
    if kind is int64 and start > -_FAR and step > 0 and start + count * step < _FAR:
        return np.arange(start, start + count * step, step, dtype=np.int64)
    steps = np.arange(count, dtype=np.int64 if category(kind) < 2 else np.float64)
    return arrays.cast(start + steps * step, kind)


_INT = frozenset((int,))
_FAR = 1 << 40  # less than what memory or an integer holds


def _integers(*bounds: int) -> tuple[int, int, int] | None:
    """Start, end and step of a usual range of integers; None of any other."""
    if not 1 <= len(bounds) <= 3:
        return None
    if len(bounds) == 1 and not isinstance(bounds[0], _NUMBERS):
        raise TypeError(
            f"arange(): argument 'end' (position 1) must be Number, not {type_name(bounds[0])}"
        )
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    usual = step > 0 and -_FAR < start <= end < _FAR and end - start < step * TOO_MANY
    return (start, end, step) if usual else None


_arange = Maker(
    "arange", "start end step kind device", _steps,
    schema="arange.start_step(start, end, step, dtype=kind, device=device)", fuses="iota",
)  # fmt: skip


def _ranged(made: Tensor, requires_grad: bool, out: Tensor | None) -> Tensor:
    """The numbers, in an output's own shape where it has room for just as many."""
    if out is not None and out.numel() == made.numel():
        made = made.reshape(out.shape)
    return _finish(made, requires_grad, out)


@public(method=False)
def arange(
    *args: Any,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Tensor:
    """Values from start to end (excluded) by step."""
    require_options("arange", dtype, layout, requires_grad, pin_memory)
    if out is not None:
        require_out("arange", out, dtype, layout, device)
    if not named and out is None and dtype in (None, int64) and _INT.issuperset(map(type, args)):
        whole = _integers(*args)
        if whole is not None:
            return _finish(_arange(*whole, int64, place(device)), requires_grad, None)
    require_known("arange", named, "start", "end", "step")
    bounds = [*args]
    for name in ("start", "end", "step") if named else ():
        if name in named:
            if name == "end" and not bounds and "start" not in named:
                bounds.append(0)
            bounds.append(named[name])
    if not 1 <= len(bounds) <= 3:
        raise TypeError(
            "arange() received an invalid combination of arguments - got "
            f"({', '.join(map(type_name, bounds))}), but expected one of:\n * (Number end)\n"
            " * (Number start, Number end)\n * (Number start, Number end, Number step = 1)\n"
        )
    if len(bounds) == 1 and not isinstance(bounds[0], _NUMBERS):
        raise TypeError(
            f"arange(): argument 'end' (position 1) must be Number, not {type_name(bounds[0])}"
        )
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    start, end, step = (
        value.item() if isinstance(value, Tensor) else value for value in (start, end, step)
    )
    if SymInt in (type(start), type(end), type(step)):
        where = _place(device, out)
        where = where if where.backend == "meta" else META
        return _ranged(_arange(start, end, step, dtype or int64, where), requires_grad, out)
    kind = dtype if dtype is not None else out.dtype if out is not None else None
    if kind is not None and category(kind) in (0, 3):
        raise not_implemented("arange_cpu", kind)
    if any(isinstance(value, complex) for value in (start, end, step)):
        raise RuntimeError("value cannot be converted to type double without overflow")
    if kind is None:
        floats = any(isinstance(value, (float, np.floating)) for value in (start, end, step))
        kind = defaults.dtype() if floats else int64
    if step == 0:
        raise RuntimeError("step must be nonzero")
    for value in (start, end, step):
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if category(kind) < 2:
        # The sizes are counted in doubles, but for the largest type.
        whole = int(start), int(end), int(step)
        if whole[2] == 0:
            raise ValueError("step must be nonzero")
        if kind is not int64:  # the end that gives as many steps of whole numbers
            count = max(math.ceil((end - start) / step), 0)
            whole = whole[0], whole[0] + count * whole[2], whole[2]
        start, end, step = whole
    _check_shape((_count(start, end, step, kind),))
    return _ranged(_arange(start, end, step, kind, _place(device, out)), requires_grad, out)


def inclusive_range(
    start: Number, end: Number | None = None, step: Number = 1, **options: Any
) -> Tensor:
    """Values from start to end (included) by step (deprecated)."""
    if end is None:
        start, end = 0, start
    known = ("out", "dtype", "layout", "device", "requires_grad", "pin_memory")
    require_known("range", options, *known)
    defaults.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        stacklevel=2,
    )
    options.setdefault("dtype", defaults.dtype())
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    return arange(0, count, **options) * step + start


inclusive_range.__name__ = "range"
PUBLIC["range"] = inclusive_range


def _check_steps(name: str, start: Any, end: Any, steps: Any, kind: dtype | None) -> None:
    if isinstance(steps, float):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got (int, int, float)"
        )
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    require_storage((steps,))
    for value in (start, end):
        if isinstance(value, Tensor) and value.ndim:
            raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors")


def _device_of(ends: Sequence[Any], device: Any, out: Any) -> Any:
    """Where a line between two ends is made: numbers that are not known make one without memory."""
    devices = [end.device for end in ends if isinstance(end, Tensor)]
    if META in devices:
        return META
    return devices[0] if devices and device is None and out is None else device


def _linear_kind(start: Any, end: Any, kind: dtype | None) -> dtype:
    if kind is not None:
        return kind
    if isinstance(start, complex) or isinstance(end, complex):
        return defaults.dtype().to_complex()
    return defaults.dtype()


@public(method=False)
def linspace(
    start: Any, end: Any, steps: int, *, out: Tensor | None = None, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` values from start to end, evenly spaced."""
    require_options("linspace", dtype, layout, requires_grad, pin_memory)
    if out is not None:
        require_out("linspace", out, dtype, layout, device)
    _check_steps("linspace", start, end, steps, dtype)
    if isinstance(start, Tensor) or isinstance(end, Tensor):
        device = _device_of((start, end), device, out)
        if _batched((start, end)):
            return _line_of_tensors(start, end, int(steps), dtype or defaults.dtype())
        start, end = (_number(v) if isinstance(v, Tensor) else v for v in (start, end))
    kind = _linear_kind(start, end, dtype or (out.dtype if out is not None else None))
    if kind.name == "bool":
        raise not_implemented("linspace_cpu", kind)
    if category(kind) < 3 and (isinstance(start, complex) or isinstance(end, complex)):
        raise RuntimeError(
            f"torch.linspace(): inferred dtype {defaults.dtype().to_complex()} can't be safely "
            f"cast to passed dtype {kind}"
        )
    made = _linspace(start, end, int(steps), kind, _place(device, out))
    return _ranged(made, requires_grad, out)


def _batched(ends: Sequence[Any]) -> bool:
    return any(isinstance(end, Tensor) and type(end._array) is BatchedArray for end in ends)


def _line_of_tensors(start: Any, end: Any, steps: int, kind: dtype) -> Tensor:
    """The same of ends that differ from example to example."""
    i = arange(steps, dtype=float64)
    step = (end - start) / max(steps - 1, 1)
    low, high = start + i * step, end - (steps - 1 - i) * step
    return published.public.where(i < max(steps // 2, 1), low, high).to(kind)


_KEPT = 256  # values up to which a line is kept for the next call


def _line(start: Any, end: Any, steps: int, kind: dtype) -> np.ndarray[Any, Any]:
    """Values from start to end at equal distances: a new array."""
    if steps > _KEPT or not (_is_key(start) and _is_key(end)):
        return _new_line(start, end, steps, kind)
    return _kept_line(start, end, steps, kind).copy()


def _is_key(number: Any) -> bool:
    """True if numbers that are equal to a number, and of its type, are it: 0.0 and -0.0 differ."""
    return type(number) is int or (type(number) is float and number != 0)


def _new_line(start: Any, end: Any, steps: int, kind: dtype) -> np.ndarray[Any, Any]:
    wide = np.complex128 if kind.is_complex else np.float64
    if steps == 1:
        return arrays.cast(np.array([start], wide), kind)
    if steps == 0:
        return np.empty(0, kind.numpy)
    if category(kind) < 2:
        start, end = int(start), int(end)
    start, end, step = arrays.line_ends(start, end, steps, kind)
    # From both ends, so that both are exact.
    half = steps // 2
    with np.errstate(invalid="ignore"):
        low = start + np.arange(half) * step
        high = end - np.arange(steps - 1 - half, -1, -1) * step
    return arrays.cast(np.concatenate((low, high), dtype=wide, casting="unsafe"), kind)


_kept_line = functools.lru_cache(64, typed=True)(_new_line)


_linspace = Maker(
    "linspace", "start end steps kind device", _made(lambda s, e, n, kind: (n,), _line, "linspace"),
    schema="linspace(start, end, steps, dtype=kind, device=device)",
)  # fmt: skip


def _powers(start: Any, end: Any, steps: int, base: float, kind: dtype) -> Any:
    wide = dtypes.complex128 if kind.is_complex else float64
    with np.errstate(all="ignore"):
        exponents = _line(start, end, steps, wide)
        values = np.power(complex(base) if kind.is_complex else float(base), exponents)
    return arrays.cast(values, kind)


_logspace = Maker(
    "logspace", "start end steps base kind device",
    _made(lambda s, e, n, b, kind: (n,), _powers, "logspace"),
    schema="logspace(start, end, steps, base, dtype=kind, device=device)",
)  # fmt: skip


@public(method=False)
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Tensor | None = None,
    dtype: dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` values from base^start to base^end, evenly spaced in the exponent."""
    _check_steps("logspace", start, end, steps, dtype)
    device = _device_of((start, end), device, out)
    if _batched((start, end)):
        exponents = _line_of_tensors(start, end, int(steps), float64)
        return published.public.pow(float(base), exponents).to(dtype or defaults.dtype())
    start, end = (_number(v) if isinstance(v, Tensor) else v for v in (start, end))
    kind = _linear_kind(start, end, dtype or (out.dtype if out is not None else None))
    if kind.name == "bool":
        raise not_implemented("logspace_cpu", kind)
    made = _logspace(start, end, int(steps), float(base), kind, _place(device, out))
    return _ranged(made, requires_grad, out)


_NUMBERS = (int, float, complex, np.number, np.bool_, Tensor, SymInt, SymFloat)
_eye = Maker(
    "eye", "n m kind device",
    _made(lambda n, m, kind: (n, m), lambda n, m, kind: np.eye(n, m, dtype=kind.numpy), "eye"),
    schema="eye.m(n, m, dtype=kind, device=device)",
)  # fmt: skip


@public(method=False)
def eye(
    n: int, m: int | None = None, *, out: Tensor | None = None, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The identity matrix."""
    require_options("eye", dtype, layout, requires_grad, pin_memory)
    require_int("eye", "n", 1, n)
    if out is not None:
        require_out("eye", out, dtype, layout, device)
    m = n if m is None else m
    for value, name in ((n, "n"), (m, "m")):
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    require_storage((n, m))
    kind = dtype or (out.dtype if out is not None else defaults.dtype())
    return _finish(_eye(n, m, kind, _place(device, out)), requires_grad, out)


def _tri_indices(name: str, rows: Any) -> None:
    make = lambda row, col, offset, kind: arrays.cast(np.stack(rows(row, offset, col)), kind)
    shape = lambda *values: make(*values).shape
    maker = Maker(
        name, "row col offset kind device", _made(shape, make, name),
        schema=f"{name}(row, col, offset, dtype=kind, device=device)",
    )  # fmt: skip

    def function(
        row: int, col: int, offset: int = 0, *, dtype: dtype = int64, device: Any = "cpu",
        layout: Any = None, pin_memory: bool = False,
    ) -> Tensor:  # fmt: skip
        return maker(row, col, offset, dtype, place(device))

    function.__name__ = name
    function.__doc__ = "The row and column indices of a triangle, as a 2 x n tensor."
    PUBLIC[name] = function


_tri_indices("tril_indices", lambda n, k, m: np.tril_indices(n, k, m))
_tri_indices("triu_indices", lambda n, k, m: np.triu_indices(n, k, m))
