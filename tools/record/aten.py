"""Records the schemas of PyTorch's operators, a line for each overload.

ATen's go into tritorch/schema/aten.txt, those of other namespaces into others.txt; core.txt has the
names of ATen's core set, into which exported graphs are decomposed.

Run with a Python that has torch: python tools/record/aten.py [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import torch
import torch._inductor
import torch.distributed

FOLDER = Path(__file__).resolve().parents[2] / "tritorch" / "schema"
SETS = re.compile(r"\((\w+(?:\|\w+)+)\)")  # of aliases, whose order torch does not keep
# TorchScript's own, and what PyTorch tests itself with.
LEFT_OUT = ("aten", "prim", "static_runtime", "_test", "_inductor_test", "debugprims", "flex_lib",
            "_dtensor")  # fmt: skip


def schemas() -> dict[str, str]:
    """The contents of the files, sorted."""
    texts = sorted(str(schema) for schema in torch._C._jit_get_all_schemas())
    ordered = [SETS.sub(lambda m: f"({'|'.join(sorted(m[1].split('|')))})", x) for x in texts]
    aten = [text.removeprefix("aten::") for text in ordered if text.startswith("aten::")]
    others = [text for text in ordered if text.partition("::")[0] not in LEFT_OUT]
    core = [text[: text.index("(")] for text in aten if is_core(text[: text.index("(")])]
    return {f"{name}.txt": "".join(f"{text}\n" for text in found)
            for name, found in (("aten", aten), ("core", core), ("others", others))}  # fmt: skip


def is_core(name: str) -> bool:
    """Whether an overload is of ATen's core set."""
    stem, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, stem, None)
    found = getattr(packet, overload or "default", None)
    return torch.Tag.core in getattr(found, "tags", ())


def main() -> None:
    """Writes the files; with --check, says whether they are the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for name, found in schemas().items():
        if not check:
            (FOLDER / name).write_text(found, encoding="ascii")
        elif (FOLDER / name).read_text(encoding="ascii") != found:
            sys.exit(f"tritorch/schema/{name} is another than this torch's")
        print(f"{name}: {len(found.splitlines())} schemas of torch {torch.__version__}")


if __name__ == "__main__":
    main()
