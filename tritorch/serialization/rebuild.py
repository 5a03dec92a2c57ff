"""What the globals in PyTorch's pickles do: tensors, parameters and layouts from their parts.

# Note [Tensors from files]
Nothing here believes its arguments: a view is made only after its shape, strides and offset have
been checked against the storage, since NumPy's strided views reach wherever they are told to.
"""

from __future__ import annotations

import copyreg
import functools
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays.meta import MetaArray
from tritorch.core import dtype as dtypes, layout as layouts
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor, _as_class
from tritorch.core.typed_storage import TypedStorage
from tritorch.nn.hooks import warn_if_has_hooks
from tritorch.ops.interpret import quantized
from tritorch.ops.shape.factory import tensor as tensor_of

_MAX_DIMS = 64  # NumPy's
_STORAGE_NAMES = {
    "DoubleStorage": dtypes.float64, "FloatStorage": dtypes.float32, "HalfStorage": dtypes.float16,
    "LongStorage": dtypes.int64, "IntStorage": dtypes.int32, "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8, "BoolStorage": dtypes.bool_,
    "BFloat16Storage": dtypes.bfloat16, "ComplexDoubleStorage": dtypes.complex128,
    "ComplexFloatStorage": dtypes.complex64, "QInt8Storage": dtypes.STORED["qint8"],
    "QInt32Storage": dtypes.STORED["qint32"], "QUInt8Storage": dtypes.STORED["quint8"],
    "QUInt4x2Storage": dtypes.STORED["quint4x2"], "QUInt2x4Storage": dtypes.STORED["quint2x4"],
}  # fmt: skip


class StorageType:
    """Stands for `torch.FloatStorage` and its like, of which checkpoints need the dtype only."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype = _STORAGE_NAMES[name]

    def __repr__(self) -> str:
        return f"StorageType(dtype={self.dtype})"

    def __reduce__(self) -> Any:
        return storage_type, (self.name,)


@functools.cache
def storage_type(name: str) -> StorageType:
    """The one object for a name; KeyError if PyTorch has no such storage."""
    return StorageType(name)


STORAGE_OF_DTYPE = {kind: name for name, kind in _STORAGE_NAMES.items()}


def storage_of(array: np.ndarray[Any, Any]) -> UntypedStorage:
    """A storage on an array's memory."""
    storage = object.__new__(UntypedStorage)
    storage._set(array)
    return storage


def typed(storage: UntypedStorage, kind: dtypes.dtype) -> TypedStorage:
    """A storage as elements of a dtype."""
    return TypedStorage(wrap_storage=storage, dtype=kind, _internal=True)


def byteswap(array: np.ndarray[Any, Any], kind: dtypes.dtype) -> None:
    """Turns the bytes of each element around, in place; complex numbers are two elements."""
    width = kind.itemsize // 2 if kind.is_complex else kind.itemsize
    if width > 1:
        words = array[: array.size // width * width].view(f"u{width}")
        words.byteswap(inplace=True)


def _int(value: Any, what: str) -> int:
    if type(value) is not int:
        raise RuntimeError(f"tensor in checkpoint: {what} must be an int, got {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    return type(value).__name__


def _ints(values: Any, what: str) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)) or len(values) > _MAX_DIMS:
        raise RuntimeError(f"tensor in checkpoint: {what} must be a tuple of at most 64 ints")
    return tuple(_int(value, f"an element of {what}") for value in values)


