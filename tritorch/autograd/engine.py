"""The engine: runs the recorded graph backwards.

# Note [Order of the backward pass]
Nodes are numbered as they are made, and an edge always leads to an older node: so taking the
youngest node whose gradient is pending visits every node once, after all its users, without
counting dependencies first.

# Note [Gradients of parts]
The gradient of a view of some elements is zeros with the gradient where the view looks. Where
several parts of one tensor are used (of a split, of a loop over time), the first one's is made, and
those that come later are added to it in their places: the cost is that of the parts, not of as many
wholes. The sums are the same, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.sparse import SparseArray
from tritorch.autograd import anomaly, graph, passes, streams as node_streams
from tritorch.autograd.arriving import (
    UnfitError,
    accumulate_with_hooks,
    accumulating,
    add_into,
    arrive as arrive_at_leaf,
    arrive_profiled,
    fit,
    ones_like,
    run_tensor_hooks,
    sum_of,
)
from tritorch.autograd.nodes import FREED, AccumulateGrad, Node
from tritorch.autograd.passes import current, queue_callback, within
from tritorch.autograd.saved import hook_stack
from tritorch.core import profiling
from tritorch.core.defaults import warn_once
from tritorch.core.dispatching import watching
from tritorch.core.profiling import events
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import run_in_thread

_DEEP = 25  # passes inside of each other that share a thread's stack


def backward(
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Any] | None,
    accumulate: bool,
) -> list[Tensor | None]:
    """Runs the graph behind `tensors`.

    Without `inputs`, accumulates into every leaf's grad.  With them, only what leads to them runs;
    their gradients are accumulated (`accumulate`) or returned.
    """
    _C.flush()
    if current.depth and current.depth % _DEEP == 0:
        with Scope((current, "depth", current.depth + 1)):
            return run_in_thread(
                lambda: backward(tensors, grads, retain_graph, create_graph, inputs, accumulate)
            )
    if not all(isinstance(tensor, Tensor) for tensor in tensors):
        tensors = [_root(tensor) for tensor in tensors]
    captures = None if inputs is None else Captures(inputs, accumulate)
    if create_graph and accumulate:
        warn_once(
            "Using backward() with create_graph=True will create a reference cycle between the "
            "parameter and its gradient which can cause a memory leak. We recommend using "
            "autograd.grad when creating the graph to avoid this. If you have to use this "
            "function, make sure to reset the .grad fields of your parameters to None after use to "
            "break the cycle and avoid the leak.",
            stacklevel=5,
        )
    callbacks: list[Any] = []
    outermost = current.callbacks is None
    streams = node_streams.of_pass()
    leave = None if streams is None else streams.leave
    around = callbacks if outermost else current.callbacks
    keep, entered = retain_graph or create_graph, len(hook_stack.hooks)
    try:
        with within(tensors, captures, around, create_graph, leave, keep, accumulate):
            _run(tensors, grads, keep, create_graph, captures, streams)
            if leave is not None:
                leave()
            for callback in callbacks:
                callback()
    except BaseException as error:
        # A traceback must not keep the tensors of a failed pass alive (in a notebook, for ever).
        _clear_frames(error.__traceback__)
        raise
    finally:
        if len(hook_stack.hooks) > entered:  # what a hook enters ends with the pass
            hook_stack.hooks = hook_stack.hooks[:entered]
    if captures is None or inputs is None:
        return []
    _run_hooks_of_leaves(captures, inputs)
    if accumulate:
        for tensor, g in zip(inputs, captures.results):
            leaf = tensor
            if not isinstance(tensor, Tensor):  # an edge: into its leaf, if it ends at one
                leaf = tensor.node.variable if isinstance(tensor.node, AccumulateGrad) else None
            if g is not None and leaf is not None:
                accumulate_with_hooks(leaf, g, create_graph)
        return []
    return captures.results


def run(
    tensors: Sequence[Tensor], grads: Sequence[Tensor], retain: bool, create_graph: bool,
    captures: Captures,
) -> None:  # fmt: skip
    """Runs a graph that is part of another's node, inside of that one's pass."""
    _run(tensors, grads, retain, create_graph, captures, None)


def _run_hooks_of_leaves(captures: Captures, inputs: Sequence[Any]) -> None:
    """The hooks of the asked-for leaves see their whole gradients."""
    for i, leaf in enumerate(inputs):
        g = captures.results[i]
        if g is not None and isinstance(leaf, Tensor) and leaf._leaf and leaf._hooks is not None:
            captures.results[i] = run_tensor_hooks(leaf._hooks.tensor, g)


def _root(edge: Any) -> Tensor:
    """What a pass may start at: a tensor, or something at the place of an edge."""
    if isinstance(edge, Tensor):
        return edge
    if isinstance(edge.node, AccumulateGrad):
        return edge.node.variable
    place = _C.wrap(np.empty(0))
    place._raw_node, place.output_nr = edge.node, edge.output_nr
    return place


def _clear_frames(trace: Any) -> None:
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for frame in frames[1:]:
        try:
            frame.clear()
        except RuntimeError:  # still running
            pass


class Captures:
    """Which gradients are asked for, and which nodes lead to them."""

    def __init__(self, inputs: Sequence[Any], accumulates: bool = False) -> None:
        self.accumulates = accumulates
        self.results: list[Tensor | None] = [None] * len(inputs)
        self.leaves: dict[int, list[int]] = {}
        self.outputs: dict[tuple[Any, int], list[int]] = {}
        self.nodes: set[Any] = set()
        for i, tensor in enumerate(inputs):
            if not isinstance(tensor, Tensor) and isinstance(tensor.node, AccumulateGrad):
                self.leaves.setdefault(id(tensor.node.variable), []).append(i)
            elif isinstance(tensor, Tensor) and tensor._leaf:
                self.leaves.setdefault(id(tensor), []).append(i)
            else:
                node, nr = (
                    (tensor._node, tensor.output_nr)
                    if isinstance(tensor, Tensor)
                    else (tensor.node, tensor.output_nr)
                )
                if node._node_divided:
                    node, nr = node.expand_within(nr)
                self.outputs.setdefault((node, nr), []).append(i)
                self.nodes |= {node, part_of(node, nr)}
        self.needed: set[Any] = set()
        self.expanded_nodes: set[Any] = set()

    def add(self, i: int, g: Tensor) -> None:
        """A gradient arrives at the leaf that was asked for as number i."""
        have = self.results[i]
        self.results[i] = g if have is None else sum_of(have, g)

    def find_needed(self, roots: list[Any]) -> None:
        """Marks each part of a node from which an asked-for gradient can be reached."""
        state: dict[Any, bool] = dict.fromkeys(self.needed, True)
        stack = list(roots)
        while stack:
            node = stack[-1]
            if node in state and state[node] is not None:
                stack.pop()
                continue
            edges = _edges_from(node)
            if node not in state:
                state[node] = None  # type: ignore[assignment]
                for edge in edges:
                    if isinstance(edge, (Node, tuple)) and edge not in state:
                        stack.append(edge)
                continue
            stack.pop()
            state[node] = any(
                (state.get(edge) or edge in self.nodes)
                if isinstance(edge, (Node, tuple))
                else id(edge) in self.leaves
                for edge in edges
                if edge is not None
            )
        self.needed = {node for node, needed in state.items() if needed}
        self.needed |= {part[0] for part in self.needed if type(part) is tuple}

    def expand(self, node: Any, graph: bool) -> None:
        """Asks for the nodes in the place of a segment's node, if it is expanded, or can be, and a
        graph through it is wanted."""
        if node in self.expanded_nodes or not (node.is_expanded() or (graph and node.expand())):
            return
        self.expanded_nodes.add(node)
        for i, place in enumerate(node.inner):
            if (node, i) in self.outputs:
                self.outputs.setdefault(place, []).extend(self.outputs.pop((node, i)))
                self.nodes |= {place[0], part_of(*place)}
        self.find_needed([part_of(*place) for place in node.inner])


def part_of(node: Any, nr: int) -> Any:
    """What a gradient of one output needs of a node: the node; of a divided one, that output."""
    return (node, nr) if node._node_divided else node


def _expanded(node: Any, graph: bool, captures: Captures | None, tensor: Tensor) -> Any:
    """The node of a tensor that a pass starts at, once it is expanded, if it can be."""
    if captures is not None:
        captures.expand(node, graph)
    elif graph:
        node.expand()
    return tensor._node


def _keep_needed(node: Any, g: Any, needed: set[Any]) -> bool:
    """Leaves a divided node the gradients of those outputs that are needed; whether it has one."""
    g[:] = [x if (node, nr) in needed else None for nr, x in enumerate(g)]
    return any(x is not None for x in g)


def _edges_from(part: Any) -> Any:
    """The parts of nodes, and leaves, that a gradient goes to from a part of a node."""
    if type(part) is tuple:
        edges = part[0].edges_of(part[1])
    elif any(isinstance(edge, Node) and edge._node_divided for edge in part._node_edges):
        edges = part.edges_of(0)
    else:
        return part._node_edges
    return [part_of(edge, nr) if isinstance(edge, Node) else edge for edge, nr in edges]


def _run(
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor | None],
    retain: bool,
    create_graph: bool,
    captures: Captures | None,
    streams: node_streams.Streams | None,
) -> None:
    heap: list[tuple[int, Any]] = []
    pending: dict[Any, Any] = {}
    owned: set[Any] = set()  # nodes whose pending gradient is a sum made here
    profiled = events.enabled()
    arrive = arrive_profiled if profiled else arrive_at_leaf
    leaves = _Leaves(tensors if captures is None else (), create_graph, arrive)
    shared = leaves.left
    plain = captures is None and streams is None and not create_graph and not profiled
    careful = anomaly.is_anomaly_enabled()
    sums_parts = not create_graph and not profiled and not watching and not careful
    for tensor, g in zip(tensors, grads):
        node = tensor._node
        if node is None:
            if g is None:
                g = ones_like(tensor)
            if captures is not None:
                _capture_leaf(captures, tensor, g)
            else:
                leaves.come(tensor, g)
            continue
        if node._node_divided:
            node = _expanded(node, create_graph, captures, tensor)
        _push(
            heap,
            pending,
            owned,
            node,
            tensor.output_nr,
            g if g is not None else ones_like(tensor),
            create_graph,
        )
    if captures is not None:
        roots = [part_of(x._node, x.output_nr) for x in tensors if x._node is not None]
        captures.find_needed(roots)
        needed, captured = captures.needed, captures.nodes
    try:
        while heap:
            node = heappop(heap)[1]
            g = pending.pop(node)
            if owned:
                owned.discard(node)
            if streams is not None:
                streams.enter(node, g)
            hooks = node._node_hooks
            if hooks is not None:
                g = _run_tensor_hooks(node, hooks, g)
            if captures is not None and node in captured:
                _capture_outputs(captures, node, g)
                if hooks is not None and (captures.accumulates or node in needed):
                    g = _run_prehooks(node, hooks, g)
            elif hooks is not None:
                g = _run_prehooks(node, hooks, g)
            if captures is not None:
                if node not in needed:
                    continue
                if node._node_divided and not _keep_needed(node, g, needed):
                    continue
            if node._node_freed:
                raise RuntimeError(FREED)
            is_part = sums_parts and hooks is None and getattr(node._node_op, "back", None)
            if is_part and owned:
                if streams is not None:
                    streams.deliver(node._node_edges[0], pending, leaves.sums)
                if _put(node, g, pending, owned):
                    if not retain and node._node_holds:
                        node._node_free()
                    continue
            if profiled:
                results = _run_profiled(node, g)
            elif hooks is None and not careful:
                results = node._node_op.backward(node, g)
            else:
                results = _run_carefully(node, g)
            g = None
            edges = node._node_edges
            outputs = node._node_outputs
            if shared and node._node_divided:
                edges = node.edges_from(node.asked)
            if not retain and node._node_holds:
                node._node_free()
            i, n = 0, len(edges)
            while i < n:
                edge = edges[i]
                if edge is None:
                    i += 1
                    continue
                if plain and not watching and not isinstance(edge, Node):
                    with accumulating:
                        arrived = _C.arrive(edges, results, i, shared)
                    if arrived > i:
                        i = arrived
                        continue
                grad = results[i]
                if grad is None:
                    if shared and id(edge) in shared:
                        leaves.come(edge, None)
                    i += 1
                    continue
                if streams is not None:
                    streams.deliver(edge, pending, leaves.sums)
                if isinstance(edge, Node):
                    if captures is not None:
                        part = part_of(edge, 0 if outputs is None else outputs[i])
                        if part not in needed and part not in captured:
                            i += 1
                            continue
                        if edge._node_divided:
                            captures.expand(edge, create_graph and part in needed)
                            needed, captured = captures.needed, captures.nodes
                    elif create_graph and edge._node_divided:
                        edge.expand()
                    _push(
                        heap, pending, owned, edge, 0 if outputs is None else outputs[i], grad,
                        create_graph,
                    )  # fmt: skip
                    if is_part:
                        place, have = _pending_at(
                            edge, 0 if outputs is None else outputs[i], pending
                        )
                        if have is grad:
                            owned.add(place)
                elif captures is None:
                    if i + 1 == n:
                        results = None  # so that a gradient nobody else has can be stolen
                    if shared and id(edge) in shared:
                        leaves.come(edge, grad)
                    else:
                        arrive(edge, grad, create_graph)
                else:
                    _capture_leaf(captures, edge, grad)
                grad = None
                i += 1
    except UnfitError as error:
        raise RuntimeError(
            f"Function {node.name()} returned an invalid gradient at index {i} - {error}"
        ) from None
    leaves.finish()


class _Leaves:
    """Gradients of leaves that several edges lead to: each arrives once, as a sum."""

    __slots__ = ("arrive", "create_graph", "left", "sums", "targets")

    def __init__(self, tensors: Sequence[Tensor], create_graph: bool, arrive: Any) -> None:
        self.create_graph, self.arrive = create_graph, arrive
        # All by the leaf's id: how many edges nothing has come over, and what came over the others.
        self.left = _C.shared_leaves(tensors)
        self.sums: dict[int, Tensor] = {}
        self.targets: dict[int, Tensor] = {}

    def come(self, leaf: Tensor, g: Tensor | None) -> None:
        """Something comes over an edge: a gradient, or that there is none."""
        key = id(leaf)
        self.left[key] = left = self.left.get(key, 1) - 1
        if g is not None:
            array, own = g._array, leaf._array
            if array.shape != own.shape or array.dtype is not own.dtype:
                g = fit(g, own.shape, own.dtype)
            have = self.sums.get(key)
            self.sums[key] = g if have is None else sum_of(have, g)
            self.targets[key] = leaf
        if left == 0:
            self._deliver(key)

    def finish(self) -> None:
        """Delivers what waits for edges that nothing can come over any more."""
        for key in list(self.sums):
            self._deliver(key)

    def _deliver(self, key: int) -> None:
        total = self.sums.pop(key, None)
        if total is not None:
            self.arrive(self.targets.pop(key), total, self.create_graph)


def _push(
    heap: list[tuple[int, Any]],
    pending: dict[Any, Any],
    owned: set[Any],
    node: Any,
    nr: int,
    g: Tensor,
    create_graph: bool,
) -> None:
    """Adds a gradient to what is pending for one output of a node."""
    if not node._node_n_outputs:
        array = g._array
        if array.shape != node._node_shape or array.dtype is not node._node_dtype:
            g = fit(g, node._node_shape, node._node_dtype)
        if node in pending:
            if node in owned and not create_graph and type(array) is not SparseArray:
                pending[node].add_(g)
            else:
                pending[node] = sum_of(pending[node], g)
                if type(pending[node]._array) is not SparseArray:
                    owned.add(node)
        else:
            pending[node] = g
            heappush(heap, (-node._node_sequence, node))
        return
    if node._node_divided and node.is_expanded():
        inner, place = node.inner[nr]
        _push(heap, pending, owned, inner, place, g, create_graph)
        return
    g = fit(g, node._node_shape[nr], node._node_dtype[nr])
    if node not in pending:
        pending[node] = [None] * node._node_n_outputs
        heappush(heap, (-node._node_sequence, node))
    slots = pending[node]
    slots[nr] = g if slots[nr] is None else sum_of(slots[nr], g)


def _pending_at(edge: Any, nr: int, pending: dict[Any, Any]) -> tuple[Any, Tensor | None]:
    """What names a node's output among those whose sums were made here, and what is pending."""
    while edge._node_divided and edge.is_expanded():
        edge, nr = edge.inner[nr]
    have = pending.get(edge)
    if not edge._node_n_outputs:
        return edge, have
    return (edge, nr), None if have is None else have[nr]


