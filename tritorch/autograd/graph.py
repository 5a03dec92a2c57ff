"""The recorded graph: nodes, saved tensors, and how views follow their base's history.

# Note [Histories of views]
A view made of `base` keeps the base and how it was made (operator, params, the view before it).
Writing into a view rewrites the history of the *base*: its node becomes a CopySlices, which routes
the gradient of what was overwritten through the in-place operator.  A view knows the version of its
memory that its node belongs to (`_epoch`); when that was written since, it gets a node by making
the view anew, the next time somebody asks whether it requires grad (`requires_grad()` in
src/tensor/recording.cpp).
"""

from __future__ import annotations

import threading
import traceback
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import arrays
from tritorch.core.tensor import Tensor
from tritorch.core.thread_state import carried


class RemovableHandle:
    """What a registration returns: `remove()` undoes it."""

    next_id = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        """extra_dict: a dict, or a list of dicts, that the key leaves too."""
        extra = (extra_dict,) if isinstance(extra_dict, dict) else extra_dict or ()
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.extra_dict_ref = tuple(map(weakref.ref, extra))
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Removes the hook; a second call does nothing."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None and self.id in hooks:
                del hooks[self.id]

    def __getstate__(self) -> Any:
        return self.hooks_dict_ref(), self.id, tuple(each() for each in self.extra_dict_ref)

    def __setstate__(self, state: Any) -> None:
        hooks, self.id = state[:2]
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        extra = state[2] if len(state) > 2 and state[2] else ()
        self.extra_dict_ref = tuple(map(weakref.ref, extra))
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


class HookDict(OrderedDict[int, Any]):
    """Hooks in the order of their registration; handles refer to it weakly."""

    def add(self, hook: Any) -> RemovableHandle:
        """Registers a hook."""
        handle = RemovableHandle(self)
        self[handle.id] = hook
        return handle


class NodeHooks:
    """What is attached to a node besides its operator."""

    __slots__ = ("metadata", "post", "pre", "retained", "tensor", "trace")

    def __init__(self) -> None:
        self.tensor: dict[int, HookDict] = {}  # by output
        self.pre = HookDict()
        self.post = HookDict()
        self.retained: dict[int, Any] = {}  # by output: a weak reference to its tensor
        self.metadata: dict[Any, Any] = {}
        self.trace: list[str] | None = None


