"""The memory of tensors, as in torch.storage."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from tritorch.core.dtype import STORED, float8_e4m3fn, float8_e5m2, uint16, uint32, uint64
from tritorch.core.storage import UntypedStorage, _StorageBase as _StorageBase
from tritorch.core.typed_storage import (
    TypedStorage,
    _dtype_to_storage_type_map as _dtype_to_storage_type_map,
    _LegacyStorage as _LegacyStorage,
    _LegacyStorageMeta as _LegacyStorageMeta,
    _storage_type_to_dtype_map as _storage_type_to_dtype_map,
    warn_of_removal,
)
from tritorch.ops.shape.factory import tensor
from tritorch.serialization import storages as _storages

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


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    """Says that typed storages are deprecated: once, or each time where that is asked for."""
    warn_of_removal(stacklevel, always=_always_warn)


def _reset_warn_typed_storage_removal() -> None:
    """The next warning of typed storages is given again."""
    warn_of_removal(forget=True)


_always_warn = False


def _get_always_warn_typed_storage_removal() -> bool:
    """True if each use of a typed storage warns."""
    return _always_warn


def _set_always_warn_typed_storage_removal(always_warn: bool) -> None:
    """Says whether each use of a typed storage warns."""
    global _always_warn
    kind = type(always_warn).__name__
    assert isinstance(always_warn, bool), f"always_warn must be bool, got {kind}"
    _always_warn = always_warn


def _new_dtypes() -> set[Any]:
    """The dtypes that no class of storages is named after."""
    return {STORED[name] for name in _NEW} | {float8_e5m2, float8_e4m3fn, uint16, uint32, uint64}


_NEW = (
    "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "bits8", "bits16",
    "bits1x8", "bits2x4", "bits4x2", "complex32",
)  # fmt: skip


def _get_device_from_module(module: str) -> str:
    """The type of device of a module's storages: "cuda" of "torch.cuda"."""
    last = module.rpartition(".")[2]
    return last if last in ("cuda", "hpu", "xpu", "privateuseone") else "cpu"


_share_memory_map: dict[int, Any] = {}
HAS_NUMPY = True

_load_from_bytes = _storages.load_from_bytes

__all__ = ["TypedStorage", "UntypedStorage"]
