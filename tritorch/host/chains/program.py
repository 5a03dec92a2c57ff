"""Elementwise formulas as straight native programs that allocate nothing.

A Python function runs once on symbols, which note what it does.  What comes of it is a `_C.Chain`
(Note [Chains]): one ufunc's loop after the other on pieces of arrays that stay in the first cache.
Intermediate results go to few buffers, results into the arrays that they replace as soon as nobody
needs those any more.

    program = compiled(lambda x, y, a: (x + y * a, None), (True, True), (None,))
    program.update([[x, y]], [0.5], x.dtype)  # x += y * 0.5
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tritorch import _C
from tritorch.host import loops
from tritorch.host.chains.steps import loop_of

Array = np.ndarray[Any, Any]
Row = list[Array | None]

_OPERATORS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "greater": ">",
}  # fmt: skip
_FUNCTIONS = ("sqrt", "absolute", "sign", "maximum", "minimum")
_TESTS = ("less", "greater")


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


class Line(NamedTuple):
    """One step, as a chain runs it: places by name, and numbers."""

    function: str  # a ufunc, "where" or "copy"
    operands: tuple[Any, ...]
    target: str

    def __str__(self) -> str:
        return f"{self.target} = {self.function}({', '.join(map(str, self.operands))})"


class Program:
    """A formula's steps; `numbers` are what it computes of its numbers alone."""

    def __init__(self, arrays: int, lines: list[Line], numbers: _Numbers) -> None:
        self.arrays, self.lines, self.numbers = arrays, lines, numbers
        used = {x for line in lines for x in (*line.operands, line.target) if type(x) is str}
        self.floats = sorted(x for x in used if x.startswith("float"))
        self.bools = sorted(x for x in used if x.startswith("bool"))
        self._chains: dict[Any, Any] = {}

    def __str__(self) -> str:
        return "\n".join(map(str, self.lines))

    def update(self, rows: list[Row], numbers: Sequence[float], kind: np.dtype[Any]) -> None:
        """Gives all rows of arrays their new values; dense ones of one dtype, of any shapes."""
        chain = self._chains.get(kind)
        if chain is None:
            chain = self._chains[kind] = _chain(self, kind)
        shared = self.numbers.arrays(numbers, kind)
        total = sum([row[0].size for row in rows])  # type: ignore[union-attr, misc]
        chain.over(0, total, rows, shared)

    def chain(self, kind: np.dtype[Any]) -> Any:
        """The steps for arrays of a dtype."""
        places: dict[Any, int] = {}
        rows: list[tuple[Any, ...]] = []
        size = kind.itemsize

        def place(x: Any) -> int:
            found = places.get(x)
            if found is None:
                found = places[x] = len(rows)
                if type(x) is not str:
                    rows.append((-1, -1, np.array(x, kind), 0, size))
                elif x in self.floats:
                    rows.append((-1, self.floats.index(x), None, size, size))
                elif x in self.bools:
                    rows.append((-1, len(self.floats) + self.bools.index(x), None, 1, 1))
                elif x in self.numbers.names:
                    i = self.arrays + self.numbers.names.index(x)
                    rows.append((i, -1, None, 0, 1 if x in self.numbers.bools else size))
                else:
                    rows.append((int(x[1:]), -1, None, size, size))
            return found

        steps: list[tuple[Any, ...]] = []
        for function, operands, target in self.lines:
            at = (*map(place, operands), place(target))
            if function == "where":
                steps.append(("select", None, at))
            elif function == "copy":
                steps.append(("cast", 2 * kind.char, at))
            else:
                ufunc = getattr(np, function)
                steps.append(("loop", loop_of(ufunc, (kind,) * ufunc.nin).native, at))
        return _C.Chain(tuple(rows), tuple(steps))


