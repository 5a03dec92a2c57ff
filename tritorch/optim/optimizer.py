"""Optimizer: parameter groups, state, hooks and state dicts, as in torch.optim.optimizer."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, TypeAlias

from tritorch import _C
from tritorch.autograd.nodes import RemovableHandle
from tritorch.core import profiling
from tritorch.core.dtype import float32
from tritorch.core.profiling import events
from tritorch.core.scopes import Scope, set_back
from tritorch.core.tensor import Tensor, typename
from tritorch.optim._authoring import (
    _capturable_doc as _capturable_doc,
    _default_to_fused_or_foreach as _default_to_fused_or_foreach,
    _device_dtype_check_for_fused as _device_dtype_check_for_fused,
    _differentiable_doc as _differentiable_doc,
    _disable_dynamo_if_unsupported as _disable_dynamo_if_unsupported,
    _foreach_doc as _foreach_doc,
    _foreach_supported_types as _foreach_supported_types,
    _fused_doc as _fused_doc,
    _get_capturable_supported_devices as _get_capturable_supported_devices,
    _get_foreach_kernels_supported_devices as _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices as _get_fused_kernels_supported_devices,
    _get_scalar_dtype as _get_scalar_dtype,
    _get_value as _get_value,
    _maximize_doc as _maximize_doc,
    _params_doc as _params_doc,
    _stack_if_compiling as _stack_if_compiling,
    _to_scalar as _to_scalar,
    _use_grad_for_differentiable as _use_grad_for_differentiable,
    _view_as_real as _view_as_real,
)

ParamsT: TypeAlias = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]
StateDict: TypeAlias = dict[str, Any]
Hooks: TypeAlias = "OrderedDict[int, Callable[..., Any]]"


class _RequiredParameter:
    """Stands in `defaults` for an option that each group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()

_global_pre_hooks: Hooks = OrderedDict()
_global_post_hooks: Hooks = OrderedDict()

# Options that came after the first checkpoints were written, and what those mean by lacking them.
_LATER_OPTIONS = {
    "amsgrad": False,
    "momentum": 0,
    "centered": False,
    "nesterov": False,
    "maximize": False,
    "foreach": None,
    "capturable": False,
    "differentiable": False,
    "fused": None,
}


