"""Copies: clone, contiguous, `to` in all its forms, copy_, fill_."""

from __future__ import annotations

import math
import sys
from typing import Any, overload

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.meta import META, MetaArray, is_fake, mode_of, no_data
from tritorch.arrays.sparse import SparseArray
from tritorch.autograd.duals import has_tangent
from tritorch.autograd.graph import check_inplace
from tritorch.core import defaults, dtype as dtypes, late_bound, layout as layouts, resizing
from tritorch.core.device import PretendedDevice, device as Device, resolved
from tritorch.core.dispatching import asked, entered, noted, watching
from tritorch.core.dtype import dtype, dtype as Dtype
from tritorch.core.promotion import scalar_name
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor, attach
from tritorch.ops.interpret import vmap
from tritorch.ops.record.checks import (
    broadcast_shapes,
    convert_number,
    require_distinct_elements,
    require_storage,
    require_tensor,
    sizes,
    warn_of_half,
)
from tritorch.ops.record.elements import decide_put
from tritorch.ops.record.ends import ends_as
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.operator import Operator, ndarray
from tritorch.ops.record.outputs import cpp_name, require_separate
from tritorch.ops.record.publishing import public
from tritorch.ops.record.writing import in_place
from tritorch.ops.shape import factory

# ---- copies --------------------------------------------------------------------------------------


def _in_format(array: Any, format: Any) -> Any:
    if format is layouts.preserve_format:
        if type(array) is ndarray and arrays.is_usual(array):
            return arrays.contiguous_copy(array)
        strides = arrays.strides_of(array)
        dense = _C.copy_strides(array.shape, strides)
        if dense == layouts.contiguous_strides(array.shape):
            return arrays.contiguous_copy(array)
        return arrays.copy(array)
    if format is layouts.contiguous_format:
        return arrays.contiguous_copy(array)
    strides = layouts.format_strides(array.shape, format)
    out = arrays.empty_strided(
        array.shape, strides, arrays.dtype_of(array), arrays.device_of(array)
    )
    if type(out) is ndarray:
        arrays.put(out, array)
    else:
        out.copy_(array)
    return out


def _cloned(x: MetaArray, format: Any) -> MetaArray:
    if format is layouts.preserve_format:
        return x.new(x.shape, None, layouts.dense_strides_like(x.shape, x.strides))
    return x.new(x.shape, None, layouts.format_strides(x.shape, format))


_clone = Operator(
    "clone",
    "x",
    "format",
    schema="clone(x, memory_format=format)",
    cpu=arrays.by_steps(_in_format),
    gpu=_in_format,
    fuses="cast",
    grad=lambda g: g,
    rules=Rules(infer=_cloned, axes="...->...", batch="elementwise"),
)


@public()
def clone(input: Tensor, *, memory_format: Any = layouts.preserve_format) -> Tensor:
    """A copy; by default dense in the same order of dims."""
    if memory_format is None:
        memory_format = layouts.preserve_format
    return _clone.call((input,), (memory_format,))


def contiguous(self: Tensor, memory_format: Any = layouts.contiguous_format) -> Tensor:
    """The tensor itself if it is dense in the format's order, else a copy that is."""
    if memory_format is layouts.preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    if self.is_contiguous(memory_format):
        return self
    return clone(self, memory_format=memory_format)


attach(contiguous=contiguous)


def _turned(x: Any) -> list[int] | None:
    """The dims from the slowest to the fastest in memory, if they are not in order."""
    if arrays.is_contiguous(x):
        return None
    strides = layouts.dense_strides_like(x.shape, arrays.strides_of(x))
    order = sorted(range(len(strides)), key=lambda dim: (-strides[dim], dim))
    return None if order == sorted(order) else order


def _convert(x: Any, kind: dtype, device: Any, non_blocking: bool) -> Any:
    if device is not None or type(x) is not ndarray:  # memory that is written anew, in one order
        order = _turned(x)
        if order is not None:
            turned = x.transpose(order) if type(x) is ndarray else x.permute(order)
            made = _convert(turned, kind, device, non_blocking)
            back = [order.index(dim) for dim in range(len(order))]
            return made.transpose(back) if type(made) is ndarray else made.permute(back)
    out = x
    if device is not None:
        # The narrower of both dtypes travels.
        if arrays.dtype_of(x).itemsize > kind.itemsize:
            out = arrays.cast(out, kind)
        out = arrays.move(out, device, non_blocking)
    out = arrays.cast(out, kind)
    if out is not x and type(x) is ndarray is type(out) and arrays.is_usual(x):
        return out
    return arrays.copy(out) if out is x else arrays.lay_out_as_copy(out, x)


