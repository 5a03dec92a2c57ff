"""Factories: tensors from data, and constants; the `new_*` and `*_like` forms."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.batched import BatchedArray
from tritorch.arrays.nested import NestedArray
from tritorch.arrays.sparse import SparseArray
from tritorch.arrays.symbolic import expect
from tritorch.core import defaults, layout as layouts
from tritorch.core.arguments import Number, type_name
from tritorch.core.device import device as Device, pretending, resolved
from tritorch.core.dispatching import asked, entered, noted, watching
from tritorch.core.dtype import (
    as_dtype,
    bool_,
    complex32,
    dtype,
    float16,
    float32,
    float64,
    from_numpy_dtype,
    int64,
)
from tritorch.core.info import iinfo
from tritorch.core.promotion import (
    category,
    not_implemented,
    number_dtype,
    promote_types,
    result_type,
    scalar_name,
)
from tritorch.core.published import PUBLIC, autocast
from tritorch.core.size import Size
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import (
    Tensor,
    from_numpy,
    require_plain,
    require_strides,
    seen_by_numpy,
)
from tritorch.core.typed_storage import TypedStorage
from tritorch.ops.interpret import vmap
from tritorch.ops.interpret.sparse.build import empty as empty_sparse
from tritorch.ops.record.checks import (
    TOO_MANY,
    broadcast_shapes,
    convert_number,
    one_of,
    require_known,
    require_options,
    require_out,
    require_storage,
    sizes,
    warn_of_half,
)
from tritorch.ops.record.ends import ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.maker import Constant, Maker
from tritorch.ops.record.operator import Operator
from tritorch.ops.record.outputs import exact_out
from tritorch.ops.record.publishing import public, write_out
from tritorch.ops.shape.shape import broadcast_tensors

PUBLIC["from_numpy"] = from_numpy

# ---- where and what ------------------------------------------------------------------------------


def place(device: Any) -> Device:
    """The device that an argument names; the default one for None."""
    where = defaults.device() if device is None else device
    if type(where) is str and where == "cpu" and not pretending:
        return arrays.CPU
    if type(where) is Device and where.index is None and where.type == "cpu" and not pretending:
        return where
    return resolved(where)


def _check_shape(shape: Sequence[int], name: str = "") -> tuple[int, ...]:
    for size in shape:
        if size < 0 if type(size) is int else not expect(size >= 0):
            if name == "zeros":
                raise RuntimeError("zeros: Dimension size must be non-negative.")
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {size}: {list(shape)}"
            )
    count = math.prod(shape)
    if type(count) is int and (count >= TOO_MANY or not count):
        require_storage(shape)
    return tuple(shape)


def _finish(
    tensor: Tensor, requires_grad: bool, out: Any = None, pin_memory: bool = False
) -> Tensor:
    if pin_memory:
        if not _C.device_count():
            error = RuntimeError(
                "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory "
                "allocator is available on this system."
            )
            error.add_note(_C.why_unavailable())
            raise error
        tensor = tensor.pin_memory()
    if out is not None:
        return write_out(tensor.to(out.device), out)
    return as_leaf(tensor) if requires_grad else tensor


def as_leaf(tensor: Tensor) -> Tensor:
    """The new tensor, which wants gradients."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return tensor.requires_grad_(True)


_empty = Maker("empty", "size kind device", arrays.empty,
               schema="empty.memory_format(size, dtype=kind, device=device)")  # fmt: skip
_empty_strided = Maker("empty_strided", "size stride kind device", arrays.empty_strided,
                       schema="empty_strided(size, stride, dtype=kind, device=device)")  # fmt: skip
_zeros = Maker("zeros", "size kind device", arrays.zeros,
               schema="zeros(size, dtype=kind, device=device)", fuses="fill 0",
               filled_by="zero_")  # fmt: skip
_ones = Maker("ones", "size kind device",
              lambda size, kind, device: arrays.full(size, 1, kind, device),
              schema="ones(size, dtype=kind, device=device)", fuses="fill 1",
              filled_by="fill_ 1")  # fmt: skip
_full = Maker("full", "size value kind device", arrays.full,
              schema="full(size, value, dtype=kind, device=device)", fuses="fill",
              filled_by="fill_ $1")  # fmt: skip


def _is_zero(number: Any) -> bool:
    """True if a number in memory is zero bytes alone: -0.0 has a sign, and False is no number."""
    if type(number) is int:
        return number == 0
    if number != 0 or number is False:
        return False
    return all(math.copysign(1, part) > 0 for part in (number.real, number.imag))


