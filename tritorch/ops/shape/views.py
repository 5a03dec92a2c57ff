"""What views are declared with: views of all elements, and views of some.

A view's record works on arrays of both kinds; its gradient either views back, or embeds the
gradient in zeros.
"""

from __future__ import annotations

from typing import Any

from tritorch.arrays import arrays
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator, ndarray


def view_operator(
    name: str, params: str, function: Any, grad: Any, *, schema: str = "", composed: Any = None,
    layout: str = "", axes: Any = None,
) -> Operator:  # fmt: skip
    """Declares a view: `function(array, *params)` gives the view of an array of either kind."""
    op = Operator(
        name, "x", params,
        schema=schema, kind="view", view=True, cpu=function, gpu=function, composed=composed,
        grad=grad, layout=layout, rules=Rules(infer=function, axes=axes),
    )  # fmt: skip
    op.cpu = op.gpu = function  # type: ignore[method-assign]
    return op


def part_operator(
    name: str, params: str, function: Any, *, schema: str = "", back: str = "",
    composed: Any = None, fuses: str = "", node: str = "", layout: str = "",
) -> Operator:  # fmt: skip
    """Declares a view of some elements.  Its gradient is a record too, `<name>_backward`: zeros of
    a shape, with the gradient where the view looks; back: that one's schema; fuses: how an element
    of that is computed."""
    back_op = Operator(
        f"{name}_backward", "y", f"shape {params}",
        schema=back, kind="internal", cpu=_embed(function), gpu=_embed(function), fuses=fuses,
        grad=lambda g, params: part.call((g,), params[1:]),
        rules=Rules(infer=lambda y, shape, *params: y.new(shape), batch="embed"),
    )  # fmt: skip
    part: Operator = view_operator(
        name, params, function,
        Gradient(lambda g, x_shape, params: back_op.call((g,), (x_shape, *params)), node=node),
        schema=schema, composed=composed, layout=layout,
    )  # fmt: skip
    part.back = back_op
    back_op.embeds = part
    return part


def _embed(function: Any) -> Any:
    def embed(g: Any, shape: tuple[int, ...], *params: Any) -> Any:
        out = arrays.zeros(shape, arrays.dtype_of(g), arrays.device_of(g))
        part = function(out, *params)
        if type(part) is ndarray:
            arrays.put(part, g)
        else:
            part.copy_(g)
        return out

    return embed
