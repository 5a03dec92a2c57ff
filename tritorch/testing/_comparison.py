"""assert_close: of nested lists and dicts of tensors, arrays and numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tritorch.core.dtype import (
    bfloat16,
    complex64,
    complex128,
    dtype as Dtype,
    float16,
    float32,
    float64,
    int64,
)
from tritorch.core.layout import strided
from tritorch.core.promotion import category, promote_types
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor

Number = int | float | complex
Message = str | Callable[[str], str] | None

_TOLERANCES: dict[Dtype, tuple[float, float]] = {
    float16: (1e-3, 1e-5),
    bfloat16: (1.6e-2, 1e-5),
    float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
    complex64: (1.3e-6, 1e-5),
    complex128: (1e-7, 1e-7),
}
_OLD_TOLERANCES: dict[Dtype, tuple[float, float]] = {
    float16: (1e-3, 1e-3),
    float32: (1e-4, 1e-5),
    float64: (1e-5, 1e-8),
}
_NUMBER_KINDS: dict[type, Dtype] = {int: int64, float: float64, complex: complex128}


class _Options(NamedTuple):
    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *kinds: Dtype) -> tuple[float, float]:
        """Those given, or the loosest of what the dtypes stand for."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        known = [_TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
        return max(rtol for rtol, _ in known), max(atol for _, atol in known)


class _Difference(Exception):
    """What is different; becomes an AssertionError (or another) with the item's place."""

    def __init__(self, text: str, kind: type[Exception] = AssertionError) -> None:
        super().__init__(text)
        self.kind = kind
        self.place: tuple[Any, ...] = ()


Check = Callable[[], None]


# ---- numbers -------------------------------------------------------------------------------------


def _allowed(tolerance: float, exact: bool) -> str:
    return "" if exact else f" (up to {tolerance} allowed)"


def _verdict(what: str, rtol: float, atol: float) -> str:
    return f"{what} are not {'equal' if rtol == 0 and atol == 0 else 'close'}!\n\n"


def _compare_numbers(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> None:
    if a == b or (equal_nan and a != a and b != b):
        return
    apart = abs(a - b)
    if math.isfinite(apart) and apart <= atol + rtol * abs(b):
        return
    exact = rtol == 0 and atol == 0
    relative = apart / abs(b) if b != 0 else math.inf
    raise _Difference(
        f"{_verdict('Scalars', rtol, atol)}Expected {b} but got {a}.\n"
        f"Absolute difference: {apart}{_allowed(atol, exact)}\n"
        f"Relative difference: {relative}{_allowed(rtol, exact)}"
    )


def _number_check(actual: Any, expected: Any, options: _Options) -> Check:
    a, b = (x.item() if isinstance(x, np.number) else x for x in (actual, expected))

    def check() -> None:
        if options.check_dtype and type(a) is not type(b):
            raise _Difference(f"The (d)types do not match: {type(a)} != {type(b)}.")
        kinds = [_NUMBER_KINDS.get(type(x), int64) for x in (a, b)]
        _compare_numbers(a, b, *options.tolerances(*kinds), options.equal_nan)

    return check


# ---- tensors -------------------------------------------------------------------------------------


def _as_tensor(x: Any) -> Tensor | None:
    if isinstance(x, Tensor):
        return x
    try:
        return PUBLIC["as_tensor"](x)
    except Exception:
        return None


def _require_same(name: str, a: Any, b: Any) -> None:
    if a != b:
        raise _Difference(f"The values for attribute '{name}' do not match: {a} != {b}.")


def _tensor_check(a: Tensor, b: Tensor, options: _Options) -> Check:
    def check() -> None:
        _require_same("shape", a.shape, b.shape)
        if options.check_layout:
            _require_same("layout", a.layout, b.layout)
        if options.check_device:
            _require_same("device", a.device, b.device)
        if options.check_dtype:
            _require_same("dtype", a.dtype, b.dtype)
        if options.check_stride:
            _require_same("stride()", a.stride(), b.stride())
        x, y = a.detach(), b.detach()
        if x.device != y.device:
            x, y = x.cpu(), y.cpu()
        if x.dtype is not y.dtype:
            kind = promote_types(x.dtype, y.dtype)
            x, y = x.to(kind), y.to(kind)
        _compare_layouts(x, y, *options.tolerances(a.dtype, b.dtype), options.equal_nan)

    return check


_NAMES = {"crow": "col", "ccol": "row"}


def _compare_layouts(a: Tensor, b: Tensor, rtol: float, atol: float, equal_nan: bool) -> None:
    """Tensors of any layout; sparse ones by their parts."""
    if a.layout is not b.layout:
        a, b = a.to_dense(), b.to_dense()
    if a.layout is strided:
        _compare_tensors(a, b, rtol, atol, equal_nan)
        return
    kind = a.layout.name[7:].upper()
    if a.is_sparse:
        if a.is_coalesced() != b.is_coalesced():
            a, b = a.coalesce(), b.coalesce()
        parts = {"indices": (a._indices(), b._indices())}
    else:
        first = "crow" if kind in ("CSR", "BSR") else "ccol"
        names = (f"{first}_indices", f"{_NAMES[first]}_indices")
        parts = {name: (getattr(a, name)(), getattr(b, name)()) for name in names}
    if a._nnz() != b._nnz():
        raise _Difference(
            f"The number of specified values in sparse {'COO' if a.is_sparse else kind} tensors "
            f"does not match: {a._nnz()} != {b._nnz()}"
        )
    for name, (x, y) in parts.items():
        _compare_tensors(x, y, 0, 0, False, f"Sparse {kind} {name}")
    values = (a._array.values, b._array.values)
    _compare_tensors(*values, rtol, atol, equal_nan, f"Sparse {kind} values")


def _compare_tensors(
    a: Tensor, b: Tensor, rtol: float, atol: float, equal_nan: bool, what: str = "Tensor-likes"
) -> None:
    close = PUBLIC["isclose"](a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(close.all()):
        return
    if not a.ndim:
        _compare_numbers(a.item(), b.item(), rtol, atol, equal_nan)
        return
    if category(a.dtype) < 2:
        a, b = a.to(int64), b.to(int64)
    elif a.dtype.itemsize == 1:
        a, b = a.to(float32), b.to(float32)
    exact = rtol == 0 and atol == 0
    wrong, total = int(close.logical_not().sum()), close.numel()
    apart = (a - b).abs().masked_fill(close, 0)
    relative = (apart / b.abs()).masked_fill(close, 0)
    lines = [f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"]
    for name, values, tolerance in (("absolute", apart, atol), ("relative", relative, rtol)):
        flat = int(values.argmax())
        place = tuple(int(i) for i in np.unravel_index(flat, tuple(values.shape)))
        lines.append(
            f"Greatest {name} difference: {values.reshape(-1)[flat].item()} at index {place}"
            f"{_allowed(tolerance, exact)}"
        )
    raise _Difference(_verdict(what, rtol, atol) + "\n".join(lines))


# ---- pairs ---------------------------------------------------------------------------------------


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, (str, bytes))


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.number))


