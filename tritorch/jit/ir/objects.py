"""Objects of TorchScript's classes and modules: a type, and its attributes by name."""

from __future__ import annotations

from typing import Any

from tritorch.jit.ir.function import CompilationUnit
from tritorch.jit.ir.types import ScriptClassType


class ScriptObjectData:
    """An object of a class or module.  Graphs read and write `slots`."""

    __slots__ = ("__weakref__", "slots", "type", "unit", "wrapper")

    def __init__(self, type: ScriptClassType, unit: CompilationUnit | None = None) -> None:
        self.type, self.unit = type, unit
        self.slots: dict[str, Any] = {}
        self.wrapper: Any = None  # a weak reference to the Python object that shows it

    def set_slot(self, name: str, value: Any) -> None:
        """Sets an attribute, as graphs do."""
        self.slots[name] = value