def _converted(x: MetaArray, kind: dtype, device: Any, non_blocking: bool) -> MetaArray:
    if device is not None and x.device == META != device:
        raise no_data()
    strides = layouts.dense_strides_like(x.shape, x.strides)
    where = x.device if device is None else device
    if is_fake(x) and where.backend != "meta":
        where = PretendedDevice(where, mode_of(x))
    return MetaArray(x.shape, kind, strides, where)


_to_copy = Operator(
    "to_copy",
    "x",
    "kind device non_blocking",
    schema="_to_copy(x, dtype=kind, device=device, non_blocking=non_blocking)",
    cpu=arrays.by_steps(_convert),
    gpu=_convert,
    fuses="cast",
    # A real number's gradient is the real part, of which nobody is warned.
    grad=lambda g, x_spec: (g.real if g.is_complex() and not x_spec.dtype.is_complex else g).to(
        device=x_spec.device, dtype=x_spec.dtype
    ),
    rules=Rules(infer=_converted, axes="...->...", batch="elementwise"),
)


def warn_of_discarding() -> None:
    """Complex numbers become real ones."""
    defaults.warn_once("Casting complex values to real discards the imaginary part", stacklevel=4)


def convert(
    x: Tensor, kind: dtype | None, device: Any, non_blocking: bool, copy: bool, format: Any
) -> Tensor:
    """x with another dtype, device or memory format; x itself when nothing changes."""
    own, here = x.dtype, x.device
    kind = own if kind is None else kind
    where = here if device is None else resolved(device)
    stays = where is here or where == here
    same_format = format is None or format is layouts.preserve_format or x.is_contiguous(format)
    if same_format and format in (layouts.channels_last, layouts.channels_last_3d):
        # Dims of one fit any format; PyTorch suggests the usual one of a tensor with such.
        same_format = (
            x.stride() == layouts.format_strides(x.shape, format) and math.prod(x.shape[1:]) > 1
        )
    if kind is own and stays and same_format and not copy:
        return x
    if own.is_complex and not kind.is_complex and kind is not dtypes.bool_:
        warn_of_discarding()
    if kind is dtypes.complex32:
        warn_of_half()
    if kind is own and stays:
        return ends_as("_to_copy", clone(x, memory_format=format or layouts.preserve_format))
    out = _to_copy.call((x,), (kind, None if stays else where, non_blocking))
    if not (kind.is_floating_point or kind.is_complex):
        out._raw_node = None
    if format is not None and format is not layouts.preserve_format:
        if out.stride() != layouts.format_strides(out.shape, format):
            out = clone(out, memory_format=format)
    return out


@overload
def to(
    self: Tensor, dtype: Dtype | None = None, non_blocking: bool = False, copy: bool = False, *,
    memory_format: layouts.memory_format | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def to(
    self: Tensor, device: Device | str | int | None = None, dtype: Dtype | None = None,
    non_blocking: bool = False, copy: bool = False, *,
    memory_format: layouts.memory_format | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def to(
    self: Tensor, other: Tensor, non_blocking: bool = False, copy: bool = False, *,
    memory_format: layouts.memory_format | None = None,
) -> Tensor: ...  # fmt: skip
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """to(dtype), to(device, dtype), to(other); with non_blocking, copy, memory_format."""
    kind = kwargs.pop("dtype", None)
    device = kwargs.pop("device", None)
    other = kwargs.pop("other", None)
    non_blocking = kwargs.pop("non_blocking", False)
    copy = kwargs.pop("copy", False)
    format = kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], (str, Device)) or type(rest[0]) is int):
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], dtype)):
            kind = rest.pop(0)
    elif rest and isinstance(rest[0], dtype):
        kind = rest.pop(0)
    elif rest:
        raise TypeError(
            f"to() received an invalid combination of arguments - got "
            f"({', '.join(type(arg).__name__ for arg in args)})"
        )
    if rest:
        non_blocking = rest.pop(0)
    if rest:
        copy = rest.pop(0)
    if other is not None:
        kind, device = other.dtype, other.device
    return convert(self, kind, device, non_blocking, copy, format)