def _make(
    shape: Sequence[int],
    value: Any,
    kind: dtype | None,
    device: Any,
    requires_grad: bool,
    out: Any,
    layout: Any = None,
    pin_memory: bool = False,
    format: Any = None,
) -> Tensor:
    shape = _check_shape(shape)
    if layout not in (None, layouts.strided):
        return _make_sparse(shape, value, kind, device, requires_grad, layout)
    if kind is None:
        kind = out.dtype if out is not None else defaults.dtype()
    where = place(out.device if out is not None and device is None else device)
    if format is not None and format not in (layouts.contiguous_format, layouts.preserve_format):
        made = _empty_strided(shape, layouts.format_strides(shape, format), kind, where)
    elif type(value) is Maker:
        made = value(shape, kind, where)
        if defaults.fills_memory and value is _empty:
            arrays.fill_unwritten(made._array, made.dtype)
    elif _is_zero(value) and not watching:
        made = _zeros(shape, kind, where)
    else:
        made = _full(shape, value, kind, where)
    return _finish(made, requires_grad, out, pin_memory)


def _make_sparse(
    shape: Sequence[int], value: Any, kind: dtype | None, device: Any, requires_grad: bool,
    layout: Any,
) -> Tensor:  # fmt: skip
    if value is not _empty and value is not _zeros and value:
        raise RuntimeError("full(...) is not implemented for sparse layout")
    return empty_sparse(shape, layout, kind, place(device), requires_grad)


def _constant(name: str, value: Maker) -> Any:
    def function(
        *size: Any,
        out: Tensor | None = None,
        dtype: dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = None,
        **named: Any,
    ) -> Tensor:
        shape = sizes(one_of(name, size, named, "size") if named or not size else size, name)
        shape = _check_shape(shape, name)
        if (
            out is dtype is layout is memory_format is None
            and requires_grad is False is pin_memory
            and not defaults.fills_memory
        ):
            return value(shape, defaults.dtype(), place(device))
        if dtype is not None:
            dtype = as_dtype(dtype)
        require_options(name, dtype, layout, requires_grad, pin_memory, memory_format)
        if memory_format is not None and value is not _empty:
            raise TypeError(f"{name}() got an unexpected keyword argument 'memory_format'")
        if memory_format is layouts.preserve_format:
            raise RuntimeError("unsupported memory format Preserve")
        if out is not None:
            require_out(name, out, dtype, layout, device)
            if memory_format is not None:
                raise RuntimeError(
                    "'memory_format' argument is incompatible with 'out' tensor argument"
                )
        return _make(
            shape, value, dtype, device, requires_grad, out, layout, pin_memory, memory_format
        )

    function.__name__ = name
    function.__doc__ = f"A tensor of the given size ({name})."
    PUBLIC[name] = function
    return function


empty = _constant("empty", _empty)
zeros = _constant("zeros", _zeros)
ones = _constant("ones", _ones)


