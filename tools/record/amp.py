#!/usr/bin/env python3
"""Records what PyTorch's autocast does, for tests/amp.

PYTHON_WITH_TORCH tools/record/amp.py
"""

from __future__ import annotations

import warnings
from typing import Any

from recording import TESTS, read_cases, write_json


def _registered(torch: Any, key: str) -> list[str]:
    """The operators that have a kernel for a dispatch key."""
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            full = f"{schema.name}.{schema.overload_name}".rstrip(".")
            try:
                if torch._C._dispatch_has_kernel_for_dispatch_key(full, key):
                    found.add(schema.name.removeprefix("aten::"))
            except RuntimeError:
                pass  # a schema of the JIT's own
    return sorted(found)


def main() -> None:
    """Writes what torch does."""
    import torch

    warnings.simplefilter("ignore")
    cases = read_cases(TESTS / "amp/cases.py")
    recorded = {
        "dtypes": {e: cases.result(torch, e) for e in cases.EXPRESSIONS},
        "scaler": cases.scaler(torch),
        "registered": {
            "cpu": _registered(torch, "AutocastCPU"),
            "cuda": _registered(torch, "AutocastCUDA"),
        },
    }
    write_json(TESTS / "amp/recorded.json", recorded)


if __name__ == "__main__":
    main()
