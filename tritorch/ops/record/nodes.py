"""What the node of a recorded call is called and says of what it keeps, in PyTorch's terms.

# Note [Names of nodes]
A recorded call is a node of its record's own class.  Who looks at it (`grad_fn`, `next_functions`,
`name()`) sees one of the class that PyTorch would have made: `settle` finds its name, once, and
changes the node's class to the one of that name.  The name is the first of these that there is:

    node="Sum1"                          the record says it: SumBackward1
    node="mean"                          or the overload whose node it is, as schemas do
    schema="gelu(x, approximate='tanh')" the overload that the record computes
    its own name

and which node an overload has stands in `tritorch/schema/nodes.txt`, with the names of what it
keeps.  A function that is one operator in PyTorch and several records here says with `ends_with`
what the last of them is: the graph is another, its last node has PyTorch's name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.autograd.graph import AsStridedBackward0, CopySlices
from tritorch.autograd.nodes import FREED, Node
from tritorch.autograd.saved import SavedTensor
from tritorch.core import arrays
from tritorch.core.tensor import Tensor
from tritorch.ops.record.gradients import Spec
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.schema import called, parts_of, schema_of
from tritorch.schema import nodes as table


class _Stand:
    """Stands for a tensor of which nothing is kept but, at most, the shape."""

    def __init__(self, shape: Any) -> None:
        self.shape = shape


@functools.cache
def class_of(name: str, base: type = Node) -> type:
    """The class of the nodes of a name, "AddBackward0" or "torch::autograd::CopyBackwards"."""
    if name == AsStridedBackward0.__name__:
        return AsStridedBackward0
    described = table.by_name().get(name)
    fields = {"__slots__": (), "__module__": "builtins", "_full_name": name}
    if described is not None:
        fields |= {"_kept": described.saved, "_kept_tensors": described.tensors}
    return type(name.rpartition("::")[2], (base,), fields)


def node_of(overload: str, base: type = Node) -> type:
    """The class of an overload's nodes; of one without a derivative in PyTorch, by its name."""
    found = table.table().get(overload)
    if found is not None:
        return class_of(found.name, base)
    return class_of(overload if "::" in overload else f"{_title(overload)}Backward0", base)


def _title(name: str) -> str:
    return "".join(part.title() for part in name.partition(".")[0].strip("_").split("_"))


def settle(op: Any, node: Any) -> None:
    """Gives a node the class that PyTorch's has."""
    find = _finders(op)
    node.__class__ = find if isinstance(find, type) else find(node)


@functools.cache
def _finders(op: Any) -> Any:
    """The class of a record's nodes, or the function that finds that of one."""
    text = op.declared_node
    if text and "{" not in text:
        return class_of(op.backward_name) if text[0].isupper() else node_of(text)
    schema = op.declared_schema
    if not text and "->" in schema:
        return class_of(op.backward_name)
    if not text and not schema:
        try:
            found = schema_of(op)
        except LookupError:
            return class_of(op.backward_name)
        name = f"{found.name.partition('::')[2]}.{found.overload_name}".rstrip(".")
        return node_of(name) if name in table.table() else class_of(op.backward_name)
    overload = text or parts_of(schema)[0]
    if "{" not in overload:
        return node_of(overload) if overload in table.table() else class_of(op.backward_name)
    names = ", ".join((*op.inputs, *op.params))
    find = eval(f"lambda {names}: f{overload!r}")
    known = not text

    def of(node: Any) -> type:
        found = find(*_operands(op, node))
        return class_of(op.backward_name) if known and found not in table.table() else node_of(found)

    return of


def _operands(op: Any, node: Any) -> list[Any]:
    """What a node knows of its inputs, and its params."""
    n = len(node.edges)
    inputs = list(node.saved) if node.saved is not None else [None] * n
    for i in range(n):
        if (node.numbers >> min(i, 31)) & 1:
            inputs[i] = inputs[i] if isinstance(inputs[i], (int, float, complex)) else 0
        elif (node.absent >> min(i, 31)) & 1:
            inputs[i] = None
        elif not isinstance(inputs[i], Tensor):
            described = _described(node, i)
            inputs[i] = _Stand(described[0] if described else ())
    if op.variadic:
        first = len(op.inputs) - 1
        inputs = [*inputs[:first], inputs[first:]]
    inputs += [None] * (len(op.inputs) - len(inputs))
    params = list(node.params or ())
    return [*inputs, *params, *[None] * (len(op.params) - len(params))]