@public(method=False)
def full(
    size: Sequence[int],
    fill_value: Number,
    *,
    out: Tensor | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of one number."""
    require_options("full", dtype, layout, requires_grad, pin_memory)
    if hasattr(size, "__index__") and not isinstance(size, Tensor):
        raise TypeError(
            f"full(): argument 'size' (position 1) must be tuple of ints, not {type_name(size)}"
        )
    if out is not None:
        require_out("full", out, dtype, layout, device)
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    kind = dtype
    if kind is None and out is None:
        kind = number_dtype(fill_value)
    shape = sizes((size,))
    if kind is not None:
        fill_value = convert_number(fill_value, kind)
    return _make(shape, fill_value, kind, device, requires_grad, out, layout, pin_memory)


def _dense(shape: tuple[int, ...], number: Any, kind: dtype, where: Device) -> Any:
    """An array of a number; None: of anything."""
    if number is None:
        return arrays.empty(shape, kind, where)
    if _is_zero(number):
        return arrays.zeros(shape, kind, where)
    return arrays.full(shape, number, kind, where)


def _array_like(array: Any, number: Any, kind: dtype, where: Device, format: Any) -> Any:
    shape = tuple(array.shape)
    if where is arrays.CPU and format is layouts.preserve_format and type(array) is np.ndarray:
        if arrays.is_usual(array):
            return _dense(shape, number, kind, where)
    if format is layouts.preserve_format:
        strides = layouts.dense_strides_like(shape, arrays.strides_of(array))
    else:
        strides = layouts.format_strides(shape, format)
    if strides == layouts.contiguous_strides(shape) and number is not None:
        return _dense(shape, number, kind, where)
    made = arrays.empty_strided(shape, strides, kind, where)
    if number is not None:
        number = arrays.cast_number(number, kind)
        arrays.fill(made, number)
    return made


def _like_record(name: str, number: Any) -> Operator:
    """A form's record: what classes that dispatch and modes see of it."""
    options = "dtype=kind, device=device, memory_format=format"
    fuses = "" if number is None else f"fill {number}"
    if name == "full_like":
        make: Any = _array_like
        params, schema = "value kind device format", f"full_like(x, value, {options})"
        fuses = "fill"
    else:
        make = lambda x, kind, device, format: _array_like(x, number, kind, device, format)
        params, schema = "kind device format", f"{name}(x, {options})"
    return Operator(
        name, "x", params,
        schema=schema, kind="factory", cpu=make, gpu=make, fuses=fuses,
        rules=Rules(infer=make, axes="...->..."),
    )  # fmt: skip


_LIKE: dict[str, Operator] = {}


def _like(name: str, make: Any, with_value: bool = False) -> None:
    _LIKE[name] = _like_record(name, make)

    def function(
        input: Tensor,
        *value: Any,
        dtype: dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = layouts.preserve_format,
        **named: Any,
    ) -> Tensor:
        given = None if memory_format is layouts.preserve_format else memory_format
        require_options(name, dtype, layout, requires_grad, pin_memory, given)
        if memory_format is None:
            memory_format = layouts.preserve_format
        if with_value:
            number = one_of(name, value, named, "fill_value")[0]
            number = number.item() if isinstance(number, Tensor) else number
        else:
            if named:
                require_known(name, named)
            number = make
        kind = input.dtype if dtype is None else dtype
        if with_value:
            number = convert_number(number, kind)
        where = input.device if device is None else place(device)
        array = input._array
        shape = tuple(array.shape)
        if type(array) is NestedArray:
            from tritorch.ops.interpret.nested.common import like

            return like(
                function, input, *value, dtype=dtype, device=device, requires_grad=requires_grad,
                pin_memory=pin_memory, memory_format=memory_format, **named,
            )  # fmt: skip
        if type(array) is SparseArray or layout not in (None, layouts.strided):
            from tritorch.ops.interpret.sparse.like import make_like

            return make_like(input, number, kind, where, layout, requires_grad)
        if type(array) is BatchedArray:
            constant = _empty if number is None else number
            made = _make(shape, constant, kind, where, requires_grad, None, None, pin_memory)
            return vmap.new_like(input, made)
        options: Any = (kind, where, memory_format)
        given = (number, *options) if with_value else options
        if (watching or type(input) is not Tensor) and asked(input):
            made = _LIKE[name].call((input,), given)
        elif watching and entered.note is not None:
            run = lambda: _C.wrap(_array_like(array, number, *options))
            made = noted("call", _LIKE[name], (input,), given, run)
        else:
            made = _C.wrap(_array_like(array, number, kind, where, memory_format))
        if defaults.fills_memory and number is None:
            arrays.fill_unwritten(made._array, made.dtype)
        return _finish(made, requires_grad, None, pin_memory)

    function.__name__ = name
    function.__doc__ = f"{name[:-5]}, of another tensor's shape, dtype and device."
    PUBLIC[name] = function


_like("empty_like", None)
_like("zeros_like", 0)
_like("ones_like", 1)
_like("full_like", None, with_value=True)


def _new(name: str, value: Maker) -> None:
    def method(
        self: Tensor,
        *size: Any,
        dtype: dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
        **named: Any,
    ) -> Tensor:
        shape = sizes(one_of(name, size, named, "size"))
        require_options(name, dtype, layout, requires_grad, pin_memory)
        kind = self.dtype if dtype is None else dtype
        where = self.device if device is None else device
        if (watching or type(self) is not Tensor) and asked(self):
            from tritorch.ops.interpret import dispatch

            made = dispatch.plainly(name, self, shape, dtype=kind, device=where)
            return _finish(made, requires_grad, None, pin_memory)
        layout = self.layout if layout is None and type(self._array) is SparseArray else layout
        made = _make(shape, value, kind, where, requires_grad, None, layout, pin_memory)
        if type(self._array) is BatchedArray:
            return vmap.new_like(self, made)
        return made

    method.__name__ = name
    method.__doc__ = f"{name[4:]}, of this tensor's dtype and device."
    setattr(Tensor, name, method)


_new("new_empty", _empty)
_new("new_zeros", _zeros)
_new("new_ones", _ones)


def new_full(
    self: Tensor,
    size: Any,
    fill_value: Number,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """full, of this tensor's dtype and device."""
    require_options("new_full", dtype, layout, requires_grad, pin_memory)
    kind = self.dtype if dtype is None else dtype
    where = self.device if device is None else device
    if type(fill_value) is int and kind.is_floating_point:
        fill_value = float(fill_value)  # by which a traced `full` infers its dtype
    return full(
        size, fill_value, dtype=kind, device=where, requires_grad=requires_grad,
        pin_memory=pin_memory,
    )  # fmt: skip


def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """tensor(data), of this tensor's dtype and device."""
    require_options("new_tensor", dtype, None, requires_grad, None)
    kind = self.dtype if dtype is None else dtype
    where = self.device if device is None else device
    return tensor(data, dtype=kind, device=where, requires_grad=requires_grad)


def new_empty_strided(
    self: Tensor, size: Any, stride: Any, *, dtype: dtype | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """empty_strided, of this tensor's dtype and device."""
    return empty_strided(
        size, stride, dtype=dtype or self.dtype, device=device or self.device,
        requires_grad=requires_grad,
    )  # fmt: skip


def new(self: Tensor, *args: Any, device: Any = None, **named: Any) -> Tensor:
    """The legacy constructor, of this tensor's dtype and device."""
    if named:  # the sizes by name
        args = (Size(sizes(one_of("new", args, named, "size"))),)
    return legacy_new(
        Tensor, self.dtype, args, {"device": device or self.device}, True, self.device.type
    )


for _method in (new_full, new_tensor, new_empty_strided, new):
    setattr(Tensor, _method.__name__, _method)


@public(method=False)
def empty_strided(
    size: Any, stride: Any, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialised tensor with given strides."""
    require_options("empty_strided", dtype, layout, requires_grad, pin_memory)
    kind = dtype or defaults.dtype()
    shape = sizes((size,))
    if len(shape) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(stride)})"
        )
    if any(type(step) is int and step < 0 for step in stride):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and "
            f"strides={list(stride)}"
        )
    if all(size >= 0 if type(size) is int else expect(size >= 0) for size in shape):
        require_storage(shape, stride)
    made = _empty_strided(_check_shape(shape), tuple(stride), kind, place(device))
    if defaults.fills_memory:
        arrays.fill_unwritten(made._array, made.dtype)
    return _finish(made, requires_grad, None, pin_memory)


@public(method=False)
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """An uninitialised tensor, dense in a given order of dims."""
    shape, order = sizes((size,)), tuple(int(dim) for dim in physical_layout)
    if len(order) != len(shape):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    if any(not 0 <= dim < len(shape) for dim in order):
        raise RuntimeError(f"Dimension out of range: {list(order)}")
    if len(set(order)) != len(shape):
        raise RuntimeError("Duplicate dim not allowed")
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return empty_strided(shape, strides, dtype=dtype, device=device, requires_grad=requires_grad)


# ---- from data -----------------------------------------------------------------------------------


def _is_plain_data(data: Any) -> bool:
    """Whether data are Python's numbers alone, in lists and tuples."""
    if isinstance(data, (list, tuple)):
        return all(map(_is_plain_data, data))
    return type(data) in (int, float, bool, complex)


def _frozen(data: Any) -> Any:
    """Data that nobody changes."""
    return tuple(map(_frozen, data)) if isinstance(data, (list, tuple)) else data


_given = Constant(
    "tensor", "data kind", lambda data, kind: data_to_array(data, kind),
    schema="(Scalar[] data, ScalarType kind, Device device) -> Tensor",
)  # fmt: skip


def _has_tensors(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, Tensor)


def _of_items(data: Any, kind: dtype | None) -> np.ndarray[Any, Any]:
    """Nested sequences with tensors of one element among the numbers."""
    _check_ragged(data)
    leaves = [*_leaves(data)]
    if wrong := [x for x in leaves if isinstance(x, str)]:
        raise TypeError(f"new(): invalid data type '{type(wrong[0]).__name__}'")
    if kind is None:
        kinds = [x.dtype if isinstance(x, Tensor) else number_dtype(x) for x in leaves]
        kind = functools.reduce(promote_types, kinds)
    convert: Any = complex if kind.is_complex else float if category(kind) > 1 else operator.index
    return data_to_array(_replaced(data, convert), kind)


def _leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, (list, tuple)):
        for item in data:
            yield from _leaves(item)
    else:
        yield data


def _replaced(data: Any, convert: Any) -> Any:
    """Nested sequences with numbers for the tensors."""
    if isinstance(data, Tensor):
        return convert(data)
    return [_replaced(x, convert) for x in data] if isinstance(data, (list, tuple)) else data


def _check_ragged(data: Any, dim: int = 0) -> None:
    if not isinstance(data, (list, tuple)) or not data:
        return
    is_sequence = isinstance(data[0], (list, tuple, np.ndarray))
    for item in data:
        if isinstance(item, (list, tuple, np.ndarray)) != is_sequence:
            raise TypeError(f"must be real number, not {type(item).__name__}")
        if is_sequence and len(item) != len(data[0]):
            raise ValueError(
                f"expected sequence of length {len(data[0])} at dim {dim + 1} (got {len(item)})"
            )
    for item in data:
        _check_ragged(item, dim + 1)


def data_to_array(data: Any, kind: dtype | None) -> np.ndarray[Any, Any]:
    """Nested sequences, numbers, ndarrays as a new ndarray of a dtype (inferred for None)."""
    if isinstance(data, (np.ndarray, np.generic)):
        if isinstance(data, np.ndarray):
            require_strides(data)
        array = np.array(data)
        found = from_numpy_dtype(array.dtype)
        return arrays.cast(array, kind or found)
    if hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        array = np.array(data)
        return arrays.cast(array, kind or from_numpy_dtype(array.dtype))
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], np.ndarray):
        defaults.warn_once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider "
            "converting the list to a single numpy.ndarray with numpy.array() before converting to "
            "a tensor.",
            stacklevel=4,
        )
    _require_depth(data)
    if _has_tensors(data):
        return _of_items(data, kind)
    before = seen_by_numpy[0]
    try:
        with np.errstate(all="ignore"):
            array = np.array(data)
    except (ValueError, OverflowError, TypeError, RuntimeError) as error:
        if seen_by_numpy[0] != before and any(isinstance(x, Tensor) for x in _leaves(data)):
            return _of_items(data, kind)
        _check_ragged(data)
        raise type(error)(str(error)) from None
    if seen_by_numpy[0] != before and any(isinstance(x, Tensor) for x in _leaves(data)):
        return _of_items(data, kind)
    if array.dtype == object:
        _check_ragged(data)
        flat = array.reshape(-1)
        culprits = [item for item in flat if not isinstance(item, (int, float, complex))]
        if culprits:
            raise RuntimeError(f"Could not infer dtype of {type(culprits[0]).__name__}")
        if all(isinstance(item, int) for item in flat) and (kind is None or category(kind) < 2):
            raise ValueError("Overflow when unpacking long long")
        array = array.astype(np.complex128 if kind is not None and kind.is_complex else np.float64)
    if array.dtype.kind == "f" and (kind is None or category(kind) < 2) and _too_large(array, data):
        raise ValueError("Overflow when unpacking long long")
    if array.dtype.kind in "USO":
        item = data
        while isinstance(item, (list, tuple)):
            item = next((x for x in item if isinstance(x, (str, list, tuple))), item[0])
        if array.dtype.kind in "US":
            raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
        raise RuntimeError(f"Could not infer dtype of {type(item).__name__}")
    if kind is None:
        kind = _inferred(data, array)
    unsigned = array.dtype.kind == "f" and category(kind) == 1 and not kind.is_signed
    if unsigned and array.size and array.min() < 0:
        # Negative integers wrap, also among floats; negative floats do not.
        if all(type(v) is int or (type(v) is float and v >= 0) for v in _flat(data)):
            array = array.astype(np.int64)
    _check_numbers(array, kind)
    return arrays.cast(array, kind)


