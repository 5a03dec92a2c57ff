"""PassManager: passes in an order, until nothing changes any more."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.passes.infra.pass_base import PassResult
from tritorch.nn.modules.module import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

logger = logging.getLogger(__name__)
logger.setLevel(logging.WARNING)
Pass = Callable[..., Any]
# Whether one pass may come before another.
Constraint = Callable[[Pass, Pass], bool]


@compatibility(is_backward_compatible=False)
def pass_result_wrapper(fn: Any) -> Any:
    """A pass that gives a PassResult, of one that gives a module or nothing."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm: Any) -> PassResult | None:
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        return PassResult(result, True) if isinstance(result, Module) else None

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at "
                    f"index {i} and {b} at index {j} in pass list."
                )


def _topological_sort_passes(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """The passes in an order that all constraints allow, as near to theirs as may be."""
    if not constraints:
        return passes
    before = {  # how many constraints want each pass after which others
        a: [b for b in passes if a != b for holds in constraints if not holds(a, b)] for a in passes
    }
    done: list[Pass] = []
    waiting = list(passes)
    while waiting:
        free = next((p for p in waiting if all(b in done for b in before[p])), None)
        if free is None:
            raise RuntimeError(
                f"Circular dependency detected within the following passes: {waiting}"
            )
        waiting.remove(free)
        done.append(free)
    return done


@compatibility(is_backward_compatible=False)
def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that one pass comes before another."""
    return lambda a, b: a != that or b != this


def _name(each: Any) -> str:
    return each.__name__ if inspect.isfunction(each) else type(each).__name__


@compatibility(is_backward_compatible=False)
class PassManager:
    """Runs passes in an order that constraints allow.

    steps: how often all are run, at most, as long as one of them changes something.
    run_checks_after_each_pass: after each one `check` is called."""

    passes: list[Pass]
    constraints: list[Constraint]
    _validated: bool = False
    steps: int = 1

    def __init__(
        self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None,
        steps: int | None = None, run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:  # fmt: skip
        self.passes = passes or []
        self.constraints = constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass: Pass) -> None:
        """Adds a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raises where the passes' order is not allowed."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Puts the passes in an order that is allowed."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[Any], None]) -> None:
        """Says what `check` does with a module."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check  # type: ignore[method-assign, assignment]

    def check(self, module: Any) -> None:
        """Raises where a module is not as it should be: nothing here."""

    def __call__(self, module: Any) -> PassResult:
        """Runs the passes."""
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            modified = False
            for place, each in enumerate(self.passes):
                logger.debug("Running pass '%s'", _name(each))
                try:
                    result = each(module)
                    if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                        raise TypeError(
                            f"The result of the pass {_name(each)} should be type PassResult."
                            "Please wrap it with pass_result_wrapper()"
                        )
                    module, modified = result.graph_module, modified or result.modified
                    if isinstance(module, GraphModule):
                        logger.debug("Graph after pass '%s': %s", _name(each), module.graph)
                        module.recompile()
                    if self.run_checks_after_each_pass:
                        self.check(module)
                except Exception as error:
                    before = [_name(p) for p in self.passes[:place]]
                    raise Exception(
                        f"An error occurred when running the '{_name(each)}' pass after the "
                        f"following passes: {before}"
                    ) from error
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)