def ends_with(overload: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Says of a function of several records which operator's node its results have in PyTorch:

    @ends_with("dist")
    @ends_with("{'nll_loss2d' if input.ndim == 4 else 'nll_loss'}_forward")  in its arguments' names
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = None
        names: dict[str, Any] = {"Tensor": Tensor}

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            before = [getattr(x, "_raw_node", None) for x in args]
            out = function(*args, **kwargs)
            for each in out if isinstance(out, tuple) else (out,):
                node = getattr(each, "_raw_node", None)
                if node is not None and not any(node is old for old in before):
                    break
            else:
                return out
            nonlocal signature
            text = overload
            if "{" in overload:
                signature = signature or inspect.signature(function)
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                text = eval(f"f{overload!r}", names, dict(bound.arguments))
            return ends_as(text, out) if text else out

        return named

    return decorate


def ends_as(overload: str, out: Any) -> Any:
    """New results, whose nodes are those of an operator of PyTorch."""
    for each in out if isinstance(out, tuple) else (out,):
        node = getattr(each, "_raw_node", None)
        if isinstance(node, CopySlices):
            node.__class__ = node_of(overload, CopySlices)
        elif node is not None and isinstance(node.op, Operator):
            node.__class__ = node_of(overload)
    return out


# ---- what a node keeps ---------------------------------------------------------------------------


def read(node: Any, name: str, raw: bool) -> Any:
    """`_saved_<name>` of a node that has such, or the object behind it that hooks are put on."""
    if node.freed and (not raw or name in node._kept_tensors):
        raise RuntimeError(FREED)
    place = _place(node, name) if name in node._kept_tensors else None
    if raw:
        several = isinstance(place, list)
        made = [SavedTensor(node, each) for each in (place if several else [place])]
        return tuple(made) if several else made[0]
    if isinstance(place, list):
        saved = node.unpack()
        return tuple(saved[i] for i in place)
    if place is not None:
        return SavedTensor(node, place).unpack()
    return _plain(_value(node, name))


def _place(node: Any, name: str) -> Any:
    """Where a node keeps a tensor: the number of an input, or -1 - that of an output; None: it does
    not.  A list of tensors has a list of such."""
    op = node.op
    if _named_otherwise(node):
        return None
    if (output := _output(op, name)) is not None:
        return -1 - output if _keeps_output(node, output) else None
    # The schema's call, made of places in place of tensors.
    places = [_Place(i) for i in range(len(node.edges))]
    value = _arguments(op, places, node.params or ()).get(name)
    if isinstance(value, _Place):
        return value.index if _is_kept(node, value.index) else None
    if isinstance(value, (list, tuple)) and any(isinstance(each, _Place) for each in value):
        return [p.index for p in value if isinstance(p, _Place) and _is_kept(node, p.index)]
    return None


class _Place:
    """Stands for the input of a number."""

    def __init__(self, index: int) -> None:
        self.index = index


def _is_kept(node: Any, i: int) -> bool:
    saved = node.saved
    return saved is not None and not isinstance(saved[i], (tuple, type(None), int, float, complex))


def _keeps_output(node: Any, k: int) -> bool:
    if node.packed:
        out = (node.hooks.packed if node.hooks else None) or node.out
    else:
        out = node.out
    return out is not None and (not isinstance(out, tuple) or out[k] is not None)


@functools.cache
def _output(op: Any, name: str) -> int | None:
    """k if a name is that of the k-th output."""
    if name == "result":
        return 0
    if name.startswith("result") and name[6:].isdigit():
        return int(name[6:])
    try:
        names = [each.name for each in schema_of(op).returns]
    except (LookupError, KeyError):
        return None
    return names.index(name) if name in names and name not in op.inputs else None


def _named_otherwise(node: Any) -> bool:
    """Whether a node's name is not that of its record: `ends_with`."""
    find = _finders(node.op)
    return type(node) is not (find if isinstance(find, type) else find(node))


def _arguments(op: Any, tensors: Sequence[Any], params: Sequence[Any]) -> dict[str, Any]:
    """A call's arguments by their names in its schema."""
    try:
        call = _caller(op)(list(tensors), list(params))
    except Exception:  # a declaration that asks its inputs for more than is kept of them
        return {}
    arguments = call.schema.arguments
    found = {a.name: a.default_value for a in arguments if a.has_default_value()}
    return found | dict(zip((a.name for a in arguments), call.args)) | call.kwargs


@functools.cache
def _caller(op: Any) -> Callable[..., Any]:
    return called(op)


def _value(node: Any, name: str) -> Any:
    """What is no tensor: an argument, or a tensor's shape, dtype..."""
    if _named_otherwise(node):
        return None
    for suffix, read_of in _DESCRIBED.items():
        if name.endswith(suffix):
            whole = name.removesuffix(suffix)
            places = [_Place(i) for i in range(len(node.edges))]
            place = _arguments(node.op, places, node.params or ()).get(whole)
            spec = _described(node, place.index) if isinstance(place, _Place) else None
            return None if spec is None else read_of(*spec)
    return _arguments(node.op, _operands(node.op, node), node.params or ()).get(name)


_DESCRIBED: dict[str, Callable[[Any, Any], Any]] = {
    "_sym_sizes_opt": lambda shape, kind: tuple(shape),
    "_sym_sizes": lambda shape, kind: tuple(shape),
    "_sym_numel": lambda shape, kind: int(functools.reduce(lambda a, b: a * b, shape, 1)),
    "_scalar_type": lambda shape, kind: kind,
    "_layout": lambda shape, kind: None,
}


def _described(node: Any, i: int) -> tuple[Any, Any] | None:
    """The shape and dtype of an input: of what is saved, or of the edge that leads to it."""
    saved = node.saved[i] if node.saved is not None else None
    if isinstance(saved, Tensor):
        return saved.shape, saved.dtype
    if isinstance(saved, Spec):
        return saved.shape, saved.dtype
    edge = node.edges[i]
    if isinstance(edge, Tensor):
        return edge.shape, edge.dtype
    if edge is not None:
        nr = node.outputs[i] if node.outputs is not None else 0
        shape = edge.shape[nr] if edge.n_outputs else edge.shape
        kind = edge.dtype[nr] if edge.n_outputs else edge.dtype
        return shape, arrays.dtype_of_kind(kind)
    return (saved, None) if isinstance(saved, tuple) else None


def _plain(value: Any) -> Any:
    """As PyTorch gives it: whole numbers without a sign, lists as tuples."""
    if isinstance(value, (bool, Spec, _Place, _Stand)):
        return value if isinstance(value, bool) else None
    if isinstance(value, int):
        return value & (2**64 - 1)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(each) for each in value)
    return value

