"""`autograd.Function`: operators of the user's own, with a gradient of their own."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.autograd import passes, saved as saving, streams
from tritorch.autograd.duals import make_dual, primal_of
from tritorch.autograd.graph import CUSTOM, MULTIPLE, check_inplace, forbid_writes, rewrite_history
from tritorch.autograd.nested import (
    _iter_filter as _iter_filter,
    _iter_None_tensors as _iter_None_tensors,
    _iter_tensors as _iter_tensors,
    _iter_tensors_permissive as _iter_tensors_permissive,
    _jit_unwrap_structured as _jit_unwrap_structured,
    _map_tensor_data as _map_tensor_data,
    _nested_map as _nested_map,
    _unflatten as _unflatten,
)
from tritorch.autograd.nodes import FREED, Node, RemovableHandle, gradient_edge
from tritorch.core import published, scopes
from tritorch.core.tensor import Tensor

_T = TypeVar("_T")
_R = TypeVar("_R")
_P = ParamSpec("_P")


class FunctionCtx:
    """What forward leaves for backward."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Tensors that backward needs; `saved_tensors` gives them back."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Tensors that jvp needs."""
        self._to_save_forward = tensors

    def mark_dirty(self, *args: Any) -> None:
        """Inputs that forward wrote."""
        _require_tensors(
            "mark_dirty can only accept variables, but argument {} is of type {}", args
        )
        self._dirty = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Nothing: autograd finds out by itself."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically "
            "tracked. Note that calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args: Any) -> None:
        """Outputs that no gradient flows through."""
        _require_tensors(
            "mark_non_differentiable only accepts variable arguments, but got {1}", args
        )
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing gradients reach backward as zeros (the default) or as None."""
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got "
                f"({type(value).__name__}), but expected (bool)"
            )
        self.materialize_grads = value


def _require_tensors(words: str, args: Any) -> None:
    for i, each in enumerate(args):
        if each is not None and not isinstance(each, Tensor):
            raise RuntimeError(words.format(i, type(each).__name__))


_ContextMethodMixin = FunctionCtx  # its former name, in old pickles


class _FunctionBase:
    """What calls of functions, and functions, derive from."""

    __slots__ = ()


_FunctionBase.__module__ = "tritorch._C"


class _HookMixin:
    """How a hook is registered."""

    __slots__ = ()

    @staticmethod
    def _register_hook(backward_hooks: Any, hook: Callable[..., Any]) -> tuple[Any, Any]:
        """Puts a hook into a dict, made if there is none; the dict, and what removes the hook."""
        hooks = OrderedDict() if backward_hooks is None else backward_hooks
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return hooks, handle


class BackwardCFunction(Node, _FunctionBase, FunctionCtx, _HookMixin):
    """The node of a call of a Function, and its ctx."""

    # A dict besides the node's fields: users set attributes on ctx.

    _forward_cls: Any

    dirty_tensors = non_differentiable = to_save = saved_for_forward = None

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What save_for_backward was given."""
        if self._node_freed:
            raise RuntimeError(FREED)
        saved = self._node_unpack()
        return () if saved is None else _with_history(self, saved)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """`saved_tensors`, by its old name."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self._node_freed:
            raise RuntimeError(FREED)
        return tuple(
            saving.SavedTensor.of(self, None if saved is None else i)
            for i, saved in enumerate(self._node_saved or ())
        )

    def __repr__(self) -> str:
        kind = type(self)
        return f"<{kind.__module__}.{kind.__qualname__} object at {id(self):#x}>"

    def _get_user_fn(self) -> Any:
        return backward_of(self._forward_cls)

    def apply(self, *args: Any) -> Any:
        """What the backward pass calls: the function's backward."""
        return self._get_user_fn()(self, *args)

    def apply_jvp(self, *args: Any) -> Any:
        """What forward mode calls: the function's jvp."""
        return self._forward_cls.jvp(self, *args)

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Which of forward's arguments want a gradient."""
        return self.__dict__["_needs"]

    def name(self) -> str:
        """The class's name."""
        return type(self).__name__