attach(to=to)


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """With the dtype and device of another tensor."""
    return convert(self, other.dtype, other.device, False, False, None)


attach(type_as=type_as)


def _caster(kind: dtype) -> Any:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return convert(self, kind, None, False, False, memory_format)

    method.__doc__ = f"As {kind}."
    return method


for _name, _kind in (
    ("bool", dtypes.bool_), ("byte", dtypes.uint8), ("char", dtypes.int8), ("short", dtypes.int16),
    ("int", dtypes.int32), ("long", dtypes.int64), ("half", dtypes.float16),
    ("chalf", dtypes.complex32),
    ("bfloat16", dtypes.bfloat16), ("float", dtypes.float32), ("double", dtypes.float64),
    ("cfloat", dtypes.complex64), ("cdouble", dtypes.complex128),
):  # fmt: skip
    setattr(Tensor, _name, _caster(_kind))


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """In host memory."""
    return convert(self, None, arrays.CPU, False, False, memory_format)


def cuda(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Tensor:
    """On a GPU, by default the current one."""
    if device is None:
        device = Device("cuda")
    elif type(device) is int:
        device = Device("cuda", device)
    where = resolved(device)
    if where.type != "cuda":
        raise RuntimeError(f"Invalid device, must be cuda device: {where}")
    return convert(self, None, where, non_blocking, False, memory_format)


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in page-locked memory (itself if it is there)."""
    if not self.is_cpu:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    if self.is_pinned():
        return self
    if not _C.device_count():
        error = RuntimeError("Cannot access accelerator device when none is available.")
        error.add_note(_C.why_unavailable())
        raise error
    from tritorch.gpu.arrays import empty_pinned

    array = empty_pinned(tuple(self.shape), self.dtype)
    array[...] = self._array
    return _C.wrap(array)


attach(cpu=cpu)
attach(cuda=cuda)
attach(pin_memory=pin_memory)

# ---- writing -------------------------------------------------------------------------------------


def zeros_of(g: Tensor) -> Tensor:
    """The gradient of what was overwritten: zeros, so that its leaves have gradients, as in
    PyTorch."""
    return g.new_zeros(g.shape)


_copy = Operator(
    "copy",
    "self src",
    schema="copy_(self, src)",
    kind="in_place",
    fuses="write",
    grad=Gradient((zeros_of, lambda g: g), node="torch::autograd::CopyBackwards"),
    rules=Rules(axes="...,=->..."),
)


def write_array(target: Any, value: Any, non_blocking: bool = False) -> None:
    """target[...] = value: any dtypes, any devices, broadcasting."""
    if type(target) is BatchedArray:
        vmap.write(target, value)
    elif type(target) is ndarray:
        if type(value) is not ndarray:
            value = _dense_source(target, value).numpy()
        if target.dtype is not value.dtype:
            value = arrays.cast(value, arrays.dtype_of(target))
        arrays.put(target, value)
    elif type(target) is SparseArray and type(value) is SparseArray:
        target.copy_(value)
    else:
        value = _dense_source(target, value)
        if type(value) is ndarray and value.dtype != target.dtype.numpy:
            value = arrays.cast(value, target.dtype)
        target.copy_(value, non_blocking)


late_bound.write_array = write_array


def _dense_source(target: Any, value: Any) -> Any:
    if SparseArray in (type(target), type(value)):
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{_C.wrap(target).type()} and src type = {_C.wrap(value).type()}"
        )
    return value


# put(target, source): writes a plain tensor or a number into a plain tensor where nothing is
# recorded; whether that was so.
put = _C.ElementPlans(_copy, decide_put).write


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Writes another tensor's elements, broadcasting and converting."""
    if isinstance(src, Tensor) and put(self, src):
        return self
    if isinstance(src, (bool, int, float, complex)):
        return self.fill_(src)
    require_tensor(src, "copy_", "other", 1)
    if broadcast_shapes(self.shape, src.shape) != tuple(self.shape):
        raise RuntimeError(
            f"output with shape {list(self.shape)} doesn't match the broadcast shape "
            f"{list(broadcast_shapes(self.shape, src.shape))}"
        )
    if src.is_complex() and not self.is_complex() and self.dtype is not dtypes.bool_:
        warn_of_discarding()
    write = lambda: None if src is self else write_array(self._array, src._array, non_blocking)
    if src is not self:
        require_distinct_elements(self)
        require_separate(self, (src,))
    return in_place(_copy, self, (), (self, src), write)


attach(copy_=copy_)


def written(op: Operator, self: Tensor, params: tuple[Any, ...], *others: Any) -> Tensor:
    """A record in place, whose gradient needs the result instead of its first input."""
    from tritorch.ops.interpret import forward_mode

    inputs = (self, *others)
    check_inplace(*inputs)
    require_distinct_elements(self)
    if has_tangent(inputs):
        return forward_mode.replace(self, op.call(inputs, params))
    if asked(*inputs):
        return in_place(op, self, params, inputs, lambda: None)
    result = op.call((self.detach(), *others), params)
    write = lambda: write_array(self._array, result._array)
    if watching and entered.note is not None:  # of what was computed: that is noted already
        again = lambda: in_place(op, self, params, inputs, write)
        return noted("in place", _copy, (self, result), (), again)
    return in_place(op, self, params, inputs, write)


_fill = Operator(
    "fill",
    "self value",
    schema="fill_.Tensor(self, value)",
    kind="in_place",
    grad=Gradient(
        (zeros_of, lambda g: g.sum()),
        node="fill_.{'Tensor' if hasattr(value, 'shape') else 'Scalar'}",
    ),
    rules=Rules(axes="...,=->..."),
)


@public(method=False)
def fill_(self: Tensor, value: Any) -> Tensor:
    """Sets every element to a number."""
    if type(value) in (int, float) and put(self, value):
        return self
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
                f"dimensions."
            )
        number = value.item()
    else:
        number = convert_number(value, self.dtype)

    def write() -> None:
        array = self._array
        while type(array) is BatchedArray:
            array = array.array
        number_ = arrays.cast_number(number, self.dtype)
        if type(array) is SparseArray:
            self._a = array.filled(number_)
        else:
            arrays.fill(array, number_)

    return in_place(_fill, self, (), (self, value), write)


