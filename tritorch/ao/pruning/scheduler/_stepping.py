"""Shared by schedulers of sparsifiers: counts a sparsifier's steps, and warns of their order."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any


def count_steps(sparsifier: Any) -> None:
    """Makes the sparsifier count its steps in `_step_count`, from zero.

    The counting `step` holds the sparsifier weakly, which would else be in a circle with itself.
    """
    sparsifier._step_count = 0
    method = sparsifier.step
    if getattr(method, "_with_counter", False):
        return
    sparsifier_ref, function = weakref.ref(sparsifier), method.__func__

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        owner = sparsifier_ref()
        owner._step_count += 1  # type: ignore[union-attr]
        return function(owner, *args, **kwargs)

    step._with_counter = True  # type: ignore[attr-defined]
    sparsifier.step = step


def warn_of_order(scheduler: Any, sparsifier: Any, name: str) -> None:
    """Warns at a scheduler's second step if the sparsifier has not stepped; counts the step."""
    problem = None
    if scheduler._step_count == 1:
        if not hasattr(sparsifier.step, "_with_counter"):
            problem = (
                f"Seems like `{name}.step()` has been overridden after sparsity scheduler "
                f"initialization. Please, make sure to call `{name}.step()` before "
                "`scheduler.step()`."
            )
        elif sparsifier._step_count < 1:
            problem = (
                f"Detected call of `scheduler.step()` before `{name}.step()`. "
                f"You have to make sure you run the {name}.step() BEFORE any "
                "calls to the scheduler.step()."
            )
    if problem is not None:
        warnings.warn(problem, UserWarning, stacklevel=3)
    scheduler._step_count += 1


def called_within(scheduler: Any, flag: str, function: Callable[[], Any]) -> Any:
    """The function's result; the scheduler's flag is true meanwhile."""
    setattr(scheduler, flag, True)
    try:
        return function()
    finally:
        setattr(scheduler, flag, False)
