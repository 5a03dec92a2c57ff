"""A module's parameters, buffers or submodules, seen one kind at a time.

PyTorch has them of scripted modules; `torch.jit.script` gives a module itself here.
"""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter


class _View:
    """What of one kind a module has; getattr and setattr reach whatever it has."""

    _kind: str

    def __init__(self, module: Module) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__}(): expected a module, got {module!r}")
        self._module = module

    def _own(self) -> dict[str, Any]:
        return getattr(self._module, self._kind)

    def contains(self, name: str) -> bool:
        """Whether there is one of this kind with the name."""
        return self._own().get(name) is not None

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of this kind."""
        return [(name, value) for name, value in self._own().items() if value is not None]

    def _known(self, name: str) -> bool:
        kinds = (self._module._parameters, self._module._buffers, self._module._modules)
        return any(name in kind for kind in (*kinds, vars(self._module)))

    def getattr(self, name: str) -> Any:
        """The module's attribute, of any kind."""
        if not self._known(name):
            raise RuntimeError(f"{type(self._module).__name__} does not have a field with name "
                               f"'{name}'")  # fmt: skip
        return getattr(self._module, name)

    def setattr(self, name: str, value: Any) -> None:
        """Replaces an attribute that the module has; a tensor for a parameter becomes one."""
        if not self._known(name):
            raise RuntimeError(f"{type(self._module).__name__} does not have an attribute with "
                               f"name '{name}'")  # fmt: skip
        old = getattr(self._module, name)
        for kind, title in ((Tensor, "Tensor"), (Module, "Module")):
            if isinstance(old, kind) and not isinstance(value, kind):
                raise RuntimeError(f"Unable to cast {value!r} to {title}")
        if isinstance(old, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, value.requires_grad)
        setattr(self._module, name, value)


class ParameterDict(_View):
    """A module's own parameters."""

    _kind = "_parameters"


class BufferDict(_View):
    """A module's own buffers."""

    _kind = "_buffers"


class ModuleDict(_View):
    """A module's own submodules."""

    _kind = "_modules"


for _class in (ParameterDict, BufferDict, ModuleDict):
    _class.__module__ = "tritorch"
