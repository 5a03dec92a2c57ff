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
(`ends.py`) what the last of them is: the graph is another, its last node has PyTorch's name.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

from tritorch.arrays import arrays
from tritorch.autograd.graph import AsStridedBackward0
from tritorch.autograd.nodes import FREED, Node
from tritorch.autograd.saved import SavedTensor
from tritorch.core import published
from tritorch.core.dtype import float64
from tritorch.core.layout import strided
from tritorch.core.size import Size
from tritorch.core.tensor import Tensor
from tritorch.ops.record.gradients import Spec
from tritorch.ops.record.schema import called, parts_of, schema_of
from tritorch.schema import nodes as table
from tritorch.schema.signature import FunctionSchema
from tritorch.schema.table import find as find_schema


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
    fields: dict[str, Any] = {"__slots__": (), "__module__": "builtins", "_full_name": name}
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
    text = op.gradient.node
    if text[-1:] == ")":
        text = parts_of(text)[0]
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
        return (
            class_of(op.backward_name) if known and found not in table.table() else node_of(found)
        )

    return of


def _operands(op: Any, node: Any) -> list[Any]:
    """What a node knows of its inputs, and its params."""
    n = len(node._node_edges)
    inputs = list(node._node_saved) if node._node_saved is not None else [None] * n
    for i in range(n):
        if (node._node_numbers >> min(i, 31)) & 1:
            inputs[i] = inputs[i] if isinstance(inputs[i], (int, float, complex)) else 0
        elif (node._node_absent >> min(i, 31)) & 1:
            inputs[i] = None
        elif not isinstance(inputs[i], Tensor):
            described = _described(node, i)
            inputs[i] = _Stand(described[0] if described else ())
    if op.variadic:
        first = len(op.inputs) - 1
        inputs = [*inputs[:first], inputs[first:]]
    inputs += [None] * (len(op.inputs) - len(inputs))
    params = list(node._node_params or ())
    return [*inputs, *params, *[None] * (len(op.params) - len(params))]


# ---- what a node keeps ---------------------------------------------------------------------------


class _Input:
    """Stands for a node's input of a number, in a call of its schema."""

    def __init__(self, node: Any, index: int) -> None:
        self._node, self.index = node, index

    def __getattr__(self, name: str) -> Any:
        described = _described(self._node, self.index) if name[0] != "_" else None
        if described is None or name not in ("shape", "ndim", "dtype"):
            raise AttributeError(name)
        shape, kind = described
        return kind if name == "dtype" else Size(shape) if name == "shape" else len(shape)

    def numel(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)


def read(node: Any, name: str, raw: bool) -> Any:
    """`_saved_<name>` of a node that has such, or the object behind it that hooks are put on."""
    if node._node_call is not None:
        found = _of_call(node, name)
        if found is None and name == "self" and node._node_edges:
            found = _Input(node, 0)
    else:
        found = _arguments(node).get(name)
    is_tensor = name in node._kept_tensors
    if not is_tensor:
        if node._node_freed and raw:
            raise RuntimeError(FREED)
        return _plain(found if found is not None else _derived(node, name), _type_of(node, name))
    if node._node_freed or node._node_call is False:
        raise RuntimeError(FREED)
    output = None if node._node_call is not None else _output(type(node).__name__, name)
    if output is not None:
        places: Any = -1 - output if _keeps_output(node, output) else None
    elif isinstance(found, (list, tuple)):
        places = [x.index for x in found if isinstance(x, _Input) and _is_kept(node, x.index)]
    else:
        places = found.index if isinstance(found, _Input) and _is_kept(node, found.index) else None
    if raw:
        made = [SavedTensor.of(node, each) for each in _listed(places)]
        return tuple(made) if isinstance(places, list) else made[0]
    if isinstance(places, list):
        saved = node._node_unpack() if places else ()
        return tuple(saved[i] for i in places)
    if places is not None:
        return SavedTensor.of(node, places).unpack()
    if isinstance(found, (int, float, complex)):
        return published.public.tensor(found, dtype=None if isinstance(found, int) else float64)
    return found if isinstance(found, Tensor) else None


def _listed(places: Any) -> list[Any]:
    return places if isinstance(places, list) else [places]


def _is_kept(node: Any, i: int) -> bool:
    saved = node._node_saved
    return saved is not None and not isinstance(saved[i], (tuple, type(None), int, float, complex))


def _keeps_output(node: Any, k: int) -> bool:
    out = (node._node_hooks.packed if node._node_hooks else None) or node._node_out
    return out is not None and (not isinstance(out, tuple) or out[k] is not None)


@functools.cache
def _output(node: str, name: str) -> int | None:
    """k if a name is that of the k-th output of what has nodes of this name."""
    if name == "result":
        return 0
    if name.startswith("result") and name[6:].isdigit():
        return int(name[6:])
    for schema in _schemas(node):
        names = [each.name for each in schema.returns]
        if name in names and name not in {each.name for each in schema.arguments}:
            return names.index(name)
    return None


