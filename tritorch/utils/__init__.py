"""Tools around tensors, as in torch.utils."""

import importlib

_LATE = ("benchmark", "checkpoint", "data")  # imported when they are first asked for


def __getattr__(name: str) -> object:
    if name in _LATE:
        return importlib.import_module(f"tritorch.utils.{name}")
    raise AttributeError(f"module 'tritorch.utils' has no attribute {name!r}")