def _view(storage: Any, kind: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    untyped = storage._untyped_storage if isinstance(storage, TypedStorage) else storage
    if not isinstance(untyped, UntypedStorage) or not isinstance(kind, dtypes.dtype):
        raise RuntimeError(
            f"tensor in checkpoint: needs a storage and a dtype, got {_kind(storage)} and "
            f"{_kind(kind)}"
        )
    if kind in quantized.KINDS:
        raise RuntimeError(f"tensor in checkpoint: {kind} needs a scheme and its parameters")
    offset, shape, strides = _int(offset, "offset"), _ints(size, "size"), _ints(stride, "stride")
    if len(shape) != len(strides) or offset < 0 or min((*shape, *strides), default=0) < 0:
        raise RuntimeError(
            f"tensor in checkpoint: sizes {list(shape)}, strides {list(strides)} and offset "
            f"{offset} must be of one length and not negative"
        )
    numel = math.prod(shape)
    last = sum((n - 1) * s for n, s in zip(shape, strides))
    needed = (offset + last + 1) * kind.itemsize if numel else 0
    if needed > untyped.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {kind.itemsize} requiring a storage size of {needed} are out of bounds "
            f"for storage of size {untyped.nbytes()}"
        )
    if max(numel, math.prod(max(n, 1) for n in shape)) * kind.itemsize >= 2**63:
        raise RuntimeError(f"tensor in checkpoint: sizes {list(shape)} overflow")
    return untyped._view(kind, shape, strides, offset)


def _require_grad(tensor: Tensor, requires_grad: Any) -> None:
    if requires_grad and not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    tensor._leaf = bool(requires_grad)


Charge = Callable[[int], None]


def _free(size: int) -> None:
    """What a trusted pickle pays for bytes."""


def _resolve(tensor: Tensor, storage: Any, metadata: Any, charge: Charge) -> Tensor:
    """PyTorch's pending conjugation and negation, carried out."""
    if not isinstance(metadata, dict):
        raise RuntimeError(f"tensor in checkpoint: metadata must be a dict, got {_kind(metadata)}")
    pending = [name for name in ("conj", "neg") if metadata.get(name)]
    if pending and (getattr(storage, "_waits", False) or tensor.nbytes > storage.nbytes()):
        raise RuntimeError(
            f"tensor in checkpoint: its {' and '.join(pending)} bit can't be resolved here; save "
            f"it with resolve_conj() or resolve_neg()"
        )
    for name in pending:
        charge(tensor.nbytes)
        tensor = tensor.conj() if name == "conj" else -tensor
    return tensor


def _rebuild_tensor(storage: Any, storage_offset: Any, size: Any, stride: Any) -> Tensor:
    return _view(storage, getattr(storage, "dtype", None), storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any,
    backward_hooks: Any, metadata: Any = None, *, charge: Charge = _free,
) -> Tensor:  # fmt: skip
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    if metadata:
        tensor = _resolve(tensor, storage, metadata, charge)
    _require_grad(tensor, requires_grad)
    return tensor


def _rebuild_tensor_v3(
    storage: Any, storage_offset: Any, size: Any, stride: Any, requires_grad: Any,
    backward_hooks: Any, dtype: Any, metadata: Any = None, *, charge: Charge = _free,
) -> Tensor:  # fmt: skip
    if getattr(storage, "_foreign", False) and isinstance(dtype, dtypes.dtype):
        # Untyped bytes of the other byte order: only now is known how wide the elements are.
        untyped = storage._untyped_storage
        host = untyped.cpu()
        byteswap(host._elements(dtypes.uint8), dtype)
        if host is not untyped:
            untyped.copy_(host)
        storage._foreign = False
    tensor = _view(storage, dtype, storage_offset, size, stride)
    if metadata:
        tensor = _resolve(tensor, storage, metadata, charge)
    _require_grad(tensor, requires_grad)
    return tensor


def _rebuild_meta_tensor_no_storage(
    dtype: Any, size: Any, stride: Any, requires_grad: Any
) -> Tensor:
    shape, strides = _ints(size, "size"), _ints(stride, "stride")
    if not isinstance(dtype, dtypes.dtype):
        raise RuntimeError(f"tensor in checkpoint: needs a dtype, got {_kind(dtype)}")
    if len(shape) != len(strides) or min((*shape, *strides), default=0) < 0:
        raise RuntimeError(
            f"tensor in checkpoint: sizes {list(shape)} and strides {list(strides)} must be of one "
            f"length and not negative"
        )
    tensor = _C.wrap(MetaArray(shape, dtype, strides))
    _require_grad(tensor, requires_grad)
    return tensor


