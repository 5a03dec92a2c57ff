"""What views are declared with: their kind, and `embed`, which undoes any that drops elements.

A view's record works on arrays of both kinds; its gradient either views back, or embeds the
gradient in zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritorch.core import arrays
from tritorch.core.tensor import Tensor
from tritorch.ops.record.operator import Operator, ndarray


def view_operator(
    name: str, params: str, function: Any, grad: Any, *, node: str | None = None, layout: str = ""
) -> Operator:
    """Declares a view: `function(array, *params)` gives the view of an array of either kind."""
    op = Operator(
        name, "x", params, cpu=function, gpu=function, grad=grad, view=True, node=node, kind="view",
        layout=layout, infer=function,
    )  # fmt: skip
    op.cpu = op.gpu = function  # type: ignore[method-assign]
    return op


def _embed(g: Any, shape: tuple[int, ...], op: Operator, params: tuple[Any, ...]) -> Any:
    out = arrays.zeros(shape, arrays.dtype_of(g), arrays.device_of(g))
    part = op.cpu(out, *params)
    if type(part) is ndarray:
        part[...] = g
    else:
        part.copy_(g)
    return out


embed_op = Operator("embed", "part", "shape op params", cpu=_embed, gpu=_embed, kind="internal",
                    grad=lambda g, op, params: op.call((g,), params),
                    batch="embed",
                    infer=lambda part, shape, op, params: part.new(shape))  # fmt: skip


def embed(g: Tensor, shape: Sequence[int], op: Operator, params: tuple[Any, ...]) -> Tensor:
    """Zeros of a shape, with g where the view `op(params)` looks."""
    return embed_op.call((g,), (tuple(shape), op, params))
