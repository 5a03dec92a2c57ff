"""What is known of the backward pass that runs: its number, its nodes, what follows it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from tritorch import _C
from tritorch.autograd import grad_mode
from tritorch.autograd.nodes import AccumulateGrad, Node, accumulator, shown
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried

_numbers = itertools.count()


class _Pass(threading.local):
    depth = 0  # of backward passes inside of each other
    callbacks: list[Any] | None = None  # for when the outermost one has ended
    task = -1  # the number of the innermost one
    roots: Sequence[Any] = ()
    captures: Any = None
    accumulates = True  # into leaves; else gradients are given back
    retains = False  # whether the graph is kept
    node: Any = None  # whose hooks, or whose function's backward, run


current = carried(_Pass())


def within(
    roots: Sequence[Any], captures: Any, callbacks: list[Any], create_graph: bool,
    leave: Callable[[], None] | None, retains: bool,
    accumulates: bool,
) -> Scope:  # fmt: skip
    """A backward pass runs inside; leave: what else is set back at its end."""
    task = next(_numbers)
    _C.set_latest_pass(task)
    fields = current.__dict__  # this thread's
    return Scope(
        (_C.set_grad_enabled, create_graph),
        (fields, "depth", current.depth + 1),
        (fields, "callbacks", callbacks),
        (fields, "task", task),
        (fields, "roots", roots),
        (fields, "captures", captures),
        (fields, "retains", retains),
        (fields, "accumulates", accumulates),
        (fields, "node", fields.get("node")),
        (None, None, leave),
        (_C.unfollow, 1),
    )


def latest() -> int:
    """The number of the backward pass that began last, in any thread."""
    return _C.latest_pass()


def current_task() -> int:
    """The number of the backward pass that runs, -1 outside."""
    return current.task


def current_node() -> Any:
    """The node whose backward function or hooks run, or None."""
    return shown(current.node)


def will_execute(node: Any) -> bool:
    """Whether the pass that runs comes to a node."""
    if not isinstance(node, (AccumulateGrad, Node)):
        raise RuntimeError(
            f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}"
        )
    if current.task == -1:
        raise RuntimeError(
            "_get_should_execute_nodes should only be called during the backward pass"
        )
    leaf = node.variable if isinstance(node, AccumulateGrad) else None
    captures = current.captures
    if captures is not None:
        if leaf is not None:
            if id(leaf) in captures.leaves and not current.accumulates:
                raise RuntimeError(
                    "A leaf node was passed to _will_engine_execute_node but we are currently "
                    "running autograd.grad(). This is currently not supported."
                )
            return id(leaf) in captures.leaves
        return node in captures.needed or node in captures.nodes
    seen: set[Any] = set()
    waiting: list[Any] = []
    for root in current.roots:
        edge = root if isinstance(root, Tensor) and root._node is None else root._node
        waiting.append(edge)
    while waiting:
        edge = waiting.pop()
        if edge is node or (leaf is not None and edge is leaf):
            return True
        if isinstance(edge, Node) and edge not in seen:
            seen.add(edge)
            waiting.extend(each for each in edge._node_edges if each is not None)
    return False


def execution_order() -> list[Any]:
    """The nodes that the pass that runs comes to, in order: the youngest first, a leaf once the
    last of its gradients arrives."""
    if current.task == -1:
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if grad_mode.is_multithreading_enabled():
        raise RuntimeError(
            "_current_graph_task_execution_order expects the current backward to be executed with "
            "multithreading disabled, e.g. by running:\n\n"
            ">>> with torch.autograd.set_multithreading_enabled(False):\n...     backward()\n"
        )
    needed = None if current.captures is None else current.captures.needed
    leaves = None if current.captures is None else current.captures.leaves
    roots = [root if root._node is None else root._node for root in current.roots]
    left = dict(_C.shared_leaves(current.roots))
    heap: list[tuple[int, Any]] = []
    seen: set[Any] = set()
    order: list[Any] = []

    def come(edge: Any) -> None:
        if isinstance(edge, Node):
            captured = current.captures is not None and edge in current.captures.nodes
            if edge not in seen and (needed is None or edge in needed or captured):
                seen.add(edge)
                heappush(heap, (-edge._node_sequence, edge))
        elif edge is not None and (leaves is None or id(edge) in leaves):
            left[id(edge)] = left.get(id(edge), 1) - 1
            if left[id(edge)] == 0:
                order.append(accumulator(edge))

    for root in roots:
        come(root)
    while heap:
        node = heappop(heap)[1]
        order.append(shown(node))
        if needed is None or node in needed:
            for edge in node._node_edges:
                come(edge)
    return order


def retains_graph() -> bool:
    """True if the pass that runs keeps its graph; false outside."""
    return current.retains


def queue_callback(callback: Callable[[], None]) -> None:
    """Runs a function when the current backward pass has ended."""
    if current.callbacks is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    current.callbacks.append(callback)


_run: list[Callable[..., Any]] = []  # one backward pass, as engine.py defines it


class EngineBase:
    """The engine as programs reach it: `torch.autograd.Variable._execution_engine`."""

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Runs a function when the current backward pass has ended."""
        queue_callback(callback)

    def is_checkpoint_valid(self) -> bool:
        """Whether checkpoints that compute again may run: where a pass is for all leaves."""
        return current.captures is None

    def run_backward(
        self, tensors: Any, grad_tensors: Any, keep_graph: bool, create_graph: bool,
        inputs: Any = None, allow_unreachable: bool = False, accumulate_grad: bool = False,
    ) -> Any:  # fmt: skip
        """One backward pass."""
        wanted = None if inputs is None else tuple(inputs)
        return _run[0](
            tuple(tensors), tuple(grad_tensors), keep_graph, create_graph, wanted, accumulate_grad
        )


EngineBase.__name__ = EngineBase.__qualname__ = "_EngineBase"
EngineBase.__module__ = "tritorch._C"
