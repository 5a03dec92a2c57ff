"""PassBase: a pass as a class, with what it requires and ensures."""

from __future__ import annotations

import abc
from collections import namedtuple
from typing import Any

from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


@compatibility(is_backward_compatible=False)
class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """The module that a pass gives, and whether it changed it."""

    __slots__ = ()

    def __new__(cls, graph_module: Any, modified: bool) -> PassResult:
        return super().__new__(cls, graph_module, modified)


@compatibility(is_backward_compatible=False)
class PassBase(abc.ABC):
    """A pass: a subclass says in `call` what it does, and may check in `requires` and `ensures`."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Runs it, between the checks."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """What the pass does."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises where a module is not what the pass wants."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises where a module is not what the pass promises."""
