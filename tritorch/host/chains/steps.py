"""Which of NumPy's functions a function of arrays calls, found by calling it with stand-ins.

# Note [Steps]
A function that computes element by element, by ufuncs and by choices (`np.where`), can be computed
piece by piece without Python in between, by the ufuncs' own loops (`_C.Chain`).  `traced` calls it
with stand-ins for arrays, which take down what is asked of them.  A function that looks at values
or at how arrays lie is no such function: `Untraceable`; it may say what it comes to in an attribute
`plain`.  Where a function looks whether its arguments are arrays, `ARRAYS` has stand-ins, too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import is_bfloat16
from tritorch.host.linalg import blas

Kind = np.dtype[Any]
_BOOL = np.dtype(bool)
# ndarray.clip comes to this.
_clip: np.ufunc = np._core.umath.clip  # type: ignore[attr-defined]
_REDUCTIONS = frozenset((np.add, np.multiply, np.maximum, np.minimum))
_NAMES = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "i4": "i", "i8": "l", "f4": "f", "f8": "d",
}  # fmt: skip


class Untraceable(Exception):
    """A function does more than to call ufuncs; says what."""


class Step(NamedTuple):
    """One function; operands are values by number, and numbers as arrays without dims."""

    kind: str  # "loop", "select", "cast", "reduce", "guard"
    what: Any  # a ufunc's loop, a cast's characters, a reduction's function and character; the
    # steps that finite numbers do without
    operands: tuple[Any, ...]
    result: int  # a guard's: what it looks at


class Loop(NamedTuple):
    """A ufunc's loop for certain dtypes."""

    name: str
    capsule: Any
    kinds: tuple[Kind, ...]  # of operands and the result

    @property
    def native(self) -> Any:
        """As `_C.Chain` takes it: it may compute float32 arithmetic by itself."""
        single = all(kind.kind == "f" and kind.itemsize == 4 for kind in self.kinds)
        return (self.capsule, self.name) if single else self.capsule


def named(kind: Kind) -> str:
    """The character of a dtype, as `_C.Chain` knows it; Untraceable if it does not."""
    found = "E" if is_bfloat16(kind) else _NAMES.get(f"{kind.kind}{kind.itemsize}")
    if found is None or not kind.isnative:
        raise Untraceable(f"dtype {kind}")
    return found


def _place(kind: Kind, i: int) -> tuple[Any, ...]:
    return (i, -1, None, kind.itemsize, kind.itemsize)


@functools.cache
def loop_of(ufunc: np.ufunc, given: tuple[Any, ...]) -> Loop:
    """A ufunc's loop for operands of dtypes, or of Python's `int` and `float`."""
    if ufunc.nout != 1 or ufunc.nin != len(given):
        raise Untraceable(f"{ufunc.__name__} of {len(given)}")
    try:
        kinds, info = ufunc._resolve_dtypes_and_context((*given, None))  # type: ignore[attr-defined]
        if any(named(kind) == "E" for kind in kinds):
            raise Untraceable(f"{ufunc.__name__} of bfloat16")
        ufunc._get_strided_loop(info)  # type: ignore[attr-defined]
        places = tuple(_place(kind, i) for i, kind in enumerate(kinds))
        _C.Chain(places, (("loop", info, tuple(range(len(kinds)))),))
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise Untraceable(f"{ufunc.__name__}: {error}") from None
    return Loop(ufunc.__name__, info, kinds)


@functools.cache
def _is_cast(kinds: str, old: Kind, new: Kind) -> bool:
    try:
        _C.Chain((_place(old, 0), _place(new, 1)), (("cast", kinds, (0, 1)),))
    except ValueError:
        return False
    return True


def require_cast(old: Kind, new: Kind, same: bool = False) -> str:
    """The characters of a cast; Untraceable if there is none, or none is wanted (`same`)."""
    names = named(old) + named(new)
    if old != new and (same or not _is_cast(names, old, new)):
        raise Untraceable(f"a cast of {old} to {new}")
    return names


class Trace:
    """Steps, as they are taken down."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.kinds: list[Kind] = []  # of values

    def new(self, kind: Kind) -> int:
        """A new value."""
        named(kind)
        self.kinds.append(kind)
        return len(self.kinds) - 1

    def operand(self, x: Any, kind: Kind) -> Any:
        """A stand-in's value or a number, as of a dtype."""
        if type(x) is Traced:
            return self.cast(x.value, kind)
        try:
            return np.asarray(x, kind)
        except (OverflowError, TypeError, ValueError) as error:
            raise Untraceable(str(error)) from None

    def cast(self, value: int, kind: Kind) -> int:
        """A value, as of a dtype."""
        old = self.kinds[value]
        if old == kind:
            return value
        return self.add("cast", require_cast(old, kind), (value,), kind)

    def add(self, kind: str, what: Any, operands: tuple[Any, ...], result: Kind) -> int:
        """One more step."""
        value = self.new(result)
        self.steps.append(Step(kind, what, operands, value))
        return value

    def call(self, ufunc: np.ufunc, operands: Sequence[Any]) -> int:
        """A ufunc's result."""
        loop = loop_of(ufunc, tuple(map(_kind_of, operands)))
        given = tuple(self.operand(x, kind) for x, kind in zip(operands, loop.kinds))
        return self.add("loop", loop, given, loop.kinds[-1])

    def reduce(self, ufunc: np.ufunc, value: int) -> int:
        """One number of each row (Note [Rows] in chain.cpp)."""
        kind = self.kinds[value]
        if ufunc not in _REDUCTIONS or named(kind) not in "fd":
            raise Untraceable(f"{ufunc.__name__}.reduce of {kind}")
        return self.add("reduce", (ufunc.__name__, named(kind)), (value,), kind)

    def select(self, mask: Any, a: Any, b: Any, kind: Kind) -> int:
        """a where mask is set, else b."""
        if type(mask) is not Traced or self.kinds[mask.value] != _BOOL:
            raise Untraceable("a mask of other numbers")
        given = (mask.value, self.operand(a, kind), self.operand(b, kind))
        return self.add("select", None, given, kind)


