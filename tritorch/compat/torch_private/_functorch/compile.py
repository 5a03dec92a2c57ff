"""functorch.compile: the compiler's names, which can be imported and not used."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tritorch.compat import names
from tritorch.compat.torch_private._functorch import config

__all__ = ["config"]

_HOMES = ("aot_autograd", "compilers", "fx_minifier", "partitioners", "python_key")


def __getattr__(name: str) -> Any:
    for home in _HOMES:
        if "torch" in sys.modules and names.has_name(f"_functorch.{home}", name):
            return getattr(importlib.import_module(f"torch._functorch.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
