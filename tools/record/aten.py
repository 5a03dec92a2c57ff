"""Records the schemas of PyTorch's operators, a line for each overload.

ATen's go into tritorch/schema/aten.txt, those of other namespaces into others.txt; core.txt has the
names of ATen's core set, into which exported graphs are decomposed.

Run with a Python that has torch: python tools/record/aten.py [--check]
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
import torch._inductor
import torch.distributed
from recording import ROOT, write_or_check

FOLDER = ROOT / "tritorch" / "schema"
SETS = re.compile(r"\((\w+(?:\|\w+)+)\)")  # of aliases, whose order torch does not keep
# TorchScript's own, and what PyTorch tests itself with.
LEFT_OUT = ("aten", "prim", "static_runtime", "_test", "_inductor_test", "debugprims", "flex_lib",
            "_dtensor")  # fmt: skip


def schemas() -> dict[Path, str]:
    """The contents of the files, sorted."""
    texts = sorted(str(schema) for schema in torch._C._jit_get_all_schemas())
    ordered = [SETS.sub(lambda m: f"({'|'.join(sorted(m[1].split('|')))})", x) for x in texts]
    aten = [text.removeprefix("aten::") for text in ordered if text.startswith("aten::")]
    others = [text for text in ordered if text.partition("::")[0] not in LEFT_OUT]
    core = [text[: text.index("(")] for text in aten if is_core(text[: text.index("(")])]
    return {FOLDER / f"{name}.txt": "".join(f"{text}\n" for text in found)
            for name, found in (("aten", aten), ("core", core), ("others", others))}  # fmt: skip


def is_core(name: str) -> bool:
    """Whether an overload is of ATen's core set."""
    stem, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, stem, None)
    found = getattr(packet, overload or "default", None)
    return torch.Tag.core in getattr(found, "tags", ())


if __name__ == "__main__":
    write_or_check(schemas(), __doc__, "schemas")
