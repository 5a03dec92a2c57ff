"""What the package calls itself: "torch" in a program that imports it under that name."""

from __future__ import annotations

import importlib
import sys
from typing import Any


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
