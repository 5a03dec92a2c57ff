"""Levels of sparsity that rise by a cubic function."""

from __future__ import annotations

from typing import Any

from tritorch.ao.pruning.scheduler.base_scheduler import BaseScheduler
from tritorch.ao.pruning.sparsifier.base_sparsifier import BaseSparsifier

__all__ = ["CubicSL"]


def _clamp(x: float, lo: float, hi: float) -> float:
    return max(lo, min(hi, x))


class CubicSL(BaseScheduler):
    """Raises the levels of sparsity from `init_sl` at `init_t` to their bases, `total_t` times
    every `delta_t` epochs, by a cubic function. All are numbers or lists of one number a group;
    with `initially_zero` the level is 0, not `init_sl`, before `init_t`.
    """

    def __init__(
        self,
        sparsifier: BaseSparsifier,
        init_sl: Any = 0.0,
        init_t: Any = 0,
        delta_t: Any = 10,
        total_t: Any = 100,
        initially_zero: Any = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.sparsifier = sparsifier
        self.init_sl = self._make_sure_a_list(init_sl)
        self.init_t = self._make_sure_a_list(init_t)
        self.delta_t = self._make_sure_a_list(delta_t)
        self.total_t = self._make_sure_a_list(total_t)
        self.initially_zero = self._make_sure_a_list(initially_zero)
        super().__init__(sparsifier, last_epoch, verbose)

    @staticmethod
    def sparsity_compute_fn(
        s_0: float,
        s_f: float,
        t: int,
        t_0: int,
        dt: int,
        n: int,
        initially_zero: bool = False,
    ) -> float:
        """s_f + (s_0 - s_f) (1 - (t - t_0) / (n dt))^3, between s_0 and s_f."""
        if initially_zero and t < t_0:
            return 0
        return _clamp(s_f + (s_0 - s_f) * (1.0 - (t - t_0) / (dt * n)) ** 3, s_0, s_f)

    def get_sl(self) -> list[float]:
        """The cubic function at this epoch, for each group."""
        self._warn_outside_step()
        columns = zip(
            self.init_sl,
            self.base_sl,
            [self.last_epoch] * len(self.base_sl),
            self.init_t,
            self.delta_t,
            self.total_t,
            self.initially_zero,
        )
        return [self.sparsity_compute_fn(*column) for column in columns]
