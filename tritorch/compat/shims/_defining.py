"""How shims define operators: by a schema, computed by one function for tensors of any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch import library


def operators(namespace: str) -> Callable[[str], Callable[[Any], Any]]:
    """A decorator for a namespace: `@operator("name(Tensor x) -> Tensor")`."""
    defined = library.Library(namespace, "DEF")

    def operator(schema: str) -> Callable[[Any], Any]:
        defined.define(schema)

        def implement(function: Any) -> Any:
            defined.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")
            return function

        return implement

    return operator