class _Lines:
    """A program of arrays of a dtype, line by line: the twin of its chain."""

    def __init__(self, program: Program, kind: np.dtype[Any]) -> None:
        self.program, self.kind = program, kind

    def over(self, low: int, high: int, rows: list[Row], shared: list[Array]) -> None:
        """Gives all rows of arrays their new values."""
        numbers = dict(zip(self.program.numbers.names, shared))
        for row in rows:
            places = {**numbers, **{f"a{k}": array for k, array in enumerate(row)}}
            with np.errstate(all="ignore"):
                for line in self.program.lines:
                    self._run(line, places)

    def _run(self, line: Line, places: dict[str, Any]) -> None:
        given = [places[x] if type(x) is str else self.kind.type(x) for x in line.operands]
        found = getattr(np, line.function)(*given)  # "where" and "copy" are NumPy's, too
        if line.target.startswith("a"):
            places[line.target][...] = found
        else:
            places[line.target] = found


_chain = loops.pair("an optimizer's chain", Program.chain, _Lines)


class _Numbers:
    """Numbers that are given, and what is computed of them."""

    def __init__(self, given: list[str], lines: list[str], names: list[str], bools: set[str]):
        self.names, self.bools = names, bools
        body = "\n    ".join([*lines, f"return [{', '.join(names)}]"])
        scope: dict[str, Any] = {}
        exec(f"def run({', '.join(given)}):\n    {body}", scope)
        self._run = scope["run"] if lines else None

    def arrays(self, numbers: Sequence[float], kind: Any) -> list[Array]:
        """All numbers in arrays without dims, computed in a dtype."""
        given = [np.array(x, kind) for x in numbers]
        return given if self._run is None else [np.asarray(x) for x in self._run(*given)]


def _note(function: str, *operands: Any) -> Symbol:
    """A symbol of what the function gives."""
    symbols = [x for x in operands if isinstance(x, Symbol)]
    calls = symbols[0].calls
    kind = "bool" if function in _TESTS else "float"
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


def _text(x: Any, place: dict[Symbol, str]) -> Any:
    return place[x] if isinstance(x, Symbol) else x


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
    lines: list[Line] = []
    computed: dict[str, str] = {}  # numbers
    bools = set()
    for i, (function, operands, result) in enumerate(calls):
        texts = tuple([_text(x, place) for x in operands])
        if result.kind == "number":
            place[result] = result.name
            pair = f" {_OPERATORS.get(function)} ".join(map(str, texts))
            computed[result.name] = pair if len(texts) > 1 else f"-{texts[0]}"
            if function in _TESTS:
                bools.add(result.name)
            continue
        dying = [x for x in dict.fromkeys(operands) if isinstance(x, Symbol) and last[x] == i]
        spare = [x for x in dying if place[x] in scratch.get(x.kind, ())]
        target = None
        for k, (old, new) in enumerate(zip(inputs, outputs)):
            free_now = old is not None and last.get(old, -1) <= i
            if free_now and (new is result or (old in operands and _becomes(result, new, calls))):
                target = f"a{k}"
        for x in spare:
            if target is None and x.kind == result.kind:
                target = place[x]
        if target is None and not free[result.kind]:
            target = f"{result.kind}{len(scratch[result.kind])}"
            scratch[result.kind].append(target)
        place[result] = target = target or free[result.kind].pop()
        for x in spare:
            if place[x] != target:
                free[x.kind].append(place[x])
        if function == "sign":  # 0 for NaN
            lines += [Line("isnan", texts, "bool_sign"), Line("sign", texts, target)]
            lines.append(Line("where", ("bool_sign", 0.0, target), target))
        else:
            lines.append(Line(function, texts, target))
    for k, new in enumerate(outputs):
        if new is not None and place[new] != f"a{k}":
            lines.append(Line("copy", (place[new],), f"a{k}"))
    given_names = [x.name for x in numbers]
    texts_of = [f"{name} = {value}" for name, value in computed.items()]
    names = [*given_names, *computed]
    return Program(len(present), lines, _Numbers(given_names, texts_of, names, bools))
