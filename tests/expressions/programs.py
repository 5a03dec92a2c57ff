"""Programs as data: a list of statements over v0, v1, ...; what they give, and how two compare.

tools/compare/operators.py draws such programs and runs them with both libraries; what torch gave
is recorded here as chains.json, and held against tritorch by test_chains.py.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

# How far values may differ, relative to the largest one, by dtype.
TOLERANCE = {
    "float64": 1e-9, "float32": 2e-5, "float16": 3e-3, "bfloat16": 2.4e-2,
    "complex128": 1e-9, "complex64": 2e-5, "complex32": 3e-3,
}  # fmt: skip


@functools.lru_cache(4096)
def compiled(statement: str) -> Any:
    """The code of one statement."""
    return compile(statement, "<program>", "exec")


def namespace(torch: Any) -> dict[str, Any]:
    """The names that statements use."""
    nan, inf = float("nan"), float("inf")
    return {"torch": torch, "F": torch.nn.functional, "nan": nan, "inf": inf}


def step(statement: str, names: dict[str, Any]) -> str | None:
    """Runs a statement; the type of the exception that it raised, if one."""
    try:
        with np.errstate(all="warn"):
            exec(compiled(statement), names)
    except Exception as error:
        return type(error).__name__
    return None


def target(statement: str) -> str | None:
    """The variable that a statement binds."""
    name, equals, _ = statement.partition(" = ")
    return name if equals and name.isidentifier() else None


def show(value: Any) -> Any:
    """A value as plain data: what of it is compared."""
    try:
        return _show(value)
    except Exception as error:  # a view that may not be looked at any more
        return {"python": "error", "value": [type(error).__name__]}


def _show(value: Any) -> Any:
    if hasattr(type(value), "requires_grad"):
        plain = value.detach()
        dtype = str(value.dtype).rpartition(".")[2]
        try:
            strides: Any = list(value.stride())
            offset = value.storage_offset()
        except Exception as error:
            strides, offset = type(error).__name__, 0
        return {
            "dtype": dtype,
            "shape": list(value.shape),
            "strides": strides,
            "offset": offset,
            "grad": [value.requires_grad, value.is_leaf],
            "value": _flat(plain.tolist()),
        }
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return {"python": type(value).__name__, "value": _flat(value)}
    if isinstance(value, (tuple, list)):
        return [show(item) for item in value]
    return {"python": "object", "value": [str(value).replace("tritorch", "torch")]}


def _flat(value: Any) -> list[Any]:
    """Nested lists as one; complex numbers as pairs."""
    if isinstance(value, list):
        return [x for item in value for x in _flat(item)]
    return [value.real, value.imag] if isinstance(value, complex) else [value]


def difference(ours: Any, theirs: Any) -> str | None:
    """What differs first, in a word."""
    if isinstance(ours, list) or isinstance(theirs, list):
        if not (isinstance(ours, list) and isinstance(theirs, list)) or len(ours) != len(theirs):
            return "type"
        return next(filter(None, map(difference, ours, theirs)), None)
    if ours is None or theirs is None:
        return None if ours is theirs else "type"
    if ours.get("python") != theirs.get("python"):
        return "type"
    for key in ("dtype", "shape"):
        if ours.get(key) != theirs.get(key):
            return key
    found = _values_differ(ours, theirs)
    if found:
        return found
    if ours.get("grad") != theirs.get("grad"):
        return "requires_grad or is_leaf"
    if ours.get("strides") != theirs.get("strides"):
        return _strides_differ(ours, theirs)
    if ours.get("offset") != theirs.get("offset"):
        return "offset" if ours["value"] else "offset of nothing"
    return None


def _strides_differ(ours: Any, theirs: Any) -> str:
    if not ours["value"]:
        return "strides of nothing"
    if isinstance(ours["strides"], str) or isinstance(theirs["strides"], str):
        return "strides"
    for n, a, b in zip(ours["shape"], ours["strides"], theirs["strides"]):
        if n > 1 and a != b:
            return "strides"
    return "strides of dims of one"


def _values_differ(ours: Any, theirs: Any) -> str | None:
    a, b = ours["value"], theirs["value"]
    if len(a) != len(b):
        return "value"
    dtype = theirs.get("dtype", theirs.get("python"))
    tolerance = TOLERANCE.get(dtype, 1e-9 if dtype in ("float", "complex") else None)
    if tolerance is None:
        return None if a == b else "value"
    x, y = np.array(a, np.float64), np.array(b, np.float64)
    if np.array_equal(x, y, equal_nan=True):
        # The parts of complex zeros depend on which elements PyTorch computes as vectors.
        if "complex" in dtype or np.array_equal(np.signbit(x), np.signbit(y)):
            return None
        zeros = (x == 0) & (np.signbit(x) != np.signbit(y))
        return "sign of zero" if zeros.any() else None
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    finite = np.isfinite(x) & np.isfinite(y)
    if not (same | finite).all():
        return "value"
    scale = max(1.0, float(np.abs(y[finite]).max(initial=0.0)))
    return None if (np.abs(x[finite] - y[finite]) <= tolerance * scale).all() else "value"


def same(ours: Any, theirs: Any) -> bool:
    """Whether what a statement gave is the same: the exception's name, or the value."""
    if isinstance(ours, str) or isinstance(theirs, str) or ours is None or theirs is None:
        return ours == theirs
    return difference(ours, theirs) is None


def short(value: Any) -> Any:
    """What was shown, with as many digits as are compared."""
    if isinstance(value, list):
        return [short(item) for item in value]
    if isinstance(value, dict):
        digits = 7 if "32" in value.get("dtype", "") or "16" in value.get("dtype", "") else 12
        if value.get("dtype") == "complex64":
            digits = 7
        values = [float(f"{x:.{digits}g}") if isinstance(x, float) else x for x in value["value"]]
        return value | {"value": values}
    return value


def run(torch: Any, statements: list[str]) -> list[Any]:
    """What each statement gave: an exception's name, or what it bound; then all variables again."""
    names = namespace(torch)
    found: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for statement in statements:
            error = step(statement, names)
            name = target(statement)
            found.append(error or (show(names[name]) if name in names else None))
    return found
