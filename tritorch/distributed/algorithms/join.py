"""Processes with different numbers of inputs: those that have none left go on with the others.

Inside of `Join`, each call of the first joinable says that this process has an input.  Whoever has
none left runs, for each call of the others, the hooks of all joinables, which call the same
collectives with nothing to add.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from tritorch.core.scopes import Scope
from tritorch.distributed.collectives import all_reduce
from tritorch.distributed.groups import get_rank
from tritorch.ops.shape.factory import ones, zeros

__all__ = ["Join", "JoinHook", "Joinable"]

_MANY = 1000


class JoinHook:
    """What a process does in place of a joinable's calls once it has joined."""

    def main_hook(self) -> None:
        """In place of one call."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Once all have joined."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


_DISABLED = _JoinConfig(False, False, False)


class Joinable(ABC):
    """Something that calls collectives, and can be joined."""

    _join_config = _DISABLED

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook for this object."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the tensors by which processes speak of joining."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group whose members join."""


class Join(Scope):
    """A context in which a loop may have fewer rounds than the other processes' loops."""

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable = joinables, enable
        self._throw = throw_on_early_termination
        self._hooks = [each.join_hook(**kwargs) for each in joinables]
        groups = {id(each.join_process_group): each.join_process_group for each in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        (self._group,) = groups.values()
        self._device = joinables[0].join_device

    def changes(self) -> Any:
        configs = [_JoinConfig(self._enable, self._throw, i == 0) for i in range(2)]
        return [(x, "_join_config", configs[i > 0]) for i, x in enumerate(self._joinables)]

    def __exit__(self, *exception: object) -> None:
        try:
            if self._enable and (not exception or exception[0] is None):
                self._join()
        finally:
            super().__exit__(*exception)

    def _join(self) -> None:
        last, rounds = True, 0
        while True:
            rounds += 1
            if rounds == _MANY:
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. This means that rank "
                    f"{get_rank(self._group)} has at least 1000 fewer inputs than other "
                    "currently-active ranks. This level of skew could lead to performance "
                    "degradation during training.",
                    stacklevel=3,
                )
            count = zeros(1, device=self._device)
            all_reduce(count, group=self._group)
            if not count.item():
                break
            if self._throw:
                all_reduce(ones(1, device=self._device), group=self._group)
                raise RuntimeError(f"Rank {get_rank(self._group)} exhausted all inputs.")
            last = False
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Says that this process has an input, as the joinable begins its collectives.  The work's
        result is how many have one; None if the joinable is not the first."""
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        work = all_reduce(ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            joined = zeros(1, device=device)
            all_reduce(joined, group=group)
            if joined.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
