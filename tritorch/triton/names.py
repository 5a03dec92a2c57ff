"""Names of kernels' functions and of Triton's types, for launches.

A launch whose kernel was compiled before needs neither, and importing them takes longer than the
launch: launches carry names, and only what compiles looks behind them.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from tritorch.triton import sources

_TYPES = {"bool": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"}


class Name:
    """Stands for an attribute of a module, or for what that returns for an argument."""

    __slots__ = ("argument", "module", "name")

    def __init__(self, module: str, name: str, argument: str | None = None) -> None:
        self.module, self.name, self.argument = module, name, argument

    def __repr__(self) -> str:
        call = "" if self.argument is None else f"({self.argument!r})"
        return f"{self.module}.{self.name}{call}"

    @functools.cache  # noqa: B019  (names live as long as the process)
    def find(self) -> Any:
        """What it stands for."""
        found = getattr(importlib.import_module(self.module), self.name)
        if self.argument is None:
            return found
        made = found(self.argument)
        _made[id(made)] = made, self
        return made


# One object a name: native launch keys tell constants apart by identity.
named = functools.cache(Name)
# What functions of modules have made, and its names: no module has it as an attribute.
_made: dict[int, tuple[Any, Name]] = {}


def of_made(value: Any) -> Name | None:
    """The name of what was made."""
    found = _made.get(id(value))
    return None if found is None else found[1]


def function(family: str, name: str) -> Name:
    """A jit function of a kernel file."""
    return named(sources.module(family), name)


def made(family: str, maker: str, argument: str) -> Name:
    """The jit function that a function of a kernel file makes."""
    return named(sources.module(family), maker, argument)


@functools.cache
def element_type(dtype: str) -> Name:
    """A dtype's name as Triton's type in memory."""
    return named("triton.language", _TYPES.get(dtype, dtype))


def resolve(value: Any) -> Any:
    """A launch's value as Triton takes it."""
    if type(value) is Name:
        return value.find()
    if type(value) is tuple:
        return tuple([resolve(item) for item in value])
    return value
