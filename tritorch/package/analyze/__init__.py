"""Questions about what a program or an archive depends on."""

from tritorch.package.analyze.find_first_use_of_broken_modules import (
    find_first_use_of_broken_modules,
)
from tritorch.package.analyze.trace_dependencies import trace_dependencies

__all__ = ["find_first_use_of_broken_modules", "trace_dependencies"]
