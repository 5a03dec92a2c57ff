"""`fp32_precision`, the attribute by which backends say how float32 is multiplied."""

from __future__ import annotations

from typing import Any

from tritorch.backends import _flags
from tritorch.core import precision


class Precision(_flags.Flag):
    """The setting of a backend, or of its operation, in `core/precision.py`."""

    def __init__(self, backend: str, op: str = "all") -> None:
        super().__init__(
            "none", object,
            effect=lambda how: precision.set_fp32_precision(backend, op, how),
            read=lambda: precision.get_fp32_precision(backend, op),
        )  # fmt: skip


def of_operation(backend: str, op: str) -> Any:
    """An object with the one setting of an operation."""
    space = {"fp32_precision": Precision(backend, op), "__doc__": f"How {op} multiplies float32."}
    return type("_FP32Precision", (_flags.Strict,), space)()
