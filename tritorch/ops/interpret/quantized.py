"""Quantised tensors: integers with a scale and a zero point, for floats.

    value = (integer - zero_point) * scale

A `QuantizedTensor` is a subclass on the integers' memory.  What is called with one comes to
`__torch_function__`: views and copies move the integers, a list of functions (`_THROUGH_FLOATS`)
computes in floats and quantises again, and everything else is refused, as in PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch import _C
from tritorch.autograd import no_grad
from tritorch.core import dtype as dtypes, scopes
from tritorch.core.dims import wrap_dim
from tritorch.core.dtype import STORED, dtype
from tritorch.core.layout import (
    per_channel_affine as per_channel_affine,
    per_channel_affine_float_qparams as per_channel_affine_float_qparams,
    per_channel_symmetric as per_channel_symmetric,
    per_tensor_affine as per_tensor_affine,
    per_tensor_symmetric as per_tensor_symmetric,
    qscheme as qscheme,
)
from tritorch.core.naming import qualified
from tritorch.core.printing import add_suffixes, contents_of
from tritorch.core.promotion import scalar_name
from tritorch.core.tensor import Tensor, in_place_of

# The integers' type and bounds.  Those below 8 bits are not packed here: each has a byte.
KINDS: dict[dtype, tuple[dtype, int, int]] = {
    STORED["qint8"]: (dtypes.int8, -128, 127),
    STORED["quint8"]: (dtypes.uint8, 0, 255),
    STORED["qint32"]: (dtypes.int32, -(2**31), 2**31 - 1),
    STORED["quint4x2"]: (dtypes.uint8, 0, 15),
    STORED["quint2x4"]: (dtypes.uint8, 0, 3),
}


class Engine:
    """The engine of PyTorch's that a program has chosen; its name changes little here."""

    name = "x86"


class Quantizer:
    """Scheme, scale and zero point; axis: of which dim each index has its own."""

    def __init__(
        self, kind: dtype, scheme: qscheme, scale: Any, zero_point: Any, axis: int | None = None
    ) -> None:
        self.kind, self.scheme = kind, scheme
        self.scale, self.zero_point, self.axis = scale, zero_point, axis

    def at(self, axis: int) -> Quantizer:
        """The same, of another dim."""
        return Quantizer(self.kind, self.scheme, self.scale, self.zero_point, axis)

    def _shaped(self, values: Any, ndim: int, like: dtype) -> Any:
        if self.axis is None:
            return values
        return values.to(like).reshape([-1 if dim == self.axis else 1 for dim in range(ndim)])

    def quantize(self, x: Tensor) -> Any:
        """Floats as a quantised tensor."""
        integers, low, high = KINDS[self.kind]
        with no_grad():
            x = x.detach()
            if self.axis is None:
                step: Any = self.scale
                inverse: Any = float(np.float32(1) / np.float32(step)) if step else 0.0
                zero: Any = self.zero_point
            else:
                step = self._shaped(self.scale, x.ndim, x.dtype)
                zero = self._shaped(self.zero_point, x.ndim, x.dtype)
                inverse = step.reciprocal()
            # The zero point is added before rounding, as by a fused multiply-add; not to 32 bits.
            if integers is dtypes.int32:
                q = (x * inverse).round() + zero
            else:
                q = (x.double() * inverse + zero).float().round()
            wide = q.double() if integers is dtypes.int32 else q
            return of_integers(wide.clamp(low, high).to(integers), self)

    def dequantize(self, q: Tensor) -> Tensor:
        """The floats that integers stand for."""
        if self.axis is None:
            return (q.to(dtypes.int32) - self.zero_point).float() * self.scale
        scale = self._shaped(self.scale, q.ndim, dtypes.float32)
        zero = self._shaped(self.zero_point, q.ndim, dtypes.float32)
        return (q.float() - zero) * scale


