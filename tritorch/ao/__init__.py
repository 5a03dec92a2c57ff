"""Optimisation of architectures: quantization, pruning, and numeric comparison of models."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["nn", "ns", "pruning", "quantization"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"tritorch.ao.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *globals()]
