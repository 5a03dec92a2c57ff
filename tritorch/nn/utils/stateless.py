"""Calls of a module with other parameters and buffers."""

from __future__ import annotations

import warnings
from typing import Any

from tritorch.core.scopes import Scope, scoped, set_back, sets
from tritorch.nn.modules.module import Module
from tritorch.nn.utils._named_member_accessor import NamedMemberAccessor

__all__ = ["functional_call"]


def _untie_named_tensors_map(module: Module, given: dict[str, Any]) -> dict[str, Any]:
    """What is given, also under the other names of tensors that have several."""
    groups: dict[int, list[str]] = {}
    for name, tensor in NamedMemberAccessor(module).named_tensors(remove_duplicate=False):
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


@scoped
def _reparametrize_module(
    module: Module, parameters_and_buffers: dict[str, Any], tie_weights: bool = False,
    strict: bool = False, stack_weights: bool = False,
) -> Scope:  # fmt: skip
    """While entered, the module has other tensors, under names that it need not have had.

    What the module puts in their place meanwhile is in the dict afterwards.
    stack_weights: PyTorch's flag for taking back last what was set first, which is done always."""
    given = parameters_and_buffers
    if tie_weights:
        given = _untie_named_tensors_map(module, given)
    accessor = NamedMemberAccessor(module)
    if strict:
        missing, unexpected = accessor.check_keys(given)
        errors = [
            f"{kind} key(s): {', '.join(map(repr, names))}."
            for kind, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{listed}")
    before: dict[str, Any] = {}  # what the module has, by name: of those that were swapped
    after: list[dict[str, Any]] = []  # and what it has at the end

    def swap() -> None:
        for name, tensor in given.items():
            before[name] = accessor.tensor_or_missing(name)
            accessor.swap_tensor(name, tensor, allow_missing=True)

    def swap_back() -> None:
        if not after:
            after.append({name: accessor.tensor_or_missing(name) for name in before})
        # The last first: a module with two names has one place for both.
        for name in reversed(before):
            accessor.swap_tensor(name, before[name], allow_missing=True)
        for name in before.keys() & parameters_and_buffers.keys():
            parameters_and_buffers[name] = after[0][name]

    return Scope(set_back(swap_back), sets(swap))


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
