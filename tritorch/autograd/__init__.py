"""Automatic differentiation, as in torch.autograd."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tritorch import _C
from tritorch.autograd import (
    anomaly,
    engine,
    grad_mode as grad_mode,
    graph as graph,
    nodes,
    passes,
)
from tritorch.autograd.anomaly import (
    detect_anomaly as detect_anomaly,
    set_detect_anomaly as set_detect_anomaly,
)
from tritorch.autograd.edges import GradientEdge, get_gradient_edge
from tritorch.autograd.function import (
    Function as Function,
    NestedIOFunction as NestedIOFunction,
    once_differentiable,
)
from tritorch.autograd.grad_mode import (
    _force_original_view_tracking,
    _unsafe_preserve_version_counter,
    enable_grad as enable_grad,
    enforce_grad_layout_policy as enforce_grad_layout_policy,
    inference_mode as inference_mode,
    is_multithreading_enabled as is_multithreading_enabled,
    is_view_replay_enabled as is_view_replay_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
    set_multithreading_enabled as set_multithreading_enabled,
)
from tritorch.autograd.gradcheck import (
    GradcheckError,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
)
from tritorch.autograd.saved import SavedTensor as SavedTensor
from tritorch.core import late_bound, published
from tritorch.core.dispatching import dispatches
from tritorch.core.tensor import Tensor, flushing

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.autograd import (
        forward_ad as forward_ad,
        function as function,
        functional as functional,
        profiler as profiler,
        profiler_util as profiler_util,
    )
    from tritorch.autograd.profiler import (
        ProfilerActivity as ProfilerActivity,
        kineto_available as kineto_available,
    )
    from tritorch.autograd.saved import SavedTensor as SavedTensor


is_grad_enabled = grad_mode.is_grad_enabled


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, (Tensor, graph_edge())):
        return (value,)
    return tuple(value)


def _tensor_or_tensors_to_tuple(tensors: Any, length: int) -> tuple[Any, ...]:
    """Tensors of `length` outputs: none, one, or several."""
    return (None,) * length if tensors is None else _as_tuple(tensors)


def variable(*args: Any, **kwargs: Any) -> Any:
    """Refused: it has long been `torch.tensor`."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


def graph_edge() -> Any:
    """The class of explicit edges."""
    return GradientEdge


def _edge_size(edge: GradientEdge) -> int:
    return math.prod(edge.node._input_metadata[edge.output_nr].shape)


def _initial_grads(
    outputs: Sequence[Any], grads: Sequence[Tensor | None], is_batched: bool
) -> list[Tensor | None]:
    checked: list[Tensor | None] = []
    for out, g in zip(outputs, grads):
        if g is None and isinstance(out, GradientEdge):
            known = out.node._input_metadata[out.output_nr]
            if math.prod(known.shape) != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            g = published.public.ones(known.shape, dtype=known.dtype, device=known.device)
        if g is None:
            if isinstance(out, Tensor) and out._requires_grad:
                if out.numel() != 1:
                    raise RuntimeError("grad can be implicitly created only for scalar outputs")
                if not (out.is_floating_point() or out.is_complex()):
                    raise RuntimeError(
                        f"grad can be implicitly created only for real scalar outputs but got "
                        f"{out.dtype}"
                    )
                if out.is_complex():
                    raise RuntimeError(
                        f"grad can be implicitly created only for real scalar outputs but got "
                        f"{out.dtype}"
                    )
            elif isinstance(out, GradientEdge) and _edge_size(out) != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            checked.append(None)
            continue
        if not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        if is_batched:
            if isinstance(out, Tensor) and g.shape[1:] != out.shape:
                raise RuntimeError(
                    "If `is_grads_batched=True`, we interpret the first dimension of each "
                    "grad_output as the batch dimension. The sizes of the remaining dimensions "
                    "are expected to match the shape of corresponding output, but a mismatch was "
                    f"detected: grad_output[{len(checked)}] has a shape of {g.shape} and "
                    f"output[{len(checked)}] has a shape of {out.shape}. If you only want some "
                    "tensors in `grad_output` to be considered batched, consider using vmap."
                )
        elif isinstance(out, Tensor) and tuple(g.shape) != tuple(out.shape):
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{len(checked)}] has a shape of {g.shape} and "
                f"output[{len(checked)}] has a shape of {out.shape}."
            )
        if isinstance(out, Tensor) and out.is_complex() != g.is_complex():
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same "
                f"dtype. Mismatch in dtype: grad_output[{len(checked)}] has a dtype of {g.dtype} "
                f"and output[{len(checked)}] has a dtype of {out.dtype}."
            )
        checked.append(g)
    return checked


