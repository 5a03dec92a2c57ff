"""torch.onnx, as far as programs ask it anything: nothing is exported yet."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]

# How packages want their operators exported: by "domain::name" and opset.
_symbolics: dict[tuple[str, int], Callable[..., Any]] = {}


def is_in_onnx_export() -> bool:
    """False."""
    return False


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9-_]+::[a-zA-Z-_]+[a-zA-Z0-9-_]*", name):
        raise ValueError(
            f"Failed to register operator {name}. The symbolic name must match the format "
            "domain::name, and should start with a letter and contain only alphanumerical "
            "characters"
        )
    if name.partition("::")[0] == "aten":
        raise ValueError(f"Failed to register operator {name}: the domain aten is PyTorch's own")


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Notes how an operator is to be exported, for the exporter that tritorch does not have yet."""
    _check_name(symbolic_name)
    _symbolics[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forgets it."""
    _check_name(symbolic_name)
    _symbolics.pop((symbolic_name, opset_version), None)
