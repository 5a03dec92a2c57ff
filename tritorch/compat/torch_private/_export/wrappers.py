"""Marks on what programs define, for an exporter that is not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def mark_subclass_constructor_exportable_experimental(constructor_subclass: Function) -> Function:
    """The constructor itself."""
    return constructor_subclass
