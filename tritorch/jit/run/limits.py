"""Limits of what a program of unknown origin may use: steps, and elements of one list or string.

Without a budget nothing is counted.  Recursion has Python's own limit in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tritorch.core.scopes import Scope
from tritorch.jit.run.errors import LimitError

_DEFAULT_ELEMENTS = 1 << 24

# True from the first budget on: a call asks for its thread's only then.
had_budgets = False


class _Thread(threading.local):
    def __init__(self) -> None:
        self.budget: Budget | None = None


_thread = _Thread()


class Budget(Scope):
    """A budget that calls inside of the `with` statement share.

    steps: nodes that run; elements: of one list or string that an operator makes by repetition.
    """

    def __init__(self, steps: int, elements: int = _DEFAULT_ELEMENTS) -> None:
        global had_budgets
        had_budgets = True
        self.steps, self.elements = steps, elements

    def changes(self) -> Any:
        return ((_thread, "budget", self),)


def charge(steps: int) -> None:
    """Counts nodes that are about to run; RuntimeError when the budget is used up."""
    budget = _thread.budget
    if budget is None:
        return
    budget.steps -= steps
    if budget.steps < 0:
        raise LimitError("the program takes more steps than its budget allows")


# Operators whose time grows with the sizes of containers and strings.
_LINEAR = frozenset(
    f"{space}::{name}"
    for space, names in (
        ("aten", "__contains__ add add_ all any capitalize center copy count dict endswith eq "
         "expandtabs extend find format index insert items join keys list lower lstrip mul mul_ ne "
         "partition percentFormat pop remove replace reverse rfind rindex rpartition rsplit rstrip "
         "slice sort sorted split splitlines startswith str strip sum swapcase title update upper "
         "values Delete"),
        ("prim", "max min"),
    )
    for name in names.split()
)  # fmt: skip


def charged(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an operator, which counts what it looks at as steps if a budget is open now,
    while the program is compiled."""
    if not had_budgets or name not in _LINEAR:
        return function

    def call(*args: Any) -> Any:
        charge(_size_of(args) // 16)
        return function(*args)

    return call


def _size_of(values: tuple[Any, ...]) -> int:
    """Elements and letters of values, at least up to what the budget still has."""
    budget = _thread.budget
    if budget is None:
        return 0
    waiting, count = list(values), 0
    while waiting and count <= 16 * budget.steps + 16:
        value = waiting.pop()
        if isinstance(value, (list, tuple, dict, str)):
            count += len(value)
        if isinstance(value, (list, tuple)) and value and not isinstance(value[0], (int, float)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
    return count


def check_elements(count: int) -> None:
    """Refuses a list or string that is larger than the budget allows."""
    if had_budgets and (budget := _thread.budget) is not None and count > budget.elements:
        raise LimitError(
            f"a list or string of {count} elements is larger than the budget's {budget.elements}"
        )
