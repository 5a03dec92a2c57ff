"""torch._VF: the functions of PyTorch's extension, under their own names."""

from __future__ import annotations

import sys
import types
from typing import Any


class VFModule(types.ModuleType):
    """The module: what it has are functions of tritorch, and operators of ATen."""

    def __getattr__(self, name: str) -> Any:
        from tritorch.compat.torch_private._ops import operator

        try:
            return operator("_VF", name)
        except AttributeError:
            raise AttributeError(
                f"'torch._C._VariableFunctionsClass' object has no attribute {name!r}"
            ) from None


sys.modules[__name__].__class__ = VFModule
VFModule.__module__ = "torch._VF"