def zero_(self: Tensor) -> Tensor:
    """Sets every element to 0."""
    if put(self, 0):
        return self
    return ends_as("zero_", fill_(self, 0)) if self._base is None else fill_(self, 0)


attach(fill_=fill_)
attach(zero_=zero_)
PUBLIC["zero_"] = zero_


@public(method=False)
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of the same shape and dtype, of one number."""
    return fill_(clone(input), value)


_plain_offset = Tensor.storage_offset  # before it is published


def resize_(self: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Another shape; the memory grows when it must, and keeps its elements."""
    shape = sizes(size)
    if self._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    check_inplace(self)
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"Trying to resize tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    if math.prod(shape) >= 1 << 63:
        raise RuntimeError("numel: integer multiplication overflow")
    require_storage(shape)
    array = self._array
    if tuple(array.shape) == shape:
        return self
    count = math.prod(shape)
    shared = self._shared
    alone = sys.getrefcount(shared) <= 3  # the tensor's, this one, and the call's
    storage, offset = self.untyped_storage(), _plain_offset(self)
    needed = (offset + count) * self.itemsize
    if needed > storage.nbytes() and shared.fixed:
        raise RuntimeError("Trying to resize storage that is not resizable")
    if needed > storage.nbytes() > 0 and not alone:
        resizing.resize(storage, needed)  # with all tensors on it
    if needed > storage.nbytes():
        grown = arrays.empty((offset + count,), self.dtype, self.device)
        have = storage.nbytes() // self.itemsize
        if have:
            write_array(grown[:have], storage._elements(self.dtype))
        root = grown
        new = root[offset:]
        if defaults.fills_memory and have < offset + count:
            arrays.fill_unwritten(root[have:], self.dtype)
        shared = _C.wrap(root)._shared
        shared.version = self._shared.version
        self._shared = shared
        self._a = new.reshape(shape)
    else:
        strides = layouts.contiguous_strides(shape)
        root = storage._elements(self.dtype)
        self._a = arrays.strided(root, shape, strides, offset)
    return self


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """resize_ to another tensor's shape."""
    return resize_(self, the_template.shape)


attach(resize_=resize_)
attach(resize_as_=resize_as_)
PUBLIC["resize_as_"] = resize_as_


