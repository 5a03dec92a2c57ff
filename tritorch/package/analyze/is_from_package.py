"""Whether an object lives in an archive."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tritorch.package._mangling import is_mangled as is_mangled


def is_from_package(obj: Any) -> bool:
    """Whether a module, or an object's class, was loaded from an archive's own source."""
    return is_mangled(obj.__name__ if type(obj) is ModuleType else type(obj).__module__)
