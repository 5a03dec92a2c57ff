"""Base of schedulers that set a sparsifier's levels of sparsity."""

from __future__ import annotations

import warnings
from typing import Any

from tritorch.ao.pruning.scheduler._stepping import called_within, count_steps, warn_of_order
from tritorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["BaseScheduler"]


class BaseScheduler:
    """Sets the `sparsity_level` of a sparsifier's groups at each step. A subclass defines
    `get_sl`."""

    def __init__(
        self, sparsifier: BaseSparsifier, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not isinstance(sparsifier, BaseSparsifier):
            raise TypeError(
                f"{type(sparsifier).__name__} is not an instance of torch.ao.pruning.BaseSparsifier"
            )
        self.sparsifier = sparsifier
        self.base_sl = [group["sparsity_level"] for group in sparsifier.groups]
        self.last_epoch = last_epoch
        count_steps(sparsifier)
        self._step_count = 0
        self.verbose = verbose
        self._get_sl_called_within_step = False
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the sparsifier."""
        return {key: value for key, value in self.__dict__.items() if key != "sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_sl(self) -> list[float]:
        """The levels of sparsity that the last step set."""
        return self._last_sl

    def get_sl(self) -> list[float]:
        """The levels of sparsity of this epoch; `step` calls it."""
        self._warn_outside_step()
        raise NotImplementedError

    def _warn_outside_step(self) -> None:
        if not self._get_sl_called_within_step:
            warnings.warn(
                "To get the last sparsity level computed by the scheduler, "
                "please use `get_last_sl()`.",
                stacklevel=3,
            )

    def print_sl(self, is_verbose: bool, group: int, sl: float, epoch: int | None = None) -> None:
        """Prints a group's new level of sparsity, if this is wanted."""
        if is_verbose:
            start = "Adjusting" if epoch is None else f"Epoch {epoch:5d}: adjusting"
            print(f"{start} sparsity level of group {group} to {sl:.4e}.")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} (\nSparsifier {self.sparsifier}\n    base_sl: {self.base_sl}\n)"
        )

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch and sets its levels of sparsity."""
        warn_of_order(self, self.sparsifier, "sparsifier")
        self.last_epoch += 1
        levels = called_within(self, "_get_sl_called_within_step", self.get_sl)
        for index, (group, level) in enumerate(zip(self.sparsifier.groups, levels)):
            group["sparsity_level"] = level
            self.print_sl(self.verbose, index, level, epoch)
        self._last_sl = [group["sparsity_level"] for group in self.sparsifier.groups]
        self.sparsifier.enable_mask_update = True

    def _make_sure_a_list(self, var: Any) -> list[Any]:
        """One value a group, from a list of that length or from one value."""
        count = len(self.sparsifier.groups)
        if not isinstance(var, (list, tuple)):
            return [var] * count
        if len(var) != count:
            raise ValueError(f"Expected variable of length {count}, but got {len(var)}")
        return list(var)