class Node(_C.NodeBase):
    """One recorded call of an operator."""

    __slots__ = ("__weakref__",)

    def name(self) -> str:
        """The class's name, "AddBackward0"."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """For each input: its node and which of that node's outputs it is."""
        outputs = self.outputs or (0,) * len(self.edges)
        return tuple((_as_node(edge), nr) for edge, nr in zip(self.edges, outputs))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whoever wants to note something."""
        return self._hooks().metadata

    def _hooks(self) -> NodeHooks:
        if self.hooks is None:
            self.hooks = NodeHooks()
        return self.hooks

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_inputs, grad_outputs)` after this node ran; may return other grad_inputs."""
        return self._hooks().post.add(fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_outputs)` before this node runs; may return others."""
        return self._hooks().pre.add(fn)

    def _sequence_nr(self) -> int:
        return self.sequence

    def __call__(self, *grads: Any) -> Any:
        g = grads[0] if not self.n_outputs else tuple(grads)
        results = tuple(self.op.backward(self, g))
        return results[0] if len(results) == 1 else results

    def __getattr__(self, name: str) -> Any:
        # _saved_self, _saved_other, _saved_result, _saved_dim...
        if not name.startswith("_saved_"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        if self.freed:
            raise RuntimeError(FREED)
        wanted = name[len("_saved_") :]
        op = self.op
        if wanted == "result" and self.out is not None:
            return self.output()
        aliases = {"self": op.inputs[:1], "other": op.inputs[1:2]}.get(wanted, (wanted,))
        saved = self.unpack()
        for alias in aliases:
            if alias in op.inputs and saved is not None:
                return saved[op.inputs.index(alias)]
            if alias in op.params:
                return self.params[op.params.index(alias)]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class AccumulateGrad:
    """How a leaf appears in `next_functions`: it adds to `variable.grad`."""

    __slots__ = ("__weakref__", "variable")

    next_functions = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        """The class's name."""
        return "torch::autograd::AccumulateGrad"

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash(id(self.variable))

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for whoever wants to note something."""
        return leaf_hooks(self.variable).metadata

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_inputs, grad_outputs)` after the gradient was accumulated."""
        return leaf_hooks(self.variable).post.add(fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """`fn(grad_outputs)` before the gradient is accumulated."""
        return leaf_hooks(self.variable).pre.add(fn)


class LeafHooks:
    """The hooks of a leaf."""

    __slots__ = ("accumulated", "metadata", "post", "pre", "tensor")

    def __init__(self) -> None:
        self.tensor = HookDict()
        self.pre = HookDict()
        self.post = HookDict()
        self.accumulated = HookDict()
        self.metadata: dict[Any, Any] = {}


def leaf_hooks(tensor: Tensor) -> LeafHooks:
    """The hooks of a leaf, made at first use."""
    if tensor._hooks is None:
        tensor._hooks = LeafHooks()
    return tensor._hooks


def _as_node(edge: Any) -> Any:
    return AccumulateGrad(edge) if isinstance(edge, Tensor) else edge


def gradient_edge(tensor: Tensor) -> Any:
    """The edge that gradients of a tensor arrive by: its node, or itself for a leaf; or None."""
    node = tensor._node
    if node is not None:
        return node
    return tensor if tensor._leaf else None


# ---- saved tensors -------------------------------------------------------------------------------


class _HookStack(threading.local):
    def __init__(self) -> None:
        self.hooks: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
        self.disabled: str | None = None


_saved_hooks = carried(_HookStack())


class _Packed:
    """What pack_hook made of one saved tensor."""

    __slots__ = ("node", "output", "unpack", "value")

    def __init__(self, tensor: Tensor, hooks: tuple[Callable[..., Any], Callable[..., Any]]):
        pack, self.unpack = hooks
        self.node = gradient_edge(tensor)
        self.output = tensor.output_nr
        with _no_hooks():
            before = _C.set_grad_enabled(False)
            try:
                self.value = pack(_C.alias(tensor))
            finally:
                _C.set_grad_enabled(before)

    def get(self) -> Tensor:
        with _no_hooks():
            tensor = self.unpack(self.value)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of "
                f"type {type(tensor)}"
            )
        out = _C.alias(tensor)
        if isinstance(self.node, Tensor):
            return self.node if self.node._array is tensor._array else _relink_leaf(out, self.node)
        out._raw_node, out.output_nr = self.node, self.output
        return out


def _relink_leaf(copy: Tensor, leaf: Tensor) -> Tensor:
    # The values come from `copy`, gradients go to `leaf`.
    return copy._with_history_of(leaf)


class _no_hooks:
    def __enter__(self) -> None:
        self.before = _C.set_saving_hooks(False)

    def __exit__(self, *exception: Any) -> None:
        _C.set_saving_hooks(self.before)


def _pack_saved(node: Any) -> None:
    hooks = _saved_hooks.hooks[-1]
    if node.saved is not None:
        node.saved = tuple(
            _Packed(item, hooks) if isinstance(item, Tensor) else item for item in node.saved
        )
    if isinstance(node.out, tuple):
        node._hooks().metadata["tritorch.packed_output"] = tuple(
            None if array is None else _Packed(_C.wrap(array), hooks) for array in node.out
        )
        node.out = None
    elif node.out is not None:
        packed = _Packed(_C.wrap(node.out), hooks)
        node._hooks().metadata["tritorch.packed_output"] = packed
        node.out = None
    node.packed = True


def _unpack_saved(node: Any) -> Any:
    if node.saved is None:
        return None
    return tuple(item.get() if isinstance(item, _Packed) else item for item in node.saved)


def packed_output(node: Any) -> Any:
    """The saved output of a node whose saved tensors were packed."""
    packed = node.hooks.metadata.get("tritorch.packed_output") if node.hooks else None
    if packed is None:
        return node.output()
    if isinstance(packed, tuple):
        outs = tuple(None if each is None else each.get() for each in packed)
        for i, out in enumerate(outs):
            if out is not None and (node.op.outputs >> i) & 1:
                out._raw_node, out.output_nr = node, i
        return outs
    out = packed.get()
    out._raw_node = node
    return out


class saved_tensors_hooks:
    """Within, saved tensors are replaced by `pack_hook(t)` and restored by `unpack_hook`."""

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        if _saved_hooks.disabled is not None:
            raise RuntimeError(_saved_hooks.disabled)
        _saved_hooks.hooks.append((self.pack_hook, self.unpack_hook))
        _C.set_saving_hooks(True)

    def __exit__(self, *exception: Any) -> None:
        _saved_hooks.hooks.pop()
        _C.set_saving_hooks(bool(_saved_hooks.hooks))


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


class disable_saved_tensors_hooks:
    """Within, entering saved_tensors_hooks raises with this message."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        self.before = _saved_hooks.disabled
        _saved_hooks.disabled = self.message

    def __exit__(self, *exception: Any) -> None:
        _saved_hooks.disabled = self.before


