"""The tables of public functions, `tritorch.<name>` and others, which `ops` fills.

Inside the package plain functions call each other, and a file imports what is defined in a lower
rank.  What lies below `ops`, and what would import in a circle there, calls `published.public.add`,
`published.functional.pad` or `published.special.i0`: the plain functions of the tables, which type
checkers see as the public ones.  `AUTOCAST` has what autocast does to their inputs, as their
declarations say.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Functions:
    """The functions of a table as attributes, those that come later too."""

    def __init__(self, table: dict[str, Callable[..., Any]]) -> None:
        self.__dict__ = table


PUBLIC: dict[str, Callable[..., Any]] = {}
FUNCTIONAL: dict[str, Callable[..., Any]] = {}  # torch.nn.functional.<name>
SPECIAL: dict[str, Callable[..., Any]] = {}  # torch.special.<name>
INTERNAL: dict[str, Callable[..., Any]] = {}  # ATen's operators that no public function is
if TYPE_CHECKING:  # the stubs, which tools/make_stubs.py makes from schemas
    import tritorch as public
    from tritorch import special as special
    from tritorch.nn import functional as functional
else:
    public, functional, special = map(Functions, (PUBLIC, FUNCTIONAL, SPECIAL))
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
