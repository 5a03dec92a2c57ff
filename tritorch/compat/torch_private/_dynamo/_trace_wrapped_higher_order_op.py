"""Indices that are tensors without dims, in functions of vmap: masks and score_mods use them."""

from __future__ import annotations

from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.ops.index.indexing import scalars
from tritorch.overrides import TorchFunctionMode
from tritorch.utils._pytree import tree_leaves


class TransformGetItemToIndex(TorchFunctionMode):
    """Inside, `x[i]` of a tensor `i` without dims gathers: its value is not asked for."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__ and not scalars.stay:
            indices = tree_leaves(args[1])
            if all(isinstance(x, (Tensor, int)) for x in indices):
                scalars.stay = True
                try:
                    return func(*args)
                finally:
                    scalars.stay = False
        return func(*args, **(kwargs or {}))
