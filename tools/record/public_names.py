#!/usr/bin/env python3
"""Records `__all__` of PyTorch's modules, in PyTorch's order, in tritorch/compat/public_names.txt.

    PYTHON_WITH_TORCH tools/record/public_names.py

One line a module, without the leading "torch": "path: name name ...".  Modules of the compiler's
back end, of the exporter to ONNX and of PyTorch's own tests are left out.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from recording import ROOT

COMPAT = ROOT / "tritorch" / "compat"
LEFT_OUT = ("testing._internal", "_inductor", "_dynamo", "onnx", "utils.tensorboard", "_vendor")


def found(path: str) -> Any:
    """A module of PyTorch's; None of a name that cannot be imported here."""
    try:
        return importlib.import_module(f"torch.{path}".rstrip("."))
    except Exception:  # a module may ask for a package or a device that is not here
        return None


def main() -> None:
    """Writes the file."""
    warnings.simplefilter("ignore")
    known = [line.partition(":")[0] for line in (COMPAT / "names.txt").read_text().splitlines()[1:]]
    lines = []
    for path in known:
        module = None if path.startswith(LEFT_OUT) else found(path)
        names = getattr(module, "__all__", None) if module is not None else None
        if isinstance(names, (list, tuple)) and getattr(module, "__name__", "") != "torch":
            lines.append(f"{path}: {' '.join(names)}".rstrip())
    (COMPAT / "public_names.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} modules")


if __name__ == "__main__":
    main()
