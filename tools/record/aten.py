"""Records the schemas of PyTorch's operators, a line for each overload.

ATen's go into tritorch/schema/aten.txt, those of other namespaces into others.txt; core.txt has the
names of ATen's core set, into which exported graphs are decomposed, and order.txt the overloads of
each operator in the order in which TorchScript tries them, where they are not sorted.

Run with a Python that has torch: python tools/record/aten.py [--check]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import torch
import torch._inductor
import torch.distributed
from recording import ROOT, write_or_check

FOLDER = ROOT / "tritorch" / "schema"
SETS = re.compile(r"\((\w+(?:\|\w+)+)\)")  # of aliases, whose order torch does not keep
# ATen's, which have a file, and what PyTorch tests itself with.
LEFT_OUT = ("aten", "static_runtime", "_test", "_inductor_test", "debugprims", "flex_lib",
            "_dtensor")  # fmt: skip


def schemas() -> dict[Path, str]:
    """The contents of the files, sorted."""
    texts = sorted(str(schema) for schema in torch._C._jit_get_all_schemas())
    ordered = [SETS.sub(lambda m: f"({'|'.join(sorted(m[1].split('|')))})", x) for x in texts]
    aten = [text.removeprefix("aten::") for text in ordered if text.startswith("aten::")]
    others = [text for text in ordered if text.partition("::")[0] not in LEFT_OUT]
    order = list(orders(aten + others))
    core = [text[: text.index("(")] for text in aten if is_core(text[: text.index("(")])]
    return {FOLDER / f"{name}.txt": "".join(f"{text}\n" for text in found)
            for name, found in (("aten", aten), ("core", core), ("others", others),
                                ("order", order))}  # fmt: skip


def orders(texts: list[str]) -> Iterator[str]:
    """A line for each operator whose overloads are not sorted; "-" is the one without a name."""
    stems = dict.fromkeys(text[: text.index("(")].partition(".")[0] for text in texts)
    for stem in stems:
        name = stem if "::" in stem else f"aten::{stem}"
        found = [s.overload_name for s in torch._C._jit_get_schemas_for_operator(name)]
        if found != sorted(found):
            yield " ".join([name, *(overload or "-" for overload in found)])


def is_core(name: str) -> bool:
    """Whether an overload is of ATen's core set."""
    stem, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, stem, None)
    found = getattr(packet, overload or "default", None)
    return torch.Tag.core in getattr(found, "tags", ())


if __name__ == "__main__":
    write_or_check(schemas(), __doc__, "schemas")
