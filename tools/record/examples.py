#!/usr/bin/env python3
"""Records the loss curves of the examples with PyTorch in tritorch's place, for tests/programs.

PYTHON_WITH_TORCH tools/record/examples.py
PYTHON_WITH_TORCH tools/record/examples.py SCRIPT [ARGUMENT ...]    # or just runs an example
"""

from __future__ import annotations

import importlib
import runpy
import sys
import tempfile
from pathlib import Path

import torch
import torch.utils.data  # so that it is among the modules below
from recording import ROOT, TESTS, write_json

TARGET = TESTS / "programs" / "recorded_curves.json"
STEPS = (2, 8)  # a simulated GPU gets through two


def tritorch_is_torch() -> None:
    """`import tritorch`, and its submodules, gives torch from now on."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "torch":
            sys.modules["tri" + name] = module


def main() -> None:
    """Writes what torch computes, or runs an example with it."""
    tritorch_is_torch()
    if sys.argv[1:]:
        torch.set_num_threads(2)
        sys.argv.pop(0)
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    torch.use_deterministic_algorithms(True)
    sys.path.insert(0, str(TARGET.parent))
    curves = importlib.import_module("curves")
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: {n: curves.run(name, torch, n, Path(folder) / name, "cpu") for n in STEPS}
            for name in curves.CASES
        }
    write_json(TARGET, found)
    print(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
