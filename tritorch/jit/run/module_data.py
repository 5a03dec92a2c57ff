"""Data of modules, with the questions that programs ask of `module._c`."""

from __future__ import annotations

from typing import Any

from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.types import ScriptClassType
from tritorch.jit.run.values import to_python, to_script


class ScriptModuleData(ScriptObjectData):
    """A module's type and attributes.  source: the module of Python that it was made from."""

    source: Any = None

    def __getattr__(self, name: str) -> Any:
        if name in self.slots:
            return self.getattr(name)
        if name in self.type.methods:
            return self._get_method(name)
        raise AttributeError(f"'{self.type.name()}' object has no attribute '{name}'")

    def _type(self) -> ScriptClassType:
        return self.type

    @property
    def qualified_name(self) -> str:
        """The name of the class."""
        return self.type.qualified_name()

    def _has_method(self, name: str) -> bool:
        return name in self.type.methods

    def _get_method(self, name: str) -> Any:
        from tritorch.jit.calls import ScriptMethod

        function = self.type.find_method(name)
        if function is None:
            raise AttributeError(f"Method '{name}' is not defined.")
        return ScriptMethod(function, self)

    def _find_method(self, name: str) -> Any:
        return self._get_method(name) if self.type.find_method(name) is not None else None

    def _get_methods(self) -> list[Any]:
        return [self._get_method(name) for name in self.type.methods]

    def _method_names(self) -> list[str]:
        return list(self.type.methods)

    def hasattr(self, name: str) -> bool:
        """Tells if there is an attribute of the name."""
        return name in self.slots

    def getattr(self, name: str) -> Any:
        """An attribute."""
        if name not in self.slots:
            raise RuntimeError(f"Module '{self.type.name()}' has no attribute '{name}'")
        return to_python(self.slots[name], self.type.attributes[name].type)

    def setattr(self, name: str, value: Any) -> None:
        """Replaces an attribute by a value of its type."""
        attribute = self.type.attributes.get(name)
        if attribute is None:
            if name in self.type.constants:
                raise AttributeError(
                    f"Cannot mutate TorchScript constant value: '{name}'. Value: "
                    f"'{self.type.constants[name]}'"
                )
            raise AttributeError(f"'{self.type.name()}' object has no attribute '{name}'")
        self.set_slot(name, to_script(value, attribute.type))

    def _register_attribute(self, name: str, kind: Any, value: Any) -> None:
        """Adds an attribute to the object and its class."""
        self.type.add_attribute(name, kind)
        self.slots[name] = to_script(value, kind)

    def set_slot(self, name: str, value: Any) -> None:
        """Sets an attribute, and the table in which the Python object shows it."""
        self.slots[name] = value
        wrapper = None if self.wrapper is None else self.wrapper()
        if wrapper is not None:
            for table in (wrapper._parameters, wrapper._buffers):
                if name in table:
                    dict.__setitem__(table, name, value)
