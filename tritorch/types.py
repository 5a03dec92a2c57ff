"""Names for annotations, as in torch.types."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from tritorch.core.device import device as _device
from tritorch.core.size import Size
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.core.typed_storage import TypedStorage

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _int, _float, _complex, _str, _bytes = bool, int, float, complex, str, bytes
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_TensorOrTensorsOrGradEdge: TypeAlias = Any
_size: TypeAlias = Size | list[int] | tuple[int, ...]
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Device: TypeAlias = _device | str | int | None
Storage: TypeAlias = TypedStorage | UntypedStorage
