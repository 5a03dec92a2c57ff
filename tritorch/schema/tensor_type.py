"""TensorType: a tensor, with as much of its sizes, strides, dtype and device as is known."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tritorch.core.layout import contiguous_strides
from tritorch.core.promotion import scalar_name
from tritorch.schema.types import Type

Sizes = tuple["int | None", ...]


class TensorType(Type):
    """A tensor; what is None may be anything."""

    _only: Any = None
    _sizes: Sizes | None
    _strides: tuple[int, ...] | None
    _dtype: Any
    _device: Any
    _requires_grad: bool | None

    def __init__(self) -> None:
        raise TypeError("TensorType: No constructor defined! Use TensorType.get()")

    @classmethod
    def _make(
        cls,
        sizes: Sizes | None = None,
        strides: tuple[int, ...] | None = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> TensorType:
        self = object.__new__(cls)
        self._sizes, self._strides, self._dtype = sizes, strides, dtype
        self._device, self._requires_grad = device, requires_grad
        return self

    def _key(self) -> tuple[Any, ...]:
        return self._sizes, self._strides, self._dtype, self._device, self._requires_grad

    def __reduce__(self) -> Any:
        return TensorType._make, self._key()

    @staticmethod
    def get() -> TensorType:
        """Any tensor."""
        if TensorType._only is None:
            TensorType._only = TensorType._make()
        return TensorType._only

    getInferred = get

    @staticmethod
    def create_from_tensor(tensor: Any, /) -> TensorType:
        """Tensors that are laid out like this one."""
        return TensorType._make(
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.dtype,
            tensor.device,
            tensor.requires_grad,
        )

    @property
    def annotation_str(self) -> builtins.str:
        return "Tensor"

    def _in_schema(self) -> builtins.str:
        return self.str()

    def str(self) -> builtins.str:
        """The type with all that is known."""
        name = "Tensor" if self._dtype is None else scalar_name(self._dtype)
        inside = []
        if self._sizes is not None:
            inside += ["*" if size is None else f"{size}" for size in self._sizes]
            if self._strides:
                inside.append(f"strides={list(self._strides)}")
        elif self._dtype is not None:
            name += "Tensor"
        if self._requires_grad is not None:
            inside.append(f"requires_grad={int(self._requires_grad)}")
        if self._device is not None:
            inside.append(f"device={self._device}")
        return f"{name}({', '.join(inside)})" if inside else name

    def _narrows(self, other: Type) -> bool:
        if not isinstance(other, TensorType):
            return False
        sizes, wanted_sizes = self._sizes, other._sizes
        pairs = list(zip(self._key()[1:], other._key()[1:], strict=True))
        if wanted_sizes is not None:
            if sizes is None or len(sizes) != len(wanted_sizes):
                return False
            pairs += zip(sizes, wanted_sizes, strict=True)
        return all(wanted is None or mine == wanted for mine, wanted in pairs)

    def requires_grad(self) -> bool:
        """Whether such a tensor may need a gradient."""
        return self._requires_grad is not False

    def dim(self) -> int | None:
        """The number of dimensions."""
        return None if self._sizes is None else len(self._sizes)

    def sizes(self) -> list[int] | None:
        """The sizes, if each of them is known."""
        known = [size for size in self._sizes or () if size is not None]
        return known if self.dim() == len(known) else None

    def varyingSizes(self) -> list[int | None] | None:
        """The sizes, None for each that is not known."""
        return None if self._sizes is None else list(self._sizes)

    def symbolic_sizes(self) -> list[int] | None:
        """The sizes, a number below zero for each that is not known."""
        if self._sizes is None:
            return None
        return [-1 - at if size is None else size for at, size in enumerate(self._sizes)]

    def strides(self) -> list[int] | None:
        """The strides."""
        return None if self._strides is None else list(self._strides)

    def dtype(self) -> Any:
        """The dtype."""
        return self._dtype

    def scalarType(self) -> builtins.str | None:
        """The dtype's name."""
        return None if self._dtype is None else scalar_name(self._dtype)

    def device(self) -> Any:
        """The device."""
        return self._device

    def undefined(self) -> bool:
        """False: every tensor here is one."""
        return False

    def contiguous(self) -> TensorType:
        """The same sizes and dtype, contiguous."""
        sizes = self.sizes()
        if sizes is None:
            raise RuntimeError("contiguous(): the sizes of this TensorType are not known")
        return self._make(
            tuple(sizes), contiguous_strides(sizes), self._dtype, self._device, self._requires_grad
        )

    def with_sizes(self, sizes: Sequence[int | None] | None, /) -> TensorType:
        """Tensors of these sizes, of which nothing else is new, and no strides are known."""
        known = None if sizes is None else tuple(sizes)
        return self._make(known, None, self._dtype, self._device, self._requires_grad)

    def with_dtype(self, dtype: Any, /) -> TensorType:
        """The same with this dtype."""
        return self._make(self._sizes, self._strides, dtype, self._device, self._requires_grad)

    def with_device(self, device: Any, /) -> TensorType:
        """The same on this device."""
        return self._make(self._sizes, self._strides, self._dtype, device, self._requires_grad)
