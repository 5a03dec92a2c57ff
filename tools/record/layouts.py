"""Records what pickles of PyTorch's objects hold.

    python tools/record/layouts.py     # with torch installed

Writes tests/serialization/layouts.json from the cases in layout_cases.py, and in
tritorch/serialization/homes.txt where PyTorch defines the classes that its packages publish.
"""

from __future__ import annotations

import importlib

import torch
from recording import ROOT, TESTS, read_cases, write_rows

FOLDER = TESTS / "serialization"
PACKAGES = (
    "torch.nn", "torch.nn.modules.module", "torch.nn.utils.parametrizations", "torch.optim",
    "torch.optim.lr_scheduler", "torch.distributions", "torch.utils.data", "torch.amp",
    "torch.autograd.graph", "torch.distributions.transforms",
)  # fmt: skip


def main() -> None:
    """Records all cases."""
    cases = read_cases(FOLDER / "layout_cases.py")
    found = {code: cases.layout(torch, code) for code in cases.CASES}
    write_rows(FOLDER / "layouts.json", found)
    homes = [f"{home}.{name} {package}\n" for home, name, package in sorted(published())]
    (ROOT / "tritorch/serialization/homes.txt").write_text("".join(homes))


def is_public(home: str, name: str, package: str) -> bool:
    """Whether a class stands where it is defined, so that nothing has to be said."""
    return home == package and name in getattr(importlib.import_module(package), "__all__", ())


def published() -> set[tuple[str, str, str]]:
    """(module, name, package that publishes it) of PyTorch's classes."""
    found = set()
    for package in PACKAGES:
        for name, each in vars(importlib.import_module(package)).items():
            home = getattr(each, "__module__", "")
            if (
                isinstance(each, type)
                and home.startswith("torch.")
                and not is_public(home, name, package)
            ):
                if each.__qualname__ == name and not name.startswith("__"):
                    found.add((home, name, package))
    return found


if __name__ == "__main__":
    main()
