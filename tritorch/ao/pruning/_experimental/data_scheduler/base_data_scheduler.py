"""Base of schedulers that set a parameter of a data sparsifier."""

from __future__ import annotations

import abc
from typing import Any

from tritorch.ao.pruning._experimental.data_sparsifier import BaseDataSparsifier
from tritorch.ao.pruning.scheduler._stepping import called_within, count_steps, warn_of_order

__all__ = ["BaseDataScheduler"]


class BaseDataScheduler:
    """Sets the entry `schedule_param` of a data sparsifier's groups at each step.

    A subclass defines `get_schedule_param`.
    """

    def __init__(
        self,
        data_sparsifier: BaseDataSparsifier,
        schedule_param: str,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(data_sparsifier, BaseDataSparsifier):
            raise TypeError(
                f"{type(data_sparsifier).__name__} is not an instance of "
                "torch.ao.pruning.BaseDataSparsifier"
            )
        self.data_sparsifier = data_sparsifier
        self.schedule_param = schedule_param
        self.base_param = self._parameters()
        self.last_epoch = last_epoch
        count_steps(data_sparsifier)
        self._step_count = 0
        self.verbose = verbose
        self._get_sp_called_within_step = False
        self.step()

    def _parameters(self) -> dict[str, Any]:
        return {
            name: config.get(self.schedule_param, None)
            for name, config in self.data_sparsifier.data_groups.items()
        }

    @abc.abstractmethod
    def get_schedule_param(self) -> dict[str, Any]:
        """The parameter's new value by the name of data; `step` calls it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} (\nData Sparsifier {self.data_sparsifier}\n"
            f"    {self.schedule_param}: {self.base_param}\n)"
        )

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the sparsifier, which has a state of its own."""
        return {key: value for key, value in self.__dict__.items() if key != "data_sparsifier"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` gave; the sparsifier's state comes first."""
        self.__dict__.update(state_dict)

    def get_last_param(self) -> dict[str, Any]:
        """The values that the last step set."""
        return self._last_param

    def step(self) -> None:
        """Goes to the next epoch and sets its values."""
        warn_of_order(self, self.data_sparsifier, "data_sparsifier")
        self.last_epoch += 1
        values = called_within(self, "_get_sp_called_within_step", self.get_schedule_param)
        for name, value in values.items():
            self.data_sparsifier.data_groups[name][self.schedule_param] = value
            if self.verbose:
                print(f"Adjusting {self.schedule_param} for group {name} to {value}")
        self._last_param = self._parameters()
        self.data_sparsifier.enable_mask_update = True
