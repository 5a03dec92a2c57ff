"""Writes docs/core.md: the records that have no definition by smaller ones, by kind.

Run after a record comes, goes, or gets a definition: python tools/list_core.py [--check]
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "core.md"
KINDS = {
    "pointwise": "of each element",
    "reduction": "over dims",
    "scan": "along a dim",
    "view": "views",
    "structured": "of their own shape",
    "linalg": "of matrices",
    "fft": "transforms",
    "in_place": "in place",
    "internal": "gradients, and what only other records call",
    "sparse": "of sparse arrays",
}


def text() -> str:
    """The page, from the records as they are."""
    importlib.import_module("tritorch.nn.attention.varlen")  # whose records come with it
    from tritorch.ops.record.operator import OPERATORS

    core = [op for op in OPERATORS.values() if op.composed is None]
    lines = [
        "# The core set",
        "",
        f"Of {len(OPERATORS)} records {len(core)} have no definition by smaller ones; the others",
        "decompose into these ([operators.md](operators.md)). `tools/list_core.py` writes this",
        "page.",
    ]
    for kind, title in KINDS.items():
        names = sorted(op.name for op in core if op.kind == kind)
        special = [name for name in names if name.startswith("special_")]
        for heading, group in (
            (title, [name for name in names if name not in special]),
            ("special functions", special),
        ):
            if group:
                lines += ["", f"## {heading.capitalize()}: {len(group)}", ""]
                lines += textwrap.wrap(", ".join(f"`{name}`" for name in group), 100)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    found = text()
    if "--check" not in sys.argv:
        TARGET.write_text(found, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != found:
        sys.exit("docs/core.md is not up to date: run tools/list_core.py")