def _raise_modified(node: Any, position: Any) -> None:
    if type(position) is tuple:  # what is only kept an eye on
        where, shared, expected, shape, kind = position
        version = shared.version
        tensor = _C.wrap(np.broadcast_to(np.empty((), getattr(kind, "numpy", kind)), shape))
        edge = node.edges[where]
        if isinstance(edge, Node):
            tensor._raw_node = edge
            tensor.output_nr = node.outputs[where] if node.outputs else 0
    elif position < 0:
        output = -1 - position
        several = isinstance(node.out, tuple)
        saved = node.out[output] if several else node.out
        # Of a class that dispatches, the tensor is kept.
        tensor = saved.detach() if isinstance(saved, Tensor) else _C.wrap(saved)
        version = (node.out_shared[output] if several else node.out_shared).version
        expected = node.out_version
        tensor._raw_node, tensor.output_nr = node, output
    else:
        tensor = node.saved[position]
        version = tensor._version
        expected = node.versions[position] if node.versions else 0
    raise modified(tensor, version, expected)


def modified(tensor: Tensor, version: int, expected: int) -> RuntimeError:
    """The error of a tensor that a gradient needs and a program has written."""
    maker = tensor._raw_node
    whose = f", which is output {tensor.output_nr} of {_short(maker)}," if maker else ""
    kind = tensor.type().replace("tritorch.", "torch.")
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{kind} {list(tensor.shape)}]{whose} is at version {version}; expected "
        f"version {expected} instead. Hint: enable anomaly detection to find the operation that "
        "failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, "
        "check_nan=False)."
    )


def _short(node: Any) -> str:
    """A node's name in errors: Mul of MulBackward0."""
    return node.name().split("Backward")[0] or node.name()


def _annotate(node: Any) -> None:
    node._hooks().trace = traceback.format_stack()[:-1]


# ---- in place ------------------------------------------------------------------------------------


class CopySlices(Node):
    """The base's history after a view of it was written: see Note [Histories of views]."""

    __slots__ = ()

    def name(self) -> str:
        """PyTorch's name for it."""
        return "torch::autograd::CopySlices"

    def free(self) -> None:
        """Frees what the in-place operator saved too."""
        self.params[1].free()
        self.freed = True


class _CopySlicesOp:
    """The gradient of writing into a view."""

    name = "copy_slices"
    inputs = ("self",)
    params = ("view", "node", "base_shape", "base_strides")

    @staticmethod
    def backward(node: Any, g: Tensor) -> Any:
        view, inner, shape, strides = node.params
        if inner.freed:
            raise RuntimeError(FREED)
        grad = g.new_empty_strided(shape, strides)
        grad.copy_(g)
        part = replay(grad, view)
        grads = inner.op.backward(inner, part.clone())
        if grads[0] is None:
            part.zero_()
        else:
            part.copy_(unbroadcast(grads[0], part.shape))
        return (grad, *grads[1:])


def replay(base: Tensor, view: Any) -> Tensor:
    """The view of another base that is made in the same way."""
    steps = []
    while view is not None:
        op, params, view = view
        steps.append((op, params))
    for op, params in reversed(steps):
        base = op.view(base, params)
    return base


def unbroadcast(g: Tensor, shape: Any) -> Tensor:
    """A gradient summed to the shape of the input that was broadcast."""
    return g if g._array.shape == tuple(shape) else g.sum_to_size(shape)


