"""What is registered for an operator, found by its name."""

from __future__ import annotations

from typing import Any

from tritorch.compat.torch_private._library import operators
from tritorch.compat.torch_private._library.utils import Kernel


class SimpleLibraryRegistry:
    """The registrations of all operators that programs define."""

    def find(self, qualname: str) -> SimpleOperatorEntry:
        """Those of one."""
        return SimpleOperatorEntry(qualname)


class SimpleOperatorEntry:
    """What is registered for an operator."""

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname

    @property
    def _definition(self) -> operators.Definition | None:
        return operators.find(self.qualname)

    @property
    def fake_impl(self) -> FakeImplHolder:
        """What says what its results look like."""
        return FakeImplHolder(self._definition)

    abstract_impl = fake_impl  # former name

    @property
    def torch_dispatch_rules(self) -> dict[type, Any]:
        """What modes and classes do for it."""
        definition = self._definition
        return {} if definition is None else definition.by_class


class FakeImplHolder:
    """An operator's fake function."""

    def __init__(self, definition: operators.Definition | None) -> None:
        self._definition = definition

    @property
    def kernel(self) -> Any:
        """The function, with the line that registered it; None without."""
        found = self._definition
        return Kernel(found.fake, found.fake_source) if found and found.fake else None


singleton = SimpleLibraryRegistry()
