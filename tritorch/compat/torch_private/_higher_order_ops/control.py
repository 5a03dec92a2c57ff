"""`cond`, `while_loop` and `map`: run as they are, and one node where a program is traced."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from tritorch.arrays.symbolic import SymBool
from tritorch.compat.torch_private._higher_order_ops.operators import OPERATORS
from tritorch.core.dispatching import entered
from tritorch.core.tensor import Tensor
from tritorch.ops.control import cond as plain_cond
from tritorch.ops.shape.joining import stack
from tritorch.utils._pytree import tree_flatten, tree_unflatten


def recorder() -> Any:
    """What records operators of functions, of the program that is traced."""
    return next((m for m in reversed(entered.modes) if hasattr(m, "of_functions")), None)


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    """true_fn(*operands) or false_fn(*operands), by a bool or a tensor with one element."""
    mode = recorder()
    if mode is None or not isinstance(pred, (Tensor, SymBool)):
        return plain_cond(pred, true_fn, false_fn, operands)
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    leaves, spec = tree_flatten(tuple(operands))
    functions = {
        name: lambda *given, f=function: f(*tree_unflatten(builtins.list(given), spec))
        for name, function in (("true_graph", true_fn), ("false_graph", false_fn))
    }

    def arguments(graphs: Any, given: Any, captured: Any) -> Any:
        return (mode._argument(pred), *graphs, (*given, *captured))

    out, trees = mode.of_functions(OPERATORS["cond"], functions, leaves, leaves, arguments, 0)
    if trees[0] != trees[1]:
        raise RuntimeError(
            f"cond: true_fn and false_fn give different structures: {trees[0]} and {trees[1]}"
        )
    return tree_unflatten(out, trees[0])


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any,
    additional_inputs: Any = (),
) -> Any:  # fmt: skip
    """body_fn again and again on what it gave before, while cond_fn of that holds."""
    mode = recorder()
    if mode is None:
        while cond_fn(*carried_inputs, *additional_inputs):
            carried_inputs = body_fn(*carried_inputs, *additional_inputs)
        return carried_inputs
    carried, spec = tree_flatten(tuple(carried_inputs))
    rest, rest_spec = tree_flatten(tuple(additional_inputs))
    count = len(carried)

    def called(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: function(
            *tree_unflatten(builtins.list(given[:count]), spec),
            *tree_unflatten(builtins.list(given[count:]), rest_spec),
        )

    functions = {"while_loop_cond_graph": called(cond_fn), "while_loop_body_graph": called(body_fn)}

    def arguments(graphs: Any, given: Any, captured: Any) -> Any:
        return (*graphs, tuple(given[:count]), (*given[count:], *captured))

    leaves = [*carried, *rest]
    out, _ = mode.of_functions(OPERATORS["while_loop"], functions, leaves, leaves, arguments, 1)
    return tree_unflatten(out, spec)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """f of each row of xs, and of args as they are; the results stacked."""
    leaves, spec = tree_flatten(xs)
    count = leaves[0].shape[0] if leaves else 0
    mode = recorder()
    if mode is None:
        rows = [f(tree_unflatten([x[i] for x in leaves], spec), *args) for i in range(count)]
        flat = [tree_flatten(row) for row in rows]
        columns = zip(*(row for row, _ in flat), strict=True)
        return tree_unflatten([stack(builtins.list(c)) for c in columns], flat[0][1])
    rest, rest_spec = tree_flatten(args)
    width = len(leaves)

    def called(*given: Any) -> Any:
        row = tree_unflatten(builtins.list(given[:width]), spec)
        return f(row, *tree_unflatten(builtins.list(given[width:]), rest_spec))

    def arguments(graphs: Any, given: Any, captured: Any) -> Any:
        return (*graphs, tuple(given[:width]), (*given[width:], *captured))

    with mode.untracked():
        rows = [x.select(0, 0) for x in leaves]
    out, trees = mode.of_functions(
        OPERATORS["map_impl"], {"body_graph": called}, [*rows, *rest], [*leaves, *rest], arguments,
        0, lambda found: [x.unsqueeze(0).expand(count, *x.shape).clone() for x in found],
    )  # fmt: skip
    return tree_unflatten(out, trees[0])
