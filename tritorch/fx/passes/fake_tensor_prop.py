"""FakeTensorProp: a fake of every node's value, from a run that computes nothing."""

from __future__ import annotations

from typing import Any

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt
from tritorch.compat.torch_private._subclasses import FakeTensor, FakeTensorMode
from tritorch.core.tensor import Tensor
from tritorch.fx._compatibility import compatibility
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Interpreter
from tritorch.fx.node import Node, map_aggregate

__all__ = ["FakeTensorProp"]


@compatibility(is_backward_compatible=False)
class FakeTensorProp(Interpreter):
    """Runs a graph on fakes and notes `meta["val"]` of every node."""

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode() if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """The fake of a node's value, noted."""
        result = super().run_node(n)

        def noted(value: Any) -> Any:
            if isinstance(value, Tensor):
                fake = value if isinstance(value, FakeTensor) else self._mode.from_tensor(value)
                return fake.detach()  # what the graph writes into later is another one
            return value if isinstance(value, (SymInt, SymFloat, SymBool, int, float)) else None

        meta = map_aggregate(result, noted)
        if meta is not None:
            n.meta["val"] = meta
        return result

    def fetch_attr(self, target: str) -> Any:
        """A fake of a parameter or buffer; anything else as it is."""
        found = super().fetch_attr(target)
        return self._mode.from_tensor(found) if isinstance(found, Tensor) else found

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A module's result, its parameters being fakes for the call."""
        from tritorch.func import functional_call

        module = super().fetch_attr(target)
        state = {
            name: self._mode.from_tensor(value)
            for name, value in (*module.named_parameters(), *module.named_buffers())
        }
        return functional_call(module, state, args, kwargs)

    def propagate(self, *args: Any) -> Any:
        """Runs the graph on fakes of its arguments."""
        fakes = [self._mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args]
        return self.propagate_dont_convert_inputs(*fakes)

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Runs the graph on arguments that are fakes."""
        with self._mode:
            return super().run(*args)
