"""Functions that look at shapes before they call a record: what they do with nested tensors.

# Note [Functions on nested tensors]
A gate (Note [Gates] in `core/gates.py`) whose function has a rule here asks whether an argument is
nested, once there has been any nested tensor in the process.  A rule is the function again, with
the gate in front: `rule(plain, *args, **kwargs)`.  One table for each layout; a function
without a rule runs as it does for dense tensors, and its records come to `run.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tritorch.arrays.nested import Jagged
from tritorch.core.gates import GATES, LISTENERS
from tritorch.ops.interpret.nested.record import is_nested, structure_of

JAGGED: dict[str, Callable[..., Any]] = {}
STRIDED: dict[str, Callable[..., Any]] = {}


def _named(table: dict[str, Any], names: Iterable[str]) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        for name in names:
            table[name] = function
        return function

    return register


def jagged(*names: str) -> Callable[[Any], Any]:
    """Registers what public functions do with jagged tensors."""
    return _named(JAGGED, names)


def strided(*names: str) -> Callable[[Any], Any]:
    """Registers what public functions do with strided nested tensors."""
    return _named(STRIDED, names)


def both(*names: str) -> Callable[[Any], Any]:
    """Registers what public functions do with nested tensors of either layout."""

    def register(function: Any) -> Any:
        return jagged(*names)(strided(*names)(function))

    return register


def _first(arguments: Iterable[Any]) -> Any:
    for argument in arguments:
        if is_nested(argument):
            return argument
        if type(argument) in (list, tuple):
            found = _first(argument)
            if found is not None:
                return found
    return None


def _call(name: str, gate: Any, *args: Any, **kwargs: Any) -> Any:
    """What a gate calls in place of its function, where an argument is nested.  A rule gets the
    gate itself, for dense arguments: so autocast sees these."""
    x = _first((*args, *kwargs.values()))
    table = JAGGED if type(structure_of(x)) is Jagged else STRIDED
    found = table.get(name)
    if found is None:
        return gate.__wrapped__(*args, **kwargs)
    return found(gate, *args, **kwargs)


def of_operator(name: str, function: Callable[..., Any], arguments: Iterable[Any]) -> Any:
    """What computes an operator of ATen where an argument is nested."""
    table = JAGGED if type(structure_of(_first(arguments))) is Jagged else STRIDED
    rule = table.get(name)
    if rule is None:
        return function
    gates = (GATES[module].get(name) for module in ("tritorch", "tritorch.Tensor"))
    return functools.partial(rule, next((gate for gate in gates if gate is not None), function))


def install() -> None:
    """Tells the gates of the functions that have rules."""
    for module, gates in GATES.items():
        _install(module, gates)
    LISTENERS.append(_install)


def _install(module: str, gates: Mapping[str, Any]) -> None:
    if module not in _MODULES:
        return
    for name, gate in gates.items():
        shown = (gate.shown or gate).__name__
        for key in (name, shown if name[:3] != "__r" else name):
            if key in JAGGED or key in STRIDED:
                gate.nested = functools.partial(_call, key)
                break


_MODULES = frozenset(("tritorch", "tritorch.Tensor", "tritorch.nn.functional", "tritorch._C._nn"))