def _kind_of(x: Any) -> Any:
    """A dtype, or Python's type of a number without one."""
    if type(x) is Traced or isinstance(x, (np.ndarray, np.generic)):
        if getattr(x, "ndim", 0) and type(x) is not Traced:
            raise Untraceable("an array that was not given")
        return x.dtype
    if type(x) in (int, float):
        return type(x)
    if type(x) is bool:
        return _BOOL
    raise Untraceable(f"an operand of type {type(x).__name__}")


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise Untraceable(name)

    return refuse


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """What stands for a dense array of one dim."""

    shape, size, ndim = (4096,), 4096, 1

    def __init__(self, trace: Trace, value: int) -> None:
        self.trace, self.value = trace, value

    @property
    def dtype(self) -> Kind:
        """That of the value."""
        return self.trace.kinds[self.value]

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, where: Any = True,
        casting: str = "same_kind", **how: Any,
    ) -> Any:  # fmt: skip
        if method == "reduce" and how == {"axis": -1, "keepdims": True}:
            return Traced(self.trace, self.trace.reduce(ufunc, self.value))
        if method != "__call__" or how:
            raise Untraceable(f"{ufunc.__name__}.{method}")
        target = None if out is None else out[0]
        found = Traced(self.trace, self.trace.call(ufunc, inputs))
        return found._into(target, where)

    def _into(self, target: Any, where: Any = True) -> Traced:
        """What was computed, as the new value of a stand-in that is written."""
        if target is None and where is True:
            return self
        if type(target) is not Traced:
            raise Untraceable("an array that is written")
        value = self.trace.cast(self.value, target.dtype)
        if where is not True:
            value = self.trace.select(where, Traced(self.trace, value), target, target.dtype)
        target.value = value
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where and len(args) == 3 and not kwargs:
            mask, a, b = args
            kind = np.result_type(*(x.dtype if type(x) is Traced else x for x in (a, b)))
            return Traced(self.trace, self.trace.select(mask, a, b, kind))
        if function is np.copyto and len(args) == 2 and type(args[0]) is Traced:
            target, source = args
            where = kwargs.get("where", True)
            if where is True or set(kwargs) - {"where", "casting"}:
                raise Untraceable("copyto")
            target.value = self.trace.select(where, source, target, target.dtype)
            return None
        raise Untraceable(getattr(function, "__name__", str(function)))

    def clip(self, low: Any, high: Any, out: Any = None) -> Traced:
        """At least low, at most high."""
        return Traced(self.trace, self.trace.call(_clip, (self, low, high)))._into(out)

    def astype(self, kind: Any, copy: bool = True) -> Traced:
        """The same numbers in another dtype."""
        return Traced(self.trace, self.trace.cast(self.value, np.dtype(kind)))

    def reshape(self, *shape: Any) -> Traced:
        """Itself: stand-ins have one dim."""
        if shape not in ((-1,), ((-1,),)):
            raise Untraceable("reshape")
        return self

    def repaired(self, function: Any, *operands: Any) -> Traced:
        """`repaired`, as a guard before steps that finite numbers do without."""
        trace = self.trace
        before, value = len(trace.steps), self.value
        other = function(*operands)
        mask = trace.call(np.isfinite, (self,))
        given = (mask, value, trace.cast(other.value, self.dtype))
        trace.steps.append(Step("select", None, given, value))
        trace.steps[before:] = [Step("guard", tuple(trace.steps[before:]), (value,), value)]
        return self

    __array__ = __bool__ = __len__ = __iter__ = _refusal("values are looked at")
    __getitem__ = __setitem__ = __float__ = __int__ = _refusal("elements are looked at")


def repaired(y: Any, function: Callable[..., Any], x: Any) -> Any:
    """y, in whose place, of floats, function(x) goes where it is not finite."""
    if type(y) is Traced:
        return y.repaired(function, x)
    flat = y.reshape(-1)
    if not math.isfinite(blas.inner(flat, flat)):
        lost = ~np.isfinite(y)
        y[lost] = function(x[lost])
    return y


ARRAYS = (np.ndarray, Traced)  # the types of what a function takes for an array


def traced(function: Callable[..., Any], operands: Sequence[Any]) -> tuple[Trace, int]:
    """The steps of a function, and its result's value.

    operands: dtypes of arrays, which become the first values, and numbers as they are."""
    trace = Trace()
    kinds = [x for x in operands if isinstance(x, np.dtype)]
    stand_ins = iter([Traced(trace, trace.new(kind)) for kind in kinds])
    given = [next(stand_ins) if isinstance(x, np.dtype) else x for x in operands]
    try:
        result = getattr(function, "plain", function)(*given)
    except Untraceable:
        raise
    except (TypeError, AttributeError, ValueError) as error:
        raise Untraceable(f"{type(error).__name__}: {error}") from None
    if type(result) is not Traced:
        raise Untraceable("a result that was not computed")
    if result.value < len(kinds):
        raise Untraceable("a result that was given")
    return trace, result.value
