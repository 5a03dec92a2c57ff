"""The tables of public functions, `tritorch.<name>` and others, which `ops` fills.

What lies below `ops`, and what would import in a circle there, asks here for an operator by name
when it is called.  `AUTOCAST` has what autocast does to their inputs, as their declarations say.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

PUBLIC: dict[str, Callable[..., Any]] = {}
FUNCTIONAL: dict[str, Callable[..., Any]] = {}  # torch.nn.functional.<name>
SPECIAL: dict[str, Callable[..., Any]] = {}  # torch.special.<name>
INTERNAL: dict[str, Callable[..., Any]] = {}  # ATen's operators that no public function is
AUTOCAST: dict[str, str] = {}
ATEN: dict[str, str] = {}  # names of functions that are another operator's in ATen


def autocast(how: str, *names: str) -> Callable[[Function], Function]:
    """Says what autocast does to the inputs of a function: a word that `amp/policies.py` explains,
    or one for each kind of device, "cpu:float32 cuda:widest".

    names: what it is published as, if not by its own name."""

    def decorate(function: Function) -> Function:
        for name in names or (function.__name__,):
            AUTOCAST[name] = how
        return function

    return decorate


def adds_results(*flags: str) -> Callable[[Function], Function]:
    """Says which flags of a function add one more tensor to its results: types follow from that."""

    def decorate(function: Function) -> Function:
        inspect.unwrap(function).adding_flags = flags
        return function

    return decorate


def computes(operator: str, *names: str) -> Callable[[Function], Function]:
    """Says which operator of ATen a function is, where that has another name.

    names: under these names alone."""

    def decorate(function: Function) -> Function:
        ATEN.update(dict.fromkeys(names, operator))
        if not names:
            inspect.unwrap(function).aten = operator
        return function

    return decorate
