"""The recorded graph: writes, and how views follow their base's history.

# Note [Histories of views]
A view made of `base` keeps the base and how it was made (operator, params, the view before it).
Writing into a view rewrites the history of the *base*: its node becomes a CopySlices, which routes
the gradient of what was overwritten through the in-place operator.  A view knows the version of its
memory that its node belongs to (`_epoch`); when that was written since, it gets a node by making
the view anew, the next time somebody asks whether it requires grad (`requires_grad()` in
src/tensor/recording.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.autograd import grad_mode, nodes
from tritorch.autograd.edges import GradientEdge, get_gradient_edge
from tritorch.autograd.multi_hooks import register_multi_grad_hook
from tritorch.autograd.mutation import allow_mutation_on_saved_tensors
from tritorch.autograd.nodes import FREED, GraphNode as Node, gradient_edge
from tritorch.autograd.saved import (
    disable_saved_tensors_hooks,
    relink_leaf,
    save_on_cpu,
    saved_tensors_hooks,
)
from tritorch.core import scopes
from tritorch.core.dispatching import kept_copy
from tritorch.core.dtype import all_dtypes
from tritorch.core.tensor import Tensor

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks", "set_warn_on_accumulate_grad_stream_mismatch",
]  # fmt: skip


def _raise_modified(node: Any, position: Any) -> None:
    if type(position) is tuple:  # what is only kept an eye on
        where, shared, expected, shape, kind = position
        version = shared.version
        tensor = _C.wrap(np.broadcast_to(np.empty((), getattr(kind, "numpy", kind)), shape))
        edge = node._node_edges[where]
        if isinstance(edge, nodes.Node):
            tensor._raw_node = edge
            tensor.output_nr = node._node_outputs[where] if node._node_outputs else 0
    elif position < 0:
        output = -1 - position
        several = isinstance(node._node_out, tuple)
        saved = node._node_out[output] if several else node._node_out
        # Of a class that dispatches, the tensor is kept.
        tensor = saved.detach() if isinstance(saved, Tensor) else _C.wrap(saved)
        version = (node._node_out_shared[output] if several else node._node_out_shared).version
        expected = node._node_out_version
        tensor._raw_node, tensor.output_nr = node, output
    else:
        tensor = node._node_saved[position]
        version = tensor._version
        expected = node._node_versions[position] if node._node_versions else 0
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
    import traceback

    node._hooks().trace = traceback.format_stack()[:-1]


# ---- in place ------------------------------------------------------------------------------------


class CopySlices(nodes.Node):
    """The base's history after a view of it was written: see Note [Histories of views]."""

    __slots__ = ()
    __module__ = "builtins"
    _full_name = "torch::autograd::CopySlices"
    _node_runs_once = True

    def _node_free(self) -> None:
        """Frees what the in-place operator saved too."""
        self._node_params[1]._node_free()
        self._node_freed = True