# What a view that autograd cannot follow through a write notes of itself (`Tensor._created`): how
# it was made, or which output of what it is, and what the error says after "modified inplace".
_AMBIGUOUS = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the {mode} block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)
_NO_GRAD_VIEW = (
    "A view was created in no_grad mode",
    f" with grad mode enabled.{_AMBIGUOUS.format(mode='no_grad')}",
)
_INFERENCE_VIEW = (
    "A view was created in inference mode",
    f" in normal mode.{_AMBIGUOUS.format(mode='inference_mode')}",
)
_MULTIPLE = (
    ". This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. You should replace the inplace operation by an "
    "out-of-place one."
)
_CUSTOM = (
    ". This view was created inside a custom Function (or because an input was returned as-is) and "
    "the autograd logic to handle view+inplace would override the custom backward associated with "
    "the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix "
    "this by cloning the output of the custom Function."
)
_INFERENCE_WRITE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone "
    "to get a normal tensor before doing inplace update.See "
    "https://github.com/pytorch/rfcs/pull/17 for more details."
)


SAVED_INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
    "inference mode in computation tracked by autograd. To work around this, you can make a clone "
    "to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
    "`torch.inference_mode()`."
)


def forbid_writes(views: Any, maker: str, *, custom: bool = False) -> Any:
    """Notes that views are a function's several outputs, or a custom function's: writing them in
    grad mode is an error."""
    why = _CUSTOM if custom else _MULTIPLE
    for i, view in enumerate(views):
        if view._created is None:
            view._created = (i, maker, why)
    return views


def _refuse_view(view: Tensor, whose: str) -> None:
    *made, why = view._created
    what = made[0] if len(made) == 1 else f"Output {made[0]} of {made[1]} is a view"
    raise RuntimeError(f"{what} and {whose} modified inplace{why}")


def check_inplace(tensor: Tensor, *others: Any) -> None:
    """Raises where PyTorch forbids writing a tensor from others: leaves that require grad, views of
    them, views that gradients cannot be routed through, inference tensors.

    Every write asks here first: nodes to which the tensor is lent get their copies now.
    """
    if _C.is_writable(tensor, *others):
        return
    if tensor._frozen:
        raise RuntimeError(_INFERENCE_WRITE)
    if tensor._shared.lent is not None:
        _return_lent(tensor)
    if not _C.is_grad_enabled():
        return
    wants = tensor._requires_grad
    if not wants and not (others and _C.any_requires_grad(*others)):
        return
    if tensor._created is not None:
        _refuse_view(tensor, "is being")
    if wants and tensor._base is not None and tensor._base._node is None:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )
    if tensor._leaf:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )


# ---- lent tensors --------------------------------------------------------------------------------

# Note [Lent tensors]
# An operator may keep an input or its output for its gradient where PyTorch keeps something else
# (the log softmax of cross-entropy's logits), which a program may therefore write.  Its record says
# so (`lends`).  The node then keeps the tensor itself, and is noted with its memory; who writes
# that gives the node a copy first.


def _lend(node: Any, position: int, shared: Any) -> None:
    alive = [] if shared.lent is None else [each for each in shared.lent if each[0]() is not None]
    shared.lent = [*alive, (weakref.ref(node), position)]


def _return_lent(tensor: Tensor) -> None:
    shared = tensor._shared
    lent, shared.lent = shared.lent, None
    for reference, position in lent:
        node = reference()
        if node is None or node.freed or node.packed:
            continue
        if position < 0:
            node.out, node.out_shared = arrays.copy(node.out), None
            continue
        saved = node.saved[position]
        copy = _C.wrap(arrays.copy(saved._array))
        if saved._leaf:
            copy = _relink_leaf(copy, saved)
        else:
            copy._raw_node, copy.output_nr = saved._raw_node, saved.output_nr
        kept = list(node.saved)
        kept[position] = copy
        node.saved = tuple(kept)
        if node.versions is not None:
            versions = list(node.versions)
            versions[position] = 0
            node.versions = tuple(versions)


# ---- rewriting -----------------------------------------------------------------------------------


def place(tensor: Tensor, node: Any, nr: int) -> None:
    """Puts a tensor at another place of the graph; a gradient that it retains is the one there."""
    if tensor._retains_grad and tensor._raw_node is not None and tensor._raw_node is not node:
        hooks = tensor._raw_node.hooks
        reference = hooks.retained.pop(tensor.output_nr, None) if hooks is not None else None
        if reference is not None and node is not None:
            node._hooks().retained[nr] = reference
    tensor._raw_node, tensor.output_nr = node, nr


