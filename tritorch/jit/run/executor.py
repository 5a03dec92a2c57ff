"""The entries to execution: `runner` for values of TorchScript, `entry` for those of Python.

Both compile a function when it is called first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.run.binding import binder_of
from tritorch.jit.run.control import if_steps, loop_steps
from tritorch.jit.run.errors import shown
from tritorch.jit.run.functions import call_method, compile_graph, raw_runner, runner
from tritorch.jit.run.nodes import HANDLERS as _OF_NODES
from tritorch.jit.run.unit import HANDLERS
from tritorch.jit.run.values import to_python

HANDLERS.update(_OF_NODES)
HANDLERS.update({"prim::If": if_steps, "prim::Loop": loop_steps})

__all__ = ["call_method", "compile_graph", "entry", "raw_runner", "runner"]

Entry = Callable[[Sequence[Any], Mapping[str, Any]], Any]


def entry(function: GraphFunction) -> Entry:
    """The function of a call's arguments, by place and by name, with values of Python."""
    compiled: Any = function.runner or runner(function)
    made: Entry | None = compiled.entry
    if made is None:
        made = compiled.entry = _entry(function, compiled.raw)
    return made


def _entry(function: GraphFunction, raw: Callable[..., Any]) -> Entry:
    binder = binder_of(function.schema)
    kind = function.schema._returns[0].type

    is_module = binder.takes_object_and_tensor

    def call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if (
            is_module
            and len(args) == 2
            and not kwargs
            and type(args[1]) is Tensor
            and isinstance(args[0], ScriptObjectData)
        ):
            values = args  # forward(self, x) of a module
        else:
            values = binder(args, kwargs)
        try:
            result = raw(*values)
        except Exception as error:
            raise shown(error) from error
        return result if type(result) is Tensor else to_python(result, kind)

    return call