def _check_roots(outputs: Sequence[Any]) -> None:
    for i, out in enumerate(outputs):
        if isinstance(out, Tensor) and not (out._requires_grad and (out._leaf or out._raw_node)):
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulates the gradients of `tensors` into the leaves (or only into `inputs`)."""
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
    outputs = _as_tuple(tensors)
    grads = _as_tuple(grad_tensors if grad_tensors is not None else grad_variables)
    grads = grads or (None,) * len(outputs)
    wanted = None if inputs is None else _as_tuple(inputs)
    if wanted is not None and not wanted:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    initial = _initial_grads(outputs, grads, False)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    _check_roots(outputs)
    retain = create_graph if retain_graph is None else retain_graph
    for tensor in wanted or ():
        if isinstance(tensor, Tensor) and not tensor._requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    engine.backward(outputs, initial, retain, create_graph, wanted, True)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of outputs with respect to inputs."""
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    outs, ins = _as_tuple(outputs), _as_tuple(inputs)
    grads = _as_tuple(grad_outputs) or (None,) * len(outs)
    if not ins:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if len(grads) != len(outs):
        raise RuntimeError(f"got {len(outs)} tensors and {len(grads)} gradients")
    retain = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        _initial_grads(outs, grads, True)

        def one(*gs: Any) -> Any:
            return grad(outs, ins, gs, True, create_graph, allow_unused=allow_unused,
                        materialize_grads=materialize_grads)  # fmt: skip

        batchable = not any(dispatches(type(x)) for x in (*outs, *ins, *grads))
        return tuple(late_bound.vmap_passing_none(one, batchable=batchable)(*grads))
    initial = _initial_grads(outs, grads, False)
    _check_roots(outs)
    for tensor in ins:
        if isinstance(tensor, Tensor) and not tensor._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    results = engine.backward(outs, initial, retain, create_graph, ins, False)
    if not allow_unused:
        unused = next((i for i, result in enumerate(results) if result is None), None)
        if unused is not None:
            raise RuntimeError(
                f"The differentiated Tensor at index {unused} appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior."
            )
    if materialize_grads:
        if any(r is None and not isinstance(x, Tensor) for r, x in zip(results, ins)):
            raise RuntimeError(
                "materialize_grads cannot be used when the given input is a GradientEdge"
            )
        results = [
            tensor.new_zeros(tensor.shape).requires_grad_(create_graph)
            if result is None
            else result
            for result, tensor in zip(results, ins)
        ]
    return tuple(results)


# ---- Tensor's side -------------------------------------------------------------------------------


@flushing
def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulates gradients into the leaves that this tensor depends on."""
    if gradient is None and inputs is None and self._requires_grad and self.numel() == 1:
        if self.is_floating_point() and (self._leaf or self._raw_node is not None):
            keep = create_graph if retain_graph is None else retain_graph
            engine.backward((self,), (None,), keep, create_graph, None, True)
            return
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@flushing
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Whether gradients of this leaf are wanted."""
    if not isinstance(requires_grad, bool):
        raise TypeError(
            "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
            f"{type(requires_grad).__name__}"
        )
    if requires_grad:
        if not (self.is_floating_point() or self.is_complex()):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if self._inference and not _C.is_inference_mode():
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed."
            )
        if self._node is None:
            self._leaf = True
    elif self._node is not None:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a "
            "computed variable in a subgraph that doesn't require differentiation use "
            "var_no_grad = var.detach()."
        )
    else:
        self._leaf = False
    return self


def _set_grad(self: Tensor, value: Any) -> None:
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value.dtype is not self.dtype:
            raise RuntimeError(
                f"assigned grad has data of a different type, expected {self.dtype}, got "
                f"{value.dtype}"
            )
        if value.shape != self.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: expected {list(self.shape)}, got "
                f"{list(value.shape)}"
            )
        if value.device != self.device:
            raise RuntimeError("assigned grad has data located on a different device")
    self._grad = value


def _get_grad(self: Tensor) -> Tensor | None:
    if self._grad is None and not self._leaf and not self._retains_grad and self._node is not None:
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
            ".grad attribute won't be populated during autograd.backward(). If you indeed want "
            "the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
            "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access "
            "the leaf Tensor instead.",
            stacklevel=2,
        )
    return self._grad


def _get_grad_fn(self: Tensor) -> nodes.Node | None:
    node = self._node
    return node if node is None or node._settled else nodes.shown(node)


def _get_backward_hooks(self: Tensor) -> Any:
    if not self._requires_grad:
        return getattr(self, "_unused_hooks", None)
    if self._node is None:
        return (self._hooks.tensor or None) if self._hooks is not None else None
    hooks = self._raw_node._node_hooks
    return (hooks.tensor.get(self.output_nr) or None) if hooks is not None else None


def _set_backward_hooks(self: Tensor, hooks: Any) -> None:
    if not self._requires_grad:
        holder: Any = self
        holder._unused_hooks = hooks  # nothing calls them
        return
    for hook in (hooks or {}).values():
        register_hook(self, hook)


def _get_accumulated_hooks(self: Tensor) -> Any:
    return None if self._hooks is None else self._hooks.accumulated or None


@flushing
def _watched_node(self: Tensor) -> Any:
    """The node at which the whole gradient of a tensor is seen."""
    if self._node._node_divided:
        self._node.expand_within(self.output_nr)
    return self._node


def retain_grad(self: Tensor) -> None:
    """Keeps the gradient of a tensor that is not a leaf."""
    if not self._requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._node is None or self._retains_grad:
        return
    import weakref

    _watched_node(self)._hooks().retained[self.output_nr] = weakref.ref(self)
    self._retains_grad = True


