"""Which modules of a model run: their forward, and their part of the backward pass."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from tritorch.core.scopes import ScopeItself, set_back, sets
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    remove_module_hooks,
)
from tritorch.trees.walk import tree_map

__all__ = ["ModuleTracker"]


class ModuleTracker(ScopeItself):
    """While it is entered, `parents` has the names of the modules that run, and "Global"."""

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._hooks: list[Any] = []
        self._backward = 0  # how many modules' backward passes have begun and not ended

    @property
    def is_bw(self) -> bool:
        """Whether the backward pass of a module runs."""
        return self._backward > 0

    def _name_of(self, module: Any) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._seen:
            self._seen.add(module)
            for child_name, child in module.named_children():
                self._names[child] = f"{name}.{child_name}"
                self._name_of(child)
        return name

    def _enter(self, name: str) -> None:
        if name not in self.parents:
            self.parents.add(name)
            self._backward += 1

    def _leave(self, name: str) -> None:
        if name in self.parents:
            self.parents.discard(name)
            self._backward -= 1

    def _before(self, module: Any, inputs: Any) -> None:
        name = self._name_of(module)
        self.parents.add(name)
        _when_all(_wanting(inputs), lambda: self._leave(name), self._hooks)

    def _after(self, module: Any, inputs: Any, output: Any) -> None:
        name = self._name_of(module)
        self.parents.discard(name)
        for tensor in _wanting(output):
            self._hooks.append(tensor.register_hook(lambda g: self._enter(name)))

    def changes(self) -> Any:
        return set_back(self._end), sets(self._begin)

    def _begin(self) -> None:
        register_module_forward_pre_hook(self._before)
        register_module_forward_hook(self._after)

    def _end(self) -> None:
        remove_module_hooks(self._before, self._after)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.parents, self._backward = {"Global"}, 0


def _wanting(value: Any) -> list[Tensor]:
    found: list[Tensor] = []

    def seen(x: Any) -> Any:
        if isinstance(x, Tensor) and x.requires_grad:
            found.append(x)
        return x

    tree_map(seen, value)
    return found


def _when_all(tensors: list[Tensor], function: Callable[[], None], hooks: list[Any]) -> None:
    """Calls a function when the gradients of all of these are there."""
    left = len(tensors)

    def arrived(g: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            function()

    hooks += [tensor.register_hook(arrived) for tensor in tensors]
