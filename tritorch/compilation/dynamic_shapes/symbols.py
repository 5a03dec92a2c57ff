"""Dynamic numbers of a compiled function, as symbols, and as programs that native code computes.

A symbol is a size, an integer or a float of which each run has its own.  Functions that run with
symbols, on meta tensors, give the sizes of their results; a comparison that only the values of this
run decide becomes a condition.  `DynamicNumber` (src/compilation/numbers.cpp) is such a number, or
a condition, as a program for a stack, of the numbers of a region by their indices.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tritorch import _C
from tritorch.arrays.symbolic import ShapeEnv, SymBool, SymFloat, SymInt, symbol_of
from tritorch.compilation.follow.calls import Call, Dynamic, Layout, filing, mapped
from tritorch.compilation.follow.tape import Unfit

DynamicNumber = _C.DynamicNumber
_SYMBOLIC = (SymInt, SymFloat, SymBool)
Indices = Mapping[int, int]  # by the id of a symbol, its index among a region's numbers


class Known(ShapeEnv):
    """The symbols of a compiled function, and the comparisons that their present values decided."""

    def __init__(self) -> None:
        super().__init__()
        self.decided: dict[str, SymBool] = {}
        self.reals = 0  # how many symbols of floats there are

    def decide(self, text: str, value: bool | None, condition: SymBool | None = None) -> bool:
        """A condition that ranges do not decide, by this run's values."""
        if value is None or condition is None:
            raise Unfit(f"nobody knows {text}")
        if condition.made is not None and condition.made[0] in _OPPOSITES:
            text, condition = self._compared(condition, value)
        elif not value:
            text, condition = f"not ({text})", ~condition
        self.decided.setdefault(text, condition)
        return value

    def _compared(self, condition: SymBool, value: bool) -> tuple[str, SymBool]:
        """A comparison of integers as one with 0, in one form of those that mean the same."""
        assert condition.made is not None
        compare, a, b = condition.made
        if not value:
            compare = _OPPOSITES[compare]
        if all(isinstance(x, (int, SymInt)) for x in (a, b)):
            apart = (a - b)._without_positive_factors()
            by = math.gcd(*apart.terms.values()) * (-1 if str(apart)[0] == "-" else 1)
            if by < 0:
                compare = _MIRRORED.get(compare, compare)
            a, b = SymInt({m: n // by for m, n in apart.terms.items()}, self), 0
            if f"{a} == 0" in self.decided:
                compare = operator.eq  # which says all
        text = f"{a} {_TEXTS[compare]} {b}"
        return text, SymBool(text, True, self, (compare, a, b))

    @contextlib.contextmanager
    def with_values(self, path: Path, numbers: Sequence[Any], last: Any) -> Iterator[None]:
        """Inside, a path's symbols have a run's values; comparisons that those decide become
        conditions of the path's last step."""
        with filing:
            for symbol, number in zip(path.symbols, numbers):
                leaf_of(symbol).value = number
            self.decided.clear()
            yield
            unknown = {k: x for k, x in self.decided.items() if k not in path.conditions}
            if unknown:
                last.require(tuple(make_dynamic(list(unknown.values()), indices_of(path.symbols))))
                last.call.dynamic = last.call.dynamic or Dynamic(
                    args=last.call.args, kwargs=last.call.kwargs
                )
                last.call.dynamic.conditions |= unknown.keys()

    def integer(self, value: int) -> SymInt:
        """A new symbol of a size or another integer."""
        return self.symbol("", value, 2)

    def real(self, value: float) -> SymFloat:
        """A new symbol of a float."""
        self.reals += 1
        return SymFloat(f"f{self.reals - 1}", value, self)


def leaf_of(symbol: SymInt | SymFloat) -> Any:
    """The object that holds a symbol's value."""
    return symbol_of(symbol) if type(symbol) is SymInt else symbol


def indices_of(symbols: Sequence[SymInt | SymFloat]) -> dict[int, int]:
    """The indices of symbols that are the numbers of a region."""
    return {id(leaf_of(symbol)): i for i, symbol in enumerate(symbols)}


# ---- as programs ---------------------------------------------------------------------------------

_SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.floordiv: "d", operator.mod: "%", operator.eq: "=", operator.ne: "!",
    operator.lt: "<", operator.le: ",", operator.gt: ">", operator.ge: ".", operator.and_: "&",
    operator.or_: "|", float: "f", operator.neg: "N", operator.not_: "~",
}  # fmt: skip
_OPPOSITES: dict[Any, Any] = {
    operator.eq: operator.ne, operator.ne: operator.eq, operator.lt: operator.ge,
    operator.ge: operator.lt, operator.gt: operator.le, operator.le: operator.gt,
}  # fmt: skip
_MIRRORED: dict[Any, Any] = {
    operator.lt: operator.gt, operator.gt: operator.lt, operator.le: operator.ge,
    operator.ge: operator.le,
}  # fmt: skip
_TEXTS: dict[Any, str] = {
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">",
    operator.ge: ">=",
}  # fmt: skip
_COMPOSITES = {"//": "d", "%": "%", "min": "m", "max": "M"}
Part = tuple[str, Any]


def _parts(x: Any, indices: Indices) -> Iterator[Part]:
    if isinstance(x, float):
        yield "r", x
    elif isinstance(x, int):
        yield "i", int(x)
    elif type(x) is SymInt:
        yield from _polynomial(x, indices)
    elif id(x) in indices:
        yield "n", indices[id(x)]
        yield "f", None  # says that it is a float
    elif isinstance(x, (SymFloat, SymBool)) and x.made is not None and x.made[0] in _SIGNS:
        for operand in x.made[1:]:
            yield from _parts(operand, indices)
        yield _SIGNS[x.made[0]], None
    else:
        raise Unfit(f"{x} cannot be computed again")


def _polynomial(x: SymInt, indices: Indices) -> Iterator[Part]:
    sums = 0
    for monomial, n in x.terms.items():
        factors = 0
        if n != 1 or not monomial:
            yield "i", n
            factors = 1
        for atom, power in monomial:
            for _ in range(power):
                if id(atom) in indices:
                    yield "n", indices[id(atom)]
                elif (sign := _COMPOSITES.get(getattr(atom, "kind", ""))) is not None:
                    yield from _polynomial(atom.a, indices)
                    yield from _polynomial(atom.b, indices)
                    yield sign, None
                else:
                    raise Unfit(f"{x} is of another run")
                if factors:
                    yield "*", None
                factors += 1
        if sums:
            yield "+", None
        sums += 1
    if not sums:
        yield "i", 0


def make_dynamic(value: Any, indices: Indices) -> Any:
    """Nested data with a `DynamicNumber` for each symbol or expression of symbols."""

    def leaf(x: Any) -> Any:
        return DynamicNumber(tuple(_parts(x, indices)), str(x)) if type(x) in _SYMBOLIC else x

    return mapped(leaf, value)


def is_dynamic(value: Any) -> bool:
    """True if nested data has a `DynamicNumber`, or a symbol."""
    if type(value) in (DynamicNumber, *_SYMBOLIC):
        return True
    if type(value) is slice:
        return is_dynamic((value.start, value.stop, value.step))
    return isinstance(value, (tuple, list)) and any(map(is_dynamic, value))


def filled_in(value: Any, numbers: Sequence[Any]) -> Any:
    """Nested data with numbers, or their symbols, for dynamic ones."""
    return mapped(lambda x: numbers[x.code[0][1]] if type(x) is DynamicNumber else x, value)


def computed(value: Any, numbers: Sequence[Any]) -> Any:
    """Nested data with a run's values for dynamic numbers."""
    return mapped(lambda x: x.of(numbers) if type(x) is DynamicNumber else x, value)


def hinted(value: Any) -> Any:
    """Nested data with this run's values for symbols."""
    return mapped(lambda x: x.value if type(x) in _SYMBOLIC else x, value)


# ---- strides -------------------------------------------------------------------------------------


def _order(strides: Sequence[int]) -> list[int]:
    return sorted(range(len(strides)), key=lambda d: (strides[d], -d))


def apart(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The dims whose strides do not follow from the sizes of those that lie closer together."""
    step, found = 1, []
    for d in _order(strides):
        if strides[d] != step and shape[d] != 1:
            found.append(d)
        step = strides[d] * shape[d]
    return sorted(found)


def strides_of(
    sizes: Sequence[Any], shape: Sequence[int], strides: Sequence[int], own: Mapping[int, Any]
) -> tuple[Any, ...]:
    """The strides of this run in terms of sizes; own: of dims that lie apart, others are as they
    are."""
    found: list[Any] = list(strides)
    step: Any = 1
    dense = 1  # the same in this run
    for d in _order(strides):
        if d in own:
            found[d] = own[d]
        elif strides[d] == dense:  # dims of size one, too, where they lie as all others
            found[d] = step
        step, dense = found[d] * sizes[d], strides[d] * shape[d]
    return tuple(found)


# ---- of the calls that led to a step -------------------------------------------------------------


class Path:
    """The dynamic numbers of the calls that led to a step."""

    def __init__(self, step: Any) -> None:
        self.symbols: list[Any] = []
        self.layouts: dict[int, Layout] = {}  # by slot
        self.conditions: set[str] = set()
        found = []
        while step is not None:
            known = getattr(step.call, "dynamic", None)
            if known is not None:
                found.append(known)
            step = step.parent
        for each in reversed(found):
            self.add(each)

    def add(self, known: Dynamic) -> None:
        """Takes in the dynamic numbers of one more call."""
        self.symbols += known.symbols
        self.layouts |= known.layouts
        self.conditions |= known.conditions


def arguments(call: Call, numbers: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arguments, with a run's numbers (or symbols) in place of dynamic ones."""
    known = call.dynamic
    if known is None:
        return call.args, call.kwargs
    named = {name: filled_in(x, numbers) for name, x in known.kwargs.items()}
    return filled_in(known.args, numbers), named
