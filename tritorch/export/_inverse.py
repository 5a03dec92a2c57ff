"""How a part of a tensor is put back into it, for each operator that shows a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.fx.node import Node
from tritorch.ops.record.overloads import namespace

_Inverse = Callable[..., Node]
_INVERSE: dict[str, _Inverse] = {}


def _of(*names: str) -> Callable[[_Inverse], _Inverse]:
    def declare(function: _Inverse) -> _Inverse:
        _INVERSE.update(dict.fromkeys(names, function))
        return function

    return declare


def put_back(made: Any, step: Any, whole: Node, part: Node) -> Node:
    """A whole with another part, where a step shows the part."""
    stem = step.target._schema.name.removeprefix("aten::")
    function = _INVERSE.get(stem)
    if function is None:
        raise NotImplementedError(f"a graph without writes has no inverse of {step.target}")
    return function(made, step, whole, part)


def _named(step: Any) -> dict[str, Any]:
    """A step's arguments but the first, by their names, defaults too."""
    arguments = step.target._schema.arguments[1:]
    given = dict(step.kwargs)
    for argument, value in zip(arguments, step.args, strict=False):
        given[argument.name] = value
    for argument in arguments:
        if argument.name not in given and argument.has_default_value():
            given[argument.name] = argument.default_value
    return given


def _sizes(made: Any, node: Node) -> list[Any]:
    """A tensor's sizes, as nodes where they are dynamic."""
    size = namespace("aten").sym_size.int
    return [
        int(n) if isinstance(n, int) else made.call(size, node, dim)
        for dim, n in enumerate(node.meta["val"]._array.shape)
    ]


@_of("alias", "detach", "view_as", "contiguous", "to", "lift", "lift_fresh", "expand", "type_as")
def _same(made: Any, step: Any, whole: Node, part: Node) -> Node:
    return part


@_of("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "ravel",
     "_reshape_alias", "reshape_as", "atleast_1d", "atleast_2d", "atleast_3d")  # fmt: skip
def _reshaped(made: Any, step: Any, whole: Node, part: Node) -> Node:
    if step.target._schema.overload_name == "dtype":
        return made.call(namespace("aten").view.dtype, part, whole.meta["val"].dtype)
    return made.call(namespace("aten").view.default, part, _sizes(made, whole))


@_of("unsqueeze")
def _squeezed(made: Any, step: Any, whole: Node, part: Node) -> Node:
    return made.call(namespace("aten").squeeze.dim, part, step.args[0])


@_of("transpose", "t", "swapaxes", "swapdims", "adjoint", "numpy_T")
def _again(made: Any, step: Any, whole: Node, part: Node) -> Node:
    return made.step(step, part)


@_of("permute", "movedim")
def _permuted(made: Any, step: Any, whole: Node, part: Node) -> Node:
    ndim = len(step.args[0])
    inverse = [0] * ndim
    for place, dim in enumerate(step.args[0]):
        inverse[dim % ndim] = place
    return made.call(namespace("aten").permute.default, part, inverse)


@_of("select")
def _selected(made: Any, step: Any, whole: Node, part: Node) -> Node:
    return made.call(namespace("aten").select_scatter.default, whole, part, *step.args)


@_of("slice")
def _sliced(made: Any, step: Any, whole: Node, part: Node) -> Node:
    given = _named(step)
    places = [given[name] for name in ("dim", "start", "end", "step")]
    return made.call(namespace("aten").slice_scatter.default, whole, part, *places)


@_of("narrow")
def _narrowed(made: Any, step: Any, whole: Node, part: Node) -> Node:
    dim, start, length = step.args
    end = start + length
    return made.call(namespace("aten").slice_scatter.default, whole, part, dim, start, end)


@_of("diagonal")
def _diagonal(made: Any, step: Any, whole: Node, part: Node) -> Node:
    given = _named(step)
    places = [given[name] for name in ("offset", "dim1", "dim2")]
    return made.call(namespace("aten").diagonal_scatter.default, whole, part, *places)


@_of("as_strided")
def _strided(made: Any, step: Any, whole: Node, part: Node) -> Node:
    return made.call(namespace("aten").as_strided_scatter.default, whole, part, *step.args)


@_of("unbind")
def _unbound(made: Any, step: Any, whole: Node, part: Node) -> Node:
    dim = _named(step)["dim"]
    return made.call(namespace("aten").select_scatter.default, whole, part, dim, step.item)


@_of("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk")
def _split(made: Any, step: Any, whole: Node, part: Node) -> Node:
    dim = _named(step)["dim"]
    with made.fakes:
        parts = step.target(whole.meta["val"], *step.args, **step.kwargs)
    start = sum(int(x.shape[dim]) for x in parts[: step.item])
    end = start + int(parts[step.item].shape[dim])
    return made.call(namespace("aten").slice_scatter.default, whole, part, dim, start, end)


@_of("view_as_real")
def _complex(made: Any, step: Any, whole: Node, part: Node) -> Node:
    return made.call(namespace("aten").view_as_complex.default, part)


@_of("view_as_complex")
def _real(made: Any, step: Any, whole: Node, part: Node) -> Node:
    return made.call(namespace("aten").view_as_real.default, part)


@_of("real", "imag")
def _component(made: Any, step: Any, whole: Node, part: Node) -> Node:
    aten = namespace("aten")
    if step.target._schema.name.endswith("real"):
        return made.call(aten.complex.default, part, made.call(aten.imag.default, whole))
    return made.call(aten.complex.default, made.call(aten.real.default, whole), part)
