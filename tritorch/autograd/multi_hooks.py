"""Hooks on several tensors at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.autograd.nodes import RemovableHandle, accumulator, shown
from tritorch.autograd.passes import current_task, will_execute
from tritorch.core import locks
from tritorch.core.tensor import Tensor


class _MultiHandle(RemovableHandle):
    """The handles of several hooks."""

    handles: tuple[RemovableHandle, ...]

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Removes the hooks."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


def _node_of(tensor: Any) -> Any:
    if not isinstance(tensor, Tensor):
        return tensor.node
    if not tensor.requires_grad:
        raise AssertionError("Expected gradient function to be set")
    return shown(tensor._node) if tensor._node is not None else accumulator(tensor)


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """`fn(grads)` when the gradients of all tensors that a pass reaches are known; with
    mode="any", `fn(grad)` of the first."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of {('all', 'any')} but got {mode}")
    lock = locks.lock()
    if mode == "any":
        seen: set[int] = set()

        def first(grad: Tensor) -> None:
            task = current_task()
            with lock:
                known = task in seen
                seen.add(task)
            if not known:
                fn(grad)

        return _MultiHandle(tuple(t.register_hook(first) for t in tensors if t.requires_grad))
    nodes = [_node_of(tensor) for tensor in tensors]
    # By the pass: the gradients, and how many are still to come.
    waiting: dict[int, tuple[list[Any], list[int]]] = {}

    def hook_of(i: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            task = current_task()
            with lock:
                if task not in waiting:
                    waiting[task] = [None] * len(nodes), [sum(map(will_execute, nodes))]
                grads, left = waiting[task]
                grads[i] = grad
                left[0] -= 1
            if left[0] == 0:
                del waiting[task]
                fn(grads)

        return hook

    return _MultiHandle(tuple(t.register_hook(hook_of(i)) for i, t in enumerate(tensors)))