def _arguments(node: Any) -> dict[str, Any]:
    """A recorded call's arguments by their names in its schema, inputs as `_Input`s."""
    op = node._node_op
    find = _finders(op)
    kind: Any = type(node)
    if kind is not (find if isinstance(find, type) else find(node)):
        return {}  # it is called as another function's: `ends_as`
    given = _operands(op, node)
    inputs: list[Any] = [_Input(node, i) for i in range(len(node._node_edges))]
    for i, value in enumerate(given[: len(op.inputs)]):
        if value is None or isinstance(value, (int, float, complex)):
            inputs[i] = value
    try:
        call = _caller(op)(inputs, list(node._node_params or ()))
    except Exception:  # a declaration that asks its inputs for more than is kept of them
        return {}
    arguments = call.schema.arguments
    found = {a.name: a.default_value for a in arguments if a.has_default_value()}
    return found | dict(zip((a.name for a in arguments), call.args)) | call.kwargs


@functools.cache
def _caller(op: Any) -> Callable[..., Any]:
    return called(op, op.gradient.node if op.gradient.node[-1:] == ")" else "")


def _of_call(node: Any, name: str) -> Any:
    """An argument of the function whose last node this is, as the user called it."""
    if node._node_call is False:
        return None
    call_of, args, kwargs = node._node_call
    given = call_of(*args, **kwargs)
    if name == "reduction" and isinstance(given.get(name), str):
        return ("none", "mean", "sum").index(given[name])
    for each in (name, *_ALIASES.get(name, ())):
        if each in given:
            return given[each]
    first = next(iter(given.values()), None)
    return first if name == "self" else None


# What functions call arguments that their operators name otherwise.
_ALIASES = {
    "self": ("input", "tensor", "A", "theta"), "other": ("tensor", "vec2", "y"),
    "split_size": ("split_size_or_sections",), "vec": ("vec",), "max": ("max",),
}  # fmt: skip


@functools.cache
def _schemas(name: str) -> tuple[FunctionSchema, ...]:
    """The overloads that have a node of a name."""
    found = (o.partition(".") for o, described in table.table().items() if described.name == name)
    return tuple(find_schema(stem, which) for stem, _, which in found)


@functools.cache
def _types(name: str) -> dict[str, str]:
    """The types of the arguments of the overloads that have a node of a name."""
    arguments = [each for schema in _schemas(name) for each in schema.arguments]
    return {each.name: str(each.type) for each in reversed(arguments)}


def _type_of(node: Any, name: str) -> str:
    return _types(type(node).__name__).get(name, "")


_SIZE = re.compile(r"(\w+)_sym_argsize_(minus_)?(\d+)")


def _derived(node: Any, name: str) -> Any:
    """What is known of an argument: its shape, its dtype, how many dims it has..."""
    arguments = _arguments(node)
    if found := _SIZE.fullmatch(name):
        shape = _shape_of(node, arguments.get(found[1]))
        at = -int(found[3]) if found[2] else int(found[3])
        return None if shape is None else shape[at]
    for suffix, read_of in _DESCRIBED.items():
        if name.endswith(suffix):
            whole = name.removesuffix(suffix)
            given = arguments.get(whole)
            if node._node_call:
                given = _of_call(node, whole)
                if given is None and whole == "self":
                    given = _Input(node, 0)
            if given is None and suffix == "_sym_sizes_opt":
                return (0,)
            shape = _shape_of(node, given)
            return None if shape is None else read_of(shape, given)
    return None


def _shape_of(node: Any, given: Any) -> Any:
    try:
        return tuple(given.shape)
    except AttributeError:
        return None


def _strides(shape: Any, given: Any) -> Any:
    node, i = getattr(given, "_node", None), getattr(given, "index", 0)
    saved = node._node_saved[i] if node is not None and node._node_saved is not None else given
    if isinstance(saved, (Tensor, Spec)):
        return tuple(saved.stride() if isinstance(saved, Tensor) else saved.stride)
    edge = node._node_edges[i] if node is not None else None
    return tuple(edge.stride()) if isinstance(edge, Tensor) else None


_DESCRIBED: dict[str, Callable[[Any, Any], Any]] = {
    "_sym_sizes_opt": lambda shape, given: shape,
    "_sym_sizes": lambda shape, given: shape,
    "_sym_strides": _strides,
    "_sym_numel": lambda shape, given: math.prod(shape),
    "_dim": lambda shape, given: len(shape),
    "_scalar_type": lambda shape, given: given.dtype,
    "_layout": lambda shape, given: strided,
}


def _described(node: Any, i: int) -> tuple[Any, Any] | None:
    """The shape and dtype of an input: of what is saved, or of the edge that leads to it."""
    saved = node._node_saved[i] if node._node_saved is not None else None
    if isinstance(saved, (Tensor, Spec)):
        return saved.shape, saved.dtype
    edge = node._node_edges[i]
    if isinstance(edge, Tensor):
        return edge.shape, edge.dtype
    if isinstance(edge, Node):
        nr = node._node_outputs[i] if node._node_outputs is not None else 0
        shape = edge._node_shape[nr] if edge._node_n_outputs else edge._node_shape
        kind = edge._node_dtype[nr] if edge._node_n_outputs else edge._node_dtype
        return shape, arrays.dtype_of_kind(kind)
    return (saved, None) if isinstance(saved, tuple) else None


def _plain(value: Any, kind: str = "") -> Any:
    """As PyTorch gives it: whole numbers without a sign, lists as tuples."""
    if isinstance(value, (Tensor, Spec, _Input, _Stand)) or hasattr(value, "shape"):
        return None
    if kind == "bool" and isinstance(value, int):
        return bool(value)
    if "int[" in kind.lower() and isinstance(value, int):
        return (value & (2**64 - 1),)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value & (2**64 - 1)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(each) for each in value)
    return value
