"""Modules around others, which checkpoint their calls or move what is saved of them to the CPU.

The names of parameters, in state dicts and elsewhere, stay those of the module inside.
"""

from __future__ import annotations

import enum
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from tritorch.autograd.graph import save_on_cpu
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(enum.Enum):
    """The two ways to checkpoint: the call inside of a function of autograd's, or by hooks."""

    REENTRANT = enum.auto()
    NO_REENTRANT = enum.auto()


def _rename(state_dict: dict[str, Any], old: str, new: str) -> None:
    """Replaces a prefix of the names in a state dict."""
    for key in list(state_dict):
        if key.startswith(old):
            state_dict[new + key.removeprefix(old)] = state_dict.pop(key)


class ActivationWrapper(Module, ABC):
    """A module around another, of whose attributes and names it is."""

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self.register_load_state_dict_pre_hook(self._pre_load_state_dict_hook)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call of the module inside."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: int) -> Any:
        return self._checkpoint_wrapped_module.__getitem__(key)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Parameters by their names in the module inside."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter

    @staticmethod
    def _post_state_dict_hook(
        module: Module, state_dict: dict[str, Any], prefix: str, *args: Any
    ) -> dict[str, Any]:
        _rename(state_dict, f"{prefix}{_CHECKPOINT_PREFIX}", prefix)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(
        module: Module, state_dict: dict[str, Any], prefix: str, *args: Any
    ) -> None:
        _rename(state_dict, prefix, f"{prefix}{_CHECKPOINT_PREFIX}")


class OffloadWrapper(ActivationWrapper):
    """Keeps what is saved for the backward pass on the CPU."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call of the module inside."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Keeps the inputs of a call alone, and computes it again in the backward pass."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            from tritorch.utils.checkpoint import checkpoint

            checkpoint_fn = checkpoint
            checkpoint_fn_kwargs = {
                "use_reentrant": checkpoint_impl == CheckpointImpl.REENTRANT,
                **checkpoint_fn_kwargs,
            }
        self.checkpoint_fn = functools.partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call of the module inside, checkpointed."""
        inside = self._checkpoint_wrapped_module
        if self.checkpoint_impl != CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(inside, *args, **kwargs)
        names = tuple(kwargs)  # that way takes arguments by position alone
        count = len(args)

        def call(*values: Any) -> Any:
            return inside(*values[:count], **dict(zip(names, values[count:])))

        return self.checkpoint_fn(call, *args, *kwargs.values())


def offload_wrapper(module: Module) -> Module:
    """A module around one, which keeps what is saved of its calls on the CPU."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """A module around one, which checkpoints its calls.

    checkpoint_fn: a function in the place of `utils.checkpoint.checkpoint`; the arguments after it
    are the function's."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[[Module, bool, int], bool] | None = None,
) -> None:
    """Wraps modules inside of a model, in place: those of which check_fn is true.

    auto_wrap_policy: asked in the place of check_fn, by name with the module, with `recurse=True`
    whether its children are looked at and then, with False, whether it is wrapped, and with the
    number of its parameters that are in no wrapped module (`nonwrapped_numel`)."""

    def by_function(module: Module, recurse: bool, nonwrapped_numel: int) -> bool:
        return recurse or check_fn(module)

    policy: Callable[..., bool] = auto_wrap_policy or by_function
    _wrap_children(model, checkpoint_wrapper_fn, policy, {})


def _wrap_children(
    module: Module, wrap: Callable[[Module], Module], policy: Callable[..., bool],
    done: dict[Module, tuple[Module, int]],
) -> tuple[int, int]:  # fmt: skip
    """Wraps what a policy chooses below a module, from the bottom up, a shared module once.

    Returns how many parameters the module has, and how many of them are wrapped."""
    total = sum(parameter.numel() for parameter in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=total):
        return total, 0
    count = 0
    for name, child in module._modules.items():
        if child is None or isinstance(child, ActivationWrapper):
            continue
        if child not in done:
            size, inside = _wrap_children(child, wrap, policy, done)
            if policy(module=child, recurse=False, nonwrapped_numel=size - inside):
                done[child] = wrap(child), size
            else:
                done[child] = child, inside
            count += done[child][1]
        module._modules[name] = done[child][0]
    return total, count
