"""The table of public functions, `tritorch.<name>`, which `ops` fills.

What lies below `ops`, and what would import in a circle there, asks here for an operator by name
when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PUBLIC: dict[str, Callable[..., Any]] = {}