def _is_bool(x: Any) -> bool:
    return isinstance(x, (bool, np.bool_))


def _pairs(
    actual: Any, expected: Any, options: _Options, place: tuple[Any, ...]
) -> Iterator[tuple[Check, tuple[Any, ...]]]:
    """The comparisons that there are to make, each with its place."""

    def fail(text: str, kind: type[Exception] = AssertionError) -> _Difference:
        out = _Difference(text, kind)
        out.place = place
        return out

    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise fail(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for i, (a, b) in enumerate(zip(actual, expected)):
            yield from _pairs(a, b, options, (*place, i))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        missing, extra = set(expected) - set(actual), set(actual) - set(expected)
        if missing or extra:
            raise fail(
                f"The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing)}\n"
                f"Additional keys in the actual mapping: {sorted(extra)}"
            )
        keys = list(actual)
        try:
            keys.sort()
        except TypeError:
            pass  # of several types: in their order
        for key in keys:
            yield from _pairs(actual[key], expected[key], options, (*place, key))
    else:
        check = _leaf(actual, expected, options)
        if check is None:
            raise fail(
                f"No comparison pair was able to handle inputs of type {type(actual)} and "
                f"{type(expected)}.",
                TypeError,
            )
        yield check, place


def _leaf(actual: Any, expected: Any, options: _Options) -> Check | None:
    if actual is None or expected is None:
        return lambda: _same_object("None", actual, expected)
    if _is_bool(actual) and _is_bool(expected):
        return lambda: _same_object("Booleans", bool(actual), bool(expected))
    if _is_number(actual) and _is_number(expected):
        return _number_check(actual, expected, options)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not related or (not options.allow_subclasses and type(actual) is not type(expected)):
        return None
    a, b = _as_tensor(actual), _as_tensor(expected)
    return None if a is None or b is None else _tensor_check(a, b, options)


def _same_object(what: str, actual: Any, expected: Any) -> None:
    if actual is not expected:
        raise _Difference(f"{what} mismatch: {actual} is not {expected}")


# ---- public --------------------------------------------------------------------------------------


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere."""
    __tracebackhide__ = True
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    options = _Options(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout,
        check_stride,
    )  # fmt: skip
    found: _Difference | None = None
    try:
        for check, place in list(_pairs(actual, expected, options, ())):
            try:
                check()
            except _Difference as difference:
                difference.place = place
                raise
    except _Difference as difference:
        found = difference
    if found is not None:
        raise found.kind(_message(found, msg if found.kind is AssertionError else None))


def _message(difference: _Difference, msg: Message) -> str:
    text = str(difference)
    if difference.place:
        text += f"\n\nThe failure occurred for item {''.join(f'[{i!r}]' for i in difference.place)}"
    if callable(msg):
        return msg(text)
    return text if msg is None else msg


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """assert_close as it was once: wider tolerances, and anything that makes a tensor."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, Tensor):
        actual = PUBLIC["tensor"](actual)
    if not isinstance(expected, Tensor):
        expected = PUBLIC["tensor"](expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        known = [_OLD_TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (actual, expected)]
        rtol, atol = max(r for r, _ in known), max(a for _, a in known)
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
        msg=msg or None,
    )  # fmt: skip
