"""Elementwise formulas as straight NumPy programs that allocate nothing.

A Python function runs once on symbols, which note what it does.  What comes of it calls one ufunc
after the other on arrays of a block's size: intermediate results go to few scratch arrays, results
into the arrays that they replace as soon as nobody needs those any more.

    program = compiled(lambda x, y, a: (x + y * a, None), (True, True), (None,))
    program.run(x, y, 0.5, *(np.empty_like(x) for _ in range(program.floats)))  # x += y * 0.5
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


def _select(condition: Any, x: Any, y: Any, out: Array) -> None:
    """out = x where the condition holds, y elsewhere; out may be y."""
    if out is not y:
        np.copyto(out, y)
    np.copyto(out, x, where=condition)


def _sign(x: Any, out: Array) -> None:
    """-1, 0 or 1; 0 for NaN."""
    np.sign(x, out)
    np.copyto(out, 0, where=np.isnan(out))


_OPERATORS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "greater": ">",
}  # fmt: skip
_FUNCTIONS = ("sqrt", "absolute", "sign", "maximum", "minimum")
_SCOPE: dict[str, Any] = {
    name: getattr(np, name) for name in (*_OPERATORS, *_FUNCTIONS, "negative", "positive", "copyto")
} | {"where": _select, "sign": _sign}


class Symbol:
    """A value that a formula computes with: of floats or bools an array, or one number for all."""

    def __init__(self, calls: list[Call], name: str, kind: str) -> None:
        self.calls, self.name, self.kind = calls, name, kind

    def __add__(self, other: Any) -> Symbol:
        return _note("add", self, other)

    def __radd__(self, other: Any) -> Symbol:
        return _note("add", other, self)

    def __sub__(self, other: Any) -> Symbol:
        return _note("subtract", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return _note("subtract", other, self)

    def __mul__(self, other: Any) -> Symbol:
        known = type(other) is float and other == 1.0
        return self if known else _note("multiply", self, other)

    def __rmul__(self, other: Any) -> Symbol:
        return _note("multiply", other, self)

    def __truediv__(self, other: Any) -> Symbol:
        return _note("divide", self, other)

    def __neg__(self) -> Symbol:
        return _note("negative", self)

    def __lt__(self, other: Any) -> Symbol:
        return _note("less", self, other)

    def __gt__(self, other: Any) -> Symbol:
        return _note("greater", self, other)


class Call(NamedTuple):
    """One step of a program."""

    function: str
    operands: tuple[Any, ...]
    result: Symbol


class Program(NamedTuple):
    """`run(*arrays, *numbers, *scratch)`; scratch: so many arrays of floats and of bools."""

    run: Callable[..., None]
    floats: int
    bools: int
    source: str


def _note(function: str, *operands: Any) -> Symbol:
    """A symbol of what the function gives."""
    symbols = [x for x in operands if isinstance(x, Symbol)]
    calls = symbols[0].calls
    kind = "bool" if function in ("less", "greater") else "float"
    if all(x.kind == "number" for x in symbols):
        kind = "number"
    result = Symbol(calls, f"v{len(calls)}", kind)
    calls.append(Call(function, operands, result))
    return result


def _where(condition: Any, x: Any, y: Any) -> Any:
    if isinstance(condition, Symbol):
        return _note("where", condition, x, y)
    return x if condition else y


# What formulas may call.
NAMES = {name: functools.partial(_note, name) for name in _FUNCTIONS} | {"where": _where}


def _text(x: Any, place: dict[Symbol, str]) -> str:
    return place[x] if isinstance(x, Symbol) else repr(x)


def _used(calls: list[Call], outputs: list[Any]) -> list[Call]:
    """The calls that the outputs need."""
    needed, found = set(outputs), []
    for call in reversed(calls):
        if call.result in needed:
            needed.update(x for x in call.operands if isinstance(x, Symbol))
            found.append(call)
    return found[::-1]


def _becomes(x: Symbol, y: Symbol | None, calls: list[Call]) -> bool:
    """Whether x is used once, for y or for what becomes y so: it may lie where y will."""
    users = [call for call in calls if x in call.operands]
    if len(users) != 1 or users[0].function == "where" or users[0].operands.count(x) > 1:
        return False
    return users[0].result is y or _becomes(users[0].result, y, calls)


def compiled(
    formula: Callable[..., Any], present: tuple[bool, ...], known: tuple[float | None, ...]
) -> Program:
    """The program of formula(*arrays, *numbers), which gives the arrays' new values.

    present: which arrays there are; the others are None to the formula.  Where it returns None, an
    array keeps its values.  known: numbers that are always the same, as 1, by which no array needs
    to be multiplied.
    """
    calls: list[Call] = []
    inputs = [Symbol(calls, f"a{k}", "float") if there else None for k, there in enumerate(present)]
    numbers = [Symbol(calls, f"n{k}", "number") for k in range(len(known))]
    given = [x if value is None else value for x, value in zip(numbers, known)]
    outputs = list(formula(*inputs, *given))
    for k, new in enumerate(outputs):
        if new in inputs and new is not None and new is not inputs[k]:
            outputs[k] = _note("positive", new)  # a copy, made before its original changes
    calls = _used(calls, outputs)
    place = {x: x.name for x in (*inputs, *numbers) if x is not None}
    last = {x: i for i, call in enumerate(calls) for x in call.operands if isinstance(x, Symbol)}
    for old, new in zip(inputs, outputs):
        if new is not None and new is not old:
            last[new] = len(calls)
    free: dict[str, list[str]] = {"float": [], "bool": []}
    scratch: dict[str, list[str]] = {"float": [], "bool": []}
    lines = []
    for i, (function, operands, result) in enumerate(calls):
        texts = [_text(x, place) for x in operands]
        if result.kind == "number":
            place[result] = result.name
            value = f" {_OPERATORS[function]} ".join(texts) if len(texts) > 1 else f"-{texts[0]}"
            lines.append(f"{result.name} = {value}")
            continue
        # `where` writes its result in two steps, of which the second reads its first operands.
        kept = operands[:-1] if function == "where" else ()
        dying = [x for x in dict.fromkeys(operands) if isinstance(x, Symbol) and last[x] == i]
        spare = [x for x in dying if place[x] in scratch.get(x.kind, ())]
        target = None
        for k, (old, new) in enumerate(zip(inputs, outputs)):
            free_now = old is not None and last.get(old, -1) <= i and old not in kept
            if free_now and (new is result or (old in operands and _becomes(result, new, calls))):
                target = f"a{k}"
        for x in spare:
            if target is None and x.kind == result.kind and x not in kept:
                target = place[x]
        if target is None and not free[result.kind]:
            target = f"{result.kind}{len(scratch[result.kind])}"
            scratch[result.kind].append(target)
        place[result] = target = target or free[result.kind].pop()
        for x in spare:
            if place[x] != target:
                free[x.kind].append(place[x])
        out = f"out={target}" if function in ("maximum", "minimum") else target
        lines.append(f"{function}({', '.join([*texts, out])})")
    for k, new in enumerate(outputs):
        if new is not None and place[new] != f"a{k}":
            lines.append(f"copyto(a{k}, {place[new]})")
    names = [f"a{k}" for k in range(len(present))] + [x.name for x in numbers]
    names += scratch["float"] + scratch["bool"]
    source = "\n    ".join([f"def run({', '.join(names)}):", *(lines or ["pass"])])
    scope = dict(_SCOPE)
    exec(source, scope)
    return Program(scope["run"], len(scratch["float"]), len(scratch["bool"]), source)
