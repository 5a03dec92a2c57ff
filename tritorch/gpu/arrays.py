"""The half of `_C.Array` that is written in Python: copies, conversions and interchange.

# Note [Copies]
Between host and device, and between devices, only dense memory travels.  Whatever is not dense, or
changes its dtype, is first brought into shape by a kernel of kernels/copy.py on the device.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.arrays import pairs
from tritorch.core.device import cuda_index, device
from tritorch.core.dtype import (
    bool_,
    complex128,
    dtype,
    float32,
    from_numpy_dtype,
    int16,
    int32,
    int64,
    uint8,
)
from tritorch.gpu import errors
from tritorch.triton.kernel import kernel

_BITS = {1: uint8, 2: int16, 4: int32, 8: int64}
_INT32_MAX = 2**31 - 1
_LARGE = 64 * 64 * 512  # elements of four tiles for each of 128 multiprocessors
before_waiting: Callable[[], None] | None = None  # cuda.set_sync_debug_mode


# ---- making arrays ------------------------------------------------------------------------------


def _shape(size: tuple[Any, ...]) -> Sequence[int]:
    return size[0] if len(size) == 1 and not hasattr(size[0], "__index__") else size


def empty(*size: Any, dtype: dtype = float32, device: Any = None, pin_memory: bool = False) -> Any:
    """An uninitialised array on a GPU; with pin_memory, an ndarray in page-locked host memory."""
    shape = _shape(size)
    if pin_memory:
        return empty_pinned(shape, dtype)
    return _C.empty(shape, dtype, cuda_index(device))


def zeros(*size: Any, dtype: dtype = float32, device: Any = None) -> _C.Array:
    """An array of zeros on a GPU."""
    return zero_(_C.empty(_shape(size), dtype, cuda_index(device)))


def empty_pinned(shape: Sequence[int], dtype: dtype = float32) -> np.ndarray[Any, Any]:
    """An uninitialised ndarray in page-locked memory: copies from and to it can be asynchronous."""
    count = int(np.prod(shape, dtype=np.int64))
    return _C.pinned_buffer(count * dtype.itemsize).view(dtype.numpy).reshape(shape)


def _bytes(host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Not the array itself: ml_dtypes' types do not export the buffer protocol.
    return host.reshape(-1).view(np.uint8)


def from_numpy(
    array: np.ndarray[Any, Any], device: Any = None, non_blocking: bool = False
) -> _C.Array:
    """A copy of an ndarray on a GPU.

    With non_blocking, and if the ndarray is in pinned memory, the copy reads it later: do not
    change it before the stream has passed.
    """
    host = np.asarray(array)
    host = host if host.flags.c_contiguous else np.array(host, order="C")
    index = cuda_index(device)
    kind = from_numpy_dtype(host.dtype)
    if not kind.native:
        raise NotImplementedError(f"{kind} is not supported on the GPU")
    out = _C.empty(host.shape, kind, index)
    _C.copy_from_host(out, _bytes(host), _C.current_stream(index), non_blocking)
    return out


def from_dlpack(other: Any) -> Any:
    """A view of another library's tensor: an Array for CUDA memory, an ndarray for host memory."""
    if not hasattr(other, "__dlpack_device__"):
        if hasattr(other, "__cuda_array_interface__"):
            return from_cuda_array_interface(other)
        return _C.from_dlpack(other)  # a capsule
    kind, index = other.__dlpack_device__()
    if int(kind) not in (2, 13):
        return np.from_dlpack(other)
    # The producer orders our stream after its own.  1 stands for the legacy default stream.
    stream = _C.current_stream(int(index)) or 1
    try:
        capsule = other.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # before DLPack 1.0
        capsule = other.__dlpack__(stream=stream)
    return _C.from_dlpack(capsule)


