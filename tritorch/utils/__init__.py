"""Tools around tensors, as in torch.utils."""

from __future__ import annotations

import importlib
from typing import Any

from tritorch.core.swap import swap_tensors as swap_tensors


def set_module(obj: Any, mod: str) -> None:
    """Says in which module an object is shown to be."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


# Imported when they are first asked for.
_LATE = (
    "_pytree", "benchmark", "checkpoint", "data", "deterministic", "dlpack", "flop_counter", "hooks",
    "module_tracker", "throughput_benchmark", "weak",
)  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _LATE:
        return importlib.import_module(f"tritorch.utils.{name}")
    raise AttributeError(f"module 'tritorch.utils' has no attribute {name!r}")
