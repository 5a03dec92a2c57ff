"""What the package calls itself: "torch" in a program that imports it under that name."""

from __future__ import annotations

import sys


def qualified(name: str) -> str:
    """ "tritorch.float32", or "torch.float32" after `as_torch()`."""
    return f"{sys.modules['tritorch'].__name__}.{name}"


def torch_name(path: str) -> str:
    """ "torch.nn" for "tritorch.nn"."""
    return path.removeprefix("tri") if is_ours(path) else path


def is_ours(path: str) -> bool:
    """Whether a dotted path is the package's or below it, under either name."""
    return path.partition(".")[0] in ("tritorch", "torch")
