"""Small methods that other libraries and old programs use."""

from __future__ import annotations

from typing import Any

from tritorch.core import published
from tritorch.core.arguments import Number
from tritorch.core.dispatching import asked
from tritorch.core.layout import memory_format
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.ops.record.operator import Array
from tritorch.ops.shape.memory import as_strided
from tritorch.ops.shape.shape import rebinding


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dims from the one with the largest stride to the densest.

    ambiguity_check: refuses a tensor of which another order would say the same; of memory formats,
    one of which it must have."""
    formats = [] if isinstance(ambiguity_check, bool) else ambiguity_check
    if not isinstance(formats, list) or not all(isinstance(f, memory_format) for f in formats):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    if ambiguity_check is not False:
        strides = self.stride()
        ambiguous = 1 in self.shape or any(a == b for a, b in zip(strides, strides[1:]))
        if ambiguous and sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the "
                "given memory formats."
            )
        if 0 in strides:
            raise RuntimeError("The tensor does not have unique dim order.")
    return tuple(sorted(range(self.ndim), key=lambda dim: -self.stride(dim)))


def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Writes the main diagonal; wrap: of tall matrices, again below each square."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    size, step = min(self.shape), sum(self.stride())
    n_rows = self.shape[0] if wrap and self.ndim == 2 else size
    for row in range(0, n_rows, size + 1):  # below each square, one row is left out
        start = self.storage_offset() + row * self.stride(0)
        self.as_strided((min(size, n_rows - row),), (step,), start).fill_(fill_value)
    return self


def record_stream(self: Tensor, stream: Any) -> None:
    """The memory is not reused before what the stream has queued by then is done."""
    if asked(self):
        from tritorch.ops.interpret import dispatch

        dispatch.plainly("record_stream", self, stream)
        return
    if type(self._array) is not Array:
        raise RuntimeError("record_stream: the tensor is not on a GPU")
    self._array.record_stream(stream)


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    if type(self._array) is not Array:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} "
            f"If CUDA data is required use tensor.cuda() to copy tensor to device memory."
        )
    if self._requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients "
            "aren't required, use var.detach() to get Variable that doesn't require grad."
        )
    return self._array.__cuda_array_interface__


def publish() -> None:
    """Called when all operators are declared."""
    tensor: Any = Tensor
    tensor.as_strided_ = PUBLIC["as_strided_"] = rebinding(as_strided, "as_strided_")
    tensor.dim_order = dim_order
    tensor.fill_diagonal_ = fill_diagonal_
    tensor.record_stream = record_stream
    tensor.__cuda_array_interface__ = property(_cuda_array_interface)
    tensor.const_data_ptr = Tensor.data_ptr
    tensor.__long__ = Tensor.__int__
    tensor.__nonzero__ = Tensor.__bool__
    tensor.__div__ = Tensor.__truediv__
    tensor.__idiv__ = Tensor.__itruediv__
    PUBLIC["threshold_"] = published.functional.threshold_
