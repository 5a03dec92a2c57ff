"""The memory of tensors, as in torch.storage."""

from __future__ import annotations

import io
from typing import Any, TypeVar

import numpy as np

from tritorch.core.storage import UntypedStorage, _StorageBase as _StorageBase
from tritorch.core.typed_storage import (
    TypedStorage,
    _dtype_to_storage_type_map as _dtype_to_storage_type_map,
    _LegacyStorage as _LegacyStorage,
    _LegacyStorageMeta as _LegacyStorageMeta,
    _storage_type_to_dtype_map as _storage_type_to_dtype_map,
)
from tritorch.ops.shape.factory import tensor

T = TypeVar("T", bound="UntypedStorage | TypedStorage")


def _isint(x: Any) -> bool:
    return isinstance(x, (int, np.integer))


def _get_dtype_from_pickle_storage_type(pickle_storage_type: str) -> Any:
    """The dtype of a storage's class, by the name that pickles have of it."""
    try:
        return _storage_type_to_dtype_map()[pickle_storage_type]
    except KeyError as error:
        raise KeyError(f'pickle storage type "{pickle_storage_type}" is not recognized') from error


def _get_storage_from_sequence(sequence: Any, dtype: Any, device: Any) -> UntypedStorage:
    """The memory of a new tensor with these elements."""
    return tensor(sequence, dtype=dtype, device=device).untyped_storage()


def _load_from_bytes(b: bytes) -> Any:
    """What a pickle of a storage calls: it is a checkpoint of its own."""
    from tritorch.serialization import load

    return load(io.BytesIO(b), weights_only=False)


__all__ = ["TypedStorage", "UntypedStorage"]
