"""Records what autograd's nodes are in tritorch/schema/nodes.txt, a line for each overload of ATen.

    abs AbsBackward0 self*      the overload, its node, what that keeps (`_saved_self`); *: a tensor

Run with a Python that has torch and PyYAML: python tools/record/nodes.py [--check]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torchgen
from recording import ROOT, write_or_check
from torchgen.packaged.autograd.load_derivatives import load_derivatives


def saved(node: str) -> list[str]:
    """The names of what Python can read of a node, without their prefix."""
    kind: Any = getattr(torch._C._functions, node, None)
    names = [name[len("_saved_") :] for name in dir(kind) if name.startswith("_saved_")]
    return [name + "*" * hasattr(kind, f"_raw_saved_{name}") for name in names]


def lines() -> list[str]:
    """A line for each overload that has a derivative."""
    packaged = Path(torchgen.__file__).parent / "packaged"
    native = packaged / "ATen" / "native"
    infos, _ = load_derivatives(
        str(packaged / "autograd" / "derivatives.yaml"),
        str(native / "native_functions.yaml"),
        str(native / "tags.yaml"),
    )
    found = []
    for function, by_key in infos.items():
        info = by_key.get("Default") or next(iter(by_key.values()))
        if info.op is not None:
            found.append(" ".join([str(function.name), info.op, *saved(info.op)]))
    return sorted(found)


if __name__ == "__main__":
    found = "".join(f"{line}\n" for line in lines())
    write_or_check({ROOT / "tritorch/schema/nodes.txt": found}, __doc__, "nodes")
