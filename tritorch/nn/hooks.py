"""Ordered hooks with removable handles, and the watchers behind full backward hooks."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from tritorch.autograd.function import Function
from tritorch.autograd.grad_mode import is_grad_enabled
from tritorch.autograd.nodes import RemovableHandle
from tritorch.core.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
Hooks: TypeAlias = "OrderedDict[int, Any]"  # by the keys of their handles, in running order


def add_hook(
    hooks: Hooks, hook: Callable[..., Any], *, prepend: bool = False, marks: Sequence[Hooks] = ()
) -> RemovableHandle:
    """Adds a hook at the end, or in front, and its key to the tables that say how it is called."""
    handle = RemovableHandle(hooks, extra_dict=marks)
    hooks[handle.id] = hook
    for table in marks:
        table[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class _WrappedHook:
    """A hook for the loading of state dicts, which may want its module."""

    def __init__(self, hook: Callable[..., Any], module: Any = None) -> None:
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if self.with_module:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        state = {"hook": self.hook, "with_module": self.with_module}
        return state | {"module": self.module()} if self.with_module else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook, self.with_module = state["hook"], state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


def find_hook(hooks: Hooks, kind: type, name: str) -> int | None:
    """The key of a hook of a class, for the parameter of a name."""
    for key, hook in hooks.items():
        hook = hook.hook if isinstance(hook, _WrappedHook) else hook
        if isinstance(hook, kind) and getattr(getattr(hook, "fn", hook), "name", None) == name:
            return key
    return None


class BackwardHookFunction(Function):
    """The identity on several tensors, so that their gradients arrive together."""

    _of_package = True

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> Any:
        ctx.mark_non_differentiable(*(arg for arg in args if not arg.requires_grad))
        ctx.set_materialize_grads(False)
        return tuple(arg.view_as(arg) for arg in args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class BackwardHook:
    """Calls backward hooks of one module call with grad_input and grad_output."""

    def __init__(self, module: Any, user_hooks: list[Any], user_pre_hooks: list[Any]) -> None:
        self.module, self.user_hooks, self.user_pre_hooks = module, user_hooks, user_pre_hooks
        self.grad_outputs: Any = None
        self.n_inputs = self.n_outputs = -1
        self.input_tensors_index: list[int] | None = None
        self.output_tensors_index: list[int] | None = None

    def _apply(self, args: Any, watch: Callable[[Any], None]) -> tuple[Any, list[int] | None]:
        """The arguments with their tensors watched, and where those are; None: nothing is."""
        places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        if not (is_grad_enabled() and any(args[i].requires_grad for i in places)):
            return args, None
        outs = BackwardHookFunction.apply(*(args[i] for i in places))
        watch(next(out.grad_fn for out in outs if out.grad_fn is not None))
        new = list(args)
        for place, out in zip(places, outs):
            new[place] = out
        return tuple(new) if type(args) is tuple else type(args)(*new), places

    def setup_input_hook(self, args: Any) -> Any:
        """The arguments, watched."""
        found, self.input_tensors_index = self._apply(args, lambda n: n.register_hook(self._run))
        self.n_inputs = len(args)
        return found

    def _run(self, grad_input: Any, _: Any) -> Any:
        if self.grad_outputs is None:  # gradients that come past the outputs
            return None
        assert self.input_tensors_index is not None
        found = _placed(self.input_tensors_index, grad_input, self.n_inputs)
        for hook in self.user_hooks:
            replaced = hook(self.module, found, self.grad_outputs)
            if replaced is None:
                continue
            if len(replaced) != len(found):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(replaced)}, "
                    f"but expected {len(found)}"
                )
            found = replaced
        self.grad_outputs = None
        return tuple(found[i] for i in self.input_tensors_index)

    def setup_output_hook(self, args: Any) -> Any:
        """The results, watched."""
        several = isinstance(args, tuple)
        given = args if several else (args,)
        found, places = self._apply(given, lambda n: n.register_hook(self._note))
        self.n_outputs, self.output_tensors_index = len(given), places
        return found if several else found[0]

    def _note(self, _: Any, grads: Any) -> Any:
        """Keeps the gradients of the outputs for the hooks; without inputs, these run now."""
        places = self.output_tensors_index
        assert places is not None
        self.grad_outputs = _placed(places, grads, self.n_outputs)
        for hook in self.user_pre_hooks:
            replaced = hook(self.module, self.grad_outputs)
            if replaced is None:
                continue
            if len(replaced) != self.n_outputs:
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got "
                    f"{len(replaced)}, but expected {self.n_outputs}"
                )
            self.grad_outputs = replaced
        found = self.grad_outputs
        if self.input_tensors_index is None:
            self._run_without_inputs()
        return tuple(found[i] for i in places)

    def _run_without_inputs(self) -> None:
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients. See https://docs.pytorch.org/docs/main/"
            "generated/torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more "
            "details.",
            stacklevel=5,
        )
        nothing = (None,) * self.n_inputs
        for hook in self.user_hooks:
            made = hook(self.module, nothing, self.grad_outputs)
            if made is not None and not (
                isinstance(made, tuple) and all(each is None for each in made)
            ):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None


def _placed(places: Sequence[int], values: Any, count: int) -> tuple[Any, ...]:
    """Values at their places among None."""
    out: list[Any] = [None] * count
    for place, value in zip(places, values):
        out[place] = value
    return tuple(out)


def hook_last_node(module: Any, hooks: list[Any], args: Any, result: Any) -> None:
    """Puts old backward hooks on the node of (the first tensor of) the output."""
    first = result
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next(v for v in first.values() if isinstance(v, Tensor))
        else:
            first = first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_WrappedHook(hook, module))
    lacking = _what_is_missing(args, result, node)
    if lacking is not None:
        warnings.warn(lacking, FutureWarning, stacklevel=4)


_FULL = "Please use register_full_backward_hook to get the documented behavior."
_GOES = "is deprecated and will be removed in future versions. This hook will be missing some"


def _what_is_missing(args: Any, result: Any, node: Any) -> str | None:
    """What old hooks, which see one node, do not see of a call."""
    for given, what, which in (
        (result, "return a", "grad_output"),
        (args, "take as input a", "grad_input"),
    ):
        tensors = given if isinstance(given, tuple) else (given,)
        if not all(isinstance(each, Tensor) for each in tensors):
            return (
                f"Using non-full backward hooks on a Module that does not {what} single Tensor or "
                f"a tuple of Tensors {_GOES} {which}. {_FULL}"
            )
    results = result if isinstance(result, tuple) else (result,)
    nodes = {each.grad_fn for each in results if each.grad_fn is not None}
    if not nodes or (len(nodes) == 1 and node not in nodes):
        return (
            f"Using a non-full backward hook when outputs are nested in python data structure "
            f"{_GOES} grad_output."
        )
    if len(nodes) > 1:
        return (
            f"Using a non-full backward hook when outputs are generated by different autograd "
            f"Nodes {_GOES} grad_output. {_FULL}"
        )
    inputs = args if isinstance(args, tuple) else (args,)
    if {x.grad_fn for x in inputs if x.grad_fn is not None} != {n for n, _ in node.next_functions}:
        return (
            f"Using a non-full backward hook when the forward contains multiple autograd Nodes "
            f"{_GOES} grad_input. {_FULL}"
        )
    return None


def unserializable_hook(f: F) -> F:
    """Marks a hook whose loss nobody is warned of when its tensor is saved."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns of the backward hooks of a tensor, which are not saved with it."""
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                stacklevel=2,
            )
