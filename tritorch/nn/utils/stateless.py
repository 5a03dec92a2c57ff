"""Calls of a module with other parameters and buffers."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module

_ABSENT: Any = object()


def _named(module: Module) -> dict[str, Tensor]:
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _with_ties(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """What is given, also under the other names of tensors that have several."""
    groups: dict[int, list[str]] = {}
    for name, tensor in _named(module).items():
        groups.setdefault(id(tensor), []).append(name)
    out = dict(given)
    for names in groups.values():
        found = [given[name] for name in names if name in given]
        if len(names) == 1 or not found:
            continue
        if any(value is not found[0] for value in found):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                f"Consider using tie_weights=False"
            )
        out.update(dict.fromkeys(names, found[0]))
    return out


def _swap(module: Module, path: str, value: Any) -> Any:
    """Puts a tensor at a path and returns what was there."""
    owner, _, name = path.rpartition(".")
    try:
        holder = module.get_submodule(owner)
    except AttributeError:
        raise AttributeError(f"{type(module).__name__} has no attribute `{path}`") from None
    for table in (holder._parameters, holder._buffers):
        if name in table:
            old = table[name]
            if value is _ABSENT:
                del table[name]
            else:
                table[name] = value
            return old
    old = holder.__dict__.get(name, _ABSENT)
    if old is _ABSENT and not hasattr(holder, name):
        raise AttributeError(f"{type(holder).__name__} has no attribute `{name}`")
    if old is not _ABSENT and not isinstance(old, Tensor):
        raise TypeError(f"{path}: {old} is not an instance of torch.Tensor")
    raise KeyError(f"{path} is not a parameter or buffer")


@contextlib.contextmanager
def _reparametrize_module(
    module: Module, parameters_and_buffers: dict[str, Any], tie_weights: bool = False,
    strict: bool = False, stack_weights: bool = False,
) -> Iterator[None]:  # fmt: skip
    """While entered, the module has other tensors."""
    given = (
        _with_ties(module, parameters_and_buffers) if tie_weights else dict(parameters_and_buffers)
    )
    if strict:
        known = _named(module)
        unexpected = [repr(name) for name in given if name not in known]
        missing = [repr(name) for name in known if name not in given]
        errors = [
            f"{kind} key(s): {', '.join(names)}."
            for kind, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{listed}")
    before: list[tuple[str, Any]] = []
    try:
        for name, value in given.items():
            before.append((name, _swap(module, name, value)))
        yield
    finally:
        for name, value in reversed(before):
            now = _swap(module, name, value)
            if name in parameters_and_buffers:  # buffers may have been replaced meanwhile
                parameters_and_buffers[name] = now


def _functional_call(
    module: Module, parameters_and_buffers: dict[str, Any], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    if not isinstance(args, tuple):
        args = () if args is None else (args,)
    with _reparametrize_module(
        module, parameters_and_buffers, tie_weights=tie_weights, strict=strict
    ):
        return module(*args, **(kwargs or {}))


def functional_call(
    module: Module, parameters_and_buffers: dict[str, Any], args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Deprecated: torch.func.functional_call."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