def _require_tensor(data: Any) -> None:
    if not isinstance(data, Tensor):
        raise RuntimeError(f"parameter in checkpoint: needs a tensor, got {_kind(data)}")


def _rebuild_parameter(data: Any, requires_grad: Any, backward_hooks: Any = None) -> Any:
    from tritorch.nn.parameter import Parameter

    _require_tensor(data)
    _require_grad(data.detach(), requires_grad)
    return Parameter(data, bool(requires_grad))


def _rebuild_parameter_with_state(
    data: Any, requires_grad: Any, backward_hooks: Any, state: Any
) -> Any:
    out = _rebuild_parameter(data, requires_grad)
    set_state(out, state)
    return out


def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    return finish_from_type(func(*args), new_type, state)


def _rebuild_from_type(func: Any, type: Any, args: Any, dict: Any) -> Any:
    return finish_from_type(func(*args), type, dict)


def finish_from_type(out: Any, new_type: Any, state: Any) -> Any:
    """A rebuilt tensor as its subclass, with its attributes."""
    _require_tensor(out)
    if not (isinstance(new_type, type) and issubclass(new_type, Tensor)):
        raise RuntimeError(f"tensor in checkpoint: not a class of tensors: {_kind(new_type)}")
    if type(out) is not new_type:
        leaf, out = out._leaf, _as_class(out, new_type)
        out._leaf = leaf
    if new_type.__setstate__ is not Tensor.__setstate__:
        out.__setstate__(state)
    else:
        set_state(out, state)
    return out


def get_state(tensor: Any) -> Any:
    """What a tensor carries besides its elements: its __dict__, with the slots of a subclass."""
    slots = copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]
    held = {name: getattr(tensor, name) for name in slots if hasattr(tensor, name)}
    return (dict(tensor.__dict__), held) if held else dict(tensor.__dict__)


def set_state(tensor: Any, state: Any) -> None:
    """Restores what get_state gave."""
    slots = None
    if isinstance(state, tuple):
        if len(state) != 2:
            raise RuntimeError("Invalid serialized state: a tuple must have two items")
        state, slots = state
    for part in (state, slots):
        if part and not (isinstance(part, dict) and all(type(key) is str for key in part)):
            raise RuntimeError("Invalid serialized state: attributes must be a dict of strings")
    if state:
        tensor.__dict__.update(state)
    for name, value in (slots or {}).items():
        if hasattr(Tensor, name):
            raise RuntimeError(f"Invalid serialized state: {name!r} is not a slot of a subclass")
        setattr(tensor, name, value)


def _get_layout(name: str) -> layouts.layout:
    found = getattr(layouts, str(name).rpartition(".")[2], None)
    if not isinstance(found, layouts.layout):
        raise RuntimeError(f"unknown layout: {str(name)[:50]}")
    return found


def _rebuild_sparse_tensor(layout: Any, data: Any, *, charge: Charge = _free) -> Tensor:
    """A sparse tensor of its parts, which are checked: indices reach wherever they are told to."""
    from tritorch.ops.interpret.sparse import build

    if not isinstance(layout, layouts.layout) or not isinstance(data, tuple):
        raise RuntimeError("sparse tensor in checkpoint: needs a layout and its parts")
    is_coo = layout is layouts.sparse_coo
    n = 2 if is_coo else 3
    if len(data) not in (n, n + 1, n + 2) or not all(isinstance(x, Tensor) for x in data[:n]):
        raise RuntimeError("sparse tensor in checkpoint: needs indices, values and a size")
    if len(data) > n:
        _ints(data[n], "size")
    for part in data[:n]:  # which may be a few bytes, expanded; looking at all takes as long
        charge(part.numel() * part.element_size())
    if is_coo:
        size = data[2] if len(data) > 2 else None
        coalesced = bool(data[3]) if len(data) > 3 else None
        return build.sparse_coo_tensor(
            data[0], data[1], size, check_invariants=True, is_coalesced=coalesced
        )
    if layout is layouts.strided or len(data) > n + 1:
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
    return build.sparse_compressed_tensor(*data, layout=layout, check_invariants=True)


