"""Records the schemas of ATen's operators in tritorch/schema/aten.txt, a line for each overload.

Run with a Python that has torch: python tools/record_aten.py [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import torch

TARGET = Path(__file__).parent.parent / "tritorch" / "schema" / "aten.txt"
SETS = re.compile(r"\((\w+(?:\|\w+)+)\)")  # of aliases, whose order torch does not keep


def schemas() -> str:
    """Every schema of the namespace aten without its name, sorted."""
    texts = sorted(str(schema) for schema in torch._C._jit_get_all_schemas())
    ordered = (SETS.sub(lambda m: f"({'|'.join(sorted(m[1].split('|')))})", x) for x in texts)
    return "".join(
        f"{text.removeprefix('aten::')}\n" for text in ordered if text.startswith("aten::")
    )


def main() -> None:
    """Writes the file; with --check, says whether it is the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    found = schemas()
    if not parser.parse_args().check:
        TARGET.write_text(found, encoding="ascii")
    elif TARGET.read_text(encoding="ascii") != found:
        sys.exit("tritorch/schema/aten.txt is another than this torch's")
    print(f"{len(found.splitlines())} schemas of torch {torch.__version__}")


if __name__ == "__main__":
    main()