def rewrite_history(tensor: Tensor, node: Any) -> None:
    """After an in-place operator: `node` (or None: nothing recorded) is what computed it."""
    if node is None:
        return
    base = tensor._base
    if base is None or tensor._view is None:
        place(tensor, node, 0)
        return
    copy = CopySlices()
    copy.op = _CopySlicesOp
    copy.params = (tensor._view, node, tuple(base.shape), base.stride())
    base_edge = gradient_edge(base)
    copy.edges = (base_edge, *node.edges[1:])
    outputs = node.outputs or (0,) * len(node.edges)
    copy.outputs = (0 if base._leaf else base.output_nr, *outputs[1:])
    copy.shape, copy.dtype = base._array.shape, base._array.dtype
    copy.saved = ()  # there is something to free
    place(base, copy, 0)
    _refresh_view(tensor)


def _refresh_view(view: Tensor) -> None:
    base = view._base
    if view._created is not None:
        _refuse_view(view, "its base or another view of its base has been")
    view._epoch = view._shared.version
    if view._view is None:
        return
    if not (base._leaf or base._raw_node is not None):  # the view's source alone had a history
        place(view, _ends_here(view), 0)
        return
    before = _C.set_grad_enabled(True)
    try:
        anew = _made_anew(view, base)
    finally:
        _C.set_grad_enabled(before)
    place(view, anew._raw_node, anew.output_nr)


def _made_anew(view: Tensor, base: Tensor) -> Tensor:
    """The view of its base as that is now: in place it may have become a view of itself (t_), so
    that the same steps lead elsewhere."""
    array = view._array
    try:
        anew = replay(base, view._view)
        found = anew._array
        if type(found) is not type(array) or type(array) not in (np.ndarray, _C.Array):
            return anew
        if arrays.address_of(found) == arrays.address_of(array) or 0 in array.shape:
            if tuple(found.shape) == tuple(array.shape):
                if arrays.strides_of(found) == arrays.strides_of(array):
                    return anew
    except (RuntimeError, IndexError, ValueError):
        pass
    return base.as_strided(view.shape, view.stride(), view.storage_offset())


class AsStridedBackward0(Node):
    """The history of a view whose base has none, after it was written: gradients end there."""

    __slots__ = ()


class _EndOp:
    """No gradient."""

    name = "as_strided"
    inputs = ("self",)
    params = ()

    @staticmethod
    def backward(node: Any, g: Tensor) -> Any:
        return (None,)


def _ends_here(view: Tensor) -> Any:
    node = AsStridedBackward0()
    node.op = _EndOp
    node.edges, node.shape, node.dtype = (None,), view._array.shape, view._array.dtype
    return node


_C.register_part("refresh_view", _refresh_view)
_C.register_part("raise_modified", _raise_modified)
_C.register_part("pack_saved", _pack_saved)
_C.register_part("unpack_saved", _unpack_saved)
_C.register_part("annotate_node", _annotate)
_C.register_part("no_grad_view", _NO_GRAD_VIEW)
_C.register_part("inference_view", _INFERENCE_VIEW)
_C.register_part("lend", _lend)


class register_multi_grad_hook:
    """`fn(grads)` when the gradients of all tensors are known, or `fn(grad)` of the first."""

    def __init__(self, tensors: Any, fn: Callable[..., Any], *, mode: str = "all") -> None:
        if mode not in ("all", "any"):
            raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
        self.fn, self.mode = fn, mode
        self.grads: list[Any] = [None] * len(tensors)
        self.count = 0
        self.wanted = sum(1 for t in tensors if t._requires_grad)
        self.handles = [
            t.register_hook(self._hook(i)) for i, t in enumerate(tensors) if t._requires_grad
        ]

    def _hook(self, i: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            self.grads[i] = grad
            self.count += 1
            if self.mode == "any":
                if self.count == 1:
                    self.fn(grad)
            elif self.count == self.wanted:
                self.fn(list(self.grads))
            if self.count == self.wanted:
                self.count = 0
                self.grads = [None] * len(self.grads)

        return hook

    def remove(self) -> None:
        """Removes the hooks."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> register_multi_grad_hook:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def get_gradient_edge(tensor: Tensor) -> Any:
    """The edge that gradients of a tensor arrive by."""
    from tritorch.autograd.edges import get_gradient_edge as find

    return find(tensor)


def increment_version(tensor: Any) -> None:
    """Counts a change of the tensor's memory that autograd did not see."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C.bump_version(each)
