"""Records the settings of PyTorch's compiler and their defaults in tritorch/compat/settings.txt.

    python tools/record/settings.py     # with torch installed

A line of the file is `name = default` (a Python literal) below the module's `[path]`;
`name -> other` says that two names are one setting.  What depends on the machine is None.
"""

from __future__ import annotations

import ast
import importlib
import os
from typing import Any

from recording import ROOT

MODULES = ("_dynamo.config", "_functorch.config", "_inductor.config", "fx.experimental._config",
           "_export.config")  # fmt: skip


def literal(value: Any) -> Any:
    """A default as a literal of Python, or None."""
    if isinstance(value, str) and (os.sep in value or value == os.environ.get("USER")):
        return None
    try:
        return value if ast.literal_eval(repr(value)) == value else None
    except (ValueError, SyntaxError):
        return set() if isinstance(value, set) else None


def main() -> None:
    """Writes the file."""
    lines = ["# PyTorch 2.13's settings; tools/record/settings.py writes this."]
    for path in MODULES:
        module = importlib.import_module(f"torch.{path}")
        lines.append(f"[{path}]")
        for name, entry in sorted(module._config.items()):
            alias = getattr(entry, "alias", None)
            if alias and alias.startswith(f"torch.{path}."):
                lines.append(f"{name} -> {alias.removeprefix(f'torch.{path}.')}")
            else:
                lines.append(f"{name} = {literal(entry.default)!r}")
    (ROOT / "tritorch/compat/settings.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