def _put(node: Any, g: Tensor, pending: dict[Any, Any], owned: set[Any]) -> bool:
    """Adds the gradient of a part in its place of what is pending for the whole, if that is a sum
    made here: Note [Gradients of parts]."""
    edge, outputs = node._node_edges[0], node._node_outputs
    if not isinstance(edge, Node):
        return False
    place, have = _pending_at(edge, 0 if outputs is None else outputs[0], pending)
    if have is None or place not in owned:
        return False
    if have._tangent is not None or g._tangent is not None:
        return False
    whole, mine = have._array, g._array
    kind = type(whole)
    if kind is not type(mine) or whole.dtype is not mine.dtype or type(g) is not Tensor:
        return False
    op, params = node._node_op, node._node_params
    if kind is np.ndarray:
        part = op.cpu(whole, *params)
        add_into(part, mine, part)
    elif kind is _C.Array:
        _C.wrap(op.gpu(whole, *params)).add_(g)
    else:
        return False
    return True


def _with_history(node: Any) -> list[int]:
    """The numbers of the outputs that gradients flow through: PyTorch's nodes have no others."""
    flows = node._node_flows  # 0: of a node that no record made
    return [i for i in range(node._node_n_outputs or 1) if not flows or flows >> min(i, 63) & 1]


def _run_tensor_hooks(node: Any, hooks: Any, g: Any) -> Any:
    """Tensor hooks, then retained gradients; a hook of an output without a gradient gets None."""
    if not (hooks.tensor or hooks.retained):
        return g
    slots = list(g) if node._node_n_outputs else [g]
    before, current.node = current.node, node
    # A compiled function's outputs had nodes of their own: one that nobody uses runs no hook.
    called = getattr(node, "_hooks_see_none", True)
    for nr, tensor_hooks in hooks.tensor.items():
        if slots[nr] is None and not called:
            continue
        slots[nr] = run_tensor_hooks(tensor_hooks, slots[nr])
    for nr, reference in hooks.retained.items():
        tensor = reference()
        if tensor is not None and slots[nr] is not None:
            have, new = tensor._grad, slots[nr]
            tensor._grad = new.clone() if have is None else sum_of(have, new)
    current.node = before
    return slots if node._node_n_outputs else slots[0]


