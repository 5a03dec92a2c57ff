"""`repr` of tensors, under PyTorch's names."""

from __future__ import annotations

from functools import partial
from typing import Any

from tritorch.core.printing import (
    OPTIONS as PRINT_OPTS,
    get_printoptions,
    set_printoptions,
)
from tritorch.core.scopes import Scope, scoped

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


@scoped
def printoptions(**kwargs: Any) -> Scope:
    """Within it tensors are printed in another way."""
    back = partial(set_printoptions, **get_printoptions())
    return Scope((None, None, back), (partial(set_printoptions, **kwargs), None, None))


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor; what stands between the brackets may be given."""
    text = repr(self)
    if tensor_contents is None:
        return text
    return f"tensor({tensor_contents})"
