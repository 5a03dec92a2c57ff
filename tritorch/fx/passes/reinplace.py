"""reinplace: operators that may write into their argument do, where nobody needs it any more.

    b = a.clone()
    c = b.add(1)          becomes    b.add_(1), where nothing reads b afterwards

A tensor that is an input, or shares memory with one, is never written into.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

from tritorch.compat.torch_private._subclasses import FakeTensorMode
from tritorch.core.tensor import Tensor
from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Interpreter
from tritorch.fx.node import Node, map_arg
from tritorch.ops.record.overloads import OpOverload, namespace
from tritorch.schema.tensor_type import TensorType
from tritorch.utils import _pytree as pytree

__all__ = ["reinplace"]

_aten = namespace("aten")
# Of what writes into a part of a tensor, anew: the view of that part.
_VIEW_INVERSE_MAP = {
    _aten.diagonal_scatter.default: _aten.diagonal.default,
    _aten.select_scatter.default: _aten.select.int,
    _aten.slice_scatter.default: _aten.slice.Tensor,
    _aten.as_strided_scatter.default: _aten.as_strided.default,
}


def _alias(target: Any) -> Any:
    """What a schema says of memory that an operator's first argument and its result share; None
    where they share none, or it writes into it."""
    arguments = target._schema.arguments if isinstance(target, OpOverload) else ()
    alias = arguments[0].alias_info if arguments else None
    return None if alias is None or alias.is_write else alias


@compatibility(is_backward_compatible=False)
class _FunctionalizationMetadataProp(Interpreter):
    """Notes a fake of every node's value, its place, and what it is a view of."""

    def run_node(self, node: Node) -> Any:
        """The fake of a node's value, noted."""
        self.node_counter += 1
        result = super().run_node(node)
        node.meta["fake_result"], node.meta["node_idx"] = result, self.node_counter
        if node.op == "call_function":
            alias = _alias(node.target)
            if alias is not None and "*" in alias.after_set:
                self.multi_output_view_nodes[node] = node.args[0]
            elif alias is not None:
                node.meta["view_of"] = node.args[0]
            elif node.target is operator.getitem and node.args[0] in self.multi_output_view_nodes:
                node.meta["view_of"] = self.multi_output_view_nodes[node.args[0]]
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph on fakes."""
        self.multi_output_view_nodes: dict[Node, Any] = {}
        self.node_counter = -1
        with FakeTensorMode() as mode:
            fakes = [mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args]
            return super().run(*fakes)


def _memory(fake: Any) -> int:
    """What tells the memory of a fake from others."""
    return fake.untyped_storage()._cdata


def _tensors(node: Node) -> list[Any]:
    leaves = pytree.tree_leaves(node.meta.get("fake_result"))
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _maybe_get_inplace_op(op: Any) -> OpOverload | None:
    """The overload that writes into its first argument what another one computes."""
    if not isinstance(op, OpOverload) or _alias(op) is not None:
        return None
    name = f"{op.overloadpacket.__name__}_"
    try:
        packet = getattr(namespace(op.namespace), name)
    except AttributeError:
        return None
    wanted = [a.type for a in op._schema.arguments]
    for overload in packet.overloads():
        found = getattr(packet, overload)
        arguments = found._schema.arguments
        writes = arguments and arguments[0].alias_info is not None
        if writes and arguments[0].alias_info.is_write and [a.type for a in arguments] == wanted:
            return found
    return None


def _overlaps(fake: Any) -> bool:
    """Whether elements of a tensor share memory, as those of an expanded one do."""
    return any(size > 1 and stride == 0 for size, stride in zip(fake.shape, fake.stride()))


def _layout(fake: Any) -> tuple[Any, ...]:
    return tuple(fake.shape), tuple(fake.stride()), fake.storage_offset()


def _later_users(aliases: set[Node], place: int) -> set[Node]:
    """The nodes after a place that need the values of nodes with the same memory; views of it do
    not by themselves."""
    found = set()
    for node in aliases:
        for user in node.users:
            if user.meta.get("node_idx", -1) <= place:
                continue
            view = isinstance(user.target, OpOverload) or user.target is operator.getitem
            if not (user in aliases and view):
                found.add(user)
    return found


def _undone_views(users: set[Node], aliases: set[Node]) -> set[Node]:
    """The nodes that write a part of a tensor into the same place of it: nothing to do, once that
    part was written into itself."""
    found = set()
    for node in users:
        if node.target not in _VIEW_INVERSE_MAP:
            continue
        base = node.args[0]
        for alias in aliases:
            source = alias.meta.get("view_of")
            if source is None:
                continue
            view = _VIEW_INVERSE_MAP[node.target](
                source.meta["fake_result"], *node.args[2:], **node.kwargs
            )
            same = _layout(source.meta["fake_result"]) == _layout(base.meta["fake_result"])
            if same and _layout(view) == _layout(alias.meta["fake_result"]):
                found.add(node)
    return found


def _may_hold(target: Any, own: list[Any], results: list[Any]) -> bool:
    """Whether an argument has room for the result, and no elements that share memory."""
    if len(own) == len(results) and target is not _aten.resize.default:
        for mine, result in zip(own, results):
            if mine.numel() != result.numel() or mine.dtype != result.dtype or _overlaps(mine):
                return False
    return True


@compatibility(is_backward_compatible=True)
def reinplace(gm: GraphModule, *sample_args: Any) -> GraphModule:
    """Makes operators of a graph, such as `make_fx` traces, write into their arguments.

    sample_args: arguments of the module, of which shapes are looked at."""
    _FunctionalizationMetadataProp(gm).propagate(*sample_args)
    inputs = {_memory(t) for n in gm.graph.nodes if n.op == "placeholder" for t in _tensors(n)}
    sharing: dict[int, set[Node]] = defaultdict(set)
    for node in gm.graph.nodes:
        for tensor in _tensors(node):
            sharing[_memory(tensor)].add(node)
    done: set[Node] = set()
    for node in gm.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        arguments = node.target._schema.arguments
        if not arguments or type(arguments[0].type) is not TensorType:
            continue
        own = node.args[0]
        if not isinstance(own, Node) or not _may_hold(node.target, _tensors(own), _tensors(node)):
            continue
        memory = _memory(own.meta["fake_result"])
        if memory in inputs or sum(arg is own for arg in node.args) > 1:
            continue
        aliases = sharing[memory]
        later = _later_users(aliases, node.meta["node_idx"])
        undone = _undone_views(later, aliases)
        if later - undone:
            continue
        if node.target in _VIEW_INVERSE_MAP and node not in done:
            with gm.graph.inserting_before(node):
                part = gm.graph.call_function(
                    _VIEW_INVERSE_MAP[node.target], (own, *node.args[2:]), dict(node.kwargs)
                )
                gm.graph.call_function(_aten.copy_.default, (part, node.args[1]))
            done.add(node)
        else:
            in_place = _maybe_get_inplace_op(node.target)
            if in_place is None:
                continue
            node.target = in_place
        for tensor in _tensors(node):
            both = sharing[memory] | sharing[_memory(tensor)]
            sharing[memory] = sharing[_memory(tensor)] = both
        done |= undone
        for old in (node, *undone):
            _use_argument(old, node.meta["node_idx"], sharing)
    for node in done:
        gm.graph.erase_node(node)
    gm.recompile()
    return gm


def _use_argument(old: Node, place: int, sharing: dict[int, set[Node]]) -> None:
    """Makes later users of a node use what it wrote into."""
    new: Any = old.args[0]
    for user in [n for n in old.users if n.meta.get("node_idx", -1) > place]:
        change = lambda n: new if n is old else n
        user.args, user.kwargs = map_arg(user.args, change), map_arg(user.kwargs, change)
        before = {_memory(t) for t in _tensors(old)}
        results = {_memory(t) for t in _tensors(user)}
        if len(before) == 1 and before == results:  # a view of what is written into now
            (mine,), (theirs,) = {_memory(t) for t in _tensors(new)}, results
            both = sharing[mine] | sharing[theirs]
            sharing[mine] = sharing[theirs] = both
