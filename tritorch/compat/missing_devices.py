"""What modules of devices that are not there have in common: each answers as PyTorch's build
without the device does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def refusal(kind: type[Exception], words: str, name: str) -> Callable[..., NoReturn]:
    """A function of a device, which says that there is none."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise kind(words)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Says that there is no such device."
    return refuse


def dummy(name: str) -> type:
    """A class of a device, of which nobody can make an object."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"Tried to instantiate dummy base class {name}")

    space = {"__new__": refuse, "__doc__": "Of a device that there is none of."}
    return type(name, (), space)


def zero(device: Any = None) -> int:
    """0: there is no memory."""
    return 0


def nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing is done: there is no device."""


class NoDevice:
    """A scope that a device, or a stream, would be current in."""

    def __init__(self, device: Any) -> None:
        self.idx = -1

    def __enter__(self) -> None:
        """Changes nothing."""

    def __exit__(self, *error: Any) -> None:
        """Changes nothing."""