def _add(hooks: Hooks, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Runs `hook(optimizer, args, kwargs)` before each step of every optimizer."""
    return _add(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Runs `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return _add(_global_post_hooks, hook)


def _mark_memory(optimizer: Any) -> None:
    """Says in a profile what memory is for parameters, gradients and state."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            profiling.mark(p, profiling.PARAMETER)
            if p.grad is not None:
                profiling.mark(p.grad, profiling.GRADIENT)
            for value in optimizer.state.get(p, {}).values():
                if isinstance(value, Tensor):
                    profiling.mark(value, profiling.OPTIMIZER_STATE)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's own step, between the hooks; once, where an override calls its parent's step."""

    @functools.wraps(step)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        _C.flush()  # deferred calls may read the parameters
        self = args[0]
        fields = self.__dict__
        before = fields.get("_optimizer_step_pre_hooks")
        if before is None:  # not initialized: around another optimizer, whose step has the hooks
            return step(*args, **kwargs)
        after = fields["_optimizer_step_post_hooks"]
        hooked = before or after or _global_pre_hooks or _global_post_hooks
        profiled = not self._stepping and events.enabled()
        if self._stepping or not (hooked or profiled):
            return step(*args, **kwargs)
        name = f"Optimizer.step#{type(self).__name__}.step"
        event = events.begin(profiling.ANNOTATION, name)
        with Scope((self, "_stepping", True), set_back(events.end, event)):
            for hook in [*_global_pre_hooks.values(), *before.values()]:
                replaced = hook(self, args, kwargs)
                if replaced is None:
                    continue
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                args, kwargs = replaced
            result = step(*args, **kwargs)
            for hook in [*after.values(), *_global_post_hooks.values()]:
                hook(self, args, kwargs)
            if profiling.remembering:
                _mark_memory(self)
            if profiled:
                self._optimizer_step_code()
            return result

    stepping.hooked = True  # type: ignore[attr-defined]
    return stepping


class Optimizer:
    """Updates parameters from their gradients; the base class of all optimizers.

    Args:
        params: tensors, (name, tensor) pairs, or dicts, one a group, with such a list as "params"
            and options of their own.
        defaults: the options of groups that don't give them.
    """

    defaults: dict[str, Any]
    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]
    _stepping = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "hooked", False):
            cls.step = _with_hooks(step)  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._init_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {typename(params)}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _init_hooks(self) -> None:
        self._optimizer_step_pre_hooks: Hooks = OrderedDict()
        self._optimizer_step_post_hooks: Hooks = OrderedDict()
        self._optimizer_state_dict_pre_hooks: Hooks = OrderedDict()
        self._optimizer_state_dict_post_hooks: Hooks = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: Hooks = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: Hooks = OrderedDict()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters; `closure` computes the loss again and returns it."""
        raise NotImplementedError

    def _optimizer_step_code(self) -> None:
        """Tells a profile that shows Python's functions of parameters, gradients and state; once
        in each profile."""
        profile = events.generation()
        if self.__dict__.get("_told") == profile or not events.shows_functions():
            return
        self._told = profile
        rows = [
            (p, p.grad, [x for x in self.state.get(p, {}).items() if isinstance(x[1], Tensor)])
            for group in self.param_groups for p in group["params"]
        ]  # fmt: skip
        events.end(events.begin(profiling.STATE, type(self).__name__, id(self), tuple(rows)))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients, or fills them with zeros."""
        name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        event = events.begin(profiling.ANNOTATION, name) if events.enabled() else None
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif (grad := p.grad) is not None:
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()
        if event is not None:
            events.end(event)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    # ---- groups ----------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group: a dict with "params" and any options that differ from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        given = [given] if isinstance(given, Tensor) else list(given)
        names = [item[0] for item in given if isinstance(item, tuple)]
        params = [item[1] if isinstance(item, tuple) else item for item in given]
        if names and len(names) != len(params):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, "
                    f"but one of the params is {typename(param)}"
                )
            if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        self._check_membership(param_group)
        self.param_groups.append(param_group)

    def _check_membership(self, new: dict[str, Any]) -> None:
        ids = {id(p) for p in new["params"]}
        if len(ids) != len(new["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=4,
            )
        named = "param_names" in new
        for group in self.param_groups:
            if ("param_names" in group) != named:
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {'with' if named else 'without'} names to the optimizer"
                )
            if not ids.isdisjoint(id(p) for p in group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")

    # ---- hooks -----------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Runs `hook(optimizer, args, kwargs)` before step; may return new (args, kwargs)."""
        return _add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Runs `hook(optimizer, args, kwargs)` after step."""
        return _add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs `hook(optimizer)` before state_dict collects."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs `hook(optimizer, state_dict)` on the result; may return another in its place."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs `hook(optimizer, state_dict)` before loading; may return another in its place."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Runs `hook(optimizer)` after loading."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- state dicts and pickles -----------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """State and groups, with parameters replaced by their numbers."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            (numbers[id(key)] if isinstance(key, Tensor) else key): value
            for key, value in self.state.items()
        }
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Takes over state and options; state goes to the parameters' devices and dtypes."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        params: dict[Any, tuple[Tensor, dict[str, Any]]] = {}
        for old, new in zip(self.param_groups, saved):
            if len(old["params"]) != len(new["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group "
                    "that doesn't match the size of optimizer's group"
                )
            params |= {key: (p, new) for key, p in zip(new["params"], old["params"])}
            new["params"] = old["params"]
            if "param_names" in old:
                new.setdefault("param_names", old["param_names"])
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                p, group = params[key]
                state[p] = _adapted(value, p, group)
            else:
                state[key] = value
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._init_hooks()
        for group in self.param_groups:
            for name, value in _LATER_OPTIONS.items():
                if name in self.defaults:
                    group.setdefault(name, value)


def _adapted(value: Any, p: Tensor, group: dict[str, Any], key: Any = None) -> Any:
    """Loaded state, as it has to be for a parameter."""
    if isinstance(value, Tensor):
        if key == "step":
            if group.get("capturable") or group.get("fused"):
                return value.to(dtype=float32, device=p.device)
            return value
        if p.is_floating_point():
            return value.to(dtype=p.dtype, device=p.device)
        return value.to(device=p.device)
    if isinstance(value, dict):
        return {k: _adapted(v, p, group, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_adapted(v, p, group) for v in value)
    return value
