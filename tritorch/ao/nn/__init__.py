"""Modules of quantization: fused, with fake quantization, quantized, and those with observers."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["intrinsic", "qat", "quantizable", "quantized", "sparse"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"tritorch.ao.nn.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