def of_integers(q: Tensor, quantizer: Quantizer) -> Any:
    """A quantised tensor on the memory of integers."""
    out = in_place_of(q, QuantizedTensor)
    if quantizer.axis is not None and quantizer.scale.device != q.device:
        scale, zero = quantizer.scale.to(q.device), quantizer.zero_point.to(q.device)
        quantizer = Quantizer(quantizer.kind, quantizer.scheme, scale, zero, quantizer.axis)
    out._quantizer = quantizer
    return out


def integers_of(x: Any) -> Tensor:
    """The integers, on the same memory."""
    return _C.alias(x)


class QuantizedTensor(Tensor):
    """Integers with a scale and a zero point."""

    _quantizer: Quantizer
    is_quantized = True

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    @property
    def dtype(self) -> dtype:
        """`quint8` and the like."""
        return self._quantizer.kind

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return _text(self)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


QuantizedTensor.__module__ = "tritorch"

# ---- what is called with one ---------------------------------------------------------------------

_MOVED = """
    __getitem__ as_strided chunk clone contiguous cpu cuda detach expand expand_as flatten narrow
    permute reshape select split squeeze swapaxes swapdims t transpose unbind unflatten unsqueeze
    view view_as requires_grad_ broadcast_to movedim pin_memory repeat flip roll index_select
    T.__get__ mT.__get__ data.__get__ unfold repeat_interleave native_channel_shuffle
    """
# Of a tensor with a scale for each index of a dim: what keeps the dim where it is.
_PER_CHANNEL = """
    clone contiguous cpu cuda detach detach_ requires_grad_ pin_memory view view_as reshape flatten
    to __get__ expand expand_as
    """
_THROUGH_FLOATS = """
    adaptive_avg_pool2d adaptive_avg_pool3d amax amin avg_pool2d avg_pool3d channel_shuffle clamp
    clip interpolate leaky_relu max max_pool1d max_pool2d max_pool3d mean min
    pixel_shuffle pixel_unshuffle relu relu6 sort threshold topk upsample upsample_bilinear
    upsample_nearest elu hardswish median celu gelu pad std prelu grid_sample
    reflection_pad1d reflection_pad2d
    """
_IN_PLACE = "relu_ leaky_relu_ hardtanh_ threshold_ relu6_"
_OWN_RANGE = {  # the width of results, and zero points of quint8 and qint8; of qint32 it is 0
    "sigmoid": (1, 0, -128), "tanh": (2, 128, 0), "hardsigmoid": (1, 0, -128),
}  # fmt: skip
_COMPARED = "__eq__ __ge__ __gt__ __le__ __lt__ __ne__ eq ge gt le lt ne equal"
_PLAIN = """
    __hash__ __len__ as_subclass data_ptr detach_ dim get_device is_contiguous nelement numel
    size storage_offset stride untyped_storage is_pinned is_same_size is_set_to is_shared
    is_inference is_conj is_neg share_memory_ register_hook dim_order
    device.__get__ grad.__get__ grad.__set__ grad_fn.__get__ is_cpu.__get__ is_cuda.__get__
    is_leaf.__get__ itemsize.__get__ layout.__get__ nbytes.__get__ ndim.__get__ output_nr.__get__
    requires_grad.__get__ requires_grad.__set__ retains_grad.__get__ shape.__get__ _base.__get__
    _version.__get__ element_size storage _typed_storage
    """


