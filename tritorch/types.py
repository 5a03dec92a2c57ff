"""Names for annotations, as in torch.types."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt
from tritorch.compat.native.dispatch_keys import DispatchKey
from tritorch.core.device import device as _device
from tritorch.core.dtype import dtype as _dtype  # noqa: F401  (names for annotations)
from tritorch.core.layout import layout as _layout  # noqa: F401
from tritorch.core.size import Size
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.core.typed_storage import TypedStorage
from tritorch.ops.interpret.quantized import qscheme as _qscheme  # noqa: F401

__all__ = ["Device", "FileLike", "Number", "Storage"]

_bool, _int, _float, _complex, _str, _bytes = bool, int, float, complex, str, bytes
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_TensorOrTensorsOrGradEdge: TypeAlias = Any
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_dispatchkey: TypeAlias = str | DispatchKey
_symsize: TypeAlias = Size | Sequence[int | SymInt]
py_sym_types = (SymInt, SymFloat, SymBool)
PySymType: TypeAlias = SymInt | SymFloat | SymBool
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Device: TypeAlias = _device | str | int | None
Storage: TypeAlias = TypedStorage | UntypedStorage
