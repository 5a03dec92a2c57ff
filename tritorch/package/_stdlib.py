"""Python's own modules."""

from __future__ import annotations

import sys


def is_stdlib_module(module: str) -> bool:
    """Whether a module, or the package that it is in, belongs to Python's library."""
    return module.partition(".")[0] in sys.stdlib_module_names
