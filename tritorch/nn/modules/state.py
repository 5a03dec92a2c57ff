"""State dicts: how a module's parameters and buffers are saved and loaded by their paths."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from tritorch.autograd import no_grad
from tritorch.core.tensor import Tensor
from tritorch.nn.hooks import Hooks, RemovableHandle, _WrappedHook, add_hook
from tritorch.nn.parameter import Parameter, is_lazy

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _as_torch(shape: Any) -> str:
    return f"torch.Size({list(shape)})"


class StateDict:
    """The part of `Module` that saves and loads."""

    _version: int = 1
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    _state_dict_hooks: Hooks
    _state_dict_pre_hooks: Hooks
    _load_state_dict_pre_hooks: Hooks
    _load_state_dict_post_hooks: Hooks

    def get_extra_state(self) -> Any:
        """What else belongs to the state dict; with `set_extra_state` for subclasses to define."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Restores what `get_extra_state` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` after state_dict."""
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` before state_dict."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, ...)` before a module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return add_hook(
            self._load_state_dict_pre_hooks, _WrappedHook(hook, self if with_module else None)
        )

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` after a module has loaded; may edit the keys."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by their paths."""
        if args:  # the old way
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module."
                "state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and not keep_vars else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            replaced = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if replaced is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif replaced is not None:
                destination = replaced
        return destination

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)  # fmt: skip
        assign = local_metadata.get("assign_to_params_buffers", False)
        state = {
            name: value
            for name, value in itertools.chain(
                self._parameters.items(),
                ((n, b) for n, b in self._buffers.items()
                 if n not in self._non_persistent_buffers_set),
            )
            if value is not None
        }  # fmt: skip
        for name, value in state.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            self._load_one(name, key, value, state_dict[key], assign, error_msgs)
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateDict.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name = key[len(prefix) :].split(".", 1)
                    if len(name) > 1:
                        if name[0] not in self._modules:
                            unexpected_keys.append(key)
                    elif name[0] not in state:
                        unexpected_keys.append(key)

    def _load_one(
        self, name: str, key: str, value: Any, given: Any, assign: bool, error_msgs: list[str]
    ) -> None:
        if not isinstance(given, Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(given)}"
            )
            return
        lazy = is_lazy(value)
        if not lazy and value.ndim == 0 and given.ndim == 1:
            given = given[0]  # files of versions before 0.4
        if not lazy and given.shape != value.shape:
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {_as_torch(given.shape)} "
                f"from checkpoint, the shape in current model is {_as_torch(value.shape)}."
            )
            return
        if lazy and not is_lazy(given):
            value.materialize(given.shape)
        if value._is_described and not given._is_described and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta "
                f"parameter in the current model, which is a no-op. (Did you mean to pass "
                f"`assign=True` to assign items in the state dictionary to their corresponding key "
                f"in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with no_grad():
                if assign:
                    if isinstance(value, Parameter):
                        if not isinstance(given, Parameter):
                            given = Parameter(given, requires_grad=value.requires_grad)
                        else:
                            given.requires_grad_(value.requires_grad)
                        self._parameters[name] = given
                    else:
                        self._buffers[name] = given
                else:
                    value.copy_(given)
        except Exception as error:
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{_as_torch(value.size())} and whose dimensions in the checkpoint are "
                f"{_as_torch(given.size())}, an exception occurred : {error.args}."
            )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copies values in (assign: takes the tensors themselves); strict: keys must match."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]

        def load(module: Any, local: Any, prefix: str = "") -> None:
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(
                local, prefix, local_metadata, True, missing, unexpected, errors
            )
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(below)}, below)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )

        load(self, state)
        if strict:
            quoted = lambda keys: ", ".join(f'"{k}"' for k in keys)
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {quoted(missing)}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )
        return _IncompatibleKeys(missing, unexpected)
