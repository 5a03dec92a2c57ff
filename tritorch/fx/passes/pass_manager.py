"""PassManager for passes that take and give anything; `infra.pass_manager` has one for modules."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from tritorch.fx.passes.infra.pass_manager import (
    Constraint,
    Pass,
    _validate_pass_schedule_constraint,
    this_before_that_pass_constraint,
)

__all__ = [
    "PassManager", "inplace_wrapper", "log_hook", "loop_pass",
    "these_before_those_pass_constraint", "this_before_that_pass_constraint",
]  # fmt: skip

logger = logging.getLogger(__name__)


def inplace_wrapper(fn: Pass) -> Pass:
    """A pass that gives what it is given, of one that changes it."""

    @functools.wraps(fn)
    def wrapped(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """A pass that logs what it gives."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, value)
        return value

    return wrapped


def loop_pass(
    base_pass: Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None
) -> Pass:
    """A pass run `n_iter` times, or as long as `predicate` holds of what it gave."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")
    if n_iter is not None and n_iter <= 0:
        raise RuntimeError(
            f"loop_pass must be given positive int n_iter (given {n_iter}) xor predicate (given "
            f"{predicate})"
        )

    @functools.wraps(base_pass)
    def repeated(source: Any) -> Any:
        for _ in range(n_iter or 0):
            source = base_pass(source)
        while predicate is not None and predicate(source):
            source = base_pass(source)
        return source

    return repeated


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """The constraint that passes around one function come before those around another."""
    return lambda a, b: inspect.unwrap(a) != those or inspect.unwrap(b) != these


class PassManager:
    """Runs passes in their order, which constraints check."""

    passes: list[Pass]
    constraints: list[Constraint]
    _validated: bool = False

    def __init__(
        self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None
    ) -> None:
        self.passes = passes or []
        self.constraints = constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """A manager of these passes."""
        return PassManager(passes)

    def add_pass(self, _pass: Pass) -> None:
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str] | None) -> None:
        """Takes out the passes of these names."""
        if _passes is not None:
            self.passes = [each for each in self.passes if each.__name__ not in _passes]
            self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Puts a pass in the place of those of another one's name."""
        self.passes = [
            _replacement if each.__name__ == _target.__name__ else each for each in self.passes
        ]
        self._validated = False

    def validate(self) -> None:
        """Raises where the order is not allowed."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        """Runs the passes."""
        self.validate()
        for each in self.passes:
            source = each(source)
        return source
