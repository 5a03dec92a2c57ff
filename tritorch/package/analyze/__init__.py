"""Questions about what a program or an archive depends on."""

from typing import TYPE_CHECKING

from tritorch.package.analyze.find_first_use_of_broken_modules import (
    find_first_use_of_broken_modules,
)
from tritorch.package.analyze.trace_dependencies import trace_dependencies

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.package.analyze import is_from_package as is_from_package


__all__ = ["find_first_use_of_broken_modules", "trace_dependencies"]
