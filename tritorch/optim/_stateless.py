"""Steps on borrowed parameters and state."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tritorch.core.scopes import Scope, scoped, set_back, sets
from tritorch.core.tensor import Tensor
from tritorch.optim.optimizer import Optimizer


@scoped
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
) -> Scope:
    """Within, the optimizer works on other parameters and on a state dict's state and options.

    Args:
        optimizer: one that has state.
        swapin_parameters: tensors in the order of the optimizer's own.
        swapin_optim_state: as `optimizer.state_dict()` gives it.  Its tensors are changed in place;
            what a step puts in place of a tensor is dropped.
    """
    state, groups = _checked(optimizer, swapin_parameters, swapin_optim_state)
    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]

    def swap() -> None:
        tensors = iter(swapin_parameters.values())
        optimizer.state = defaultdict(dict)
        for group, swapped in zip(optimizer.param_groups, groups):
            params = [next(tensors) for _ in swapped["params"]]
            for p, number in zip(params, swapped["params"]):
                optimizer.state[p] = dict(state.get(number, {}))
            group.update(swapped, params=params)

    def swap_back() -> None:
        for group, own in zip(optimizer.param_groups, own_groups):
            group.clear()
            group.update(own)
        optimizer.state = own_state

    return Scope(set_back(swap_back), sets(swap))


def _checked(optimizer: Optimizer, params: Any, state_dict: Any) -> tuple[Any, Any]:
    """The state and the groups of a state dict that fits."""
    if not optimizer.state:
        raise _error("requires initialized optimizer state.")
    if not isinstance(state_dict, dict):
        raise _error("requires a DCP-style optimizer state_dict.")
    state, groups = state_dict.get("state"), state_dict.get("param_groups")
    if not isinstance(state, dict):
        raise _error(
            "requires swapin_optim_state['state'] to be a dict mapping packed parameter ids to "
            f"per-param state dicts, got {type(state).__name__}."
        )
    if any(isinstance(key, Tensor) for key in state):
        raise _error("requires optimizer.state_dict()-style state keyed by packed parameter ids.")
    if any(isinstance(key, int) and not isinstance(value, dict) for key, value in state.items()):
        raise _error("requires per-parameter optimizer state entries to be dictionaries.")
    if not isinstance(groups, list):
        raise _error(
            "requires swapin_optim_state['param_groups'] to be a list of param-group dicts, got "
            f"{type(groups).__name__}."
        )
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    numbers = [
        number
        for i, (own, swapped) in enumerate(zip(optimizer.param_groups, groups))
        for number in _checked_group(i, own, swapped)
    ]
    if len(numbers) > len(params):
        raise _error(
            "requires the explicit parameter state to match optimizer.param_groups ordering."
        )
    extra = [key for key in state if key not in numbers]
    if extra:
        raise _error(
            "requires swapin_optim_state['state'] to be keyed only by packed parameter ids from "
            f"param_groups[*]['params']; got extra keys {extra!r}."
        )
    return state, groups


def _checked_group(i: int, own: dict[str, Any], swapped: Any) -> list[int]:
    """The parameter numbers of a group that fits."""
    if not isinstance(swapped, dict):
        raise _error("requires each optimizer param group to be a dictionary.")
    numbers = swapped.get("params")
    if not isinstance(numbers, list) or not all(isinstance(n, int) for n in numbers):
        raise _error(
            "requires optimizer.state_dict()-style param_groups[*]['params'] entries keyed by "
            "packed parameter ids."
        )
    if len(numbers) != len(own["params"]):
        raise RuntimeError(
            f"swapin_optim_state param group {i} has a different number of params than the live "
            "optimizer param group."
        )
    only_swapped = [key for key in swapped if key not in own]
    only_own = [key for key in own if key not in swapped]
    if only_swapped or only_own:
        raise _error(
            "requires optimizer.state_dict()-style param group keys to exactly match the live "
            f"optimizer group keys for group {i}. Keys only in swap-in: {only_swapped}. "
            f"Keys only in live: {only_own}."
        )
    return numbers


def _error(problem: str) -> RuntimeError:
    return RuntimeError(f"swap_in_optimizer_params_and_state {problem}")
