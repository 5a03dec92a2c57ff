"""What public functions are in ATen's terms, where their arguments are others than ATen's.

    @spelled(lambda input, p, training, inplace: ("dropout", (input, p, training)))
    def dropout(input, p=0.5, training=True, inplace=False): ...

What is given gets the public function's arguments by their names, and gives the overload and its
arguments, or None for a call that ATen has no overload for.  Who records calls as ATen's reads it
(`export/_calls.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

REDUCTIONS = ("none", "mean", "sum")  # as ATen numbers them
BAGS = ("sum", "mean", "max")
Spelling = Callable[..., "tuple[str, tuple[Any, ...]] | None"]
F = TypeVar("F", bound=Callable[..., Any])


def spelled(how: Spelling) -> Callable[[F], F]:
    """Says of a public function what call of ATen's it is."""

    def decorate(function: F) -> F:
        inspect.unwrap(function).spelling = how
        return function

    return decorate
