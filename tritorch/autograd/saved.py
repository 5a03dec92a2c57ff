"""What nodes keep for their gradients: saved tensors, and the hooks that pack and unpack them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.autograd.nodes import FREED, gradient_edge
from tritorch.core import scopes
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried


class _HookStack(threading.local):
    def __init__(self) -> None:
        self.hooks: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
        self.disabled: str | None = None


hook_stack = carried(_HookStack())


class _Packed:
    """What pack_hook made of one saved tensor."""

    __slots__ = ("node", "output", "unpack", "value")

    def __init__(self, tensor: Tensor, hooks: tuple[Callable[..., Any], Callable[..., Any]]):
        pack, self.unpack = hooks
        self.node = gradient_edge(tensor)
        self.output = tensor.output_nr
        given = _C.alias(tensor)
        version = given._version
        with _no_hooks, scopes.unrecorded:
            self.value = pack(given)
        if given._version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook cannot be modified by in-place operations as this can lead to "
                "unexpected side-effects. Please open an issue if you need to perform in-place "
                "operations on the input to a pack hook."
            )

    def get(self) -> Tensor:
        with _no_hooks:
            tensor = self.unpack(self.value)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of "
                f"type {type(tensor).__name__}"
            )
        out = _C.alias(tensor)
        if isinstance(self.node, Tensor):
            return self.node if self.node._array is tensor._array else relink_leaf(out, self.node)
        out._raw_node, out.output_nr = self.node, self.output
        return out


def relink_leaf(copy: Tensor, leaf: Tensor) -> Tensor:
    # The values come from `copy`, gradients go to `leaf`.
    return copy._with_history_of(leaf)


_no_hooks = scopes.Scope((_C.set_saving_hooks, False))


def pack_saved(node: Any) -> None:
    hooks = hook_stack.hooks[-1]
    if node._node_saved is not None:
        node._node_saved = tuple(
            _Packed(item, hooks) if isinstance(item, Tensor) else item for item in node._node_saved
        )
    if isinstance(node._node_out, tuple):
        node._hooks().packed = tuple(
            None if array is None else _Packed(_C.wrap(array), hooks) for array in node._node_out
        )
        node._node_out = None
    elif node._node_out is not None:
        node._hooks().packed = _Packed(_C.wrap(node._node_out), hooks)
        node._node_out = None
    node._node_packed = True


def _unpack_saved(node: Any) -> Any:
    if node._node_saved is None:
        return None
    for i, item in enumerate(node._node_saved):  # beside what hooks on single tensors have packed
        if isinstance(item, Tensor):
            if item._version != (node._node_versions[i] if node._node_versions else 0):
                node._node_raise_modified(i)
    return tuple(item.get() if isinstance(item, _Packed) else item for item in node._node_saved)


def packed_output(node: Any) -> Any:
    """The saved output of a node whose saved tensors were packed."""
    packed = node._node_hooks.packed if node._node_hooks else None
    if packed is None:
        return node._node_output()
    if isinstance(packed, tuple):
        outs = tuple(None if each is None else each.get() for each in packed)
        for i, out in enumerate(outs):
            if out is not None and (node._node_op.outputs >> i) & 1:
                out._raw_node, out.output_nr = node, i
        return outs
    out = packed.get()
    out._raw_node = node
    return out


class SavedTensor:
    """One tensor that a node keeps, `node._raw_saved_self`: hooks can be put on it alone."""

    __slots__ = ("_node", "_place")
    _node: Any
    _place: int | None

    def __new__(cls, *args: Any, **kwargs: Any) -> SavedTensor:
        """Refused: nodes alone have such."""
        raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")

    @classmethod
    def of(cls, node: Any, place: int | None) -> SavedTensor:
        """place: the number of an input, or -1 - that of an output; None: none is kept."""
        self = object.__new__(cls)
        self._node, self._place = node, place
        return self

    def _packed(self) -> Any:
        node, place = self._node, self._place
        if place is None or node._node_freed:
            return None
        if place >= 0:
            item = node._node_saved[place]
        else:
            item = node._node_hooks.packed if node._node_hooks else None
            item = item[-1 - place] if isinstance(item, tuple) else item
        return item if isinstance(item, _Packed) else None

    def unpack(self) -> Tensor | None:
        """The tensor, as the gradient will get it."""
        node, place = self._node, self._place
        if node._node_freed:
            raise RuntimeError(FREED)
        if place is None:
            return None
        if place >= 0:
            return node._node_unpack()[place]
        out = packed_output(node) if node._node_packed else node._node_output()
        return out[-1 - place] if isinstance(out, tuple) else out

    @property
    def data(self) -> Any:
        """What the pack hook made of it; without hooks the tensor, None if it is freed."""
        if self._node._node_freed:
            return None
        packed = self._packed()
        if packed is not None:
            return packed.value
        found = self.unpack()
        if found is None or self._place is None or self._place >= 0:
            return found
        return found.detach()

    @property
    def unpack_hook(self) -> Callable[..., Any] | None:
        """What undoes the packing."""
        packed = self._packed()
        return None if packed is None else packed.unpack

    def register_hooks(
        self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]
    ) -> None:
        """Packs the tensor now; the gradient gets what unpack_hook makes of that."""
        node, place = self._node, self._place
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types "
                "are supported:\n    1. (self: torch._C._autograd.SavedTensor, arg0: "
                "collections.abc.Callable, arg1: collections.abc.Callable) -> None\n\n"
                f"Invoked with: {self!r}, {pack_hook!r}, {unpack_hook!r}"
            )
        if not node._node_freed and self._packed() is not None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: "
                "only one pair of hooks is allowed at a time."
            )
        if node._node_freed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved "
                "intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the "
                "graph a second time or if you need to access saved variables after calling "
                "backward."
            )
        if place is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden"
            )
        tensor = self.unpack()
        assert tensor is not None
        hooks = (pack_hook, unpack_hook)
        if place >= 0:
            saved = list(node._node_saved)
            saved[place] = _Packed(tensor, hooks)
            node._node_saved = tuple(saved)
        elif isinstance(node._node_out, tuple):
            outs, packed = (
                list(node._node_out),
                list(node._hooks().packed or [None] * len(node._node_out)),
            )
            packed[-1 - place], outs[-1 - place] = _Packed(tensor.detach(), hooks), None
            node._hooks().packed, node._node_out = tuple(packed), tuple(outs)
        else:
            node._hooks().packed, node._node_out = _Packed(tensor.detach(), hooks), None
        node._node_packed = True


def _push_hooks(pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
    hook_stack.hooks = [*hook_stack.hooks, (pack, unpack)]
    _C.set_saving_hooks(True)


def _pop_hooks() -> None:
    hook_stack.hooks = hook_stack.hooks[:-1]
    _C.set_saving_hooks(bool(hook_stack.hooks))


class saved_tensors_hooks(scopes.Scope):
    """Within, saved tensors are replaced by `pack_hook(t)` and restored by `unpack_hook`."""

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def changes(self) -> Any:
        fields = hook_stack.__dict__  # this thread's
        if fields["disabled"] is not None:
            raise RuntimeError(fields["disabled"])
        push = scopes.sets(_push_hooks, self.pack_hook, self.unpack_hook)
        return scopes.set_back(_pop_hooks), push


class save_on_cpu(saved_tensors_hooks):
    """Within, saved tensors wait in host memory until the backward pass."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> Any:
            if not pin_memory:
                return tensor.device, tensor.cpu()
            packed = _C.wrap(tensor.cpu()._array).pin_memory()
            return tensor.device, packed

        def unpack(packed: Any) -> Tensor:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(scopes.Scope):
    """Within, entering saved_tensors_hooks raises with this message."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def changes(self) -> Any:
        if hook_stack.hooks:
            raise RuntimeError(self.message)
        return ((hook_stack, "disabled", self.message),)


SavedTensor.__module__ = "tritorch._C._autograd"
_C.register_part("pack_saved", pack_saved)
_C.register_part("unpack_saved", _unpack_saved)