_BELOW = {"batch_norm": "native_batch_norm"}  # operators of ATen that functions come down to


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    name = func.__name__
    if name == "__iter__" and args[0].ndim:
        return iter([args[0][index] for index in range(len(args[0]))])
    overload = getattr(func, "_schema", None)
    if overload is not None:
        if func.namespace != "aten":  # torch.ops.quantized: of such tensors, as a whole
            with scopes.as_plain:
                return func(*args, **kwargs)
        name = func.overloadpacket.__name__
    if isinstance(getattr(func, "__self__", None), property):  # T, mT and their like
        with scopes.as_plain:
            return _move(func, args, kwargs)
    if name.startswith("__") and name.endswith("__") and "." in func.__qualname__:
        owner = func.__qualname__.rpartition(".")[2]
        name = owner if owner == name else func.__qualname__.split("Tensor.")[-1]
    handler = _HANDLERS.get(name) if overload is not None else None
    handler = (
        handler or _HANDLERS.get(func.__qualname__.rpartition("Tensor.")[2]) or _HANDLERS.get(name)
    )
    if handler is None:
        raise NotImplementedError(
            f"Could not run 'aten::{_BELOW.get(name, name)}' with arguments from the "
            "'QuantizedCPU' backend: of "
            "quantised tensors there are views, copies, comparisons, pooling and activations; "
            "use dequantize() for the others."
        )
    with scopes.as_plain:
        return handler(func, args, kwargs)


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, QuantizedTensor):
        return change(value)
    return type(value)(_each(v, change) for v in value) if type(value) in (list, tuple) else value


def _first(args: Any, kwargs: Any) -> Any:
    for value in (*args, *kwargs.values()):
        for inner in value if type(value) in (list, tuple) else (value,):
            if isinstance(inner, QuantizedTensor):
                return inner._quantizer
    raise AssertionError


def _rewrap(result: Any, change: Any) -> Any:
    """Float or integer tensors of a result as quantised ones; indices stay."""
    if isinstance(result, Tensor):
        return change(result)
    if isinstance(result, tuple) and hasattr(result, "_make"):
        return type(result)(change(result[0]), *result[1:])
    return type(result)(change(part) for part in result)


def _rest(args: Any, kwargs: Any) -> tuple[Any, ...]:
    """All arguments but the first."""
    return (*args[1:], *kwargs.values())


def _move(func: Any, args: Any, kwargs: Any) -> Any:
    quantizer = _first(args, kwargs)
    name = func.__name__
    if quantizer.axis is not None and name not in _PER_CHANNEL.split():
        return _move_channels(func, args, kwargs, quantizer)
    result = func(*_each(args, integers_of), **_each(kwargs, integers_of))
    return _rewrap(result, lambda q: of_integers(q, quantizer))


def _move_channels(func: Any, args: Any, kwargs: Any, quantizer: Quantizer) -> Any:
    """Views of a tensor with a scale for each index of a dim, which may come to stand elsewhere."""
    name, axis = func.__name__, quantizer.axis
    assert axis is not None
    q = integers_of(args[0])
    if name == "__getitem__" and _is_plain_index(args[1]):
        return _channels_at(args[0], args[1] if isinstance(args[1], tuple) else (args[1],))
    if name == "narrow":
        dim, start, length = _rest(args, kwargs)
        before = (slice(None),) * wrap_dim(dim, q.ndim)
        return _channels_at(args[0], (*before, slice(start, start + length)))
    if name == "select":
        dim, index = _rest(args, kwargs)
        dim = wrap_dim(dim, q.ndim)
    elif name in ("unsqueeze", "squeeze"):
        given = _rest(args, kwargs)
        dims = [wrap_dim(given[0], q.ndim + (name == "unsqueeze"))] if given else range(q.ndim)
        if name == "unsqueeze":
            moved = axis + (dims[0] <= axis)
        else:
            gone = [dim for dim in dims if q.shape[dim] == 1]
            if axis in gone:
                raise RuntimeError(
                    "Squeeze is only possible on non-axis dimension for Per-Channel Quantized "
                    "Tensors."
                )
            moved = axis - sum(dim < axis for dim in gone)
        return of_integers(func(q, *args[1:], **kwargs), quantizer.at(moved))
    else:
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    return _channels_at(args[0], (*(slice(None),) * dim, index))


