"""AnnotateTypesWithSchema: types of values, from what signatures say."""

from __future__ import annotations

import inspect
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.fx._naming import qualified_name
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.interpreter import Transformer
from tritorch.fx.operator_schemas import _torchscript_type_to_python_type
from tritorch.schema.infer import infer_type

__all__ = ["AnnotateTypesWithSchema"]


class AnnotateTypesWithSchema(Transformer):
    """Gives nodes the types that functions of nn.functional, modules of nn and attributes say."""

    def __init__(
        self, module: GraphModule, annotate_functionals: bool = True,
        annotate_modules: bool = True, annotate_get_attrs: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A function's call in the new graph."""
        made = super().call_function(target, args, kwargs)
        functional = qualified_name(target).startswith("torch.nn.functional.")
        if self.annotate_functionals and functional and not made.node.type:
            made.node.type = self._extract_python_return_type(target)
        return made

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A module's call in the new graph."""
        from tritorch import nn

        made = super().call_module(target, args, kwargs)
        module = self.fetch_attr(target)
        known = getattr(nn, type(module).__name__, None) is type(module)
        if self.annotate_modules and known and not made.node.type:
            made.node.type = self._extract_python_return_type(module.forward)
        return made

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """An attribute, read in the new graph."""
        made = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs and not made.node.type:
            found = infer_type(self.fetch_attr(target))
            if found.success():
                made.node.type = _torchscript_type_to_python_type(found.type())
        return made

    def _extract_python_return_type(self, target: Any) -> Any:
        """The type of a function's results; None where it does not say it."""
        try:
            found = inspect.signature(inspect.unwrap(target)).return_annotation
        except (ValueError, TypeError):
            return None
        if found is inspect.Signature.empty:
            return None
        return Tensor if found in ("Tensor", "torch.Tensor") else found