def backward_of(function: Any) -> Any:
    """backward, or its other name, vjp."""
    backward, vjp = function.backward, function.vjp
    if backward is not Function.backward and vjp is not Function.vjp:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
            "should only implement one of them."
        )
    return vjp if vjp is not Function.vjp else backward


def _with_history(node: Any, saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs were saved without their node (they own it): here they get it back."""
    own = node.__dict__.get("_own", ())
    if not own:
        return saved
    out = []
    for i, tensor in enumerate(saved):
        nr = dict(own).get(i)
        if nr is not None and tensor is not None:
            tensor = _C.alias(tensor)
            tensor._raw_node, tensor.output_nr = node, nr
        out.append(tensor)
    return tuple(out)


class _FunctionOperator:
    """What the engine calls on the nodes of one Function."""

    inputs: tuple[str, ...] = ()
    params: tuple[str, ...] = ()

    def __init__(self, function: Any) -> None:
        self.function = function
        self.name = function.__name__

    def backward(self, node: Any, g: Any) -> tuple[Any, ...]:
        grads = list(g) if node._node_n_outputs else [g]
        if node.__dict__.get("materialize_grads", True):
            frozen = node.__dict__["_frozen"]
            zeros_of_frozen = node.__dict__.get("_materialize_non_diff_grads", True)
            for i, each in enumerate(grads):
                if i in frozen and not zeros_of_frozen:
                    continue
                if each is None and node.__dict__["_shapes"][i] is not None:
                    shape, kind, device = node.__dict__["_shapes"][i]
                    grads[i] = published.public.zeros(shape, dtype=kind, device=device)
        with scopes.Scope((passes.current, "node", node)):
            results = backward_of(self.function)(node, *grads)
        results = results if isinstance(results, tuple) else (results,)
        wanted = node.__dict__["_arguments"]
        if len(results) > wanted:
            if any(extra is not None for extra in results[wanted:]):
                raise RuntimeError(
                    f"function {self.name}Backward returned an incorrect number of gradients "
                    f"(expected {wanted}, got {len(results)})"
                )
            results = results[:wanted]
        if len(results) < wanted:
            raise RuntimeError(
                f"function {self.name}Backward returned an incorrect number of gradients (expected "
                f"{wanted}, got {len(results)})"
            )
        for result in results:
            if result is not None and not isinstance(result, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
        return tuple(results[i] for i in node.__dict__["_tensor_positions"])


class FunctionMeta(type):
    """Gives each Function a node type of its own name."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        super().__init__(name, bases, attrs)
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls})
        cls._operator = _FunctionOperator(cls)


class _SingleLevelFunction(_FunctionBase, FunctionCtx, _HookMixin, metaclass=FunctionMeta):
    """A function of what it computes and how its gradients are, without a way to call it."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """forward(ctx, *args), or forward(*args) together with setup_context."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    if TYPE_CHECKING:  # programs name what these take themselves

        @staticmethod
        def setup_context(*args: Any, **kwargs: Any) -> Any: ...
        @staticmethod
        def backward(*args: Any, **kwargs: Any) -> Any: ...
        @staticmethod
        def vjp(*args: Any, **kwargs: Any) -> Any: ...
        @staticmethod
        def jvp(*args: Any, **kwargs: Any) -> Any: ...

    else:

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
            """Fills ctx, when forward does not take it."""
            raise NotImplementedError("setup_context is not implemented.")

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            """The gradients of forward's arguments."""
            raise NotImplementedError(
                "You must implement either the backward or vjp method for your custom "
                "autograd.Function to use it with backward mode AD."
            )

        vjp = backward

        @staticmethod
        def jvp(ctx: Any, *grad_inputs: Any) -> Any:
            """The tangents of forward's outputs."""
            raise NotImplementedError(
                "You must implement the jvp function for custom autograd.Function to use it with "
                "forward mode AD."
            )


def _is_setup_context_defined(fn: Any) -> bool:
    """Whether a function's `setup_context` is its own."""
    return fn is not _SingleLevelFunction.setup_context


class Function(_SingleLevelFunction):
    """A differentiable function: override forward and backward, call apply."""

    generate_vmap_rule = False
    _of_package = False  # one of the package's own needs no rule for vmap

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """The results of a batch, and where its dim is in each."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls forward and records the call."""
        if _is_overridden(cls, "setup_context"):
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            return _apply(cls, bound.args)
        return _apply(cls, args, kwargs)


