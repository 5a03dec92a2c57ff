"""Ordered hooks with removable handles, and the watchers behind full backward hooks."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tritorch.autograd.function import Function
from tritorch.autograd.nodes import RemovableHandle
from tritorch.core.tensor import Tensor

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


class _Watch(Function):
    """The identity on several tensors, so that their gradients arrive together."""

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return tuple(arg.view_as(arg) for arg in args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


class BackwardHook:
    """Calls backward hooks of one module call with grad_input and grad_output."""

    def __init__(self, module: Any, hooks: list[Any], before: list[Any]) -> None:
        self.module = weakref.ref(module)
        self.hooks, self.before = hooks, before
        self.grad_outputs: Any = None
        self.n_inputs = self.n_outputs = -1
        self.input_places: list[int] | None = None
        self.output_places: list[int] = []

    def _unpack(self, grads: Any, places: list[int], count: int) -> tuple[Any, ...]:
        out: list[Any] = [None] * count
        for place, grad in zip(places, grads):
            out[place] = grad
        return tuple(out)

    def _watched(self, args: Any, watch: Callable[[Any], None]) -> tuple[Any, list[int] | None]:
        places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        if not any(args[i].requires_grad for i in places):
            return args, None
        outs = _Watch.apply(*(args[i] for i in places))
        watch(next(out.grad_fn for out in outs if out.grad_fn is not None))
        new = list(args)
        for place, out in zip(places, outs):
            new[place] = out
        return type(args)(new) if type(args) is tuple else tuple(new), places

    def setup_inputs(self, args: Any) -> Any:
        """The arguments, watched."""

        def watch(node: Any) -> None:
            node.register_hook(self._run)

        args, self.input_places = self._watched(args, watch)
        self.n_inputs = len(args)
        return args

    def _run(self, grad_input: Any, _: Any) -> Any:
        if self.grad_outputs is None:
            return None
        assert self.input_places is not None
        module = self.module()
        found = self._unpack(grad_input, self.input_places, self.n_inputs)
        for hook in self.hooks:
            replaced = hook(module, found, self.grad_outputs)
            if replaced is None:
                continue
            replaced = replaced if isinstance(replaced, tuple) else (replaced,)
            if len(replaced) != len(found):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(replaced)}, "
                    f"but expected {len(found)}"
                )
            found = replaced
        self.grad_outputs = None
        return tuple(found[i] for i in self.input_places)

    def setup_outputs(self, result: Any) -> Any:
        """The results, watched."""
        single = isinstance(result, Tensor)
        args = (result,) if single else result
        if not isinstance(args, (tuple, list)):
            return result

        def watch(node: Any) -> None:
            def before(grads: Any) -> Any:
                module = self.module()
                found = self._unpack(grads, self.output_places, self.n_outputs)
                for hook in self.before:
                    replaced = hook(module, found)
                    if replaced is not None:
                        found = replaced if isinstance(replaced, tuple) else (replaced,)
                self.grad_outputs = found
                if self.input_places is None and self.hooks:
                    for hook in self.hooks:
                        if hook(module, (None,) * max(self.n_inputs, 0), found) is not None:
                            raise RuntimeError(
                                "backward hook that returns values is not supported when none of "
                                "the module's inputs require grad"
                            )
                return tuple(found[i] for i in self.output_places)

            node.register_prehook(before)

        self.n_outputs = len(args)
        self.output_places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        new, places = self._watched(tuple(args), watch)
        if places is None:
            return result
        return new[0] if single else type(result)(new) if type(result) is list else new
