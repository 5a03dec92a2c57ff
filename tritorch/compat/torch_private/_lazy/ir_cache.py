"""What was recorded of lazy steps."""

from __future__ import annotations

from pathlib import Path

from tritorch.compat.torch_private._lazy import debug, steps


def dump(dot_file_name: str) -> None:
    """Writes the last graph in dot's language."""
    Path(dot_file_name).write_text(debug.render_ir_graph(None))


def reset() -> None:
    """Forgets it."""
    steps.forget()
