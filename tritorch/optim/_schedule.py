"""What all learning rate schedules share.

A schedule may be a factor for each epoch.  `_ratio` is the factor from one epoch to the next, so
that schedules of one optimizer can be combined: each multiplies what the others left.  `_factor` is
the factor from the initial learning rate, for `step(epoch)`.
"""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import ref

from tritorch.core.scopes import Scope, ScopeItself
from tritorch.core.tensor import Tensor
from tritorch.optim.optimizer import Optimizer

Rate = float | Tensor

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler: with an epoch, schedules that "
    "have a closed form use it."
)
_ORDER = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _param_groups_val_list(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of each group; tensors are copied, for the groups' own are changed in place."""
    found = [group[key] for group in optimizer.param_groups]
    return [value.clone() if isinstance(value, Tensor) else value for value in found]


def _update_param_group_val(param_group: dict[str, Any], key: str, val: Rate) -> None:
    """Sets an option of a group; a tensor keeps its identity."""
    if isinstance(param_group[key], Tensor):
        param_group[key].fill_(float(val))
    else:
        param_group[key] = val


def _format_param(name: str, optimizer: Optimizer, param: Any) -> list[Any]:
    """One value for each group; tensors are copied."""
    n_groups = len(optimizer.param_groups)
    if not isinstance(param, (list, tuple)):
        param = [param] * n_groups
    elif len(param) != n_groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(param)} values, param_groups has {n_groups}."
        )
    return [each.clone() if isinstance(each, Tensor) else each for each in param]


def require_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Changes the learning rates of an optimizer's groups: `step()` goes on by one epoch.

    Args:
        optimizer: whose `param_groups[i]["lr"]` it sets.
        last_epoch: -1 to begin; another, to go on from a checkpoint of the optimizer.
    """

    _get_lr_called_within_step = False
    _is_initial = False
    _private: tuple[str, ...] = ("optimizer",)  # what state_dict leaves out

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        require_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0.\nLoad the optimizer's state from the "
                    "checkpoint first, or leave last_epoch at -1 for a fresh training run."
                )
        self.base_lrs: list[Rate] = _param_groups_val_list(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        with _initial_mode(self):
            self.step()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key not in self._private}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a state_dict."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """The learning rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """The learning rates of `last_epoch`; for subclasses, called by step."""
        _warn_get_lr_called_within_step(self)
        factor = 1.0 if self._keeps_first() else self._ratio(self.last_epoch)
        if factor == 1.0:
            return _param_groups_val_list(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _keeps_first(self) -> bool:
        """Whether construction leaves the learning rates as they are, resumed or not."""
        return self._is_initial

    def _ratio(self, epoch: int) -> float:
        """lr(epoch) / lr(epoch - 1)."""
        raise NotImplementedError

    def step(self, epoch: Any = None) -> None:
        """Goes on by one epoch, after the optimizer's step; or to a given epoch."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before "
                f"`lr_scheduler.step()`. See more details at {_ORDER}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in "
                "the opposite order: otherwise the first value of the learning rate schedule is "
                f"skipped. See more details at {_ORDER}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: Any = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = getattr(self, "_get_closed_form_lr", None)
        self._apply(self.get_lr if epoch is None or closed is None else closed)

    def _apply(self, compute: Callable[[], list[Rate]]) -> None:
        with _enable_get_lr_call(self):
            rates = compute()
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            _update_param_group_val(group, "lr", lr)
        self._last_lr: list[Rate] = _param_groups_val_list(self.optimizer, "lr")


class _LRScheduler(LRScheduler):
    """The old name."""


def _warn_get_lr_called_within_step(lr_scheduler: LRScheduler) -> None:
    """A warning where `get_lr` is called by a program, not by `step`."""
    if not lr_scheduler._get_lr_called_within_step:
        warnings.warn(
            "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            UserWarning,
            stacklevel=3,
        )


class _enable_get_lr_call(ScopeItself):
    """Inside, `get_lr` may be called."""

    def __init__(self, o: LRScheduler) -> None:
        self.o = o

    def changes(self) -> Any:
        return ((self.o, "_get_lr_called_within_step", True),)


class _initial_mode(Scope):
    """Inside, a schedule is being constructed."""

    def __init__(self, o: LRScheduler) -> None:
        self.o = o

    def changes(self) -> Any:
        return ((self.o, "_is_initial", True),)


def _watch_steps(optimizer: Optimizer) -> None:
    """Notes on the optimizer that its step was called, for the check of the order."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    step, weak = optimizer.step.__func__, ref(optimizer)  # type: ignore[attr-defined]

    @wraps(step)
    def watched(*args: Any, **kwargs: Any) -> Any:
        self = weak()
        self._opt_called = True  # type: ignore[union-attr]
        return step(self, *args, **kwargs)

    watched._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = watched  # type: ignore[method-assign]


class Factor(LRScheduler):
    """Schedules that are one factor for all groups."""

    def _factor(self, epoch: int) -> float:
        """lr(epoch) / initial lr."""
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[Rate]:
        return [lr * self._factor(self.last_epoch) for lr in self.base_lrs]


class FactorFromStart(Factor):
    """Schedules with a say at construction."""

    def _keeps_first(self) -> bool:
        return False


# ---- for subclasses ------------------------------------------------------------------------------


def cosine(start: Any, end: Any, step: float, steps: float = 1) -> Any:
    """From start, at step 0, to end, at the last of the steps, along half a cosine."""
    return end + (start - end) * (1 + math.cos(math.pi * step / steps)) / 2  # PyTorch's bits


def linear(start: Any, end: Any, fraction: float) -> Any:
    return start + (end - start) * fraction


def attributes(function: Any) -> dict[str, Any] | None:
    if function is None or isinstance(function, types.FunctionType):
        return None
    return function.__dict__.copy()
