"""`repr` of tensors, under PyTorch's names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tritorch.core.printing import (
    OPTIONS as PRINT_OPTS,
    get_printoptions,
    set_printoptions,
)

__all__ = ["PRINT_OPTS", "get_printoptions", "printoptions", "set_printoptions"]


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Within it tensors are printed in another way."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor; what stands between the brackets may be given."""
    text = repr(self)
    if tensor_contents is None:
        return text
    return f"tensor({tensor_contents})"
