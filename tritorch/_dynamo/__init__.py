"""torch._dynamo, until there is a compiler: what programs set and call around torch.compile."""

from __future__ import annotations

from typing import Any

from tritorch._dynamo import config
from tritorch._dynamo.decorators import (
    disallow_in_graph,
    forbid_in_graph,
    graph_break,
    mark_dynamic,
    mark_static,
    mark_static_address,
    mark_unbacked,
    maybe_mark_dynamic,
    nonstrict_trace,
    run,
    skip_frame,
    substitute_in_graph,
)
from tritorch.compiler import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    is_compiling,
    list_backends,
    reset,
)
from tritorch.nn.modules.module import Module

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize",
    "reset",
    "run",
    "skip_frame",
    "substitute_in_graph",
]


def optimize(*args: Any, **kwargs: Any) -> Any:
    """The function itself."""
    return compile()


class OptimizedModule(Module):
    """What compile() makes of a module: its attributes, and its parameters below `_orig_mod`."""

    def __init__(self, mod: Module) -> None:
        object.__setattr__(self, "_orig_mod", mod)
        super().__init__()
        del self.__dict__["_orig_mod"]
        super().__setattr__("_orig_mod", mod)

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        if "_modules" in self.__dict__:  # not in __init__
            self._orig_mod.training = value

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module."""
        return self._orig_mod(*args, **kwargs)

    def __len__(self) -> int:
        if not hasattr(type(self._orig_mod), "__len__"):
            raise TypeError(f"object of type '{type(self._orig_mod).__name__}' has no len()")
        return len(self._orig_mod)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__["_modules"]["_orig_mod"]
        return original if name == "_orig_mod" else getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_orig_mod", "forward") or name in self.__dict__ or name == "training":
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})