def _require_depth(data: Any) -> None:
    """Raises an error for lists within lists without an end."""
    depth = 0
    while isinstance(data, (list, tuple)) and data:
        data, depth = data[0], depth + 1
        if depth > 128:
            raise ValueError(f"too many dimensions '{type(data).__name__}'")


def _flat(data: Any) -> list[Any]:
    items = [data]
    while items and isinstance(items[0], (list, tuple)):
        items = [item for part in items for item in part]
    return items


def _too_large(array: np.ndarray[Any, Any], data: Any) -> bool:
    """Whether NumPy has made floats of integers, having no type for them all."""
    if not array.size or not np.abs(array).max() >= 2.0**63:
        return False
    return all(type(item) is int for item in _flat(data))


def _check_numbers(array: np.ndarray[Any, Any], kind: dtype) -> None:
    """Whether an integer type holds numbers, and a real one complex ones."""
    given = array.dtype.kind
    if given == "c" and not kind.is_complex and kind is not bool_:
        raise TypeError(
            "must be real number, not complex"
            if kind.is_floating_point
            else "'complex' object cannot be interpreted as an integer"
        )
    if category(kind) != 1 or given not in "iuf" or not array.size or kind.numpy == array.dtype:
        return
    low, high = array.min(), array.max()
    limits = iinfo(kind)
    if given == "u" and kind is int64 and high > limits.max:
        raise ValueError("Overflow when unpacking long long")
    least = -limits.max if given == "i" and not kind.is_signed else limits.min
    if not (least <= low and high <= limits.max):
        raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")


