"""Objects of TorchScript's classes as Python sees them."""

from __future__ import annotations

from typing import Any

from tritorch.jit.calls import ScriptMethod
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.run.values import WRAPPERS, to_python, to_script


class ScriptObject:
    """An object of a class that was compiled: its attributes and methods."""

    def __init__(self, data: ScriptObjectData) -> None:
        object.__setattr__(self, "_c", data)

    def __getattr__(self, name: str) -> Any:
        data = object.__getattribute__(self, "_c")
        if name in data.slots:
            return to_python(data.slots[name], data.type.attributes[name].type)
        if name in data.type.properties:
            return ScriptMethod(data.type.properties[name][0], data)()
        function = data.type.methods.get(name)
        if function is not None:
            return ScriptMethod(function, data)
        if name in data.type.static_methods:
            from tritorch.jit.calls import ScriptFunction

            return ScriptFunction(data.type.static_methods[name])
        if name in data.type.constants:
            return data.type.constants[name]
        raise AttributeError(f"'RecursiveScriptClass' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        data = self._c
        if name in data.type.attributes:
            data.set_slot(name, to_script(value, data.type.attributes[name].type))
        elif name in data.type.properties and data.type.properties[name][1] is not None:
            ScriptMethod(data.type.properties[name][1], data)(value)
        else:
            object.__setattr__(self, name, value)

    def _type(self) -> Any:
        return self._c.type


def _magic(name: str) -> Any:
    def method(self: ScriptObject, *args: Any) -> Any:
        function = self._c.type.methods.get(name)
        if function is None:
            raise NotImplementedError(f"{self._c.type.name()} has no {name}")
        return ScriptMethod(function, self._c)(*args)

    method.__name__ = name
    return method


for _name in ("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__",
              "__lt__", "__le__", "__gt__", "__ge__", "__len__", "__getitem__", "__setitem__",
              "__contains__", "__call__", "__int__", "__float__", "__neg__", "__iter__",
              "__delitem__", "__and__", "__or__", "__xor__"):  # fmt: skip
    setattr(ScriptObject, _name, _magic(_name))
ScriptObject.__name__ = "RecursiveScriptClass"
ScriptObject.__module__ = "torch.jit"
WRAPPERS["object"] = ScriptObject