def _run_prehooks(node: Any, hooks: Any, g: Any) -> Any:
    if not hooks.pre:
        return g
    slots = list(g) if node._node_n_outputs else [g]
    before, current.node = current.node, node
    seen = _with_history(node)
    for hook in list(hooks.pre.values()):
        replaced = hook(tuple(slots[i] for i in seen))
        if replaced is not None:
            for i, grad in zip(seen, replaced if isinstance(replaced, tuple) else (replaced,)):
                slots[i] = grad
    current.node = before
    return slots if node._node_n_outputs else slots[0]


def _run_profiled(node: Any, g: Any) -> Any:
    """The same as events of a profile: of the engine's work, and of the node's own."""
    name, sequence = node.name(), node._node_sequence
    whole = events.begin(profiling.OP, f"autograd::engine::evaluate_function: {name}")
    own = events.begin(profiling.NODE, name, sequence, g if type(g) is tuple else (g,))
    if node._node_hooks is None:
        results = node._node_op.backward(node, g)
    else:
        results = _run_carefully(node, g)
    events.end(own)
    events.end(whole)
    return results


def _run_carefully(node: Any, g: Any) -> Any:
    """A node with hooks, or under anomaly detection."""
    results = anomaly.run(node, g)
    hooks = node._node_hooks
    if hooks is not None and hooks.post:
        before, current.node = current.node, node
        order = getattr(node._node_op, "order", None)
        results = tuple(results) if order is None else order.shown(node, results)
        seen = tuple(g[i] for i in _with_history(node)) if node._node_n_outputs else (g,)
        for hook in list(hooks.post.values()):
            replaced = hook(results, seen)
            if replaced is not None:
                results = replaced if isinstance(replaced, tuple) else (replaced,)
        results = results if order is None else order.own(node, results)
        current.node = before
    return results


def _capture_outputs(captures: Captures, node: Any, g: Any) -> None:
    for nr, grad in enumerate(g if node._node_n_outputs else (g,)):
        for i in captures.outputs.get((node, nr), ()):
            captures.results[i] = grad


def _capture_leaf(captures: Captures, leaf: Tensor, g: Tensor) -> None:
    positions = captures.leaves.get(id(leaf))
    if not positions:
        return
    g = fit(g, leaf._array.shape, leaf._array.dtype)
    for i in positions:
        captures.add(i, g)


def format_stack(trace: list[str]) -> str:
    """A recorded stack as text."""
    import traceback

    return "".join(trace) if trace else "".join(traceback.format_stack())


__all__ = ["backward", "graph", "queue_callback"]


passes._run.append(backward)