def reduce_sparse(tensor: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """A sparse tensor as PyTorch's __reduce_ex__ gives it."""
    array: Any = tensor._array
    size = tensor.shape
    if array.plain is None:
        data: tuple[Any, ...] = array.indices, array.values, size, array.coalesced
    else:
        data = array.indices, array.plain, array.values, size
    return _rebuild_sparse_tensor, (array.layout, data)


def _rebuild_nested_tensor(
    buffer: Any, sizes: Any, strides: Any, storage_offsets: Any, *, charge: Charge = _free
) -> Tensor:
    """A strided nested tensor of its parts, which are checked."""
    from tritorch.ops.interpret.nested import build

    parts = buffer, sizes, strides, storage_offsets
    if not all(isinstance(part, Tensor) and not part.is_nested for part in parts):
        raise RuntimeError("nested tensor in checkpoint: needs a buffer, sizes, strides, offsets")
    for part in parts[1:]:
        charge(part.numel() * part.element_size())
    if buffer.ndim != 1 or sizes.shape != strides.shape or storage_offsets.ndim != 1:
        raise RuntimeError("nested tensor in checkpoint: its parts do not fit together")
    rows = zip(sizes.tolist(), strides.tolist(), storage_offsets.tolist(), strict=True)
    for size, steps, start in rows:
        last = start + sum((n - 1) * s for n, s in zip(size, steps))
        least = min((*size, *steps, start))
        if least < 0 or (math.prod(size) and last >= buffer.shape[0]):
            raise RuntimeError("nested tensor in checkpoint: a component is outside of the buffer")
    made = build._nested_view_from_buffer(*parts).detach()
    _require_grad(made, buffer._requires_grad)
    return made


def _rebuild_njt(constructor_kwargs: Any, *, charge: Charge = _free) -> Tensor:
    """A jagged tensor of its parts, which are checked."""
    from tritorch.ops.interpret.nested.tensor import NestedTensor

    if not isinstance(constructor_kwargs, dict):
        raise RuntimeError("nested tensor in checkpoint: needs its parts in a dict")
    get: Any = constructor_kwargs.get
    values, offsets, lengths = get("values"), get("offsets"), get("lengths")
    tensors = (values, offsets) if lengths is None else (values, offsets, lengths)
    ragged = _int(constructor_kwargs.get("_ragged_idx", 1), "the ragged dim")
    if not all(isinstance(part, Tensor) and not part.is_nested for part in tensors):
        raise RuntimeError("nested tensor in checkpoint: needs values and offsets")
    for part in tensors[1:]:
        charge(part.numel() * part.element_size())
    starts = offsets.tolist()
    counts = [b - a for a, b in zip(starts, starts[1:])] if lengths is None else lengths.tolist()
    ends = [start + n for start, n in zip(starts, counts)]
    inside = 1 <= ragged <= values.ndim and max(ends, default=0) <= values.shape[ragged - 1]
    if not inside or min((*starts, *counts), default=0) < 0:
        raise RuntimeError("nested tensor in checkpoint: a component is outside of the values")
    cache = constructor_kwargs.get("_metadata_cache") or {}
    if not isinstance(cache, dict) or not all(isinstance(t, Tensor) for t in cache.values()):
        raise RuntimeError("nested tensor in checkpoint: its cache must be a dict of tensors")
    grad = bool(constructor_kwargs.get("requires_grad"))
    made: Tensor = NestedTensor(
        values, offsets, lengths=lengths, _ragged_idx=ragged, _metadata_cache=cache
    )
    _require_grad(made, grad)
    return made


def reduce_nested(tensor: Any) -> tuple[Any, tuple[Any, ...]]:
    """A nested tensor as PyTorch's __reduce_ex__ gives it."""
    if tensor.layout is layouts.strided:
        structure = tensor._array.structure
        if structure.sent is None:
            tables = tensor._nested_tensor_size(), tensor._nested_tensor_strides()
            structure.sent = *tables, tensor._nested_tensor_storage_offsets()
        values = tensor._array.values.detach().requires_grad_(tensor._requires_grad)
        return _rebuild_nested_tensor, (values, *structure.sent)
    parts = {
        "values": tensor._values, "offsets": tensor._offsets, "lengths": tensor._lengths,
        "_ragged_idx": tensor._ragged_idx, "_metadata_cache": tensor._metadata_cache,
        "requires_grad": tensor._requires_grad,
    }  # fmt: skip
    return _rebuild_njt, (parts,)


# ---- quantized tensors ---------------------------------------------------------------------------


def _packing(kind: dtypes.dtype) -> int:
    """The number of integers of a quantized dtype in a byte of PyTorch's storages."""
    return {15: 2, 3: 4}.get(quantized.KINDS[kind][2], 1)


def _parameters(value: Any, size: tuple[int, ...], charge: Charge) -> tuple[Any, ...]:
    """The scheme, scales, zero points and axis of a pickle."""
    what = "quantized tensor in checkpoint:"
    if not isinstance(value, tuple) or not value or not isinstance(value[0], quantized.qscheme):
        raise RuntimeError(f"{what} needs a scheme and its parameters")
    scheme, *rest = value
    if scheme is quantized.per_tensor_affine:
        if len(rest) != 2 or type(rest[0]) not in (float, int) or type(rest[1]) is not int:
            raise RuntimeError(f"{what} needs a scale and a zero point")
        return scheme, float(rest[0]), rest[1], None
    by_channel = quantized.per_channel_affine, quantized.per_channel_affine_float_qparams
    if scheme not in by_channel or len(rest) != 3:
        raise RuntimeError(f"{what} can't be made with qscheme {scheme}")
    scales, zeros, axis = rest
    if not 0 <= _int(axis, "the axis") < len(size):
        raise RuntimeError(f"{what} axis {axis} is none of {len(size)} dims")
    if isinstance(scales, list) and isinstance(zeros, list):  # as old versions write them
        if not all(type(x) in (float, int) for x in (*scales, *zeros)):
            raise RuntimeError(f"{what} needs scales and zero points")
        exact = scheme is quantized.per_channel_affine
        scales = tensor_of(scales, dtype=dtypes.float64 if exact else dtypes.float32)
        zeros = tensor_of(zeros, dtype=dtypes.int64 if exact else dtypes.float32)
    for values in (scales, zeros):
        if not isinstance(values, Tensor) or tuple(values.shape) != (size[axis],):
            raise RuntimeError(f"{what} needs a scale and a zero point for each of {size[axis]}")
        charge(8 * size[axis])
    if zeros.is_floating_point():  # PyTorch writes one name for both schemes
        return by_channel[1], scales.float(), zeros.float(), axis
    return by_channel[0], scales.double(), zeros.long(), axis


def _rebuild_qtensor(
    storage: Any, storage_offset: Any, size: Any, stride: Any, quantizer_params: Any,
    requires_grad: Any, backward_hooks: Any, *, charge: Charge = _free,
) -> Tensor:  # fmt: skip
    """A quantized tensor; integers of a few bits, which PyTorch packs, get a byte each."""
    kind = getattr(storage, "dtype", None)
    if kind not in quantized.KINDS:
        raise RuntimeError(f"quantized tensor in checkpoint: {kind} is no quantized dtype")
    scheme, scale, zero, axis = _parameters(quantizer_params, _ints(size, "size"), charge)
    count, integers = _packing(kind), quantized.KINDS[kind][0]
    if count > 1:
        untyped = storage._untyped_storage
        if getattr(storage, "_waits", False):
            raise RuntimeError(
                f"quantized tensor in checkpoint: integers of {kind} in a file of the old format "
                "can't be unpacked; save it with torch.save's default format"
            )
        charge(untyped.nbytes() * count)
        bits = 8 // count
        packed = untyped._view(dtypes.uint8, (untyped.nbytes(),), (1,), 0).cpu().numpy()
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        whole = (packed[:, None] >> shifts & (2**bits - 1)).reshape(-1)
        storage = storage_of(np.ascontiguousarray(whole).view(np.uint8))
    view = _view(storage, integers, storage_offset, size, stride)
    _require_grad(view, requires_grad)
    return quantized.of_integers(view, quantized.Quantizer(kind, scheme, scale, zero, axis))


def reduce_quantized(x: Any) -> tuple[Any, tuple[Any, ...]]:
    """A quantized tensor as PyTorch's __reduce_ex__ gives it."""
    by, integers = x._quantizer, quantized.integers_of(x)
    count = _packing(by.kind)
    if count > 1:
        whole = integers.detach().cpu().contiguous().numpy().reshape(-1)
        padded = np.pad(whole, (0, -len(whole) % count)).reshape(-1, count)
        shifts = np.arange(0, 8, 8 // count, dtype=np.uint8)
        packed = np.bitwise_or.reduce(padded << shifts, axis=1).astype(np.uint8)
        storage, integers = storage_of(packed), integers.contiguous()
        offset = 0
    else:
        storage, offset = integers.untyped_storage(), integers.storage_offset()
    params: tuple[Any, ...] = (by.scheme, by.scale, by.zero_point)
    if by.axis is not None:
        params = (quantized.per_channel_affine, by.scale, by.zero_point, by.axis)
    place = offset, tuple(integers.shape), tuple(integers.stride())
    return _rebuild_qtensor, (typed(storage, by.kind), *place, params, False, OrderedDict())


def reduce_plain(tensor: Any) -> tuple[Any, tuple[Any, ...]]:
    """A tensor without its class and attributes, as PyTorch's __reduce_ex__ gives it."""
    if tensor._backward_hooks:
        warn_if_has_hooks(tensor)
    if tensor._is_described:
        shape, strides = tuple(tensor.shape), tensor.stride()
        return _rebuild_meta_tensor_no_storage, (tensor.dtype, shape, strides, tensor._leaf)
    if tensor.is_quantized:
        return reduce_quantized(tensor)
    if tensor.is_nested:
        return reduce_nested(tensor)
    if tensor.layout is not layouts.strided:
        return reduce_sparse(tensor)
    storage = tensor.untyped_storage()
    kind = tensor.dtype
    view = tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())
    rest: tuple[Any, ...] = tensor._requires_grad, OrderedDict()  # hooks are not saved
    if kind in STORAGE_OF_DTYPE:
        return _rebuild_tensor_v2, (typed(storage, kind), *view, *rest)
    return _rebuild_tensor_v3, (storage, *view, *rest, kind)


def reduce_tensor(tensor: Any) -> Any:
    """A tensor as PyTorch's __reduce_ex__ gives it, for any pickler."""
    state = get_state(tensor)
    if type(tensor) is Tensor and not state:
        return reduce_plain(tensor)
    function, args = reduce_plain(tensor)
    return _rebuild_from_type_v2, (function, type(tensor), args, state)


def reduce_parameter(tensor: Any) -> Any:
    """The same of a parameter."""
    state = get_state(tensor)
    parts: tuple[Any, ...] = tensor.data, tensor._requires_grad, OrderedDict()
    if not state:
        return _rebuild_parameter, parts
    return _rebuild_parameter_with_state, (*parts, state)


COMPUTING = (  # they take `charge`
    _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_sparse_tensor, _rebuild_nested_tensor,
    _rebuild_njt, _rebuild_qtensor,
)  # fmt: skip
FUNCTIONS = (
    _rebuild_tensor, _rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter,
    _rebuild_parameter_with_state, _rebuild_sparse_tensor, _rebuild_meta_tensor_no_storage,
    _rebuild_nested_tensor, _rebuild_njt, _rebuild_qtensor,
)  # fmt: skip
