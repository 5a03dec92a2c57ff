"""What the package calls itself: "torch" in a program that imports it under that name."""

from __future__ import annotations

import sys


def qualified(name: str) -> str:
    """ "tritorch.float32", or "torch.float32" after `as_torch()`."""
    return f"{sys.modules['tritorch'].__name__}.{name}"
