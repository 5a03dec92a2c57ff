"""What torch.serialization also offers: versions, storages' types, a folder that goes away."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tritorch.core import legacy
from tritorch.core.naming import package
from tritorch.core.promotion import scalar_name


class SourceChangeWarning(Warning):
    """A pickled class is not the one whose source was saved with it."""


@contextmanager
def mkdtemp() -> Iterator[str]:
    """A new folder, deleted at the end."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Whether a module's `__version__` is at least this.

    One that cannot be compared is an error, or (error_if_malformed=False) a warning and True."""
    try:
        parts = module.__version__.split(".")
        found = tuple(type(want)(parts[i]) for i, want in enumerate(req_version_tuple))
        return found >= req_version_tuple
    except Exception as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and "
            f"cannot be compared with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True


def normalize_storage_type(storage_type: type) -> Any:
    """tritorch's storage type of the same name."""
    return getattr(package(), storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """The tensor type of a storage's elements: FloatTensor for a FloatStorage."""
    table = legacy.CUDA_TYPES if storage.device.type == "cuda" else legacy.CPU_TYPES
    return table[f"{scalar_name(storage.dtype)}Tensor"]


def validate_hpu_device(location: Any) -> NoReturn:
    """RuntimeError: there is no HPU here."""
    raise RuntimeError(
        "Attempting to deserialize object on a HPU device but there is none. Please use "
        "tritorch.load with map_location=tritorch.device('cpu') to map your storages to the CPU."
    )
