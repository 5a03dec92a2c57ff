"""The cases of a folder of tests, for the tools here, which run them with PyTorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def read_cases(path: Path) -> Any:
    """The module at a path, whose package is not imported: that would need ours."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