def get_data(self: Tensor) -> Tensor:
    """`self.data`: the same memory, without history and with a version counter of its own."""
    if type(self) is not Tensor and asked(self):
        out = self.detach()
        if type(out._array) is not MetaArray:
            return out
    else:
        out = _C.alias(self)
    shared, apart = self._shared, _C.wrap(out._array)._shared
    apart.array = out._array if shared.array is None else shared.array
    apart.storage, apart.fixed = shared.storage, shared.fixed
    out._shared = apart
    return out


def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replaces each element by what a Python function makes of it (slow; on the CPU)."""
    return map_(self, self, lambda x, _: callable(x))


def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """self[i] = callable(self[i], tensor[i]), broadcasting (slow; on the CPU)."""
    if self.is_cuda or self._requires_grad:
        raise TypeError("apply_ and map_ are for CPU tensors that do not require grad")
    other = tensor.expand(self.shape)
    values = [callable(x, y) for x, y in zip(self.flatten().tolist(), other.flatten().tolist())]
    return copy_(self, factory.tensor(values, dtype=self.dtype).reshape(self.shape))


attach(apply_=apply_, map_=map_)


def set_data(self: Tensor, value: Tensor) -> None:
    """`self.data = value`: other memory, same place in the graph."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    if value.layout is not self.layout:
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
            "incompatible tensor type."
        )
    if self._requires_grad and not (value.is_floating_point() or value.is_complex()):
        raise RuntimeError(
            "data set to a tensor that requires gradients must be floating point or complex dtype"
        )
    self._a = value._array
    self._shared = value._shared
    if value._frozen or value.is_inference():
        self._inference = True


def _refuse_deleting(self: Tensor) -> None:
    raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")


attach(data=property(get_data, set_data, _refuse_deleting))


def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Makes this tensor a view of another tensor's or storage's memory."""
    if type(self) is not Tensor and asked(self) and isinstance(source, Tensor) and size is None:
        from tritorch.ops.interpret import dispatch

        dispatch.plainly("set_.source_Tensor", self, source)
        return self
    check_inplace(self)
    _C.bump_version(self)
    if source is None:
        array = self._array
        if type(array) is np.ndarray:  # NumPy's own arrays have memory though they are empty
            empty = np.ndarray((0,), array.dtype, bytearray())
        else:
            empty = arrays.empty((0,), self.dtype, self.device)
        return _put_on(self, _C.wrap(empty))
    if isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
            )
        view = source if size is None else source.as_strided(size, stride, storage_offset)
    else:
        storage = getattr(source, "_untyped_storage", source)
        if storage is not source and source.dtype is not self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {cpp_name(self.dtype)} or an UntypedStorage, but "
                f"got type {scalar_name(source.dtype)} for argument 1 'storage'"
            )
        if size is None:
            size, stride = (storage.nbytes() // self.itemsize,), (1,)
        given = list(stride or ())
        if stride is None:
            stride = layouts.contiguous_strides(size)
        if math.prod(size):  # as in PyTorch, a storage that is too short grows
            last = storage_offset + sum((n - 1) * s for n, s in zip(size, stride))
            if (last + 1) * self.itemsize > storage.nbytes() and tuple(size) == tuple(self.shape):
                raise RuntimeError(
                    f"setStorage: sizes {list(size)}, strides {given}, storage offset "
                    f"{storage_offset}, and itemsize {self.itemsize} requiring a storage size of "
                    f"{(last + 1) * self.itemsize} are out of bounds for storage of size "
                    f"{storage.nbytes()}"
                )
            if (last + 1) * self.itemsize > storage.nbytes():
                storage.resize_((last + 1) * self.itemsize)
        view = storage._view(self.dtype, tuple(size), tuple(stride), storage_offset)
    return _put_on(self, view)


def _put_on(self: Tensor, view: Tensor) -> Tensor:
    """Gives a tensor another's memory; it goes on counting its own versions."""
    apart, version = get_data(view)._shared, self._shared.version
    apart.version = version
    self._a, self._shared = view._array, apart
    return self


attach(set_=set_)

# Questions about a tensor that are functions too.
for _name in (
    "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg",
    "is_nonzero", "is_same_size", "is_signed", "numel",
):  # fmt: skip
    PUBLIC.setdefault(_name, getattr(Tensor, _name))
