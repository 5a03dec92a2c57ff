"""Functions and methods: their compiled forms, and calls of them from graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Graph
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.run import limits
from tritorch.jit.run.errors import leave, mark, shown
from tritorch.jit.run.unit import Unit


def compile_graph(
    graph: Graph, name: str, function: GraphFunction | None = None
) -> Callable[..., Any]:
    """A function of the graph's inputs, by place; exceptions come as they were raised.

    function: whose graph it is, to be compiled again when one that is inlined changes."""
    unit = Unit(graph, name, function)
    steps, marks = unit.steps_of(graph)
    tail = unit.slots.tail()
    results = [unit.slots.of(value) for value in graph._return._inputs]
    cost = len(steps)
    entered = unit.entered
    single = results[0] if len(results) == 1 else None

    def run(*args: Any) -> Any:
        frame = [*args, *tail]
        if limits.had_budgets:
            limits.charge(cost)
        try:
            for step in steps:
                step(frame)
        except Exception as error:
            mark(error, marks[steps.index(step)])
            leave(error)
            if entered is not None:
                _exit_all(frame[entered])
            raise
        return frame[single] if single is not None else tuple([frame[r] for r in results])

    return run


def _exit_all(objects: Any) -> None:
    """Leaves the `with` statements that an exception ends."""
    while objects:
        call_method(objects.pop(), "__exit__", (None, None, None))


def runner(function: GraphFunction) -> Callable[..., Any]:
    """The compiled function, which takes all values by place and raises what Python shall see.

    It is kept until the function gets another graph; its attribute `raw` raises exceptions as they
    come, for calls from other graphs.
    """
    made = function.runner
    if made is None:
        made = function.runner = _shown_errors(
            compile_graph(function.graph, function.name, function)
        )
    return made


def _shown_errors(raw: Callable[..., Any]) -> Any:
    def run(*args: Any) -> Any:
        try:
            return raw(*args)
        except Exception as error:
            raise shown(error) from error

    run.raw = raw  # type: ignore[attr-defined]
    run.entry = None  # type: ignore[attr-defined]
    return run


def raw_runner(function: GraphFunction) -> Callable[..., Any]:
    """The compiled function for calls from graphs."""
    compiled: Any = function.runner or runner(function)
    return compiled.raw


def call_method(owner: Any, name: str, args: tuple[Any, ...]) -> Any:
    """Calls a method of an object, from inside of TorchScript."""
    if not isinstance(owner, ScriptObjectData):
        return getattr(owner, name)(*args)
    method = owner.type.find_method(name)
    if method is None:
        raise RuntimeError(f"'{owner.type.qualified_name()}' has no method '{name}'")
    return raw_runner(method)(owner, *args)
