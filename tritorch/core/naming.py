"""What the package calls itself: "torch" in a program that imports it under that name."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tritorch import _C

# Classes that PyTorch writes in C, by what errors call them.
error_names: dict[type, str] = {}


def as_native(kind: type, name: str, makes: bool = True, final: bool = True) -> None:
    """Lets a class appear in errors as PyTorch's class in C does, "torch.device", and takes no
    subclasses of it from here on. One that makes nothing refuses to be called."""
    error_names[kind] = name
    if not makes:

        def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
            raise TypeError(f"cannot create '{name}' instances")

        kind.__new__ = refuse  # type: ignore[assignment]
    _C.name_type(kind, name, final)


def package() -> Any:
    """The package's own module, with its public names as programs see them."""
    return sys.modules["tritorch"]


def qualified(name: str) -> str:
    """ "tritorch.float32", or "torch.float32" after `as_torch()`."""
    return f"{package().__name__}.{name}"


def torch_name(path: str) -> str:
    """ "torch.nn" for "tritorch.nn"."""
    return path.removeprefix("tri") if is_ours(path) else path


def is_ours(path: str) -> bool:
    """Whether a dotted path is the package's or below it, under either name."""
    return path.partition(".")[0] in ("tritorch", "torch")


def object_named(name: str) -> Any:
    """The object that a dotted name stands for; torch's are tritorch's."""
    module, _, last = name.rpartition(".")
    if module.partition(".")[0] == "torch":
        module = "tri" + module
    return getattr(importlib.import_module(module or last), last)
