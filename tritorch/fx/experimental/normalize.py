"""NormalizeArgs: arguments by name; NormalizeOperators: functions as Python's operators."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from tritorch.fx._naming import public
from tritorch.fx.experimental.schema_type_annotation import (
    AnnotateTypesWithSchema as AnnotateTypesWithSchema,
)
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Transformer as Transformer
from tritorch.fx.node import Node as Node, map_aggregate as map_aggregate
from tritorch.fx.operator_schemas import (
    create_type_hint as create_type_hint,
    normalize_function as normalize_function,
    normalize_module as normalize_module,
)


class NormalizeArgs(Transformer):
    """Writes out all arguments of functions and of torch.nn's modules, by name.

    What ShapeProp noted of nodes tells overloads apart.  normalize_to_only_use_kwargs: if false,
    arguments by position stay so."""

    def __init__(self, module: GraphModule, normalize_to_only_use_kwargs: bool = True) -> None:
        super().__init__(module)
        self.node_map: dict[Any, Node] = {}
        self.normalize_to_only_use_kwargs = normalize_to_only_use_kwargs

    def run_node(self, n: Node) -> Any:
        """A node in the new graph."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)

        def kind(arg: Any) -> Any:
            return arg.meta.get("type") if isinstance(arg, Node) else type(arg)

        if n.op == "call_function":
            kinds = tuple(create_type_hint(each) for each in map_aggregate(n.args, kind))
            named = {key: kind(value) for key, value in n.kwargs.items()}
            out = self.call_function(n.target, args, kwargs, kinds, named)
        else:
            out = super().run_node(n)
        if n.op != "output":
            self.node_map[out] = n
            out.node.meta = n.meta
            out.node.type = n.type
        return out

    def call_function(
        self, target: Any, args: Any, kwargs: Any, arg_types: Any = None, kwarg_types: Any = None
    ) -> Any:
        """A function's call in the new graph."""
        found = normalize_function(
            target, args, kwargs, arg_types, kwarg_types, self.normalize_to_only_use_kwargs
        )
        if found is None:
            return super().call_function(target, args, kwargs)
        return self.tracer.create_proxy("call_function", target, found.args, found.kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A module's call in the new graph."""
        found = normalize_module(
            self.module, target, args, kwargs, self.normalize_to_only_use_kwargs
        )
        return super().call_module(target, *(found or (args, kwargs)))


_OPERATORS = {
    "add": operator.add, "mul": operator.mul, "sub": operator.sub, "div": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "eq": operator.eq,
    "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


class NormalizeOperators(AnnotateTypesWithSchema):
    """Makes torch.add and the like, of two arguments, Python's operators."""

    binary_magic_method_remap: ClassVar[dict[Any, Any]] = {
        public(name): each for name, each in _OPERATORS.items()
    }

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A function's call in the new graph."""
        other = self.binary_magic_method_remap.get(target)
        if other is not None and len(args) == 2:
            return super().call_function(other, tuple(args), {})
        return super().call_function(target, args, kwargs)