def from_cuda_array_interface(other: Any) -> _C.Array:
    """A view of an object with __cuda_array_interface__."""
    description = other.__cuda_array_interface__
    kind = np.dtype(description["typestr"])
    strides = description.get("strides")
    if strides is not None:
        strides = [stride // kind.itemsize for stride in strides]
    address = description["data"][0]
    index = _C.current_device()
    stream = description.get("stream")
    if stream is not None:  # its pending work comes first
        event = _C.Event(2)
        event.record(index, 0 if stream == 1 else stream)
        event.wait(index, _C.current_stream(index))
    return _C.adopt(other, address, description["shape"], strides, from_numpy_dtype(kind), index)


# ---- copying ------------------------------------------------------------------------------------


def _as_bits(array: _C.Array) -> _C.Array:
    """The same elements as integers of the same size: a copy must not touch a NaN's payload."""
    if array.dtype is complex128:
        strides = [*(2 * stride for stride in array.stride()), 1]
        whole = array.as_strided(array.shape, array.stride())
        return _reinterpret(whole, (*array.shape, 2), strides)
    return array.view_dtype(_BITS[array.itemsize])


def _reinterpret(array: _C.Array, shape: Sequence[int], strides: Sequence[int]) -> _C.Array:
    flat = array.as_strided((array.storage_nbytes // 16,), (1,), 0).view_dtype(int64)
    return flat.as_strided(shape, strides, 2 * array.storage_offset())


def block_size(n_elements: int) -> tuple[int, int]:
    """Elements and warps of one program of a pointwise kernel."""
    if n_elements <= 2**14:
        return 256, 4
    return 1024, 4


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    return sum((size - 1) * stride for size, stride in zip(shape, strides))


def _launch_copy(to: _C.Array, source: _C.Array) -> None:
    """Elements of one device, any strides, any dtypes that convert."""
    if to.dtype is source.dtype:
        to, source = _as_bits(to), _as_bits(source)
    elif to.dtype.is_complex or source.dtype.is_complex:
        _convert_complex(to, source)
        return
    # In the order of the target's memory, so that stores are coalesced.
    order = sorted(range(to.ndim), key=lambda dim: -to.stride(dim))
    to, source = to.permute(order), source.permute(order)
    shape, (to_strides, source_strides) = _C.collapse(to.shape, [to.stride(), source.stride()])
    n_elements = to.numel()
    wide = max(_reach(shape, to_strides), _reach(shape, source_strides), n_elements) > _INT32_MAX
    if _is_transposition(shape, to_strides, source_strides):
        batch = (1, 0, 0) if len(shape) == 2 else (shape[0], source_strides[0], to_strides[0])
        # Larger tiles have twice as many bytes in flight, where enough of them fill the device.
        side = 64 if to.itemsize < 8 and n_elements >= _LARGE else 32
        tiles = -(-shape[-2] // side) * -(-shape[-1] // side)
        kernel("copy", "copy_transposed")(
            (tiles, batch[0]), source, to, shape[-2], shape[-1], source_strides[-1],
            to_strides[-2], batch[1], batch[2], WIDE=wide, BLOCK_ROWS=side, BLOCK_COLS=side,
        )  # fmt: skip
        return
    if not shape:
        shape, to_strides, source_strides = (1,), (1,), (1,)
    block, warps = block_size(n_elements)
    kernel("copy", "copy_strided")(
        (-(-n_elements // block),), source, to, n_elements, shape, source_strides, to_strides,
        NDIM=len(shape), WIDE=wide, BLOCK=block, num_warps=warps,
    )  # fmt: skip


def _convert_complex(to: _C.Array, source: _C.Array) -> None:
    """Between complex and other dtypes: part by part."""
    if not to.dtype.is_complex:
        if to.dtype is bool_:  # whether either part is not 0
            from tritorch.gpu.pointwise import pointwise

            pointwise.call("logical_or", (source, 0.0), source.dtype, bool_, to)
        else:
            _launch_copy(to, pairs(source)[..., 0])
        return
    both = pairs(to)
    if source.dtype.is_complex:
        _launch_copy(both, pairs(source))
    else:
        _launch_copy(both[..., 0], source)
        fill_(both[..., 1], 0)


def _is_transposition(
    shape: Sequence[int], to_strides: Sequence[int], source_strides: Sequence[int]
) -> bool:
    """Whether the last two of at most three dims swap which of them is dense."""
    return (
        len(shape) in (2, 3)
        and to_strides[-1] == 1
        and source_strides[-2] == 1
        and min(shape[-2:]) >= 8
        and (len(shape) == 2 or shape[0] <= 65535)
    )


def _copy_same_device(to: _C.Array, source: _C.Array) -> None:
    if to.numel() == 0:
        return
    if to.dtype is source.dtype and to.is_contiguous() and source.is_contiguous():
        _C.copy_dense(to, source, _C.current_stream(to.device_index))
    else:
        _launch_copy(to, source)


def _copy_across(to: _C.Array, source: _C.Array) -> None:
    """From another GPU: both current streams are ordered around the copy."""
    source = contiguous(source if source.dtype is to.dtype else astype(source, to.dtype))
    landing = to if to.is_contiguous() else _C.empty(to.shape, to.dtype, to.device_index)
    from_stream = _C.current_stream(source.device_index)
    to_stream = _C.current_stream(to.device_index)
    ready = _C.Event(2)
    ready.record(to.device_index, to_stream)
    ready.wait(source.device_index, from_stream)
    _C.copy_dense(landing, source, from_stream)
    done = _C.Event(2)
    done.record(source.device_index, from_stream)
    done.wait(to.device_index, to_stream)
    if landing is not to:
        _copy_same_device(to, landing)


def overlaps(to: _C.Array, source: _C.Array) -> bool:
    """Whether the memory that two arrays span overlaps (not whether single elements do)."""
    if not to.shares_storage(source):
        return False
    span = lambda a: (a.data_ptr(), a.data_ptr() + (_reach(a.shape, a.stride()) + 1) * a.itemsize)
    (low, high), (other_low, other_high) = span(to), span(source)
    return low < other_high and other_low < high


def copy_(self: _C.Array, source: Any, non_blocking: bool = False) -> _C.Array:
    """Copies an array or an ndarray into this one, broadcasting and converting dtypes."""
    if not isinstance(source, _C.Array):
        host = np.asarray(source)
        if host.dtype != self.dtype.numpy:
            host = host.astype(self.dtype.numpy)
        if self.is_contiguous() and host.shape == self.shape and host.flags.c_contiguous:
            stream = _C.current_stream(self.device_index)
            _C.copy_from_host(self, _bytes(host), stream, non_blocking)
            return self
        source = from_numpy(host, self.device_index, non_blocking)
    if source.shape != self.shape:
        source = source.expand(self.shape)
    if source.device_index != self.device_index:
        _copy_across(self, source)
    elif overlaps(self, source):
        same = source.data_ptr() == self.data_ptr() and source.stride() == self.stride()
        if not (same and source.dtype is self.dtype):
            _copy_same_device(self, clone(source))
    else:
        _copy_same_device(self, source)
    return self


def clone(self: _C.Array) -> _C.Array:
    """A dense copy."""
    out = _C.empty(self.shape, self.dtype, self.device_index)
    _copy_same_device(out, self)
    return out


def contiguous(self: _C.Array) -> _C.Array:
    """This array if it is dense in row-major order, else a copy that is."""
    return self if self.is_contiguous() else clone(self)


def astype(self: _C.Array, dtype: dtype) -> _C.Array:
    """This array if it has that dtype, else a converted copy."""
    if self.dtype is dtype:
        return self
    out = _C.empty(self.shape, dtype, self.device_index)
    _copy_same_device(out, self)
    return out


def to_device(self: _C.Array, device: Any, non_blocking: bool = False) -> _C.Array:
    """This array if it is on that GPU, else a copy there."""
    index = cuda_index(device)
    if index == self.device_index:
        return self
    out = _C.empty(self.shape, self.dtype, index)
    _copy_across(out, self)
    if not non_blocking:
        _C.stream_synchronize(index, _C.current_stream(index))
        errors.check(index)
        errors.check(self.device_index)
    return out


def reshape(self: _C.Array, *shape: Any) -> _C.Array:
    """A view where strides allow one, else a copy."""
    sizes = _shape(shape)
    view = self.reshape_view(sizes)
    return view if view is not None else clone(self).reshape_view(sizes)  # type: ignore[return-value]


def view(self: _C.Array, *shape: Any) -> _C.Array:
    """A view of another shape, or (given a dtype) of another dtype."""
    if len(shape) == 1 and isinstance(shape[0], dtype):
        return self.view_dtype(shape[0])
    out = self.reshape_view(_shape(shape))
    if out is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return out


def numpy(
    self: _C.Array, out: np.ndarray[Any, Any] | None = None, non_blocking: bool = False
) -> np.ndarray[Any, Any]:
    """A copy in host memory; `out`, C-contiguous, may be pinned memory to copy into."""
    if out is None:
        out = np.empty(self.shape, self.dtype.numpy)
    elif out.shape != self.shape or out.dtype != self.dtype.numpy or not out.flags.c_contiguous:
        raise ValueError(
            f"out must be a C-contiguous ndarray of shape {self.shape} and type "
            f"{self.dtype.numpy}, got {out.shape} and {out.dtype}"
        )
    if before_waiting is not None and not non_blocking:
        before_waiting()
    dense = contiguous(self)
    stream = _C.current_stream(self.device_index)
    _C.copy_to_host(dense, _bytes(out), stream, non_blocking)
    if not non_blocking:
        errors.check(self.device_index)
    return out


# ---- filling ------------------------------------------------------------------------------------


def zero_(self: _C.Array) -> _C.Array:
    """Sets every element to zero."""
    return fill_(self, 0)


def fill_(self: _C.Array, value: Any) -> _C.Array:
    """Sets every element to a number."""
    if self.numel() == 0:
        return self
    element = np.array(bool(value) if self.dtype is bool_ else value).astype(self.dtype.numpy)
    if not self.is_contiguous() or self.dtype is complex128:  # a graph may do that, too
        if self.dtype.is_complex:
            both = pairs(self)
            fill_(both[..., 0], element.real)
            fill_(both[..., 1], element.imag)
        else:
            one = fill_(_C.empty((), self.dtype, self.device_index), value)
            _copy_same_device(self, one.expand(self.shape))
        return self
    pattern = element.tobytes()
    for width in (1, 2, 4):  # the memory is filled by the driver when a short pattern repeats
        if pattern == pattern[:width] * (len(pattern) // width):
            _C.fill_dense(self, pattern[:width], _C.current_stream(self.device_index))
            return self
    n_elements = self.numel()
    block, warps = block_size(n_elements)
    kernel("copy", "fill")(
        (-(-n_elements // block),), self.view_dtype(int64), n_elements,
        struct.unpack("<q", pattern)[0], WIDE=n_elements > _INT32_MAX, BLOCK=block, num_warps=warps,
    )  # fmt: skip
    return self


# ---- interchange --------------------------------------------------------------------------------


def _array(self: _C.Array, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    if copy is False:
        raise ValueError("an array on a GPU cannot become an ndarray without a copy")
    host = numpy(self)
    return host if dtype is None else host.astype(dtype, copy=False)


def _dlpack(
    self: _C.Array,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    if dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__():
        if int(dl_device[0]) == 1 and copy is not False:
            return numpy(self).__dlpack__()
        raise BufferError(f"cannot export an array on cuda:{self.device_index} to {dl_device}")
    index = self.device_index
    current = _C.current_stream(index)
    # -1: the consumer wants no ordering.  None and 1: the legacy default stream.
    if stream is not None and stream == 0:
        raise BufferError("__dlpack__: stream 0 is ambiguous; pass 1 (legacy) or 2 (per thread)")
    wanted = 0 if stream in (None, 1) else stream
    if stream != -1 and wanted != current:
        event = _C.Event(2)
        event.record(index, current)
        event.wait(index, wanted)
        self._record_stream(wanted)
    array = clone(self) if copy else self
    return _C.to_dlpack(array, max_version is not None and max_version[0] >= 1)


def _cuda_array_interface(self: _C.Array) -> dict[str, Any]:
    if self.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        raise AttributeError(f"__cuda_array_interface__ has no type for {self.dtype}; use DLPack")
    strides = None if self.is_contiguous() else tuple(s * self.itemsize for s in self.stride())
    return {
        "shape": self.shape,
        "typestr": self.dtype.numpy.str,
        "data": (self.data_ptr() if self.numel() else 0, False),
        "strides": strides,
        "version": 3,
        "stream": _C.current_stream(self.device_index) or 1,
    }


def _record_stream(self: _C.Array, stream: Any) -> None:
    """The array is also used on that stream: its memory is not reused before that work is done."""
    self._record_stream(stream.cuda_stream)


def _repr(self: _C.Array) -> str:
    return f"Array({numpy(self)!r}, dtype={self.dtype}, device='cuda:{self.device_index}')"


def _setitem(self: _C.Array, key: Any, value: Any) -> None:
    copy_(self[key], value)


METHODS: dict[str, Any] = {
    "__array__": _array,
    "__dlpack__": _dlpack,
    "__dlpack_device__": lambda self: (2, self.device_index),
    "__cuda_array_interface__": property(_cuda_array_interface),
    "__repr__": _repr,
    "__setitem__": _setitem,
    "T": property(lambda self: self.permute(*reversed(range(self.ndim)))),
    "astype": astype,
    "clone": clone,
    "contiguous": contiguous,
    "copy_": copy_,
    "device": property(lambda self: device("cuda", self.device_index)),
    "fill_": fill_,
    "from_numpy": staticmethod(from_numpy),
    "is_cuda": property(lambda self: True),
    "numpy": numpy,
    "record_stream": _record_stream,
    "reshape": reshape,
    "to_device": to_device,
    "view": view,
    "zero_": zero_,
}
for _name, _method in METHODS.items():
    setattr(_C.Array, _name, _method)