class _CopySlicesOp:
    """The gradient of writing into a view."""

    name = "copy_slices"
    inputs = ("self",)
    params = ("view", "node", "base_shape", "base_strides")

    @staticmethod
    def backward(node: Any, g: Tensor) -> Any:
        view, inner, shape, strides = node._node_params
        if inner._node_freed:
            raise RuntimeError(FREED)
        if g.is_nested:
            grad = g.clone()
        else:
            grad = g.new_empty_strided(shape, strides)
            grad.copy_(g)
        part = replay(grad, view)
        grads = inner._node_op.backward(inner, part.clone())
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
MULTIPLE = (
    ". This view is the output of a function that returns multiple views. Such functions do not "
    "allow the output views to be modified inplace. You should replace the inplace operation by an "
    "out-of-place one."
)
CUSTOM = (
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
    why = CUSTOM if custom else MULTIPLE
    for i, view in enumerate(views):
        if view._created is None:
            view._created = (i, maker, why)
    return views


def _refuse_view(view: Tensor, whose: str) -> None:
    *made, why = view._created
    what = made[0] if len(made) == 1 else f"Output {made[0]} of {made[1]} is a view"
    if len(made) == 1 and view._raw_node is not None and whose == "is being":
        maker = _short(nodes.shown(view._raw_node))
        mode = made[0].removeprefix("A view was created in ")
        what = f"Output {view.output_nr} of {maker} is a view of a view which was created in {mode}"
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
# so (`lends`).  The node then keeps the tensor itself, and is noted with its memory (`lent`, a list
# of (weak reference, position): src/tensor/recording.cpp); who writes that gives the node a copy
# first.


def _return_lent(tensor: Tensor) -> None:
    shared = tensor._shared
    lent, shared.lent = shared.lent, None
    for reference, position in lent:
        node = reference()
        if node is None or node._node_freed or node._node_packed:
            continue
        if position < 0:
            node._node_out, node._node_out_shared = arrays.copy(node._node_out), None
            continue
        saved = node._node_saved[position]
        copy = kept_copy(saved)
        if saved._leaf:
            copy = relink_leaf(copy, saved)
        else:
            copy._raw_node, copy.output_nr = saved._raw_node, saved.output_nr
        kept = list(node._node_saved)
        kept[position] = copy
        node._node_saved = tuple(kept)
        if node._node_versions is not None:
            versions = list(node._node_versions)
            versions[position] = 0
            node._node_versions = tuple(versions)


# ---- rewriting -----------------------------------------------------------------------------------


def place(tensor: Tensor, node: Any, nr: int) -> None:
    """Puts a tensor at another place of the graph; a gradient that it retains is the one there."""
    if tensor._retains_grad and tensor._raw_node is not None and tensor._raw_node is not node:
        hooks = tensor._raw_node._node_hooks
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
    copy._node_op = _CopySlicesOp
    copy._node_params = (tensor._view, node, tuple(base.shape), arrays.strides_of(base._array))
    base_edge = gradient_edge(base)
    copy._node_edges = (base_edge, *node._node_edges[1:])
    outputs = node._node_outputs or (0,) * len(node._node_edges)
    copy._node_outputs = (0 if base._leaf else base.output_nr, *outputs[1:])
    copy._node_shape, copy._node_dtype = base._array.shape, base._array.dtype
    copy._node_saved = ()  # there is something to free
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
    with scopes.recorded:
        anew = _made_anew(view, base)
    node = anew._raw_node
    if node is None or node is base._raw_node or grad_mode.is_view_replay_enabled():
        pass
    elif not node._settled:
        node.__class__ = AsStridedBackward0  # as which PyTorch makes it anew
        if type(view._array) in (np.ndarray, _C.Array):
            offset = view.storage_offset()
            said = {"size": view.shape, "stride": view.stride(), "storage_offset": offset}
            node._node_call = (dict, (), said)
    place(view, node, anew.output_nr)


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


class AsStridedBackward0(nodes.Node):
    """The history of a view after it was written; of one whose base has none, it ends there."""

    __slots__ = ()
    __module__ = "builtins"
    _kept = ("size", "storage_offset", "stride")


class _EndOp:
    """No gradient."""

    name = "as_strided"
    inputs = ("self",)
    params = ()

    @staticmethod
    def read(node: Any, name: str, raw: bool) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(node: Any, g: Tensor) -> Any:
        return (None,)


def _ends_here(view: Tensor) -> Any:
    node = AsStridedBackward0()
    node._node_op = _EndOp
    node._node_edges, node._node_shape, node._node_dtype = (
        (None,),
        view._array.shape,
        view._array.dtype,
    )
    return node


_integral = [kind for kind in all_dtypes if not (kind.is_floating_point or kind.is_complex)]
_C.register_part("integral", frozenset((*_integral, *(kind.numpy for kind in _integral))))
_C.register_part("refresh_view", _refresh_view)
_C.register_part("raise_modified", _raise_modified)
_C.register_part("annotate_node", _annotate)
_C.register_part("no_grad_view", _NO_GRAD_VIEW)
_C.register_part("inference_view", _INFERENCE_VIEW)


def increment_version(tensor: Any) -> None:
    """Counts a change of the tensor's memory that autograd did not see."""
    if not isinstance(tensor, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C.bump_version(each)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Whether it is said that a leaf's gradient comes on another stream: here it waits for it."""
    bool(enabled)
