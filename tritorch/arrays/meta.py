"""Arrays without memory: what a tensor on `device="meta"` holds, and what an operator's `infer`
takes and gives.

A MetaArray has the shape, strides, dtype and offset that an array would have, the methods of
`_C.Array` that make views, and no elements: writing it does nothing, reading it is an error.  A
fake tensor's array also names the device that it pretends to be on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tritorch.arrays import arrays
from tritorch.arrays.strides import copy_strides, view_strides
from tritorch.arrays.sym_functions import sym_max, sym_min
from tritorch.arrays.symbolic import SymBool, SymInt, as_size
from tritorch.core import layout
from tritorch.core.device import PretendedDevice, device as Device
from tritorch.core.dtype import dtype

META = Device("meta")
Shape = tuple[int, ...]
NO_DATA = "Cannot copy out of meta tensor; no data!"


class DataDependentOutputException(RuntimeError):
    """A fake tensor is asked for a value; `func` is the operator's name."""

    def __init__(self, func: Any) -> None:
        super().__init__(func)
        self.func = func


class DynamicOutputShapeException(DataDependentOutputException):
    """The size of a fake result depends on values."""


class UnknownSize(NotImplementedError):
    """The size of a result depends on values."""


class MetaMemory:
    """The memory that views of a meta array would share: a number of bytes.

    constant: a tensor with what is in it, where a fake tensor mode knows."""

    __slots__ = ("constant", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.constant: Any = None


class MetaArray:
    """The description of an array whose elements do not exist."""

    __slots__ = ("device", "dtype", "memory", "offset", "shape", "strides")

    def __init__(
        self,
        shape: Sequence[int],
        kind: dtype,
        strides: Sequence[int] | None = None,
        device: Device = META,
        offset: int = 0,
        memory: MetaMemory | None = None,
    ) -> None:
        self.shape: Shape = tuple(shape)
        self.dtype = kind
        self.strides: Shape = (
            layout.contiguous_strides(self.shape) if strides is None else tuple(strides)
        )
        self.device = device
        self.offset = offset
        self.memory = (
            MetaMemory((offset + _reach(self.shape, self.strides)) * kind.itemsize)
            if memory is None
            else memory
        )

    def _no_data(self) -> Exception:
        if is_fake(self):
            return DataDependentOutputException("aten._local_scalar_dense.default")
        return no_data()

    def __repr__(self) -> str:
        return f"MetaArray({self.shape}, {self.dtype}, strides={self.strides})"

    def new(
        self, shape: Sequence[int], kind: dtype | None = None, strides: Sequence[int] | None = None
    ) -> MetaArray:
        """An array with memory of its own on the same device, row-major if nothing else is said."""
        return MetaArray(shape, kind or self.dtype, strides, self.device)

    # ---- what it is ---------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """How many dims there are."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that all elements would take."""
        return self.numel() * self.itemsize

    @property
    def storage_nbytes(self) -> int:
        """Bytes that the memory would have."""
        return self.memory.nbytes

    def numel(self) -> int:
        """How many elements there would be."""
        return math.prod(self.shape)

    def storage_offset(self) -> int:
        """How many elements of the memory would lie before the first one."""
        return self.offset

    def is_contiguous(self) -> bool:
        """Whether the elements would be dense in row-major order."""
        return layout.is_in_format(self.shape, self.strides, layout.contiguous_format)

    def data_ptr(self) -> int:
        """0: there is no memory."""
        return 0

    def shares_storage(self, other: Any) -> bool:
        """Whether both are views of one memory."""
        return type(other) is MetaArray and other.memory is self.memory

    # ---- views --------------------------------------------------------------------------------

    def as_strided(
        self, shape: Sequence[int], strides: Sequence[int], offset: int | None = None
    ) -> MetaArray:
        """A view of the memory by sizes, strides and offset."""
        start = self.offset if offset is None else offset
        return MetaArray(shape, self.dtype, strides, self.device, start, self.memory)

    def permute(self, *dims: Any) -> MetaArray:
        """The dims in another order."""
        order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
        return self.as_strided([self.shape[d] for d in order], [self.strides[d] for d in order])

    def transpose(self, dim0: int, dim1: int) -> MetaArray:
        """Two dims swapped."""
        order = list(range(self.ndim))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        return self.permute(order)

    def expand(self, *shape: Any) -> MetaArray:
        """Dims of size 1 repeated, with stride 0."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        lead = len(wanted) - self.ndim
        own = zip(self.shape, wanted[lead:], self.strides)
        strides = [step if n == m else 0 for n, m, step in own]
        for dim in reversed(range(lead)):
            inner = wanted[dim + 1] * strides[0] if self.shape else 0
            strides.insert(0, inner if wanted[dim] == 1 else 0)
        return self.as_strided(wanted, strides)

    def unsqueeze(self, dim: int) -> MetaArray:
        """A dim of size 1 inserted."""
        inner = self.shape[dim] * self.strides[dim] if dim < self.ndim else 1
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(dim, 1)
        strides.insert(dim, inner)
        return self.as_strided(shape, strides)

    def select(self, dim: int, index: int) -> MetaArray:
        """One index of a dim, without it."""
        shape, strides = list(self.shape), list(self.strides)
        size, step = shape.pop(dim), strides.pop(dim)
        start = self.offset + (index + size if index < 0 else index) * step
        return self.as_strided(shape, strides, start)

    def reshape_view(self, shape: Sequence[int]) -> MetaArray | None:
        """The same memory in another shape; None where the strides do not allow it."""
        strides = view_strides(self.shape, self.strides, tuple(shape))
        return None if strides is None else self.as_strided(shape, strides)

    def reshape(self, shape: Sequence[int]) -> MetaArray:
        """Another shape: a view where the strides allow, else a copy."""
        view = self.reshape_view(shape)
        return self.new(shape) if view is None else view

    def view_dtype(self, kind: dtype) -> MetaArray:
        """The same memory as elements of another dtype; the last dim grows or shrinks."""
        old, new = self.itemsize, kind.itemsize
        shape, strides, offset = list(self.shape), list(self.strides), self.offset
        if old != new and shape:
            shape[-1] = shape[-1] * old // new
            strides = [s * old // new for s in strides[:-1]] + [1]
            offset = offset * old // new
        return MetaArray(shape, kind, strides, self.device, offset, self.memory)

    def __getitem__(self, key: Any) -> MetaArray:
        """A part by integers, slices, None and `...`."""
        items = list(key) if isinstance(key, tuple) else [key]
        named = sum(item is not None and item is not Ellipsis for item in items)
        if named > self.ndim:
            raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
        if not any(item is Ellipsis for item in items):
            items.append(Ellipsis)
        shape: list[int] = []
        strides: list[int] = []
        offset, dim = self.offset, 0
        for item in items:
            if item is Ellipsis:
                rest = self.ndim - named
                shape += self.shape[dim : dim + rest]
                strides += self.strides[dim : dim + rest]
                dim += rest
            elif item is None:
                shape.append(1)
                strides.append(self.shape[dim] * self.strides[dim] if dim < self.ndim else 1)
            elif isinstance(item, slice):
                start, count, step = _slice(item, self.shape[dim])
                offset += start * self.strides[dim]
                shape.append(count)
                strides.append(step * self.strides[dim])
                dim += 1
            else:
                size, index = self.shape[dim], as_size(item)
                if not -size <= index < size:
                    raise IndexError(
                        f"index {index} is out of bounds for dimension {dim} with size {size}"
                    )
                offset += (index + size if index < 0 else index) * self.strides[dim]
                dim += 1
        return self.as_strided(shape, strides, offset)

    def __len__(self) -> int:
        return self.shape[0]

    # ---- copies, and writes that do nothing ---------------------------------------------------

    def astype(self, kind: dtype) -> MetaArray:
        """A converted copy that keeps the memory order; itself if nothing changes."""
        if kind is self.dtype:
            return self
        return self.new(self.shape, kind, copy_strides(self.shape, self.strides))

    def clone(self) -> MetaArray:
        """A dense row-major copy."""
        return self.new(self.shape)

    def to_device(self, index: int, non_blocking: bool = False) -> MetaArray:
        """Refused: there are no elements to copy."""
        raise self._no_data()

    def copy_(self, source: Any, non_blocking: bool = False) -> MetaArray:
        """Nothing: there are no elements to write."""
        return self

    def fill_(self, value: Any) -> MetaArray:
        """Nothing: there are no elements to write."""
        return self

    def zero_(self) -> MetaArray:
        """Nothing: there are no elements to write."""
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def numpy(self) -> Any:
        """Refused: there are no elements."""
        raise self._no_data()


def _slice(part: slice, size: Any) -> tuple[Any, Any, int]:
    """Start, length and step of a slice of a dim; sizes may be symbols."""
    step = 1 if part.step is None else part.step
    if SymInt not in (type(part.start), type(part.stop), type(size)):
        start, stop, step = part.indices(size)
        return start, max(0, -(-(stop - start) // step)), step

    def inside(bound: Any, default: Any) -> Any:
        if bound is None:
            return default
        return sym_min(bound, size) if bound >= 0 else sym_max(bound + size, 0)

    start, stop = inside(part.start, 0), inside(part.stop, size)
    return start, sym_max(-((start - stop) // step), 0), step


def is_fake(array: Any) -> bool:
    """Whether an array describes one on a device that it pretends to be on."""
    return (
        type(array) is MetaArray
        and type(array.device) is PretendedDevice
        and array.device.mode is not None  # of a class that dispatches
    )


def mode_of(array: Any) -> Any:
    """The FakeTensorMode that a fake array is of; None for one on the meta device."""
    return getattr(array.device, "mode", None)


def real_among_fake(name: str) -> AssertionError:
    """The error of an operator that is given fake tensors and real ones."""
    return AssertionError(
        "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
        f"'allow_non_fake_inputs'. Found in aten.{name}.default"
    )


def no_data() -> NotImplementedError:
    """The error of whoever wants the elements of a meta tensor."""
    return NotImplementedError(NO_DATA)


def _reach(shape: Shape, strides: Shape) -> int:
    """How many elements of memory lie between the first and the last element, both included."""
    empty = math.prod(shape) == 0
    if empty is True or (type(empty) is SymBool and empty.value):  # of a size that nobody knows: no
        return 0
    return sum((n - 1) * s for n, s in zip(shape, strides)) + 1


def meta_of(array: Any) -> MetaArray:
    """The description of any array."""
    if type(array) is MetaArray:
        return array
    kind, where = arrays.dtype_of(array), arrays.device_of(array)
    return MetaArray(array.shape, kind, arrays.strides_of(array), where)