def _inferred(data: Any, array: np.ndarray[Any, Any]) -> dtype:
    if array.size == 0 and array.dtype == np.float64:
        return defaults.dtype()
    first = data
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    if isinstance(first, (np.generic, np.ndarray)):
        return from_numpy_dtype(array.dtype)
    if array.dtype.kind == "f":
        return defaults.dtype()
    if array.dtype.kind == "c":
        kind = defaults.dtype().to_complex()
        if kind is complex32:
            warn_of_half()
        if defaults.dtype() not in (float16, float32, float64):
            raise RuntimeError("invalid default scalar type for complex")
        return kind
    return bool_ if array.dtype.kind == "b" else int64


def _on_storage(
    kind: dtype | None, storage: Any, given: str = "type {} for argument 1 'storage'"
) -> Tensor:
    """A tensor on all of a storage, whose bytes are taken as elements of this type.

    None: of the storage's own, and where it has none, of integers.  given: how an error says what
    a typed storage has."""
    kind = getattr(storage, "dtype", int64) if kind is None else kind
    untyped = storage
    if isinstance(storage, TypedStorage):
        if storage.dtype is not kind:
            raise RuntimeError(
                f"Expected a Storage of type {scalar_name(kind)} or an UntypedStorage, but got "
                + (given or "{}").format(scalar_name(storage.dtype))
            )
        untyped = storage._untyped_storage
    count, rest = divmod(untyped.nbytes(), kind.itemsize)
    return (untyped[:-rest] if rest else untyped)._view(kind, (count,), (1,), 0)


