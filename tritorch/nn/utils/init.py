"""Modules without the time of filling their parameters."""

from __future__ import annotations

import inspect
from typing import Any

from tritorch.nn.modules.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters are not initialised."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    from tritorch.nn import init

    names = ("uniform_", "normal_", "constant_", "kaiming_uniform_", "xavier_uniform_",
             "xavier_normal_", "ones_", "zeros_")  # fmt: skip
    fillers = {name: getattr(init, name) for name in names}
    try:
        for name in fillers:
            setattr(init, name, lambda tensor, *_, **__: tensor)
        return module_cls(*args, **kwargs)
    finally:
        for name, function in fillers.items():
            setattr(init, name, function)
