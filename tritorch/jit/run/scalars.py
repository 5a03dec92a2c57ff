"""Steps of the most frequent operators of numbers, which compute in place of calling a function."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tritorch.jit.run.builtins.numbers import to_int64
from tritorch.jit.run.steps import Frame, Step

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
Maker = Callable[[int, int, int], Step]


def _add(a: int, b: int, output: int) -> Step:
    def step(frame: Frame) -> None:
        result = frame[a] + frame[b]
        frame[output] = result if _LEAST <= result <= _MOST else to_int64(result)

    return step


def _sub(a: int, b: int, output: int) -> Step:
    def step(frame: Frame) -> None:
        result = frame[a] - frame[b]
        frame[output] = result if _LEAST <= result <= _MOST else to_int64(result)

    return step


def _mul(a: int, b: int, output: int) -> Step:
    def step(frame: Frame) -> None:
        result = frame[a] * frame[b]
        frame[output] = result if _LEAST <= result <= _MOST else to_int64(result)

    return step


def _lt(a: int, b: int, output: int) -> Step:
    def step(frame: Frame) -> None:
        frame[output] = frame[a] < frame[b]

    return step


def _le(a: int, b: int, output: int) -> Step:
    def step(frame: Frame) -> None:
        frame[output] = frame[a] <= frame[b]

    return step


def _eq(a: int, b: int, output: int) -> Step:
    def step(frame: Frame) -> None:
        frame[output] = frame[a] == frame[b]

    return step


def _ne(a: int, b: int, output: int) -> Step:
    def step(frame: Frame) -> None:
        frame[output] = frame[a] != frame[b]

    return step


def _gt(a: int, b: int, output: int) -> Step:
    return _lt(b, a, output)


def _ge(a: int, b: int, output: int) -> Step:
    return _le(b, a, output)


_ORDERS = ("int", "float", "int_float", "float_int", "str")
STEPS: dict[str, Maker] = {
    "aten::add.int": _add,
    "aten::sub.int": _sub,
    "aten::mul.int": _mul,
    **{f"aten::lt.{overload}": _lt for overload in _ORDERS},
    **{f"aten::le.{overload}": _le for overload in _ORDERS},
    **{f"aten::gt.{overload}": _gt for overload in _ORDERS},
    **{f"aten::ge.{overload}": _ge for overload in _ORDERS},
    **{f"aten::eq.{overload}": _eq for overload in (*_ORDERS, "bool")},
    **{f"aten::ne.{overload}": _ne for overload in (*_ORDERS, "bool")},
}
# Of ints, where the divisor is a constant other than zero.
BY_CONSTANT: dict[str, Callable[[Any, Any], Any]] = {
    "aten::floordiv.int": operator.floordiv,
    "aten::remainder.int": operator.mod,
}