@public(method=False)
def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor of nested sequences, numbers, an ndarray or a tensor."""
    require_options("tensor", dtype, None, requires_grad, pin_memory)
    if isinstance(data, Tensor):
        defaults.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
            "rather than tritorch.tensor(sourceTensor).", stacklevel=2,
        )  # fmt: skip
        out = data.detach().clone()
        out = out.to(device=data.device if device is None else device, dtype=dtype or data.dtype)
    else:
        if isinstance(data, (UntypedStorage, TypedStorage)):
            if dtype is None and isinstance(data, TypedStorage):
                dtype = defaults.dtype()
            data = _on_storage(dtype, data, "")
            return data.to(device=device, copy=True).requires_grad_(requires_grad)
        array = data_to_array(data, dtype)
        where = place(device)
        if watching and entered.note is not None and _is_plain_data(data):
            out = _given(_frozen(data), from_numpy_dtype(array.dtype), where)
        else:
            out = _C.wrap(array if where.backend == "cpu" else arrays.move(array, where))
    if pin_memory:
        out = out.pin_memory()
    return as_leaf(out) if requires_grad else out


@public(method=False)
def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """The data as a tensor, without a copy where that can be."""
    require_options("as_tensor", dtype, None, None, None)
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
        if device is None and defaults.device().type != "cpu":
            device = defaults.device()
    if isinstance(data, Tensor):
        return data.to(device=data.device if device is None else device, dtype=dtype or data.dtype)
    return tensor(data, dtype=dtype, device=device)


@public(method=False)
def asarray(
    obj: Any, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The object as a tensor: shares memory with tensors, ndarrays, DLPack and buffers."""
    if isinstance(obj, Tensor):
        out = obj
    elif isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
            )
        out = tensor(obj)
    elif isinstance(obj, np.ndarray):
        out = from_numpy(obj)
    elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        out = from_dlpack(obj)
    elif isinstance(obj, (UntypedStorage, TypedStorage)):
        out = _on_storage(dtype, obj)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        out = frombuffer(obj, dtype=dtype or defaults.dtype())
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    changed = out.to(device=out.device if device is None else device, dtype=dtype or out.dtype)
    if copy is False and changed is not out:
        if changed.device != out.device:
            raise ValueError(
                f"can't alias tensor from device '{out.device}' to '{changed.device}'."
            )
        raise ValueError(
            f"can't alias tensor with dtype '{scalar_name(out.dtype)}' into dtype "
            f"'{scalar_name(changed.dtype)}'."
        )
    if copy and changed._array is out._array:
        changed = changed.clone()
    if out._requires_grad and not requires_grad:
        changed = changed.detach()
    if requires_grad and not changed._requires_grad:
        changed = changed.detach().requires_grad_(True)
    return changed


