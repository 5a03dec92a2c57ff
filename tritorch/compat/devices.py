"""Devices that others bring: modules under their names, and packages that load themselves."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from tritorch.core.device import device as Device
from tritorch.core.naming import package

__all__ = [
    "_import_device_backends",
    "_is_device_backend_autoload_enabled",
    "_register_device_module",
]

_KNOWN_FINDERS = ("tritorch.compat.as_torch", "torch.compat.as_torch", "_frozen_importlib_external")
_GROUP = "torch.backends"  # the entry points that PyTorch's packages of devices have


def _register_device_module(device_type: Any, module: Any) -> None:
    """Makes a module `torch.<type of device>`."""
    kind = Device(device_type).type
    torch = package()
    if kind in vars(torch):
        raise RuntimeError(
            f"The runtime module of '{kind}' has already been registered with '{vars(torch)[kind]}'"
        )
    setattr(torch, kind, module)
    for name in ("tritorch", "torch"):
        if sys.modules.get(name) is torch:
            sys.modules[f"{name}.{kind}"] = module


def _is_device_backend_autoload_enabled() -> bool:
    """Whether packages of devices load themselves with torch, as they do at first."""
    return os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"


def _may_be_announced() -> bool:
    """False if no installed package has such an entry point, as its files say: without
    importlib.metadata, whose import takes longer than the rest of the alias."""
    if "importlib.metadata" in sys.modules or any(
        finder.__module__ not in _KNOWN_FINDERS and hasattr(finder, "find_distributions")
        for finder in sys.meta_path
    ):
        return True
    for folder in sys.path:
        try:
            packages = os.listdir(folder or os.curdir)
        except FileNotFoundError:
            continue
        except OSError:  # an archive
            return True
        described = [name for name in packages if name.endswith((".dist-info", ".egg-info"))]
        for name in (*described, "EGG-INFO"):
            path = os.path.join(folder, name, "entry_points.txt")
            with contextlib.suppress(OSError), open(path, "rb") as file:
                if _GROUP.encode() in file.read():
                    return True
    return False


def _import_device_backends() -> None:
    """Calls the entry points by which packages of devices load themselves."""
    if not _may_be_announced():
        return
    from importlib.metadata import entry_points

    for each in entry_points(group=_GROUP):
        try:
            each.load()()
        except Exception as error:
            raise RuntimeError(
                f"Failed to load the backend extension: {each.name}. You can disable extension "
                "auto-loading with TORCH_DEVICE_BACKEND_AUTOLOAD=0."
            ) from error
