"""The memory of tensors, as in torch.storage."""

from tritorch.core.storage import UntypedStorage, _StorageBase as _StorageBase
from tritorch.core.typed_storage import (
    TypedStorage,
    _dtype_to_storage_type_map as _dtype_to_storage_type_map,
    _LegacyStorage as _LegacyStorage,
    _LegacyStorageMeta as _LegacyStorageMeta,
    _storage_type_to_dtype_map as _storage_type_to_dtype_map,
)

__all__ = ["TypedStorage", "UntypedStorage"]
