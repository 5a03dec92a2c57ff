"""Where files are, as PyTorch's tools and tests ask for it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).parents[2])


def get_file_path(*path_components: str) -> str:
    """A path in the package."""
    return os.path.join(_ROOT, *path_components)


def get_file_path_2(*path_components: str) -> str:
    """A path."""
    return os.path.join(*path_components)


def get_writable_path(path: str) -> str:
    """A folder that can be written: this one, or a new one."""
    return path if os.access(path, os.W_OK) else tempfile.mkdtemp(suffix=os.path.basename(path))


def prepare_multiprocessing_environment(path: str) -> None:
    """Nothing needs to be prepared."""


def resolve_library_path(path: str) -> str:
    """A path without links."""
    return os.path.realpath(path)


def throw_abstract_impl_not_imported_error(opname: str, module: str, context: str) -> Any:
    """Says that a fake function is in a module that is not imported."""
    raise NotImplementedError(
        f"{opname}: We could not find the fake impl for this operator. The operator specified that "
        f"you may need to import the '{module}' Python module to load the fake impl. {context}"
    )
