#!/usr/bin/env python3
"""Run the examples of PyTorch's export database (torch/_export/db/examples) through ours.

    python tools/run_export_examples.py SITE-PACKAGES/torch/_export/db/examples [-v]

Each file says a module, its arguments, which sizes are open, and whether export takes it.  One
holds if export takes it where PyTorch says so, and the program then gives what the module does,
for the example's arguments and for further ones.  Where PyTorch says that export refuses it, being
taken and right counts too, and is told.
"""

from __future__ import annotations

import argparse
import copy
import enum
import sys
import types
import warnings
from pathlib import Path

import tritorch
import tritorch.export

warnings.filterwarnings("ignore")


class SupportLevel(enum.Enum):
    """What PyTorch says of an example."""

    SUPPORTED = 1
    NOT_SUPPORTED_YET = 0


def loaded(path: Path) -> dict:
    """What a file of the database defines."""
    world: dict = {"__name__": f"example_{path.stem}"}
    sys.modules[world["__name__"]] = types.ModuleType(world["__name__"])
    exec(compile(path.read_text(), str(path), "exec"), world)
    return world


def same(a: object, b: object) -> bool:
    """Whether two results are equal."""
    x, y = tritorch.utils._pytree.tree_leaves(a), tritorch.utils._pytree.tree_leaves(b)
    return len(x) == len(y) and all(
        u.shape == v.shape and tritorch.allclose(u, v) if isinstance(u, tritorch.Tensor) else u == v
        for u, v in zip(x, y, strict=True)
    )


def tried(world: dict) -> str:
    """What is wrong with an example; "" if nothing."""
    args, kwargs = world["example_args"], world.get("example_kwargs", {})
    shapes = world.get("dynamic_shapes")
    program = tritorch.export.export(world["model"], args, kwargs, dynamic_shapes=shapes)
    module = program.module()
    calls = [(args, kwargs)] + ([(world["extra_args"], {})] if "extra_args" in world else [])
    for given, named in calls:
        wanted = copy.deepcopy(world["model"])(*copy.deepcopy(given), **copy.deepcopy(named))
        if not same(wanted, module(*copy.deepcopy(given), **copy.deepcopy(named))):
            return "other values"
    return ""


def main() -> None:
    """Prints how many examples hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-v", "--verbose", action="store_true")
    given = parser.parse_args()
    tritorch.as_torch()
    for name in ("torch._export.db", "torch._export.db.case"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["torch._export.db.case"].SupportLevel = SupportLevel
    held = total = 0
    for path in sorted(given.folder.glob("[a-z]*.py")):
        total += 1
        try:
            world = loaded(path)
            refused = (
                world.get("support_level", SupportLevel.SUPPORTED) is not SupportLevel.SUPPORTED
            )
            said = tried(world)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        held += not said or refused
        if given.verbose and (said or refused):
            print(
                f"{path.stem}{' (PyTorch refuses it)' if refused else ''}: {said[:300] or 'taken'}"
            )
    print(f"{held} of {total} examples")


if __name__ == "__main__":
    main()
