"""Levels of sparsity as functions of the epoch."""

from __future__ import annotations

from collections.abc import Callable

from tritorch.ao.pruning.scheduler.base_scheduler import BaseScheduler
from tritorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["LambdaSL"]


class LambdaSL(BaseScheduler):
    """Multiplies each group's level by a function of the epoch, one for all or one a group."""

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        sl_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        count = len(sparsifier.groups)
        if not isinstance(sl_lambda, (list, tuple)):
            self.sl_lambdas = [sl_lambda] * count
        elif len(sl_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(sl_lambda)}")
        else:
            self.sl_lambdas = list(sl_lambda)
        super().__init__(sparsifier, last_epoch, verbose)

    def get_sl(self) -> list[float]:
        """The base levels times their functions of the epoch."""
        self._warn_outside_step()
        return [
            level * factor(self.last_epoch) for factor, level in zip(self.sl_lambdas, self.base_sl)
        ]