def _is_overridden(cls: Any, name: str) -> bool:
    return getattr(cls, name) is not getattr(Function, name)


# What runs a function on a batch (vmap's rule, once there are batches), or NotImplemented.
BATCH_OF_FUNCTION: list[Callable[..., Any]] = []


def _apply(cls: Any, args: tuple[Any, ...], kwargs: Any = None) -> Any:
    for arg in () if cls._of_package else args:
        if isinstance(arg, Tensor) and type(arg._array) is BatchedArray:
            found = BATCH_OF_FUNCTION[0](cls, args)
            if found is NotImplemented:
                break
            return found
    if any(isinstance(arg, Tensor) and arg._tangent is not None for arg in args):
        if _is_overridden(cls, "jvp") or not cls._of_package:
            return _apply_forward_mode(cls, args)
    return _run(cls, args, cls._backward_cls(), kwargs=kwargs)


def _apply_forward_mode(cls: Any, args: tuple[Any, ...]) -> Any:
    """The call on the primals, its outputs with the tangents that `jvp` gives."""
    ctx = cls._backward_cls()
    primals = tuple(primal_of(arg) for arg in args)
    result = _run(cls, primals, ctx, keep=True)
    tangents = []
    materialize = ctx.__dict__.get("materialize_grads", True)
    for arg, primal in zip(args, primals):
        tangent = arg._tangent if isinstance(arg, Tensor) else None
        if tangent is None and materialize and isinstance(arg, Tensor) and _can_flow(arg):
            tangent = primal.detach().new_zeros(primal.shape)
        tangents.append(tangent)
    moved = cls.jvp(ctx, *tangents)
    many = isinstance(result, tuple)
    outs, moved = result if many else (result,), moved if isinstance(moved, tuple) else (moved,)
    if len(moved) != len(outs):
        raise RuntimeError(
            f"{cls.__name__}'s jvp returned an invalid number of forward gradients (expected "
            f"{len(outs)} but got {len(moved)})"
        )
    fields = ctx.__dict__
    saved, *results = fields.pop("_for_backward")
    ctx._node_saved = ctx._node_versions = None
    _save(ctx, saved, *results)
    duals = []
    for nr, (out, t) in enumerate(zip(outs, moved)):
        if not isinstance(out, Tensor) or nr in fields["_frozen"] or not _can_flow(out):
            duals.append(out)
            continue
        _check_tangent(out, t, args, primals, nr in fields["_dirty_outputs"])
        if nr in fields["_dirty_outputs"]:
            duals.append(next(a for a, p in zip(args, primals) if p is out))
        else:
            duals.append(out if t is None else make_dual(out, t))
    return tuple(duals) if many else duals[0]


def _can_flow(tensor: Tensor) -> bool:
    """True if gradients of a tensor's dtype exist."""
    return tensor.is_floating_point() or tensor.is_complex()


_INPLACE_JVP = (
    " If the forward is modifying an input inplace, then the jvp function must modify the "
)


def _check_tangent(out: Tensor, t: Any, args: Any, primals: Any, dirty: bool) -> None:
    """A tangent has to be what its output is to the inputs: one of them written, or a view."""
    if dirty:
        mine = next((a._tangent for a, p in zip(args, primals) if p is out), None)
        if mine is not None and t is not mine:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace."
                f"{_INPLACE_JVP}corresponding gradient inplace."
            )
        return
    base = out if out._base is None else out._base
    for arg, primal in zip(args, primals):
        if not isinstance(primal, Tensor) or arg._tangent is None or t is None:
            continue
        if out is not primal and base is not (primal if primal._base is None else primal._base):
            continue
        if t._base is None and t is not arg._tangent:
            raise RuntimeError(
                "A custom Function's forward is returning a view (or an input as-is) but the jvp "
                "is not returning a view."
            )
        mine = arg._tangent if arg._tangent._base is None else arg._tangent._base
        if t is not arg._tangent and t._base is not mine:
            what = (
                "the given grad input"
                if primal._base is None
                else ("the same base as the given grad input")
            )
            raise RuntimeError(
                "A custom Function is returning a view but the jvp is not returning a view of "
                f"{what}."
            )
        return