def register_hook(self: Tensor, hook: Any) -> nodes.RemovableHandle:
    """`hook(grad)` when the gradient of this tensor is known; may return another."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._node is None:
        return nodes.leaf_hooks(self).tensor.add(hook)
    hooks = _watched_node(self)._hooks().tensor
    return hooks.setdefault(self.output_nr, nodes.HookDict()).add(hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Any) -> nodes.RemovableHandle:
    """`hook(tensor)` after the gradient was added to `tensor.grad`."""
    if not self._requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not self._leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return nodes.leaf_hooks(self).accumulated.add(hook)


def _get_requires_grad(self: Tensor) -> bool:
    return self._requires_grad


def _set_requires_grad(self: Tensor, value: Any) -> None:
    if value and not (self.is_floating_point() or self.is_complex()):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    requires_grad_(self, bool(value))


def _is_leaf(self: Tensor) -> bool:
    return self._node is None


def _does_retain_grad(self: Tensor) -> bool:
    return self._retains_grad


def _no_deleting(message: str) -> Callable[[Tensor], None]:
    """The deleter of an attribute that every tensor has."""

    def delete(self: Tensor) -> None:
        raise RuntimeError(message)

    return delete


def _attach() -> None:
    cls: Any = Tensor
    cls.backward = _backward
    cls.requires_grad_ = requires_grad_
    cls.requires_grad = property(
        _get_requires_grad, _set_requires_grad, _no_deleting("requires_grad must be a bool")
    )
    cls.grad = property(_get_grad, _set_grad, lambda self: _set_grad(self, None))
    cls.grad_fn = property(_get_grad_fn)
    cls._backward_hooks = property(
        _get_backward_hooks,
        _set_backward_hooks,
        _no_deleting("Deletion of _backwards_hooks not allowed!"),
    )
    cls._post_accumulate_grad_hooks = property(_get_accumulated_hooks)
    cls._grad_fn = property(
        _get_grad_fn, None, _no_deleting("Deletion of _grad_fn not allowed. Detach tensor instead!")
    )
    cls.is_leaf = property(_is_leaf)
    cls.retain_grad = retain_grad
    cls.retains_grad = property(_does_retain_grad)
    cls.register_hook = register_hook
    cls.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook


_attach()


class VariableMeta(type):
    """The class of `Variable`: every tensor is an instance."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class LegacyVariableBase:
    """The base of `Variable`, which makes a tensor."""

    def __new__(cls, data: Any = None, requires_grad: Any = None, volatile: Any = None) -> Any:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                stacklevel=2,
            )
        out = _C.alias(data)
        return out.requires_grad_() if requires_grad else out


LegacyVariableBase.__name__ = LegacyVariableBase.__qualname__ = "_LegacyVariableBase"
LegacyVariableBase.__module__ = "tritorch._C"


class Variable(LegacyVariableBase, metaclass=VariableMeta):
    """Kept for its name: `Variable(t, requires_grad=True)` is a tensor on t's memory."""

    _execution_engine = passes.EngineBase()


Variable.__module__ = VariableMeta.__module__ = "tritorch.autograd.variable"
variable.Variable = Variable  # type: ignore[attr-defined]


_LATE = ("forward_ad", "functional", "profiler", "profiler_util")
_NATIVE = (
    "SavedTensor", "_KinetoEvent", "_ProfilerResult", "_kineto_step",
    "_pop_saved_tensors_default_hooks", "_profiler_enabled", "_push_saved_tensors_default_hooks",
    "_supported_activities", "kineto_available",
)  # fmt: skip


def _make_grads(outputs: Any, grads: Any, is_grads_batched: bool) -> tuple[Tensor | None, ...]:
    """The gradients that a pass begins with: ones where none is given for a number."""
    found = _initial_grads(outputs, grads, is_grads_batched)
    return tuple(
        published.public.ones_like(out) if g is None and out.requires_grad else g
        for out, g in zip(outputs, found)
    )


def _calculate_shape(output: Any, grad: Tensor, is_grads_batched: bool) -> tuple[Any, Any]:
    """The shapes of an output and of its gradient, without the dim of a batch."""
    shape = (
        output.node._input_metadata[output.output_nr].shape
        if isinstance(output, GradientEdge)
        else output.shape
    )
    return shape, grad.shape[1:] if is_grads_batched else grad.shape


def _is_checkpoint_valid() -> bool:
    """True where checkpoints that compute again may run."""
    return Variable._execution_engine.is_checkpoint_valid()


def _come_late(name: str) -> object:
    """Modules that are imported when they are first asked for."""
    if name in _LATE:
        return importlib.import_module(f"tritorch.autograd.{name}")
    if name == "ProfilerActivity":
        return importlib.import_module("tritorch.autograd.profiler").ProfilerActivity
    if name in _NATIVE:
        return getattr(importlib.import_module("tritorch._C._autograd"), name)
    if name in ("_record_function_with_args_enter", "_record_function_with_args_exit"):
        return getattr(importlib.import_module("tritorch.autograd.profiler"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # to checkers every name would be one
    __getattr__ = _come_late
