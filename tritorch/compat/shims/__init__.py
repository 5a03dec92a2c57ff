"""What stands in for compiled extensions that were made for libtorch.

Such an extension cannot be loaded: it calls libtorch's C++.  What tritorch has in its place:

- `torch.ops.load_library` of torchvision's own libraries gives operators of ours by the same names
  (`served`);
- `install("flash_attn")` and `install("xformers")` make modules of these names, whose functions
  call our attention.  They are there on request only, and never hide an installed package.

docs/packages.md lists what each of them serves.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

# The beginning of a schema, which a library registers as text: the module that defines the same
# operators.  Names of files differ from version to version.
_SCHEMAS = {
    b"roi_align(Tensor input, Tensor rois": "torchvision",
    b"decode_png(Tensor data, int mode": "torchvision_image",
    b"is_align_available(": "torchaudio",
    b"forced_align(Tensor log_probs": "torchaudio",
}
_MODULES = {"flash_attn": "flash_attn", "xformers": "xformers"}

__all__ = ["available", "install", "served"]


def served(path: str) -> str | None:
    """The module that defines the operators of a compiled library, if there is one."""
    try:
        content = Path(path).read_bytes()
    except OSError:  # who loads it says so
        return None
    name = next((name for schema, name in _SCHEMAS.items() if schema in content), None)
    return name and f"{__name__}.{name}"


def available() -> tuple[str, ...]:
    """The packages that `install` can stand in for."""
    return tuple(_MODULES)


def install(*names: str) -> None:
    """From now on `import <name>` gives the shim, in this process; all of them without names."""
    for name in names or available():
        if name not in _MODULES:
            raise ValueError(
                f"tritorch.shims.install(): there is none for {name!r}, but for "
                f"{', '.join(available())}"
            )
        ours = f"{__name__}.{_MODULES[name]}"
        if name in sys.modules:
            if getattr(sys.modules[name], "__tritorch_shim__", False):
                continue
            raise RuntimeError(f"tritorch.shims.install(): {name} is imported already")
        if importlib.util.find_spec(name) is not None:
            raise RuntimeError(
                f"tritorch.shims.install(): {name} is installed; uninstall it first, so "
                "that it is clear which of the two runs"
            )
        importlib.import_module(ours).install()