def _run(cls: Any, args: tuple[Any, ...], ctx: Any, keep: bool = False, kwargs: Any = None) -> Any:
    """keep: what forward saved is wanted even if nothing is recorded."""
    positions = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
    needs = tuple(isinstance(arg, Tensor) and arg._requires_grad for arg in args)
    fields = ctx.__dict__
    fields["_needs"] = needs
    fields["_arguments"] = len(args)
    fields["_tensor_positions"] = positions
    before = _C.is_grad_enabled()
    with scopes.unrecorded:
        if _is_overridden(cls, "setup_context"):
            result = cls.forward(*args)
            cls.setup_context(ctx, args, result)
        else:
            result = cls.forward(ctx, *args, **(kwargs or {}))
    single = not isinstance(result, tuple)
    outputs = [result] if single else list(result)
    recording = before and any(needs)
    outputs = _finish(cls, ctx, args, positions, outputs, single, recording, keep, before)
    return outputs[0] if single else tuple(outputs)


def _finish(
    cls: Any, ctx: Any, args: tuple[Any, ...], positions: list[int], outputs: list[Any],
    single: bool, recording: bool, keep: bool, before: bool,
) -> list[Any]:  # fmt: skip
    fields = ctx.__dict__
    dirty = fields.pop("_dirty", ())
    frozen = fields.pop("_non_differentiable", ())
    saved = fields.pop("_to_save", None)
    inputs = {id(args[i]) for i in positions}
    finished: list[Any] = []
    if keep:  # what jvp gets; the gradient gets the rest once it has run
        fields["_for_backward"] = saved, outputs, finished
        saved = fields.pop("_to_save_forward", None) or ()
    fields["_frozen"] = {nr for nr, x in enumerate(outputs) if any(x is y for y in frozen)}
    fields["_dirty_outputs"] = {nr for nr, x in enumerate(outputs) if any(x is y for y in dirty)}
    for tensor in dirty:
        if recording:
            check_inplace(tensor)
        if id(tensor) not in inputs:
            warnings.warn(
                "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an "
                "input, there is no need to pass it to mark_dirty().",
                stacklevel=5,
            )
    if recording:
        ctx._node_op = cls._operator
        ctx._node_edges = tuple(
            gradient_edge(args[i]) if args[i]._requires_grad else None for i in positions
        )
        ctx._node_outputs = tuple(0 if args[i]._leaf else args[i].output_nr for i in positions)
        ctx._node_n_outputs = 0 if single else len(outputs)
        ctx._node_stream = streams.stream_of(outputs)
    history: list[Any] = []
    for nr, out in enumerate(outputs):
        if not isinstance(out, Tensor):
            finished.append(out)
            history.append(None)
            continue
        is_dirty = any(out is tensor for tensor in dirty)
        flows = (
            recording
            and not any(out is tensor for tensor in frozen)
            and (out.is_floating_point() or out.is_complex())
        )
        if (id(out) in inputs and not is_dirty) or (out._raw_node is not None and not is_dirty):
            out = _C.alias(out) if type(out) is Tensor else out.view_as(out)
        if is_dirty:
            _C.bump_version(out)
        finished.append(out)
        history.append((nr, out, flows, is_dirty))
    if not recording:
        if keep:
            _save(ctx, saved, outputs, finished)
        if before:
            custom = [out for _, out, *_ in filter(None, history) if out._base is not None]
            for out in custom:
                out._created = None
            forbid_writes(custom, cls.__name__, custom=True)
        return finished
    fields["_shapes"] = [
        (tuple(out.shape), out.dtype, out.device) if isinstance(out, Tensor) else None
        for out in finished
    ]
    metas = [
        (out._array.shape, out._array.dtype) if isinstance(out, Tensor) else (None, None)
        for out in finished
    ]
    ctx._node_shape = metas[0][0] if single else tuple(m[0] for m in metas)
    ctx._node_dtype = metas[0][1] if single else tuple(m[1] for m in metas)
    _save(ctx, saved, outputs, finished)
    several = sum(item is not None and item[2] for item in history) > 1
    for item in history:
        if item is None:
            continue
        nr, out, flows, is_dirty = item
        if not flows:
            continue
        if is_dirty:
            out._leaf = False
            rewrite_history(out, ctx)
            out.output_nr = nr
        else:
            out._raw_node, out.output_nr, out._leaf = ctx, nr, False
            if out._base is not None or id(outputs[nr]) in inputs:
                out._created = (nr, cls.__name__, MULTIPLE if several else CUSTOM)
                out._epoch = out._shared.version
    return finished


