"""torch._dynamo.export: a graph of a function, by the package's own export."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module

_DYNAMIC = "symbolic"


class ExportResult(NamedTuple):
    """A graph, and what is checked before it is called: nothing but what the graph checks."""

    graph_module: Any
    guards: set[Any]


class _OfFunction(Module):
    """A module whose call is a function's, with the function's parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = function
        owner = getattr(function, "__self__", None)
        if isinstance(owner, Module):  # its parameters are those of the graph
            self._owner = owner


def _open_sizes(value: Any) -> Any:
    """Every size of every tensor as a dynamic one, as far as the program keeps it so."""
    from tritorch.export.dynamic_shapes import Dim

    if isinstance(value, Tensor):
        return dict.fromkeys(range(value.ndim), Dim.AUTO)
    if isinstance(value, (list, tuple)):
        return type(value)(_open_sizes(item) for item in value)
    if isinstance(value, dict):
        return {key: _open_sizes(item) for key, item in value.items()}
    return None


def export(
    f: Callable[..., Any], *extra_args: Any, aten_graph: bool = False, pre_dispatch: bool = False,
    decomposition_table: dict[Any, Any] | None = None, tracing_mode: str = _DYNAMIC,
    dynamic_shapes: Any = None, specialize_float: bool = True,
    assume_static_by_default: bool = False, same_signature: bool = True,
    disable_constraint_solver: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False, _log_export_usage: bool = True,
    constraints: Any = None, **extra_kwargs: Any,
) -> Any:  # fmt: skip
    """`export(f)(*args)` gives a graph of a function or module, for arguments like these, which
    takes what the function takes (`ExportResult`).

    The graph is of ATen's operators, whatever aten_graph says; decomposition_table: what they are
    made of.  tracing_mode: "symbolic" leaves sizes open, as far as the program does, unless
    dynamic_shapes says which, or assume_static_by_default; "real" leaves none."""

    def traced(*args: Any, **kwargs: Any) -> ExportResult:
        from tritorch.export import export as exported

        module = f if isinstance(f, Module) else _OfFunction(f)
        shapes = dynamic_shapes
        if shapes is None and tracing_mode == _DYNAMIC and not assume_static_by_default:
            bound = inspect.signature(f.forward if isinstance(f, Module) else f).bind(
                *args, **kwargs
            )
            shapes = {name: _open_sizes(value) for name, value in bound.arguments.items()}
        program = exported(module, args, kwargs, dynamic_shapes=shapes)
        if decomposition_table is not None:
            program = program.run_decompositions(decomposition_table)
        return ExportResult(program.module(), set())

    if extra_args or extra_kwargs:
        return traced(*extra_args, **extra_kwargs)
    return traced
