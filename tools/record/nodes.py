"""Records what autograd's nodes are in tritorch/schema/nodes.txt, a line for each overload of ATen.

    abs AbsBackward0 self*      the overload, its node, what that keeps (`_saved_self`); *: a tensor

Run with a Python that has torch and PyYAML: python tools/record/nodes.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
import torchgen
from torchgen.packaged.autograd.load_derivatives import load_derivatives

TARGET = Path(__file__).resolve().parents[2] / "tritorch" / "schema" / "nodes.txt"


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


def main() -> None:
    """Writes the file; with --check, says whether it is the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    found = "".join(f"{line}\n" for line in lines())
    if not parser.parse_args().check:
        TARGET.write_text(found, encoding="ascii")
    elif TARGET.read_text(encoding="ascii") != found:
        sys.exit("tritorch/schema/nodes.txt is another than this torch's")
    print(f"{len(found.splitlines())} nodes of torch {torch.__version__}")


if __name__ == "__main__":
    main()
