"""Graph modules that write their code when somebody wants it."""

from __future__ import annotations

import sys
from typing import Any

from tritorch.core.scopes import Scope, scoped
from tritorch.fx._codegen import PythonCode
from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph_module import GraphModule

_use_lazy_graph_module_flag = False
_force_skip_lazy_graph_module_flag = False


@compatibility(is_backward_compatible=False)
@scoped
def _force_skip_lazy_graph_module() -> Scope:
    """Inside, no graph module is lazy."""
    return Scope((sys.modules[__name__], "_force_skip_lazy_graph_module_flag", True))


@compatibility(is_backward_compatible=False)
@scoped
def _use_lazy_graph_module(should_use: bool) -> Scope:
    """Inside, traced modules are lazy."""
    lazy = should_use and not _force_skip_lazy_graph_module_flag
    return Scope((sys.modules[__name__], "_use_lazy_graph_module_flag", lazy))


@compatibility(is_backward_compatible=False)
def _get_graph_module_cls() -> type[GraphModule]:
    """The class of traced modules."""
    return _LazyGraphModule if _use_lazy_graph_module_flag else GraphModule


def _make_graph_module(*args: Any, graph_module_cls: Any = None, **kwargs: Any) -> GraphModule:
    return (graph_module_cls or _get_graph_module_cls())(*args, **kwargs)


@compatibility(is_backward_compatible=False)
class _LazyGraphModule(GraphModule):
    """A graph module whose `recompile` only notes that it is due.

    Its forward is `_lazy_forward` until then, which writes the code, and calls the module again."""

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> GraphModule:
        """The lazy module of a graph module's graph."""
        return gm if isinstance(gm, _LazyGraphModule) else _LazyGraphModule(gm, gm.graph)

    @staticmethod
    def force_recompile(gm: Any) -> None:
        """Writes the code of a lazy module now."""
        if isinstance(gm, _LazyGraphModule):
            gm.real_recompile()

    def real_recompile(self) -> None:
        """Writes the code, if that is due."""
        if self._needs_recompile():
            self._real_recompile()

    @classmethod
    def _needs_recompile(cls) -> bool:
        return cls.forward is cls._lazy_forward

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        self.real_recompile()
        if self._needs_recompile():
            raise AssertionError("Recompilation required after real_recompile()")
        return self(*args, **kwargs)  # the call, in which errors show generated code

    forward = _lazy_forward

    def _code_for_pickling(self) -> PythonCode:
        return self._real_recompile()

    def _real_recompile(self) -> PythonCode:
        return super().recompile()

    @classmethod
    def recompile(cls) -> None:  # type: ignore[override]
        """Notes that the code has to be written again."""
        cls.forward = cls._lazy_forward

    @property
    def code(self) -> str:
        """The code of its forward."""
        self.real_recompile()
        return super().code

    def __str__(self) -> str:
        self.real_recompile()
        return super().__str__()