@public(method=False)
def frombuffer(
    buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A tensor on the memory of a Python buffer."""
    raw = memoryview(buffer)
    nbytes = raw.nbytes
    if nbytes == 0 or count == 0:
        raise ValueError(f"both buffer length ({nbytes}) and count ({count}) must not be 0")
    if not 0 <= offset < nbytes:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({nbytes} bytes) minus 1"
        )
    if raw.readonly:
        defaults.warn_once(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. "
            "This means you can write to the underlying (supposedly non-writable) buffer using the "
            "tensor. You may want to copy the buffer to protect its data or make it writable "
            "before converting it to a tensor. This type of warning will be suppressed for the "
            "rest of this program."
        )
    if count < 0:
        if (nbytes - offset) % dtype.itemsize:
            raise ValueError(
                f"buffer length ({nbytes - offset} bytes) after offset ({offset} bytes) must be a "
                f"multiple of element size ({dtype.itemsize})"
            )
        count = (nbytes - offset) // dtype.itemsize
    if offset + count * dtype.itemsize > nbytes:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} "
            f"bytes) must not be greater than actual buffer length ({nbytes} bytes)"
        )
    flat = np.frombuffer(raw, np.uint8)
    array = flat[offset : offset + count * dtype.itemsize].view(dtype.numpy)
    return _finish(_borrowed(_C.wrap(array)), requires_grad)


@public(method=False)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on another library's memory."""
    out = _imported(ext_tensor)
    where = out.device if device is None else place(device)
    if where != out.device:
        if copy is False:
            raise ValueError(
                f"cannot move (copy=False) tensor from {out.device} to {where} without copying"
            )
        return out.to(where)
    return out.clone() if copy else out


def _imported(ext_tensor: Any) -> Tensor:
    if isinstance(ext_tensor, Tensor):
        if ext_tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return _borrowed(ext_tensor.detach())
    if hasattr(ext_tensor, "__dlpack_device__"):
        kind, _ = ext_tensor.__dlpack_device__()
        if int(kind) == 1:
            return _borrowed(from_numpy(np.from_dlpack(ext_tensor)))
    try:
        from tritorch.gpu.arrays import from_dlpack as import_array

        return _C.wrap(import_array(ext_tensor))
    except RuntimeError as error:
        if "not a DLPack capsule" in str(error):
            raise RuntimeError(
                "from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
                "consumed only once, so you might have already constructed a tensor from it once."
            ) from None
        if "not in CUDA memory (DLPack device type 1)" not in str(error):
            raise
    # An old capsule does not say whether it may be written: it may, as in PyTorch.
    array = np.from_dlpack(_Capsule(ext_tensor))
    return _borrowed(from_numpy(np.asarray(_Memory(array))))


def _borrowed(tensor: Tensor) -> Tensor:
    """A tensor on memory that is somebody else's: its storage keeps its size."""
    tensor._shared.fixed = True
    return tensor


class _Capsule:
    """A capsule of the CPU's memory, as the protocol wants to be asked for it."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class _Memory:
    """The memory of an array, which it keeps, to be written."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        interface = array.__array_interface__
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}


@public(method=False)
def scalar_tensor(
    s: Number, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor of a number (of the default dtype)."""
    return full((), s, dtype=dtype or defaults.dtype(), device=device, requires_grad=requires_grad)


# ---- complex -------------------------------------------------------------------------------------


def _complex_array(real: Any, imag: Any) -> Any:
    kind = arrays.dtype_of(real).to_complex()
    if type(real) is np.ndarray and kind is not arrays.dtype_of(real) and real.itemsize == 2:
        wide = np.empty(real.shape, np.complex64)
        wide.real, wide.imag = real, imag
        return arrays.cast(wide, complex32)
    out = arrays.empty(real.shape, kind, arrays.device_of(real))
    if type(out) is np.ndarray:
        out.real, out.imag = real, imag
        return out
    both = arrays.pairs(out)
    both[..., 0].copy_(real)
    both[..., 1].copy_(imag)
    return out


_complex = Operator(
    "complex",
    "real imag",
    cpu=_complex_array,
    gpu=_complex_array,
    grad=Gradient((lambda g: g.real, lambda g: g.imag), keeps="real imag"),
    layout="elementwise",
    rules=Rules(
        infer=lambda real, imag: real.new(
            broadcast_shapes(real.shape, imag.shape),
            real.dtype.to_complex(),
        ),
        axes="elementwise",
        batch="elementwise",
    ),
)


def make_complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers from their parts."""
    for part in (real, imag):
        if part.dtype.name not in ("float32", "float64", "float16"):
            raise RuntimeError(
                f"Expected both inputs to be Half, Float or Double tensors but got "
                f"{scalar_name(real.dtype)} and {scalar_name(imag.dtype)}"
            )
    if real.dtype is not imag.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {scalar_name(real.dtype)} but got scalar type "
            f"{scalar_name(imag.dtype)} for second argument"
        )
    if real.dtype.itemsize == 2:
        warn_of_half()
    result = _complex.call(broadcast_tensors(real, imag), ())
    if out is not None and out.dtype is not result.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {scalar_name(result.dtype)} but got scalar type "
            f"{scalar_name(out.dtype)} for argument 'out'"
        )
    return result if out is None else write_out(result, out)


