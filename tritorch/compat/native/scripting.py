"""TorchScript's part of torch._C: passes over graphs, functions and modules by their graphs."""

from __future__ import annotations

from typing import Any

from tritorch.jit.ir.graph import Graph


def _jit_pass_inline(graph: Graph, /) -> None:
    """Puts the graphs of called functions in place of the calls."""
    from tritorch.jit.ir.passes import inline

    inline(graph)


def _jit_pass_dce(graph: Graph, /) -> None:
    """Destroys the nodes that nothing reads and that have no effects."""
    from tritorch.jit.ir.passes import eliminate_dead_code

    eliminate_dead_code(graph)


_jit_pass_dce_graph = _jit_pass_dce


def _jit_pass_lint(graph: Graph, /) -> None:
    """Checks a graph."""
    graph.lint()


def _jit_pass_constant_propagation(graph: Graph, /) -> None:
    """Computes what depends on constants alone."""
    from tritorch.jit.ir.folding import fold_constants

    fold_constants(graph)


_jit_pass_constant_propagation_immutable_types = _jit_pass_constant_propagation


def _jit_pass_cse(graph: Graph, /) -> bool:
    """Computes equal expressions once."""
    from tritorch.jit.ir.folding import eliminate_common

    return eliminate_common(graph)


def _jit_pass_constant_pooling(graph: Graph, /) -> None:
    """Keeps each constant once."""
    from tritorch.jit.ir.folding import pool_constants

    pool_constants(graph)


def _jit_pass_peephole(graph: Graph, /, addmm_fusion_enabled: bool = False) -> None:
    """Removes nodes that do nothing."""
    from tritorch.jit.ir.folding import simplify

    simplify(graph)


def _jit_pass_canonicalize(graph: Graph, /, keep_unique_names: bool = True) -> Graph:
    """A graph with values numbered in order."""
    from tritorch.jit.ir.folding import canonical

    return canonical(graph)


def _jit_pass_complete_shape_analysis(graph: Graph, /, *args: Any) -> None:
    """Nothing: types keep no shapes."""


_jit_pass_erase_shape_information = _jit_pass_propagate_shapes_on_graph = (
    _jit_pass_complete_shape_analysis
)


def _freeze_module(
    module: Any, /, preservedAttrs: Any = (), freezeInterfaces: bool = True,
    preserveParameters: bool = False,
) -> Any:  # fmt: skip
    """The data of a module with its attributes as constants."""
    from tritorch.jit.freezing import freeze_module
    from tritorch.jit.modules import wrap

    return freeze_module(wrap(module), preservedAttrs)._c


def _create_function_from_graph(name: str, graph: Graph, /) -> Any:
    """A function that runs a graph."""
    from tritorch.jit.calls import ScriptFunction
    from tritorch.jit.ir.function import GraphFunction
    from tritorch.schema.signature import Argument, FunctionSchema
    from tritorch.schema.types import TupleType

    arguments = [
        Argument._make(
            value.debugName().partition(".")[0] if value.hasDebugName() else f"_{at}",
            value.type(), value.type(), None, Argument.NO_DEFAULT, False, None,
        )
        for at, value in enumerate(graph.inputs())
    ]  # fmt: skip
    outputs = [value.type() for value in graph.outputs()]
    result = outputs[0] if len(outputs) == 1 else TupleType(outputs)
    returns = [Argument._make("", result, result, None, Argument.NO_DEFAULT, False, None)]
    schema = FunctionSchema(name, "", arguments, returns, False, False)
    return ScriptFunction(GraphFunction(name, graph, schema))


def _get_script_class(name: str, /) -> Any:
    """The class of TorchScript of a qualified name; None if there is none."""
    from tritorch.jit.frontend.python import UNIT

    return UNIT.types.get(name)


def _jit_clear_class_registry() -> None:
    """Forgets the classes that were compiled, whose names are free again."""
    from tritorch.jit.frontend import classes, modules
    from tritorch.jit.frontend.python import UNIT

    classes._known.clear()
    modules._types.clear()
    UNIT.types.clear()


def _enable_mobile_interface_call_export() -> None:
    """Nothing: archives have no bytecode."""


def _get_tracing_state() -> Any:
    """The recorder of the trace of this thread; None outside of one."""
    from tritorch.jit.trace import active

    return active()


def _is_tracing() -> bool:
    """Tells if this thread records a trace."""
    return _get_tracing_state() is not None


def _jit_flatten(value: Any, /) -> tuple[list[Any], Any]:
    """The tensors of nested containers, and the structure."""
    from tritorch.utils._pytree import tree_flatten

    return tree_flatten(value)


def _jit_unflatten(leaves: Any, structure: Any, /) -> Any:
    """Nested containers of these tensors."""
    from tritorch.utils._pytree import tree_unflatten

    return tree_unflatten(leaves, structure)


class _Setting:
    inlines = False


def _jit_get_inline_everything_mode() -> bool:
    """Tells if functions are compiled with all calls in line."""
    return _Setting.inlines


def _jit_set_inline_everything_mode(on: bool, /) -> None:
    """Set if functions are compiled with all calls in line; graphs here keep their calls."""
    _Setting.inlines = on