def _is_plain_index(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(isinstance(part, (int, slice)) for part in parts)


def _channels_at(x: Any, index: tuple[Any, ...]) -> Any:
    """Numbers and slices of a tensor with a scale for each index of a dim; of one index: one."""
    quantizer = x._quantizer
    q, axis = integers_of(x)[index], quantizer.axis
    own = index[axis] if axis < len(index) else slice(None)
    scale, zero = quantizer.scale[own], quantizer.zero_point[own]
    if isinstance(own, int):
        alone = Quantizer(quantizer.kind, per_tensor_affine, float(scale), int(zero.item()))
        return of_integers(q, alone)
    moved = axis - sum(isinstance(part, int) for part in index[:axis])
    return of_integers(q, Quantizer(quantizer.kind, quantizer.scheme, scale, zero, moved))


def _join(func: Any, args: Any, kwargs: Any) -> Any:
    quantizer = _first(args, kwargs)
    if quantizer.axis is not None:
        raise RuntimeError(f"{func.__name__}: only tensors quantised by one scale can be joined")
    floats = _each(list(args), dequantize)
    return quantizer.quantize(func(*floats, **kwargs))


def write(result: Any, out: Any) -> Any:
    """Copies integers and quantizer of a result into `out`."""
    q = integers_of(out)
    if q.shape != integers_of(result).shape:
        _resize(Tensor.resize_, (out, integers_of(result).shape), {})
        q = integers_of(out)
    q.copy_(integers_of(result))
    out._quantizer = result._quantizer
    return out


def _through_floats(func: Any, args: Any, kwargs: Any) -> Any:
    out = kwargs.pop("out", None)
    if out is not None:
        return write(_through_floats(func, args, kwargs), out)
    quantizer = _first(args, kwargs)
    if quantizer.axis is not None:
        raise RuntimeError(f"{func.__name__}: expected a tensor quantised by one scale")
    result = func(*_each(args, dequantize), **_each(kwargs, dequantize))
    return _rewrap(result, quantizer.quantize)


def _hardtanh(func: Any, args: Any, kwargs: Any) -> Any:
    given = dict(zip(("input", "min_val", "max_val", "inplace"), args)) | kwargs
    x, inplace = given["input"], given.get("inplace", False)
    low, high = given.get("min_val", -1.0), given.get("max_val", 1.0)
    clamped = x._quantizer.quantize(dequantize(x).clamp(low, high))
    if inplace:
        integers_of(x).copy_(integers_of(clamped))
    return x if inplace else clamped


def _in_place(func: Any, args: Any, kwargs: Any) -> Any:
    x = args[0]
    changed = func(dequantize(x), *args[1:], **kwargs)
    integers_of(x).copy_(integers_of(x._quantizer.quantize(changed)))
    return x


def _number(quantizer: Quantizer, x: Tensor, value: Any) -> Tensor:
    """A value, or floats, as integers of a tensor; by channels: for all its elements."""
    floats = dequantize(value).float() if isinstance(value, Tensor) else None
    if quantizer.axis is None:
        if floats is None:
            floats = dequantize(x).new_full((), float(value))
        return integers_of(quantizer.quantize(floats))
    like = dequantize(x)
    floats = like.new_full(x.shape, float(value)) if floats is None else floats.expand(x.shape)
    return integers_of(quantizer.quantize(floats))


def _fill(func: Any, args: Any, kwargs: Any) -> Any:
    x, value = _rest((None, *args), kwargs)
    integers_of(x).copy_(_number(x._quantizer, x, value))
    return x


def _set_item(func: Any, args: Any, kwargs: Any) -> None:
    x, index, value = args
    if isinstance(value, QuantizedTensor):
        value = dequantize(value)
    if x._quantizer.axis is None:
        integers_of(x)[index] = _number(x._quantizer, x, value)
        return
    floats = dequantize(x)
    floats[index] = value
    integers_of(x).copy_(integers_of(x._quantizer.quantize(floats)))


def _masked_fill(func: Any, args: Any, kwargs: Any) -> Any:
    x, mask, value = _rest((None, *args), kwargs)
    q, stored = integers_of(x), _number(x._quantizer, x, value)
    filled = q.where(~mask, stored)
    if func.__name__ == "masked_fill":
        return of_integers(filled, x._quantizer)
    q.copy_(filled)
    return x


def _index_put(func: Any, args: Any, kwargs: Any) -> Any:
    x, indices, values, *rest = _rest((None, *args), kwargs)
    if x._quantizer.axis is not None:
        raise RuntimeError("index_put: expected a tensor quantized with one scale")
    if rest and rest[0]:
        raise RuntimeError("index_put_ on quantized tensors: accumulate is not supported")
    changed = func(integers_of(x), indices, _number(x._quantizer, x, values))
    return x if func.__name__ == "index_put_" else of_integers(changed, x._quantizer)


def _resize(func: Any, args: Any, kwargs: Any) -> Any:
    quantizer = args[0]._quantizer
    if quantizer.axis is not None:
        raise RuntimeError("Can only resize quantized tensors with per-tensor schemes!")
    result = func(integers_of(args[0]), *args[1:], **kwargs)
    if func.__name__ == "resize":
        return of_integers(result, quantizer)
    args[0]._shared, args[0]._a = result._shared, result._array
    return args[0]


def _like(func: Any, args: Any, kwargs: Any) -> Any:
    quantizer = args[0]._quantizer
    wanted = kwargs.pop("dtype", None) or quantizer.kind
    if wanted is not quantizer.kind:
        raise RuntimeError(
            "It is currently not supported to specify a dtype that doesn't match the input "
            f"tensor's dtype via empty_like. Specified: {scalar_name(wanted)} Input tensor's "
            f"dtype: {scalar_name(quantizer.kind)}"
        )
    if func.__name__ == "empty_like" and quantizer.axis is not None and (
        quantizer.scheme is per_channel_affine_float_qparams
    ):  # fmt: skip
        raise RuntimeError(f"Unsupported qscheme: {quantizer.scheme._name}")
    if func.__name__ == "new_empty" and quantizer.axis is not None:
        raise RuntimeError("new_empty: expected a tensor quantized with one scale")
    kind = KINDS[wanted][0]
    made = func(integers_of(args[0]), *args[1:], **kwargs, dtype=kind)
    scale = quantizer.scale, quantizer.zero_point, quantizer.axis
    return of_integers(made, Quantizer(wanted, quantizer.scheme, *scale))


def _own_range(func: Any, args: Any, kwargs: Any) -> Any:
    kind = _first(args, kwargs).kind
    width, unsigned, signed = _OWN_RANGE[func.__name__]
    scale = width / 2**32 if kind is STORED["qint32"] else width / 256
    zero = {STORED["quint8"]: unsigned, STORED["qint8"]: signed}.get(kind, 0)
    return Quantizer(kind, per_tensor_affine, scale, zero).quantize(func(dequantize(args[0])))


def _plain(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


def _compare(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*_each(args, dequantize), **_each(kwargs, dequantize))


def _item(func: Any, args: Any, kwargs: Any) -> Any:
    return func(dequantize(args[0]), *args[1:])


def _copy(func: Any, args: Any, kwargs: Any) -> Any:
    into, source = args[:2]
    if not isinstance(into, QuantizedTensor):
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use "
            "dequantize to get a float Tensor from a quantized Tensor"
        )
    if isinstance(source, QuantizedTensor) and source.dtype is into.dtype:
        integers_of(into).copy_(integers_of(source))  # and how it is quantized
        into._quantizer = source._quantizer
        return into
    floats = dequantize(source) if isinstance(source, QuantizedTensor) else source.float()
    integers_of(into).copy_(integers_of(into._quantizer.quantize(floats.expand(into.shape))))
    return into


def _convert(func: Any, args: Any, kwargs: Any) -> Any:
    given = _rest(args, kwargs)
    if func.__name__ != "to" or any(isinstance(v, dtype) and v not in KINDS for v in given):
        raise RuntimeError(
            "Creation of quantized tensor requires quantized dtype like torch.quint8"
        )
    return _move(func, args, kwargs)


def _refuse_list(func: Any, args: Any, kwargs: Any) -> Any:
    raise RuntimeError("load_scalar: invalid type")


def _refuse_numpy(func: Any, args: Any, kwargs: Any) -> Any:
    raise TypeError(f"Got unsupported ScalarType {scalar_name(args[0].dtype)}")


def _type_name(func: Any, args: Any, kwargs: Any) -> Any:
    return qualified(f"quantized.{scalar_name(args[0].dtype)}Tensor")


def _dtype_answer(func: Any, args: Any, kwargs: Any) -> Any:
    return {"is_floating_point": False, "is_complex": False}[func.__name__]


def _format(func: Any, args: Any, kwargs: Any) -> Any:
    return _text(args[0])


def _reduce(func: Any, args: Any, kwargs: Any) -> Any:
    return _rebuild, (integers_of(args[0]), args[0]._quantizer)


def _deepcopy(func: Any, args: Any, kwargs: Any) -> Any:
    x = args[0]
    return of_integers(integers_of(x).clone(), x._quantizer)


def _rebuild(q: Tensor, quantizer: Quantizer) -> Any:
    return of_integers(q, quantizer)


_HANDLERS: dict[str, Any] = {
    name: handler
    for names, handler in (
        (_MOVED, _move), (_THROUGH_FLOATS, _through_floats), (" ".join(_OWN_RANGE), _own_range),
        (_COMPARED, _compare), (_PLAIN, _plain), ("cat concat concatenate stack", _join),
        ("__bool__ __float__ __int__ item __format__", _item), ("copy_", _copy),
        ("bool byte char double float half int long short to bfloat16", _convert),
        ("numpy __array__", _refuse_numpy), ("tolist", _refuse_list), ("type", _type_name),
        ("__repr__", _format), (_IN_PLACE, _in_place), ("fill_", _fill), ("__setitem__", _set_item),
        ("masked_fill masked_fill_", _masked_fill), ("index_put index_put_", _index_put),
        ("resize_ resize", _resize), ("hardtanh", _hardtanh), ("empty_like new_empty", _like),
        ("is_floating_point is_complex", _dtype_answer), ("__reduce_ex__", _reduce),
        ("__deepcopy__", _deepcopy),
    )
    for name in names.split()
}  # fmt: skip


# ---- what is asked of one ------------------------------------------------------------------------


def dequantize(x: Any) -> Tensor:
    """The floats."""
    return x._quantizer.dequantize(integers_of(x)) if isinstance(x, QuantizedTensor) else x


def answers(name: str) -> None:
    """A function takes quantised tensors itself."""
    _HANDLERS[name] = _plain


def quantizer_of(x: Tensor, name: str) -> Quantizer:
    """How a tensor is quantised; NotImplementedError for one that is not."""
    if not isinstance(x, QuantizedTensor):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: the tensor is "
            "not quantised."
        )
    return x._quantizer


def _text(x: QuantizedTensor) -> str:
    quantizer, floats = x._quantizer, dequantize(x)
    suffixes = [] if floats.device.type == "cpu" else [f"device='{floats.device}'"]
    suffixes.append(f"size={tuple(floats.shape)}")
    suffixes.append(f"dtype={quantizer.kind}")
    suffixes.append(f"quantization_scheme={quantizer.scheme}")
    suffixes.append(f"scale={quantizer.scale}")
    suffixes.append(f"zero_point={quantizer.zero_point}")
    if quantizer.axis is not None:
        suffixes.append(f"axis={quantizer.axis}")
    return add_suffixes("tensor(" + contents_of(floats, len("tensor(")), suffixes, len("tensor("))