def _save(ctx: Any, saved: Any, outputs: list[Any], finished: list[Any]) -> None:
    if saved is None:
        return
    own = []
    kept = []
    for i, tensor in enumerate(saved):
        nr = next((k for k, out in enumerate(outputs) if out is tensor), None)
        if nr is not None and isinstance(tensor, Tensor):
            own.append((i, nr))
            tensor = _C.alias(tensor)  # without the node, which would own itself
        elif tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {i} is of type "
                f"{type(tensor).__name__}"
            )
        kept.append(tensor)
    ctx.__dict__["_own"] = tuple(own)
    ctx._node_saved = tuple(kept)
    versions = tuple(t._version if isinstance(t, Tensor) else 0 for t in kept)
    ctx._node_versions = versions if any(versions) else None
    if saving.hook_stack.hooks:
        saving.pack_saved(ctx)
    _ = finished


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A backward whose result cannot be differentiated again: doing so raises."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        recorded = _C.is_grad_enabled()
        with scopes.unrecorded:
            results = function(ctx, *grads)
        if not recorded:
            return results
        wanted = any(isinstance(g, Tensor) and g._requires_grad for g in grads)
        if not wanted:
            return results
        many = isinstance(results, tuple)
        out = refused_all(
            results if many else (results,),
            "trying to differentiate twice a function that was marked with @once_differentiable",
        )
        return out if many else out[0]

    return wrapper


class _DelayedError:
    name = "DelayedError"
    inputs: tuple[str, ...] = ()
    params: tuple[str, ...] = ()

    @staticmethod
    def backward(node: Any, g: Any) -> Any:
        raise RuntimeError(node.message)


class Error(Node):
    """The node of a gradient that must not be differentiated."""

    __slots__ = ("message",)
    __module__ = "builtins"
    _full_name = "torch::autograd::Error"
    message: str


def refused(x: Tensor, message: str, inputs: Sequence[Tensor] = ()) -> Tensor:
    """A tensor with the same values that must not be differentiated; a pass that comes to it, on
    its way to any of the inputs, raises an error that says why."""
    node = Error()
    node.message, node._node_op = message, _DelayedError
    node._node_edges = tuple(gradient_edge(each) for each in inputs) or (None,)
    node._node_outputs = tuple(0 if each._leaf else each.output_nr for each in inputs) or None
    out = _C.alias(x)
    node._node_shape, node._node_dtype = out._array.shape, out._array.dtype
    out._raw_node = node
    return out


def refused_all(values: Sequence[Any], message: str, inputs: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Results of one call, with the same values, that must not be differentiated; a pass comes to
    them on its way to the inputs, by default to leaves of their own."""
    node = Error()
    node.message, node._node_op = message, _DelayedError
    outs = [_C.alias(x) if isinstance(x, Tensor) else x for x in values]
    flows = [isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex()) for x in outs]
    sources = inputs or tuple(
        x.detach().requires_grad_() if flow else None for x, flow in zip(outs, flows)
    )
    node._node_edges = tuple(gradient_edge(x) if isinstance(x, Tensor) else None for x in sources)
    node._node_outputs = tuple(
        0 if not isinstance(x, Tensor) or x._leaf else x.output_nr for x in sources
    )
    node._node_n_outputs = len(outs)
    node._node_shape = tuple(x._array.shape if flow else None for x, flow in zip(outs, flows))
    node._node_dtype = tuple(x._array.dtype if flow else None for x, flow in zip(outs, flows))
    for nr, (out, flow) in enumerate(zip(outs, flows)):
        if flow:
            out._raw_node, out.output_nr = node, nr
    return tuple(outs)


class InplaceFunction(Function):
    """Kept for its name; use Function."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Kept for its name; use Function."""