make_complex.__name__ = make_complex.__qualname__ = "complex"
PUBLIC["complex"] = make_complex


@public(method=False, out=True)
@autocast("cpu:float32")
@exact_out("Expected object of scalar type {result} but got scalar type {out} for argument 'out'")
@ends_with("polar")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers from modulus and angle."""
    if abs.dtype.name == "float16" and abs.dtype is angle.dtype:
        raise not_implemented("polar_cpu", abs.dtype)
    if abs.dtype is not angle.dtype or abs.dtype not in (float32, float64):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got "
            f"{scalar_name(abs.dtype)} and {scalar_name(angle.dtype)}"
        )
    return make_complex(abs * angle.cos(), abs * angle.sin())


# ---- promotion as functions ----------------------------------------------------------------------


def _public_result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype of an arithmetic operation on two tensors or numbers."""
    return result_type(tensor1, tensor2)


PUBLIC["result_type"] = _public_result_type


# ---- legacy constructors -------------------------------------------------------------------------


def legacy_new(
    cls: Any, kind: dtype, args: tuple[Any, ...], kwargs: dict[str, Any], typed: bool = False,
    home: str = "cpu",
) -> Any:  # fmt: skip
    """`Tensor(2, 3)`, `FloatTensor([1, 2])`, `Tensor(other)`, `Tensor(storage)`.

    typed: it is a typed class that is called; home: the type of device that its tensors are on."""
    unknown = kwargs.keys() - {"device", "data"}
    if unknown:
        raise TypeError(
            f"new() received an invalid combination of arguments - got ({min(unknown)}=...)"
        )
    device = place(kwargs.get("device") or home)
    if device.type != home:
        raise RuntimeError(
            f"legacy constructor expects device type: {home} but device type: {device.type} was "
            "passed"
        )
    if "data" in kwargs:
        args = (kwargs["data"],)
    only = args[0] if len(args) == 1 else None
    if not args:
        array = arrays.empty((0,), kind, device)
    elif isinstance(only, Tensor):
        if typed and only.dtype is not kind:
            raise TypeError(_expected_options(kind, only.dtype))
        return _on_memory_of(cls, only)
    elif isinstance(only, (UntypedStorage, TypedStorage)):
        return _on_storage(kind, only)
    elif isinstance(only, Size):
        array = arrays.empty(tuple(only), kind, device)
    elif len(args) == 1 and (isinstance(only, bool) or not _is_size_or_data(only)):
        raise TypeError(f"new(): data must be a sequence (got {type(only).__name__})")
    elif hasattr(args[0], "__index__") and not isinstance(args[0], np.ndarray):
        for place_, arg in enumerate(args):
            if not hasattr(arg, "__index__"):
                raise TypeError(
                    f"new(): argument 'size' failed to unpack the object at pos {place_ + 1} with "
                    f'error "type must be tuple of ints,but got {type(arg).__name__}"'
                )
        array = arrays.empty(_check_shape(sizes(args)), kind, device)
    else:
        array = arrays.move(data_to_array(args[0], kind), device)
    out = _C.TensorBase.__new__(cls)
    out._a = array
    return out


def _is_size_or_data(value: Any) -> bool:
    return hasattr(value, "__index__") or hasattr(value, "__len__") or hasattr(value, "__iter__")


def _on_memory_of(cls: Any, base: Tensor) -> Any:
    require_plain(base, cls)
    out = _C.TensorBase.__new__(cls)
    out._a, out._shared = base._array, base._shared
    return out


def _expected_options(wanted: dtype, given: dtype) -> str:
    """PyTorch's words for a tensor of another type than a typed class takes."""

    def options(kind: dtype) -> str:
        words = {"int64": "long int", "int32": "int", "float32": "float", "float64": "double"}
        return (
            f"TensorOptions(dtype={words.get(kind.name, kind.name)}, device=cpu, layout=Strided, "
            "requires_grad=false (default), pinned_memory=false (default), "
            "memory_format=(nullopt))"
        )

    return f"expected {options(wanted)} (got {options(given)})"


Tensor._construct = staticmethod(legacy_new)
